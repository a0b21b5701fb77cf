//! Errors between this client and a NATS server.

use std::time::Duration;

use tailrace_nats_wire::ParseError;

/// Each text is one line. It says what to do, if anything can be done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NatsError {
    #[error(
        "cannot connect to {address}: {reason}; start a server with `tailrace serve`, or name one with --server"
    )]
    Connect { address: String, reason: String },
    #[error("{address} is {what}; name the port for NATS clients with --server")]
    NotNats { address: String, what: &'static str },
    #[error("{address} refused the connection: {text}{}", advice(text))]
    Refused { address: String, text: String },
    #[error("cannot speak TLS with {address}: {reason}")]
    Tls { address: String, reason: String },
    #[error("{0}")]
    TlsFiles(String),
    #[error("{0}")]
    Nkey(String),
    #[error("{0}")]
    Creds(String),
    #[error("the connection to {address} ended: {reason}")]
    Closed { address: String, reason: String },
    #[error("{address} does not speak the NATS protocol ({error}); is it a NATS server?")]
    Protocol { address: String, error: ParseError },
    #[error("{address} sent an INFO that cannot be read ({error}); is it a NATS server?")]
    Info { address: String, error: String },
    #[error("the server refuses: {text}")]
    Server { text: String },
    #[error("{what} within {timeout:?}; see whether the server is healthy, or raise --timeout")]
    Timeout { what: &'static str, timeout: Duration },
}

impl NatsError {
    /// Reports whether reconnecting may help.
    pub(crate) fn is_retriable(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Closed { .. } | Self::Timeout { .. } => true,
            Self::Refused { text, .. } => text.eq_ignore_ascii_case("maximum connections exceeded"),
            Self::Protocol { .. }
            | Self::NotNats { .. }
            | Self::Info { .. }
            | Self::Server { .. }
            | Self::Tls { .. }
            | Self::TlsFiles(_)
            | Self::Nkey(_)
            | Self::Creds(_) => false,
        }
    }
}

fn advice(text: &str) -> &'static str {
    if text.eq_ignore_ascii_case("authorization violation") {
        "; see --user, --password, --token, --nkey and --creds"
    } else {
        ""
    }
}
