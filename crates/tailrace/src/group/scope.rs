//! Which partitions a reset applies to.

use std::collections::{BTreeMap, BTreeSet};

use tailrace_cli::failure::Failure;

use super::arguments::ResetArguments;
use crate::client::{Cluster, Position, Topic, all_topics, find_topic};

/// Topics by name, and their chosen partitions.
pub(super) struct Scope {
    pub(super) topics: BTreeMap<String, Topic>,
    pub(super) positions: BTreeSet<Position>,
}

impl Scope {
    /// The scope that the arguments choose. `current` holds the partitions that the group has offsets for.
    pub(super) async fn of(
        cluster: &mut Cluster,
        arguments: &ResetArguments,
        current: impl Iterator<Item = &Position>,
    ) -> Result<Self, Failure> {
        let mut scope = Self { topics: BTreeMap::new(), positions: BTreeSet::new() };
        for choice in &arguments.topic {
            let topic = find_topic(cluster, &choice.topic).await?;
            for partition in topic.choose(&choice.partitions)? {
                scope.positions.insert((choice.topic.clone(), partition));
            }
            scope.topics.insert(choice.topic.clone(), topic);
        }
        if arguments.all_topics {
            let known: BTreeMap<_, _> =
                all_topics(cluster).await?.into_iter().map(|topic| (topic.name.clone(), topic)).collect();
            for (name, partition) in current {
                // Offsets of deleted topics stay as they are.
                if let Some(topic) = known.get(name).filter(|topic| topic.leader(*partition).is_some()) {
                    scope.topics.insert(name.clone(), topic.clone());
                    scope.positions.insert((name.clone(), *partition));
                }
            }
        }
        Ok(scope)
    }

    /// The scope that a file lists.
    pub(super) async fn named(
        cluster: &mut Cluster,
        positions: impl Iterator<Item = &Position>,
    ) -> Result<Self, Failure> {
        let mut scope = Self { topics: BTreeMap::new(), positions: BTreeSet::new() };
        for (name, partition) in positions {
            if !scope.topics.contains_key(name) {
                scope.topics.insert(name.clone(), find_topic(cluster, name).await?);
            }
            if let Some(topic) = scope.topics.get(name) {
                topic.choose(&[*partition])?;
            }
            scope.positions.insert((name.clone(), *partition));
        }
        Ok(scope)
    }

    /// The topics, each with its chosen partitions.
    pub(super) fn by_topic(&self) -> impl Iterator<Item = (&Topic, Vec<i32>)> {
        self.topics.values().map(|topic| {
            let own = self.positions.iter().filter(|(name, _)| *name == topic.name);
            (topic, own.map(|(_, partition)| *partition).collect())
        })
    }
}
