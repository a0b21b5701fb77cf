//! Protocol errors, and the texts that clients compare.

use std::fmt;

use crate::quote::quoted;

/// Why received bytes are not valid. The connection has to be closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// An unknown verb.
    #[error("unknown protocol operation {0:?}")]
    UnknownOperation(String),
    /// A control line longer than the limit.
    #[error("a control line of more than {max} bytes")]
    ControlLine {
        /// The limit in bytes, without the verb.
        max: usize,
    },
    /// A verb with invalid arguments.
    #[error("{verb}: bad arguments {arguments:?}")]
    Arguments {
        /// The verb.
        verb: &'static str,
        /// The arguments, truncated if they are long.
        arguments: String,
    },
    /// A payload larger than the limit.
    #[error("a payload of {bytes} bytes, more than the limit of {max}")]
    Payload {
        /// Announced bytes.
        bytes: u64,
        /// Allowed bytes.
        max: usize,
    },
    /// HPUB from a client that did not announce headers in CONNECT.
    #[error("headers from a client that did not announce them")]
    HeadersNotAllowed,
    /// A payload that is not followed by a line end.
    #[error("no line end after the payload")]
    PayloadEnd,
}

impl ParseError {
    pub(crate) fn arguments(verb: &'static str, line: &[u8]) -> Self {
        Self::Arguments { verb, arguments: beginning(line) }
    }

    pub(crate) fn unknown(input: &[u8]) -> Self {
        Self::UnknownOperation(beginning(input))
    }
}

/// Returns the start of arbitrary bytes, escaped for display.
fn beginning(bytes: &[u8]) -> String {
    const SHOWN: usize = 64;
    bytes[..bytes.len().min(SHOWN)].escape_ascii().to_string()
}

/// The text of `-ERR`. The texts are nats-server's, because clients compare them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// Credentials are missing or wrong. The server closes the connection.
    AuthorizationViolation,
    /// The user's credential was changed or removed. The server closes the connection.
    AuthenticationRevoked,
    /// No CONNECT in time. The server closes the connection.
    AuthenticationTimeout,
    /// See [`ParseError::Payload`]. The server closes the connection.
    MaximumPayload,
    /// See [`ParseError::UnknownOperation`]. The server closes the connection.
    UnknownOperation,
    /// See [`ParseError::ControlLine`]. The server closes the connection.
    MaximumControlLine,
    /// Too many connections. The server closes the connection.
    MaximumConnections,
    /// Too many connections of the client's account. The server closes the connection.
    MaximumAccountConnections,
    /// The user's claim has expired. The server closes the connection.
    AuthenticationExpired,
    /// The claims of the user's account have expired. The server closes the connection.
    AccountAuthenticationExpired,
    /// No PONG for too long. The server closes the connection.
    StaleConnection,
    /// The server requires TLS, but the client does not use it. The server closes the connection.
    TlsRequired,
    /// The client did not read its messages. The server closes the connection.
    SlowConsumer,
    /// CONNECT asks for an unknown protocol. The server closes the connection.
    InvalidProtocol,
    /// CONNECT asks for no-responders replies, which need headers, but not for headers. The server closes the
    /// connection.
    NoRespondersNeedHeaders,
    /// An invalid subject in a subscription.
    InvalidSubject,
    /// An invalid subject in a publish. Only pedantic clients get this error.
    InvalidPublishSubject,
    /// Too many subscriptions on this connection.
    MaximumSubscriptions,
    /// The user may not publish to this subject. The name is `quoted`.
    PublishPermission(String),
    /// The reply subject is reserved for servers. The name is `quoted`.
    ReplyPermission(String),
    /// The user may not subscribe to this subject, in this queue group if there is one. The names are
    /// `quoted`.
    SubscribePermission(String, Option<String>),
    /// The user may no longer subscribe to this subject, and the subscription of this sid is removed. The
    /// names are `quoted`.
    SubscriptionRemoved(String, String),
}

impl ProtocolError {
    /// The user may not publish to this subject.
    pub fn publish_permission(subject: &[u8]) -> Self {
        Self::PublishPermission(quoted(subject))
    }

    /// The reply subject is reserved for servers.
    pub fn reply_permission(reply: &[u8]) -> Self {
        Self::ReplyPermission(quoted(reply))
    }

    /// The user may not subscribe to this subject, in this queue group if there is one.
    pub fn subscribe_permission(subject: &[u8], queue: Option<&[u8]>) -> Self {
        Self::SubscribePermission(quoted(subject), queue.map(quoted))
    }

    /// The user may no longer subscribe to this subject, and the subscription of this sid is removed.
    pub fn subscription_removed(subject: &[u8], sid: &[u8]) -> Self {
        Self::SubscriptionRemoved(quoted(subject), quoted(sid))
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AuthorizationViolation => f.write_str("Authorization Violation"),
            Self::AuthenticationRevoked => f.write_str("User Authentication Revoked"),
            Self::AuthenticationTimeout => f.write_str("Authentication Timeout"),
            Self::MaximumPayload => f.write_str("Maximum Payload Violation"),
            Self::UnknownOperation => f.write_str("Unknown Protocol Operation"),
            Self::MaximumControlLine => f.write_str("maximum control line exceeded"),
            Self::MaximumConnections => f.write_str("maximum connections exceeded"),
            Self::MaximumAccountConnections => f.write_str("maximum account active connections exceeded"),
            Self::AuthenticationExpired => f.write_str("User Authentication Expired"),
            Self::AccountAuthenticationExpired => f.write_str("Account Authentication Expired"),
            Self::StaleConnection => f.write_str("Stale Connection"),
            Self::TlsRequired => f.write_str("Secure Connection - TLS Required"),
            Self::SlowConsumer => f.write_str("Slow Consumer"),
            Self::InvalidProtocol => f.write_str("invalid client protocol"),
            Self::NoRespondersNeedHeaders => f.write_str("no responders requires headers support"),
            Self::InvalidSubject => f.write_str("Invalid Subject"),
            Self::InvalidPublishSubject => f.write_str("Invalid Publish Subject"),
            Self::MaximumSubscriptions => f.write_str("maximum subscriptions exceeded"),
            Self::PublishPermission(subject) => {
                write!(f, "Permissions Violation for Publish to {subject}")
            }
            Self::ReplyPermission(reply) => {
                write!(f, "Permissions Violation for Publish with Reply of {reply}")
            }
            Self::SubscribePermission(subject, None) => {
                write!(f, "Permissions Violation for Subscription to {subject}")
            }
            Self::SubscribePermission(subject, Some(queue)) => {
                write!(f, "Permissions Violation for Subscription to {subject} using queue {queue}")
            }
            Self::SubscriptionRemoved(subject, sid) => {
                write!(f, "Permissions Violation for Subscription to {subject} (sid {sid})")
            }
        }
    }
}
