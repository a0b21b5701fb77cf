//! Topics that are streams of JetStream. The stream's configuration is one setting of the topic, and other
//! settings follow from it. They belong to JetStream's API: a Kafka client may see them, and may not change
//! them.

use std::collections::BTreeMap;

use super::command::{ConfigChange, CreateTopic, Requester};
use super::error::ControlError;
use crate::image::TopicImage;

/// The setting that makes a topic a stream.
pub(super) const STREAM: &str = "tailrace.jetstream.stream";

/// The settings that follow from a stream's configuration, with the configuration itself.
const OF_STREAM: [&str; 10] = [
    "cleanup.policy",
    "compression.type",
    "flush.messages",
    "message.timestamp.type",
    "retention.bytes",
    "retention.ms",
    STREAM,
    "tailrace.retention.records",
    "tailrace.subjects",
    "tailrace.subjects.ack",
];

type Configs = BTreeMap<String, String>;

/// Reports whether the topic is a stream.
pub(super) fn is_stream(topic: &TopicImage) -> bool {
    topic.overrides.contains_key(STREAM)
}

/// Replaces the settings that belong to the stream.
pub(super) fn replaced(current: &Configs, of_stream: Configs) -> Configs {
    let others = current.iter().filter(|(key, _)| !OF_STREAM.contains(&key.as_str()));
    let mut configs: Configs = others.map(|(key, text)| (key.clone(), text.clone())).collect();
    configs.extend(of_stream);
    configs
}

/// Checks that a topic becomes a stream only through JetStream's API.
pub(super) fn check_creation(create: &CreateTopic, configs: &Configs) -> Result<(), ControlError> {
    match (create.by, configs.contains_key(STREAM)) {
        (Requester::Stream, true) | (Requester::Client | Requester::Broker, false) => Ok(()),
        _ => Err(ControlError::StreamConfig { key: STREAM.to_owned() }),
    }
}

/// Checks that the settings of a stream change only through JetStream's API. Returns what is to be stored: to
/// replace all settings of a topic does not reset those of its stream.
pub(super) fn checked_change(
    before: &Configs,
    mut after: Configs,
    change: &ConfigChange,
) -> Result<Configs, ControlError> {
    let is_one = before.contains_key(STREAM);
    let is_wrong = match change {
        // A topic of a Kafka client does not become a stream later, and a stream stays one.
        ConfigChange::Stream(_) => !is_one || !after.contains_key(STREAM),
        ConfigChange::Replace(_) | ConfigChange::Incremental(_) => !is_one && after.contains_key(STREAM),
    };
    if is_wrong {
        return Err(ControlError::StreamConfig { key: STREAM.to_owned() });
    }
    if matches!(change, ConfigChange::Stream(_)) || !is_one {
        return Ok(after);
    }
    if matches!(change, ConfigChange::Replace(_)) {
        for key in OF_STREAM {
            if let (Some(text), false) = (before.get(key), after.contains_key(key)) {
                after.insert(key.to_owned(), text.clone());
            }
        }
    }
    match OF_STREAM.into_iter().find(|key| before.get(*key) != after.get(*key)) {
        Some(key) => Err(ControlError::StreamConfig { key: key.to_owned() }),
        None => Ok(after),
    }
}
