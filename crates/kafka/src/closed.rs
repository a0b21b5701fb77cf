//! Reasons why connections end.

use std::io;

use tailrace_node::access::CertificateRefused;
use tailrace_tls::HandshakeError;

/// The reason why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Closed {
    #[error("the client closed the connection")]
    ByClient,
    #[error("idle for longer than connections.max.idle.ms")]
    Idle,
    #[error("the server is stopping")]
    Stopping,
    #[error("the socket failed: {0}")]
    Socket(#[from] io::Error),
    #[error("frame length {length} is outside 1..={max} (socket.request.max.bytes)")]
    FrameLength { length: i32, max: i32 },
    #[error(
        "frame length {length} of a request without records is outside 1..={max} (tailrace.request.other.max.bytes)"
    )]
    OtherLength { length: i32, max: i32 },
    #[error("{0}")]
    Handshake(#[from] HandshakeError),
    #[error("the client started a TLS handshake on a listener without TLS")]
    TlsOnPlain,
    #[error(
        "a request did not arrive within tailrace.request.read.timeout.ms, or arrived too slowly while others waited for memory"
    )]
    SlowRequest,
    #[error("a request stopped half-way while other connections needed the memory")]
    HalfRead,
    #[error("the client did not read answers within tailrace.response.write.timeout.ms")]
    SlowReader,
    #[error("a login failed")]
    LoginFailed,
    #[error("{api} came before the end of the login")]
    NoLogin { api: &'static str },
    #[error("the client did not log in, and its certificate names no user: {reason}")]
    NamelessCertificate { reason: CertificateRefused },
    #[error("the client did not log in within tailrace.kafka.login.timeout.ms")]
    SlowLogin,
    #[error("the client did not log in again in time")]
    LoginExpired,
    #[error("the user was removed or disabled, or has another credential now")]
    CredentialChanged,
    #[error("{0}")]
    Protocol(String),
}

impl Closed {
    /// Returns the label for the metric, or `None` for an ordinary end.
    pub(crate) fn reason(&self) -> Option<&'static str> {
        match self {
            Self::ByClient | Self::Stopping | Self::Socket(_) => None,
            Self::Idle => Some("idle"),
            Self::FrameLength { .. } | Self::OtherLength { .. } => Some("frame_length"),
            Self::Handshake(_) => Some("tls_handshake"),
            Self::TlsOnPlain => Some("tls_on_plain"),
            Self::SlowRequest => Some("slow_request"),
            Self::HalfRead => Some("half_read"),
            Self::SlowReader => Some("slow_reader"),
            Self::LoginFailed => Some("login_failed"),
            Self::NoLogin { .. } => Some("no_login"),
            Self::NamelessCertificate { .. } => Some("nameless_certificate"),
            Self::SlowLogin => Some("slow_login"),
            Self::LoginExpired => Some("login_expired"),
            Self::CredentialChanged => Some("credential_changed"),
            Self::Protocol(_) => Some("protocol"),
        }
    }
}
