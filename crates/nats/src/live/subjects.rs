//! The subjects under which the records of each existing topic appear.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tailrace_config::TopicConfig;
use tailrace_types::TopicId;

use crate::mapping::TopicSubjects;
use tailrace_node::partitions::TopicTable;

/// The subjects of all topics.
#[derive(Debug, Default)]
pub(crate) struct Subjects(ArcSwap<HashMap<TopicId, OfTopic>>);

#[derive(Clone, Debug)]
struct OfTopic {
    /// The settings they were made from.
    config: Arc<TopicConfig>,
    subjects: Arc<TopicSubjects>,
}

impl Subjects {
    /// The subjects of one topic. `None` if it no longer exists.
    pub(super) fn of(&self, topic: TopicId) -> Option<Arc<TopicSubjects>> {
        self.0.load().get(&topic).map(|known| Arc::clone(&known.subjects))
    }

    /// Reports whether `wanted` is true for the first word of a subject that records of the topic may get.
    pub(crate) fn have_first_word(&self, topic: TopicId, wanted: impl FnMut(&[u8]) -> bool) -> bool {
        self.0.load().get(&topic).is_some_and(|known| known.subjects.first_words().any(wanted))
    }

    /// Applies a changed table of topics. Called by one task at a time.
    pub(crate) fn follow(&self, topics: &TopicTable) {
        let before = self.0.load();
        let of = |id, name: &str, config: &Arc<TopicConfig>| match before.get(&id) {
            Some(known) if Arc::ptr_eq(&known.config, config) => known.clone(),
            _ => OfTopic {
                config: Arc::clone(config),
                subjects: Arc::new(TopicSubjects::new(name, &config.tailrace_subjects)),
            },
        };
        let now = topics.iter().map(|topic| (topic.id, of(topic.id, topic.name.as_str(), &topic.config)));
        self.0.store(Arc::new(now.collect()));
    }
}
