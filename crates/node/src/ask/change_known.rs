//! When a node knows of a change of the metadata.

use serde::{Deserialize, Serialize};
use tailrace_metadata::MetadataRecord;

use crate::controller::Executed;

/// Answer once the node knows of a change of the metadata.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ChangeKnown {
    /// One past the last record of the change.
    pub(super) end: i64,
    /// Ids of topics that gained partitions.
    pub(super) topics: Vec<String>,
}

impl ChangeKnown {
    pub(super) fn of(executed: &Executed) -> Self {
        let topics = executed.records.iter().filter_map(|record| match record {
            MetadataRecord::TopicCreated { id, .. } | MetadataRecord::PartitionsAdded { id, .. } => {
                Some(id.to_string())
            }
            _ => None,
        });
        Self { end: executed.end.get(), topics: topics.collect() }
    }
}
