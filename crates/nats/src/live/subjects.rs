//! The subjects under which the records of each existing topic appear.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arc_swap::ArcSwap;
use tailrace_config::TopicConfig;
use tailrace_types::TopicId;

use crate::mapping::TopicSubjects;
use tailrace_node::partitions::TopicTable;

/// The subjects of all topics.
#[derive(Debug, Default)]
pub(crate) struct Subjects(ArcSwap<Known>);

#[derive(Debug, Default)]
struct Known {
    topics: HashMap<TopicId, OfTopic>,
    /// The names of the topics, as subjects.
    names: HashSet<Box<[u8]>>,
}

#[derive(Clone, Debug)]
struct OfTopic {
    /// The settings they were made from.
    config: Arc<TopicConfig>,
    subjects: Arc<TopicSubjects>,
    /// Those of stored messages, if the topic is a stream that JetStream's API has made.
    stored: Option<Arc<TopicSubjects>>,
}

impl Subjects {
    /// The subjects of one topic. `None` if it no longer exists.
    pub(super) fn of(&self, topic: TopicId) -> Option<Arc<TopicSubjects>> {
        self.0.load().topics.get(&topic).map(|known| Arc::clone(&known.subjects))
    }

    /// The subjects of the messages that are stored in one topic. `None` if it no longer exists.
    pub(crate) fn stored(&self, topic: TopicId) -> Option<Arc<TopicSubjects>> {
        self.0
            .load()
            .topics
            .get(&topic)
            .map(|known| Arc::clone(known.stored.as_ref().unwrap_or(&known.subjects)))
    }

    /// Reports whether a subject below the name of a topic is that of a topic with a longer name, or below
    /// it: `pay.admin.a` of the topic `pay`, if there is a topic `pay.admin`. What the topic has bound is its
    /// own.
    pub(super) fn is_named_elsewhere(&self, subject: &[u8], of: &TopicSubjects) -> bool {
        let Some(rest) = subject.strip_prefix(of.name()).and_then(|rest| rest.strip_prefix(b".")) else {
            return false;
        };
        let known = self.0.load();
        let begin = subject.len() - rest.len();
        let mut ends =
            (begin..=subject.len()).filter(|end| subject.get(*end).is_none_or(|byte| *byte == b'.'));
        ends.any(|end| known.names.contains(&subject[..end])) && !of.binds(subject)
    }

    /// Reports whether `wanted` is true for the first word of a subject that records of the topic may get.
    pub(crate) fn have_first_word(&self, topic: TopicId, wanted: impl FnMut(&[u8]) -> bool) -> bool {
        self.0.load().topics.get(&topic).is_some_and(|known| known.subjects.first_words().any(wanted))
    }

    /// Applies a changed table of topics. Called by one task at a time.
    pub(crate) fn follow(&self, topics: &TopicTable) {
        let before = self.0.load();
        let of = |id, name: &str, config: &Arc<TopicConfig>| match before.topics.get(&id) {
            Some(known) if Arc::ptr_eq(&known.config, config) => known.clone(),
            _ => OfTopic {
                config: Arc::clone(config),
                subjects: Arc::new(TopicSubjects::new(name, &config.tailrace_subjects)),
                stored: (!config.tailrace_jetstream_stream.is_empty())
                    .then(|| Arc::new(TopicSubjects::of_stream(name))),
            },
        };
        let now = topics.iter().map(|topic| (topic.id, of(topic.id, topic.name.as_str(), &topic.config)));
        let topics: HashMap<_, _> = now.collect();
        let names = topics.values().map(|known| known.subjects.name().into()).collect();
        self.0.store(Arc::new(Known { topics, names }));
    }
}
