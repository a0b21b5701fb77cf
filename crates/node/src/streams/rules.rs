//! The configuration of a stream, as its topic has it.

use tailrace_config::CapturedSubjects;
use tailrace_jetstream::contents::Limits;
use tailrace_jetstream::stream::{Storage, StreamConfig};

use super::failure::StreamFailure;
use crate::partitions::Topic;

/// The window of a topic that JetStream's API has not made: two minutes, in nanoseconds.
const WINDOW_DEFAULT: i64 = 120_000_000_000;

/// What decides about the messages of a stream.
pub(super) struct Rules {
    /// The text that the configuration was read from.
    text: String,
    /// `None` for a topic that JetStream's API has not made.
    pub(super) config: Option<StreamConfig>,
    /// The patterns of such a topic. They decide which subjects its records have.
    subjects: Option<CapturedSubjects>,
}

impl Rules {
    pub(super) fn of(topic: &Topic) -> Result<Self, StreamFailure> {
        let text = topic.config.tailrace_jetstream_stream.clone();
        if text.is_empty() {
            let subjects = Some(topic.config.tailrace_subjects.clone());
            return Ok(Self { text, config: None, subjects });
        }
        let config = StreamConfig::from_stored(&text)
            .map_err(|error| StreamFailure::Unreadable(format!("its configuration: {error}")))?;
        Ok(Self { text, config: Some(config), subjects: None })
    }

    /// Reports whether the topic still has these rules.
    pub(super) fn are_of(&self, topic: &Topic) -> bool {
        let subjects = |subjects: &CapturedSubjects| *subjects == topic.config.tailrace_subjects;
        self.text == topic.config.tailrace_jetstream_stream && self.subjects.as_ref().is_none_or(subjects)
    }

    /// Reports whether the records have the same subjects under other rules, so that a table stays right.
    pub(super) fn keeps_subjects(&self, other: &Self) -> bool {
        self.subjects == other.subjects
    }

    pub(super) fn limits(&self) -> Limits {
        self.config.as_ref().map(StreamConfig::limits).unwrap_or_default()
    }

    /// Milliseconds after which a message goes. `None` for ever.
    pub(super) fn age_max_ms(&self) -> Option<i64> {
        let nanos = self.config.as_ref()?.max_age;
        (nanos > 0).then_some((nanos / 1_000_000).max(1))
    }

    /// Milliseconds for which the id of a message is remembered.
    pub(super) fn window_ms(&self) -> i64 {
        let nanos = self.config.as_ref().map_or(WINDOW_DEFAULT, |config| config.duplicate_window);
        nanos / 1_000_000
    }

    /// The size of a message as JetStream counts it.
    pub(super) fn size(&self, subject: usize, headers: usize, payload: usize) -> u32 {
        let storage = self.config.as_ref().map_or(Storage::File, |config| config.storage);
        let around = match (storage, headers) {
            (Storage::Memory, _) => 16,
            (Storage::File, 0) => 30,
            (Storage::File, _) => 34,
        };
        u32::try_from(subject + headers + payload + around).unwrap_or(u32::MAX)
    }
}
