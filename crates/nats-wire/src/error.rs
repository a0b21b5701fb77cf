//! What goes wrong, and the texts that clients match on.

use std::fmt;

use crate::quote::quoted;

/// Why the bytes that arrived are not the protocol. The connection cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// No verb of the protocol.
    #[error("unknown protocol operation {0:?}")]
    UnknownOperation(String),
    /// A control line that is longer than allowed.
    #[error("a control line of more than {max} bytes")]
    ControlLine {
        /// The limit in bytes, without the verb.
        max: usize,
    },
    /// A verb with arguments that it cannot have.
    #[error("{verb}: bad arguments {arguments:?}")]
    Arguments {
        /// The verb.
        verb: &'static str,
        /// What followed it; the beginning, if that is long.
        arguments: String,
    },
    /// A payload that is larger than allowed.
    #[error("a payload of {bytes} bytes, {max} at most")]
    Payload {
        /// Announced bytes.
        bytes: u64,
        /// Allowed bytes.
        max: usize,
    },
    /// HPUB of a client that did not say in CONNECT that it understands headers.
    #[error("headers from a client that did not announce them")]
    HeadersNotAllowed,
    /// Something else than the end of a line behind a payload.
    #[error("no line end behind the payload")]
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

/// What is shown of bytes that may be anything.
fn beginning(bytes: &[u8]) -> String {
    const SHOWN: usize = 64;
    bytes[..bytes.len().min(SHOWN)].escape_ascii().to_string()
}

/// What a server tells a client in `-ERR`. The texts are nats-server's, since clients compare them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// Credentials are missing or wrong. The server closes.
    AuthorizationViolation,
    /// No CONNECT in time. The server closes.
    AuthenticationTimeout,
    /// See [`ParseError::Payload`]. The server closes.
    MaximumPayload,
    /// See [`ParseError::UnknownOperation`]. The server closes.
    UnknownOperation,
    /// See [`ParseError::ControlLine`]. The server closes.
    MaximumControlLine,
    /// Too many connections. The server closes.
    MaximumConnections,
    /// No PONG for too long. The server closes.
    StaleConnection,
    /// The server wants TLS and the client does not speak it. The server closes.
    TlsRequired,
    /// The client did not take what was due to it. The server closes.
    SlowConsumer,
    /// CONNECT names a protocol that does not exist. The server closes.
    InvalidProtocol,
    /// CONNECT wants answers for want of responders, which need headers, and no headers. The server closes.
    NoRespondersNeedHeaders,
    /// A subject that cannot be subscribed to.
    InvalidSubject,
    /// A subject that cannot be published to; only to pedantic clients.
    InvalidPublishSubject,
    /// Too many subscriptions on this connection.
    MaximumSubscriptions,
    /// The user may not publish there. The name is `quoted`.
    PublishPermission(String),
    /// Reply subjects that belong to servers. The name is `quoted`.
    ReplyPermission(String),
    /// The user may not subscribe to that, in that queue group if there is one. The names are `quoted`.
    SubscribePermission(String, Option<String>),
}

impl ProtocolError {
    /// The user may not publish there.
    pub fn publish_permission(subject: &[u8]) -> Self {
        Self::PublishPermission(quoted(subject))
    }

    /// The reply subject belongs to servers.
    pub fn reply_permission(reply: &[u8]) -> Self {
        Self::ReplyPermission(quoted(reply))
    }

    /// The user may not subscribe to that, in that queue group if there is one.
    pub fn subscribe_permission(subject: &[u8], queue: Option<&[u8]>) -> Self {
        Self::SubscribePermission(quoted(subject), queue.map(quoted))
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AuthorizationViolation => f.write_str("Authorization Violation"),
            Self::AuthenticationTimeout => f.write_str("Authentication Timeout"),
            Self::MaximumPayload => f.write_str("Maximum Payload Violation"),
            Self::UnknownOperation => f.write_str("Unknown Protocol Operation"),
            Self::MaximumControlLine => f.write_str("maximum control line exceeded"),
            Self::MaximumConnections => f.write_str("maximum connections exceeded"),
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
        }
    }
}
