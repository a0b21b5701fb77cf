//! A stream: its configuration and its topic.

use std::sync::Arc;

use tailrace_jetstream::Time;
use tailrace_jetstream::error::ApiError;
use tailrace_jetstream::stream::StreamConfig;
use tailrace_metadata::TopicImage;

use super::names::write_name;

/// Nanoseconds of a millisecond.
const MS: i64 = 1_000_000;

/// One stream.
pub(super) struct Stream {
    pub(super) config: StreamConfig,
    pub(super) topic: Arc<TopicImage>,
    /// Whether JetStream's API has made it. The others are topics of Kafka clients that capture subjects.
    pub(super) is_made_here: bool,
}

impl Stream {
    /// The stream that a topic is: one that JetStream's API has made, or a topic of one partition that
    /// captures subjects.
    pub(super) fn of_topic(topic: &Arc<TopicImage>) -> Option<Arc<Self>> {
        let stored = &topic.config.tailrace_jetstream_stream;
        let is_made_here = !stored.is_empty();
        let config = if is_made_here {
            let damaged = |error: &ApiError| {
                tracing::error!(topic = %topic.name, %error, "the configuration of a stream is damaged");
            };
            StreamConfig::from_stored(stored).inspect_err(damaged).ok()?
        } else {
            let captures = !topic.is_internal() && !topic.config.tailrace_subjects.is_empty();
            (captures && topic.partitions == 1).then(|| shown_config(topic))?
        };
        Some(Arc::new(Self { config, topic: Arc::clone(topic), is_made_here }))
    }

    pub(super) fn name(&self) -> &str {
        &self.config.name
    }

    pub(super) fn topic_name(&self) -> &str {
        self.topic.name.as_str()
    }

    /// About the size of the configuration in an answer.
    pub(super) fn configuration_bytes(&self) -> usize {
        let settings = &self.topic.config;
        let patterns = settings.tailrace_subjects.patterns();
        settings.tailrace_jetstream_stream.len()
            + patterns.iter().map(|pattern| pattern.as_bytes().len()).sum::<usize>()
    }

    pub(super) fn created(&self) -> Time {
        Time::from_nanos(self.topic.created_at.0.saturating_mul(MS))
    }
}

/// The configuration that a topic of a Kafka client shows.
fn shown_config(topic: &TopicImage) -> StreamConfig {
    let mut name = Vec::new();
    write_name(topic, 0, &mut name);
    let settings = &topic.config;
    StreamConfig {
        name: String::from_utf8_lossy(&name).into_owned(),
        subjects: settings.tailrace_subjects.patterns().iter().map(ToString::to_string).collect(),
        max_consumers: -1,
        max_msgs: -1,
        max_bytes: -1,
        max_age: settings.retention_ms.map_or(0, |ms| ms.saturating_mul(MS)),
        max_msgs_per_subject: -1,
        max_msg_size: -1,
        num_replicas: topic.replication_factor.into(),
        no_ack: !settings.tailrace_subjects_ack,
        allow_direct: true,
        ..StreamConfig::default()
    }
}
