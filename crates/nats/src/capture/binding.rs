//! A topic that captures subjects, as the router finds it.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tailrace_types::TopicId;

use tailrace_node::partitions::Topic;

/// The router's entry for captured subjects: the topic in its current state. There is one per topic, however
/// many patterns it has, and it stays the same as long as the topic captures anything.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(super) topic: ArcSwap<Topic>,
}

impl Binding {
    /// Reports whether messages with a reply subject are acknowledged.
    pub(crate) fn acknowledges(&self) -> bool {
        self.topic.load().config.tailrace_subjects_ack
    }

    /// The id of the topic.
    pub(crate) fn topic_id(&self) -> TopicId {
        self.topic.load().id
    }

    /// The topic with its settings and partitions.
    pub(super) fn topic(&self) -> Arc<Topic> {
        self.topic.load_full()
    }
}
