//! Settings that choose between names, and settings with a syntax of their own.

use std::fmt;

use super::value::{FromValue, Value};

macro_rules! choice {
    ($(#[$meta:meta])* $name:ident { $( $(#[$variant_meta:meta])* $variant:ident = $text:literal, )+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $( $(#[$variant_meta])* $variant, )+ }

        impl $name {
            /// Returns the name as it is written in a configuration.
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $text, )+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromValue for $name {
            fn from_value(value: Value) -> Result<Self, String> {
                match value.to_string().as_str() {
                    $( $text => Ok(Self::$variant), )+
                    _ => Err(format!("String must be one of: {}", [$( $text ),+].join(", "))),
                }
            }
        }
    };
}

choice! {
    /// Values of `compression.type`.
    CompressionType {
        /// The producer's codec, unchanged.
        Producer = "producer",
        /// No compression.
        Uncompressed = "uncompressed",
        /// gzip.
        Gzip = "gzip",
        /// Snappy.
        Snappy = "snappy",
        /// LZ4 frames.
        Lz4 = "lz4",
        /// Zstandard.
        Zstd = "zstd",
    }
}

choice! {
    /// Values of `message.timestamp.type`.
    MessageTimestampType {
        /// The producer's clock.
        CreateTime = "CreateTime",
        /// The broker's clock.
        LogAppendTime = "LogAppendTime",
    }
}

choice! {
    /// Values of `share.isolation.level`.
    GroupIsolationLevel {
        /// Records of committed transactions, and records outside of transactions.
        ReadCommitted = "read_committed",
        /// All records.
        ReadUncommitted = "read_uncommitted",
    }
}

choice! {
    /// Values of `group.consumer.migration.policy`.
    MigrationPolicy {
        /// Groups are not converted.
        Disabled = "disabled",
        /// Classic groups become consumer groups.
        Upgrade = "upgrade",
        /// Consumer groups become classic groups.
        Downgrade = "downgrade",
        /// Both conversions.
        Bidirectional = "bidirectional",
    }
}

impl MigrationPolicy {
    /// Reports whether classic groups become consumer groups.
    pub const fn upgrades(self) -> bool {
        matches!(self, Self::Upgrade | Self::Bidirectional)
    }

    /// Reports whether consumer groups become classic groups.
    pub const fn downgrades(self) -> bool {
        matches!(self, Self::Downgrade | Self::Bidirectional)
    }
}

choice! {
    /// Values of `log.format`.
    LogFormat {
        /// Lines of text.
        Text = "text",
        /// One JSON object per line.
        Json = "json",
    }
}

choice! {
    /// Values of `tailrace.tls.client.auth`, and of `ssl.client.auth` of one listener.
    TlsClientAuth {
        /// Clients show no certificate.
        None = "none",
        /// Clients may show a certificate that the configured authorities issued. Only for single listeners.
        Requested = "requested",
        /// Clients must show a certificate that the configured authorities issued.
        Required = "required",
    }
}

choice! {
    /// Values of `tailrace.nats.tls`.
    NatsTls {
        /// Plaintext connections.
        Off = "off",
        /// Every connection must be encrypted.
        Required = "required",
    }
}

choice! {
    /// What the clients of a Kafka listener speak, with Kafka's names.
    SecurityProtocol {
        /// Neither TLS nor a login.
        Plaintext = "PLAINTEXT",
        /// TLS.
        Ssl = "SSL",
        /// A login.
        SaslPlaintext = "SASL_PLAINTEXT",
        /// A login over TLS.
        SaslSsl = "SASL_SSL",
    }
}

impl SecurityProtocol {
    /// Returns the protocol of a listener with these properties.
    pub(crate) const fn of(tls: bool, sasl: bool) -> Self {
        match (tls, sasl) {
            (false, false) => Self::Plaintext,
            (true, false) => Self::Ssl,
            (false, true) => Self::SaslPlaintext,
            (true, true) => Self::SaslSsl,
        }
    }

    /// Returns the protocol of this name, in capitals or not.
    pub fn from_name(name: &str) -> Option<Self> {
        let all = [Self::Plaintext, Self::Ssl, Self::SaslPlaintext, Self::SaslSsl];
        all.into_iter().find(|protocol| protocol.name().eq_ignore_ascii_case(name))
    }

    /// Reports whether its connections are encrypted.
    pub const fn uses_tls(self) -> bool {
        matches!(self, Self::Ssl | Self::SaslSsl)
    }

    /// Reports whether its clients log in with SASL.
    pub(crate) const fn uses_sasl(self) -> bool {
        matches!(self, Self::SaslPlaintext | Self::SaslSsl)
    }
}

choice! {
    /// Values of `tailrace.kafka.authentication`.
    KafkaAuthentication {
        /// Clients do not log in.
        None = "none",
        /// Clients may log in. One that does not is ANONYMOUS.
        Requested = "requested",
        /// Clients must log in.
        Required = "required",
    }
}

choice! {
    /// Values of `tailrace.nats.authentication`.
    NatsAuthentication {
        /// Clients need credentials only if the settings or the users file have users.
        None = "none",
        /// Clients must log in.
        Required = "required",
    }
}

/// Values of `authorizer.class.name`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorizerClass {
    /// Everybody may do everything. This is the default.
    None,
    /// The rules decide.
    Standard,
}

impl AuthorizerClass {
    /// The empty text, and the name of Kafka's class.
    pub(crate) const NAMES: &[&str] = &["", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"];
}

impl FromValue for AuthorizerClass {
    fn from_value(value: Value) -> Result<Self, String> {
        match value.text().as_deref() {
            None | Some("") => Ok(Self::None),
            Some(name) if name == Self::NAMES[1] => Ok(Self::Standard),
            Some(_) => Err(format!("String must be empty, or {}", Self::NAMES[1])),
        }
    }
}

/// Values of `replica.selector.class`, which are names of Kafka's classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaSelector {
    /// Consumers fetch from the leader. This is the default.
    Leader,
    /// Consumers fetch from an in-sync replica in their own rack, if there is one.
    RackAware,
}

impl ReplicaSelector {
    /// The names of Kafka's classes.
    pub(crate) const NAMES: &[&str] = &[
        "org.apache.kafka.common.replica.LeaderSelector",
        "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    ];
}

impl FromValue for ReplicaSelector {
    fn from_value(value: Value) -> Result<Self, String> {
        match value.text().as_deref() {
            None => Ok(Self::Leader),
            Some(name) if name == Self::NAMES[0] => Ok(Self::Leader),
            Some(name) if name == Self::NAMES[1] => Ok(Self::RackAware),
            Some(_) => Err(format!("String must be one of: {}", Self::NAMES.join(", "))),
        }
    }
}

/// A text that must not be shown: `Debug` hides it, and there is no `Display`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Returns the text itself, to check it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Reports whether none was set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "Secret(none)" } else { "Secret(hidden)" })
    }
}

impl FromValue for Secret {
    fn from_value(value: Value) -> Result<Self, String> {
        match value {
            Value::Null => Ok(Self::default()),
            // An error from `String::from_value` would show the value.
            Value::Text(text) => Ok(Self(text)),
            _ => Err("expected a string".to_owned()),
        }
    }
}

/// Value of `cleanup.policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanupPolicy {
    /// Old segments are deleted.
    pub delete: bool,
    /// Only the last record of every key is kept.
    pub compact: bool,
}

impl FromValue for CleanupPolicy {
    fn from_value(value: Value) -> Result<Self, String> {
        let parts = Vec::<String>::from_value(value)?;
        let has = |policy: &str| parts.iter().any(|part| part == policy);
        Ok(Self { delete: has("delete"), compact: has("compact") })
    }
}

/// A host and port that clients can reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdvertisedListener {
    /// Host name or IP address. IPv6 addresses have no brackets here.
    pub host: String,
    /// TCP port, never 0.
    pub port: u16,
}

impl fmt::Display for AdvertisedListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}
