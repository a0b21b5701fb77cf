//! A configuration as it is kept: as JSON, which is read again by servers of other versions.

use super::ConsumerConfig;
use crate::error::ApiError;
use crate::json::lenient;

impl ConsumerConfig {
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
        lenient(text.as_bytes(), "server.ConsumerConfig", &mut config)?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AckPolicy, ConsumerConfig, DeliverPolicy};

    #[test]
    fn what_is_kept_is_read_again() {
        let config = ConsumerConfig {
            durable_name: "C".to_owned(),
            deliver_policy: DeliverPolicy::LastPerSubject,
            ack_policy: AckPolicy::Explicit,
            backoff: vec![1, 2],
            filter_subjects: vec!["a.>".to_owned(), "b".to_owned()],
            metadata: [("k".to_owned(), "v".to_owned())].into(),
            max_deliver: -1,
            ..ConsumerConfig::default()
        };
        let kept = config.to_stored();
        assert_eq!(ConsumerConfig::from_stored(&kept).unwrap(), config);
        let newer = kept.replacen('{', r#"{"of_a_later_version":[1],"#, 1);
        assert_eq!(ConsumerConfig::from_stored(&newer).unwrap(), config);
        assert!(ConsumerConfig::from_stored("nonsense").is_err());
    }
}
