//! Why a setting is refused.

/// Where a key was looked up.
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

/// Why a setting is refused. Kafka answers all of these with `INVALID_CONFIG`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// There is no such key.
    #[error("Unknown {scope} config name: {key}{hint}")]
    Unknown {
        /// Where it was looked up.
        scope: ConfigScope,
        /// What was asked for.
        key: String,
        /// Empty, or a proposal that begins with a space.
        hint: String,
    },
    /// The value cannot be read, or lies outside its bounds.
    #[error("Invalid value {value} for configuration {key}: {reason}")]
    Invalid {
        /// The key.
        key: &'static str,
        /// The value as it was given.
        value: String,
        /// What is expected instead.
        reason: String,
    },
    /// Kafka knows the value; tailrace does not offer it yet.
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
    /// Two names of one setting carry different values.
    #[error(
        "{first} and {second} are two names of one setting but have different values; set only one of them"
    )]
    Conflict {
        /// One name.
        first: String,
        /// The other name.
        second: String,
    },
    /// Two settings do not fit together.
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
        /// What must hold.
        reason: &'static str,
    },
}

impl ConfigError {
    /// The key that is to blame.
    pub fn key(&self) -> &str {
        match self {
            Self::Invalid { key, .. } | Self::NotSupported { key, .. } | Self::Inconsistent { key, .. } => {
                key
            }
            Self::Unknown { key, .. } => key,
            Self::Conflict { first, .. } => first,
        }
    }
}

/// A setting that is a number.
pub(crate) struct NumericSetting {
    key: &'static str,
    value: i64,
}

impl NumericSetting {
    /// What the key is set to. Settings are bounded by `i64` when they are parsed.
    pub(crate) fn new(key: &'static str, value: impl TryInto<i64>) -> Self {
        Self { key, value: value.try_into().unwrap_or(i64::MAX) }
    }

    /// Refuses a `limit` that lies below this setting.
    ///
    /// # Errors
    /// It does: the limit is to blame. `reason` says what must hold.
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
