//! Errors between this client and a server.

use std::path::PathBuf;
use std::time::Duration;

use tailrace_kafka_wire::{DecodeError, EncodeError, ErrorCode, VersionRange};

use super::sasl::{LoginError, PasswordError, listed};

/// Longest message of a server that is shown, in characters.
const MESSAGE_CHARS_MAX: usize = 2_000;

/// Each text is one line. It says what to do, if anything can be done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error(
        "cannot connect to {address}: {reason}; start a server with `tailrace serve`, or name one with --bootstrap"
    )]
    Connect { address: String, reason: String },
    #[error(
        "{address} did not answer {api} within {timeout:?}; see whether it is healthy, or raise --timeout"
    )]
    Timeout { address: String, api: &'static str, timeout: Duration },
    #[error("cannot use {} ({flag}): {reason}", .path.display())]
    TlsFile { flag: &'static str, path: PathBuf, reason: String },
    #[error("cannot read {place}: {reason}")]
    Password { place: String, reason: PasswordError },
    #[error("cannot log in to {address} as '{user}' with {mechanism}: {reason}")]
    Login { address: String, user: String, mechanism: &'static str, reason: LoginError },
    #[error("a delegation token logs in with scram-sha-256 or scram-sha-512, not with plain")]
    TokenWithPlain,
    #[error("{address} demands a login ({}); name a user with --sasl-user", listed(mechanisms))]
    LoginDemanded { address: String, mechanisms: Vec<String> },
    #[error(
        "the connection to {address} is not encrypted, and those who read it could log in with what a new password          becomes; use TLS (--tls-ca), or accept that with --without-tls"
    )]
    InTheClear { address: String },
    #[error("the connection to {address} ended: {reason}")]
    Closed { address: String, reason: String },
    #[error("{address} answered {api} with an invalid response ({error}); is it a Kafka server?")]
    Decode { address: String, api: &'static str, error: DecodeError },
    #[error("cannot write a {api} request: {error}")]
    Encode { api: &'static str, error: EncodeError },
    #[error(
        "{address} offers {api} at {}, this tailrace needs one of {ours}; use compatible versions",
        match theirs { Some(range) => format!("versions {range}"), None => "no version".to_owned() }
    )]
    Version { address: String, api: &'static str, theirs: Option<VersionRange>, ours: VersionRange },
    #[error("{what}: {}", refusal(*code, message.as_deref()))]
    Refused { what: String, code: i16, message: Option<String> },
    #[error(
        "there is no topic '{0}'; `tailrace topic list` lists all topics, `tailrace topic create` creates one"
    )]
    NoTopic(String),
    #[error("there is no group '{0}'; `tailrace group list` lists all groups")]
    NoGroup(String),
    #[error(
        "group '{group}' has no offsets of topic '{topic}'; `tailrace group lag {group}` shows its offsets"
    )]
    NoOffsets { group: String, topic: String },
    #[error("there is no transactional id '{0}'; `tailrace txn list` lists all transactional ids")]
    NoTransactionalId(String),
    #[error("there is no user '{0}'; `tailrace user list` lists all users")]
    NoUser(String),
    #[error("{what}: the server's answer does not say whether it did")]
    NoResult { what: String },
    #[error("{address} is {what}; name the port for Kafka clients with --bootstrap")]
    NotKafka { address: String, what: &'static str },
    #[error("topic '{topic}' has no partition {partition}: it has {count}, numbered from 0")]
    NoPartition { topic: String, partition: i32, count: usize },
    #[error("records to topic '{topic}' were not acknowledged within {timeout:?}: {reason}")]
    Undelivered { topic: String, timeout: Duration, reason: String },
    #[error(
        "the server rejected records, and with --acks 0 it can only close the connection: {reason}; use --acks 1 to learn why"
    )]
    Unanswered { reason: String },
    #[error("no node with the id {0} is known; the cluster is starting or changing, try again")]
    NoNode(i32),
}

impl ClientError {
    /// An error response from the server. `what` names the operation.
    pub(crate) fn refused(what: impl Into<String>, code: i16, message: Option<String>) -> Self {
        Self::Refused { what: what.into(), code, message }
    }

    /// The server's error code, if it answered with one.
    pub(crate) fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused { code, .. } => ErrorCode::from_code(*code),
            _ => None,
        }
    }

    /// Reports whether the same request may succeed a little later, perhaps on another node.
    pub(crate) fn is_retriable(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Timeout { .. } | Self::Closed { .. } | Self::NoNode(_) => true,
            // The same codes as in Kafka's own clients: the node is no longer, or not yet, the right one.
            Self::Refused { code, .. } => ErrorCode::from_code(*code)
                .is_some_and(|code| code.is_retriable() || code == ErrorCode::NotController),
            Self::TlsFile { .. }
            | Self::Password { .. }
            | Self::Login { .. }
            | Self::TokenWithPlain
            | Self::LoginDemanded { .. }
            | Self::InTheClear { .. }
            | Self::NoUser(_)
            | Self::NoResult { .. }
            | Self::Decode { .. }
            | Self::Encode { .. }
            | Self::Version { .. }
            | Self::NoTopic(_)
            | Self::NoGroup(_)
            | Self::NoOffsets { .. }
            | Self::NoTransactionalId(_)
            | Self::NotKafka { .. }
            | Self::Undelivered { .. }
            | Self::Unanswered { .. }
            | Self::NoPartition { .. } => false,
        }
    }
}

/// The text of an error response. The server's message says more than its code, but the code's name can be
/// looked up. Control characters become blanks: a server that is not trusted yet may send any.
pub(super) fn refusal(code: i16, message: Option<&str>) -> String {
    let name =
        ErrorCode::from_code(code).map_or_else(|| format!("error {code}"), |code| code.name().to_owned());
    let known = ErrorCode::from_code(code).map(ErrorCode::message);
    match message.filter(|m| !m.trim().is_empty()).or(known) {
        Some(message) => {
            let message: String = message.chars().take(MESSAGE_CHARS_MAX).collect();
            let message = message.replace(char::is_control, " ");
            format!("{} ({name})", message.trim().trim_end_matches('.'))
        }
        None => name,
    }
}

/// Turns an error code into a result. `what` names the operation.
pub(crate) fn check(
    code: i16,
    message: Option<&String>,
    what: impl FnOnce() -> String,
) -> Result<(), ClientError> {
    if code == 0 { Ok(()) } else { Err(ClientError::refused(what(), code, message.cloned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_stays_on_its_line() {
        let said = |message: &str| refusal(58, Some(message));
        assert_eq!(said("no.\n"), "no (SASL_AUTHENTICATION_FAILED)");
        assert_eq!(said("a\r\n\x1b[2Jb"), "a   [2Jb (SASL_AUTHENTICATION_FAILED)");
        assert_eq!(said(" \n"), "the credentials were refused (SASL_AUTHENTICATION_FAILED)");
        assert_eq!(refusal(4711, None), "error 4711");
        assert_eq!(refusal(4711, Some(&"x".repeat(9999))).len(), MESSAGE_CHARS_MAX + " (error 4711)".len());
    }
}
