//! From a stream's configuration to the settings of its topic, and what of a configuration is not there yet.

use tailrace_config::{PATTERNS_BYTES_MAX, PATTERNS_MAX};
use tailrace_jetstream::error::{ApiError, ErrorKind};
use tailrace_jetstream::stream::{Compression, PersistMode, Retention, Storage, StreamConfig};

/// Nanoseconds of a millisecond.
const MS: i64 = 1_000_000;

/// The largest value of `flush.messages`, which leaves syncing to the operating system.
const NEVER: &str = "9223372036854775807";

/// Returns the settings of the stream's topic.
///
/// Limits by number and by size are not among them: the log counts records and bytes of batches, where
/// JetStream counts messages and their own sizes.
///
/// # Errors
/// 10052: a subject cannot be captured, or a part of the configuration is not there yet.
pub(super) fn of_stream(config: &StreamConfig) -> Result<Vec<(String, String)>, ApiError> {
    check_supported(config)?;
    check_subjects(&config.subjects)?;
    let retention_ms = match config.max_age {
        // A message may stay a little longer, and never goes too early.
        1.. => (config.max_age / MS + i64::from(config.max_age % MS > 0)).to_string(),
        _ => "-1".to_owned(),
    };
    let mut settings = vec![
        ("cleanup.policy", "delete".to_owned()),
        ("message.timestamp.type", "LogAppendTime".to_owned()),
        ("retention.bytes", "-1".to_owned()),
        ("retention.ms", retention_ms),
        ("tailrace.jetstream.stream", config.to_stored()),
        ("tailrace.retention.records", "-1".to_owned()),
        ("tailrace.subjects", config.subjects.join(",")),
        ("tailrace.subjects.ack", (!config.no_ack).to_string()),
    ];
    if config.compression == Compression::S2 {
        settings.push(("compression.type", "lz4".to_owned()));
    }
    if config.storage == Storage::Memory || config.persist_mode == PersistMode::Async {
        settings.push(("flush.messages", NEVER.to_owned()));
    }
    Ok(settings.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn invalid<T>(text: impl AsRef<str>) -> Result<T, ApiError> {
    Err(ApiError::because(ErrorKind::StreamInvalidConfig, text))
}

/// The setting of the topic is a list with commas. The controller checks the rest.
fn check_subjects(subjects: &[String]) -> Result<(), ApiError> {
    // The controller's error would repeat them all.
    let bytes: usize = subjects.iter().map(String::len).sum();
    if subjects.len() > PATTERNS_MAX || bytes > PATTERNS_BYTES_MAX {
        return invalid(format!(
            "{} subjects with {bytes} bytes are too many: at most {PATTERNS_MAX} with {PATTERNS_BYTES_MAX} bytes",
            subjects.len()
        ));
    }
    match subjects.iter().find(|subject| subject.contains(',') || subject.trim() != subject.as_str()) {
        Some(subject) => invalid(format!("subjects with a comma are not supported: {subject}")),
        None => Ok(()),
    }
}

fn check_supported(config: &StreamConfig) -> Result<(), ApiError> {
    let missing = [
        (config.mirror.is_some(), "mirrors"),
        (!config.sources.is_empty(), "sources"),
        (config.retention != Retention::Limits, "retention policies other than limits"),
        (config.subject_transform.is_some(), "subject transforms"),
        (config.republish.is_some(), "republishing"),
        (config.first_seq > 1, "first sequences"),
        (config.allow_msg_ttl, "TTLs of messages"),
        (config.subject_delete_marker_ttl > 0, "markers of deleted subjects"),
        (config.allow_msg_counter, "counters"),
        (config.allow_atomic, "atomic batches"),
        (config.allow_batched, "fast batches"),
        (config.allow_msg_schedules, "schedules"),
    ];
    match missing.iter().find(|(is_wanted, _)| *is_wanted) {
        Some((_, what)) => invalid(format!("not supported yet: {what}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tailrace_jetstream::stream::Discard;

    fn config() -> StreamConfig {
        let subjects = vec!["a.>".to_owned(), "b".to_owned()];
        StreamConfig { name: "S".to_owned(), subjects, num_replicas: 1, ..StreamConfig::default() }
    }

    fn setting(config: &StreamConfig, key: &str) -> Option<String> {
        of_stream(config).unwrap().into_iter().find(|(found, _)| found == key).map(|(_, value)| value)
    }

    #[test]
    fn settings_follow_from_the_configuration() {
        let plain = config();
        assert_eq!(setting(&plain, "tailrace.subjects").as_deref(), Some("a.>,b"));
        assert_eq!(setting(&plain, "retention.ms").as_deref(), Some("-1"));
        assert_eq!(setting(&plain, "tailrace.subjects.ack").as_deref(), Some("true"));
        assert_eq!(setting(&plain, "flush.messages"), None);
        let other = StreamConfig {
            max_age: 1_500_000_001,
            no_ack: true,
            storage: Storage::Memory,
            compression: Compression::S2,
            ..config()
        };
        assert_eq!(setting(&other, "retention.ms").as_deref(), Some("1501"));
        assert_eq!(setting(&other, "tailrace.subjects.ack").as_deref(), Some("false"));
        assert_eq!(setting(&other, "flush.messages").as_deref(), Some(NEVER));
        assert_eq!(setting(&other, "compression.type").as_deref(), Some("lz4"));
        let stored = setting(&other, "tailrace.jetstream.stream").unwrap();
        assert_eq!(StreamConfig::from_stored(&stored).unwrap(), other);
    }

    #[test]
    fn what_is_not_there_yet_is_refused() {
        let refused = [
            StreamConfig { retention: Retention::WorkQueue, ..config() },
            StreamConfig { first_seq: 2, ..config() },
            StreamConfig { allow_atomic: true, ..config() },
            StreamConfig { subjects: vec!["a,b".to_owned()], ..config() },
        ];
        for config in refused {
            assert_eq!(of_stream(&config).unwrap_err().kind(), ErrorKind::StreamInvalidConfig);
        }
        // As key-value buckets are.
        let bucket = StreamConfig { discard: Discard::New, max_msgs_per_subject: 5, ..config() };
        assert!(of_stream(&bucket).is_ok());
    }
}
