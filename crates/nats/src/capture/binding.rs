//! A topic that captures subjects, as the router finds it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use arc_swap::ArcSwap;
use tailrace_jetstream::stream::{Discard, StreamConfig};
use tailrace_types::TopicId;

use tailrace_node::partitions::Topic;

/// The router's entry for captured subjects: the topic in its current state. There is one per topic, however
/// many patterns it has, and it stays the same as long as the topic captures anything.
#[derive(Debug)]
pub(crate) struct Binding {
    topic: ArcSwap<Topic>,
    /// A [`Judging`].
    judging: AtomicU8,
}

/// Which messages of a topic the leader of its stream judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judging {
    /// None: it is no stream.
    Never,
    /// Those that ask for more than storage.
    OnDemand,
    /// All: the stream has rules that hold for each message.
    Always,
}

impl Judging {
    /// `is_enabled`: there is JetStream.
    fn of(topic: &Topic, is_enabled: bool) -> Self {
        if !is_enabled || topic.partition_count() != 1 || topic.internal {
            return Self::Never;
        }
        let text = &topic.config.tailrace_jetstream_stream;
        let config = Some(text).filter(|text| !text.is_empty()).map(|text| StreamConfig::from_stored(text));
        match config.and_then(Result::ok) {
            Some(config) if has_rules(&config) => Self::Always,
            _ => Self::OnDemand,
        }
    }
}

fn has_rules(config: &StreamConfig) -> bool {
    let is_limited = config.max_msgs > 0 || config.max_bytes > 0 || config.discard_new_per_subject;
    config.sealed || config.max_msg_size > 0 || config.discard == Discard::New && is_limited
}

impl Binding {
    pub(super) fn new(topic: &Arc<Topic>, is_enabled: bool) -> Self {
        let judging = AtomicU8::new(Judging::of(topic, is_enabled) as u8);
        Self { topic: ArcSwap::from(Arc::clone(topic)), judging }
    }

    /// Takes over a changed topic.
    pub(super) fn set(&self, topic: &Arc<Topic>, is_enabled: bool) {
        self.judging.store(Judging::of(topic, is_enabled) as u8, Ordering::Release);
        self.topic.store(Arc::clone(topic));
    }

    /// Reports whether this is the topic's current state.
    pub(super) fn is(&self, topic: &Arc<Topic>) -> bool {
        Arc::ptr_eq(&self.topic.load(), topic)
    }

    /// Which messages are judged.
    pub(super) fn judging(&self) -> Judging {
        match self.judging.load(Ordering::Acquire) {
            0 => Judging::Never,
            1 => Judging::OnDemand,
            _ => Judging::Always,
        }
    }

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
