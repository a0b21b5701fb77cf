//! A configuration as it is kept: as JSON, which is read again by servers of other versions.

use super::{Discard, StreamConfig};
use crate::contents::Limits;
use crate::error::ApiError;
use crate::json::lenient;

impl StreamConfig {
    /// The configuration as it is kept.
    #[must_use]
    pub fn to_stored(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads what [`to_stored`](Self::to_stored) wrote. Fields that this version does not know are ignored.
    ///
    /// # Errors
    /// 10025: it is no configuration.
    pub fn from_stored(text: &str) -> Result<Self, ApiError> {
        let mut config = Self::default();
        lenient(text.as_bytes(), "server.StreamConfig", &mut config)?;
        Ok(config)
    }

    /// The limits that remove messages.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let limit = |value: i64| u64::try_from(value).ok().filter(|value| *value > 0);
        // Where new messages give way, old ones stay, even if they are more than a changed limit allows.
        let old_go = self.discard == Discard::Old;
        Limits {
            messages_max: limit(self.max_msgs).filter(|_| old_go),
            bytes_max: limit(self.max_bytes).filter(|_| old_go),
            per_subject_max: limit(self.max_msgs_per_subject),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Discard, Source, StreamConfig};

    #[test]
    fn what_is_kept_is_read_again() {
        let config = StreamConfig {
            name: "ORDERS".to_owned(),
            subjects: vec!["orders.>".to_owned(), "a \"quoted\" one".to_owned()],
            max_msgs: -1,
            max_bytes: 1 << 40,
            max_msgs_per_subject: 3,
            discard: Discard::New,
            sources: vec![Some(Source { name: "OTHER".to_owned(), ..Source::default() })],
            metadata: [("_nats.req.level".to_owned(), "0".to_owned())].into(),
            ..StreamConfig::default()
        };
        let kept = config.to_stored();
        assert_eq!(StreamConfig::from_stored(&kept).unwrap(), config);
        let limits = |config: &StreamConfig| {
            let limits = config.limits();
            (limits.messages_max, limits.bytes_max, limits.per_subject_max)
        };
        assert_eq!(limits(&config), (None, None, Some(3)), "old messages stay");
        let old_go = StreamConfig { discard: Discard::Old, ..config.clone() };
        assert_eq!(limits(&old_go), (None, Some(1 << 40), Some(3)));
        let newer = kept.replacen('{', r#"{"of_a_later_version":[1],"#, 1);
        assert_eq!(StreamConfig::from_stored(&newer).unwrap(), config);
        assert!(StreamConfig::from_stored("").is_err());
        assert!(StreamConfig::from_stored("nonsense").is_err());
    }
}
