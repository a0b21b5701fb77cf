//! Reasons for refusing a setting.

use std::borrow::Cow;

/// The scope in which a key was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigScope {
    /// Settings of one topic.
    Topic,
    /// Settings of the process, and the defaults of topics and groups.
    Broker,
    /// Settings of one group.
    Group,
}

impl std::fmt::Display for ConfigScope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Topic => "topic",
            Self::Broker => "broker",
            Self::Group => "group",
        })
    }
}

/// Why a setting is refused. Kafka's error code for all of these is `INVALID_CONFIG`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The key does not exist.
    #[error("Unknown {scope} config name: {}{hint}", shown(key))]
    Unknown {
        /// The scope of the lookup.
        scope: ConfigScope,
        /// The name that was looked up.
        key: String,
        /// Empty, or a hint that starts with a space.
        hint: String,
    },
    /// The value cannot be parsed, or is out of bounds.
    #[error("Invalid value {value} for configuration {key}: {reason}")]
    Invalid {
        /// The key.
        key: &'static str,
        /// The value as it was given.
        value: String,
        /// What is expected instead.
        reason: String,
    },
    /// The same for a setting of one listener, `listener.name.NAME.KEY`.
    #[error("Invalid value {value} for configuration {key}: {reason}")]
    InvalidOwn {
        /// The key, with the listener's name.
        key: String,
        /// The value as it was given.
        value: String,
        /// What is expected instead.
        reason: String,
    },
    /// Kafka accepts the value; tailrace does not support it yet.
    #[error(
        "Invalid value {value} for configuration {key}: {refused} is not supported yet; use {instead} instead"
    )]
    NotSupported {
        /// The key.
        key: &'static str,
        /// The value as it was given.
        value: String,
        /// The part of the value that is not supported.
        refused: String,
        /// A value that works.
        instead: &'static str,
    },
    /// Two names of one setting have different values.
    #[error(
        "{first} and {second} are two names of one setting but have different values; set only one of them"
    )]
    Conflict {
        /// One name.
        first: String,
        /// The other name.
        second: String,
    },
    /// Two settings contradict each other.
    #[error("{key}={value} does not fit {other}={other_value}: {reason}")]
    Inconsistent {
        /// The key to change.
        key: &'static str,
        /// Its value.
        value: i64,
        /// The key it is compared with.
        other: &'static str,
        /// That key's value.
        other_value: i64,
        /// The rule that they break.
        reason: &'static str,
    },
}

impl ConfigError {
    /// Returns the key that caused the error.
    pub fn key(&self) -> &str {
        match self {
            Self::Invalid { key, .. } | Self::NotSupported { key, .. } | Self::Inconsistent { key, .. } => {
                key
            }
            Self::Unknown { key, .. } | Self::InvalidOwn { key, .. } => key,
            Self::Conflict { first, .. } => first,
        }
    }
}

/// Most bytes of an unknown name that an error shows. No setting has a longer one.
const NAME_BYTES_SHOWN: usize = 100;

fn shown(name: &str) -> Cow<'_, str> {
    match name.len() <= NAME_BYTES_SHOWN {
        true => Cow::Borrowed(name),
        false => Cow::Owned(format!("{}...", &name[..name.floor_char_boundary(NAME_BYTES_SHOWN)])),
    }
}

/// A setting that is a number, with its key.
pub(crate) struct NumericSetting {
    key: &'static str,
    value: i64,
}

impl NumericSetting {
    /// Pairs a key with its value. Parsing bounds all settings by `i64`.
    pub(crate) fn new(key: &'static str, value: impl TryInto<i64>) -> Self {
        Self { key, value: value.try_into().unwrap_or(i64::MAX) }
    }

    /// Refuses a `limit` that is lower than this setting.
    ///
    /// # Errors
    /// [`ConfigError::Inconsistent`] for the limit's key. `reason` states the rule.
    pub(crate) fn not_above(self, limit: Self, reason: &'static str) -> Result<(), ConfigError> {
        if self.value <= limit.value {
            return Ok(());
        }
        Err(ConfigError::Inconsistent {
            key: limit.key,
            value: limit.value,
            other: self.key,
            other_value: self.value,
            reason,
        })
    }
}
