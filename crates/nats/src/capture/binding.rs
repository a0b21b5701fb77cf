//! A topic that captures subjects, as the router finds it.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tailrace_types::TopicId;

use tailrace_node::partitions::Topic;

/// What the router finds for a subject that is captured: the topic as it is now. One for each topic, whatever the number of its
/// patterns, and the same one for as long as the topic captures anything.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(super) topic: ArcSwap<Topic>,
}

impl Binding {
    /// True if a message with a reply subject is acknowledged.
    pub(crate) fn acknowledges(&self) -> bool {
        self.topic.load().config.tailrace_subjects_ack
    }

    /// Whose patterns these are.
    pub(crate) fn topic_id(&self) -> TopicId {
        self.topic.load().id
    }

    /// The topic with its settings and partitions.
    pub(super) fn topic(&self) -> Arc<Topic> {
        self.topic.load_full()
    }
}
