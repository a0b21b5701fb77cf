//! Reasons why connections end.

use std::fmt;

/// The reason why a NATS connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// The client closed the connection.
    Client,
    /// A read failed.
    ReadError,
    /// A write failed.
    WriteError,
    /// The client violated the protocol.
    Protocol,
    /// CONNECT asks for an unknown protocol.
    ProtocolVersion,
    /// CONNECT asks for no-responders replies without headers.
    NoRespondersNeedHeaders,
    /// More bytes waited for the client than `tailrace.nats.max.pending.bytes`.
    SlowConsumerPending,
    /// The client took nothing for `tailrace.nats.write.deadline.ms`.
    SlowConsumerDeadline,
    /// The client did not answer PINGs.
    Stale,
    /// No CONNECT within `tailrace.nats.auth.timeout.ms`.
    AuthenticationTimeout,
    /// Wrong credentials.
    Authorization,
    /// The user's credential was changed or removed.
    Revoked,
    /// A payload was too large.
    MaximumPayload,
    /// A control line was too long.
    MaximumControlLine,
    /// Too many connections.
    MaximumConnections,
    /// Too many connections of its account.
    MaximumAccountConnections,
    /// The user's claim or its times have ended.
    Expired,
    /// The claims of the account have ended.
    AccountExpired,
    /// The user may no longer be connected, or not as it is.
    NoLongerAllowed,
    /// An administrator has ended it.
    Kicked,
    /// The client sent `-ERR`.
    Complaint,
    /// The TLS handshake failed or took too long.
    TlsHandshake,
    /// The server is stopping.
    ServerShutdown,
    /// The connection's task panicked, which is a bug.
    Internal,
}

impl CloseReason {
    /// The label of the metric.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Client => "client_closed",
            Self::ReadError => "read_error",
            Self::WriteError => "write_error",
            Self::Protocol => "protocol_violation",
            Self::ProtocolVersion => "bad_client_protocol_version",
            Self::NoRespondersNeedHeaders => "no_responders_requires_headers",
            Self::SlowConsumerPending => "slow_consumer_pending_bytes",
            Self::SlowConsumerDeadline => "slow_consumer_write_deadline",
            Self::Stale => "stale_connection",
            Self::AuthenticationTimeout => "authentication_timeout",
            Self::Authorization => "authentication_failure",
            Self::Revoked => "credentials_revoked",
            Self::MaximumPayload => "maximum_payload_exceeded",
            Self::MaximumControlLine => "maximum_control_line_exceeded",
            Self::MaximumConnections => "maximum_connections_exceeded",
            Self::MaximumAccountConnections => "maximum_account_connections_exceeded",
            Self::Expired => "authentication_expired",
            Self::AccountExpired => "account_authentication_expired",
            Self::NoLongerAllowed => "no_longer_allowed",
            Self::Kicked => "kicked",
            Self::Complaint => "client_error",
            Self::TlsHandshake => "tls_handshake_error",
            Self::ServerShutdown => "server_shutdown",
            Self::Internal => "internal_error",
        }
    }

    /// Reports whether the client was too slow.
    pub(crate) fn is_slow_consumer(self) -> bool {
        matches!(self, Self::SlowConsumerPending | Self::SlowConsumerDeadline)
    }

    /// Reports whether this is an ordinary end.
    pub(crate) fn is_ordinary(self) -> bool {
        matches!(self, Self::Client | Self::ServerShutdown)
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client => "Client Closed",
            Self::ReadError => "Read Error",
            Self::WriteError => "Write Error",
            Self::Protocol => "Protocol Violation",
            Self::ProtocolVersion => "Bad Client Protocol Version",
            Self::NoRespondersNeedHeaders => "No Responders Requires Headers",
            Self::SlowConsumerPending => "Slow Consumer (Pending Bytes)",
            Self::SlowConsumerDeadline => "Slow Consumer (Write Deadline)",
            Self::Stale => "Stale Connection",
            Self::AuthenticationTimeout => "Authentication Timeout",
            Self::Authorization => "Authentication Failure",
            Self::Revoked => "Credentials Revoked",
            Self::MaximumPayload => "Maximum Message Payload Exceeded",
            Self::MaximumControlLine => "Maximum Control Line Exceeded",
            Self::MaximumConnections => "Maximum Connections Exceeded",
            Self::MaximumAccountConnections => "Maximum Account Connections Exceeded",
            Self::Expired => "Authentication Expired",
            Self::AccountExpired => "Account Authentication Expired",
            Self::NoLongerAllowed => "Authentication Failure",
            Self::Kicked => "Kicked",
            Self::Complaint => "Parse Error",
            Self::TlsHandshake => "TLS Handshake Failure",
            Self::ServerShutdown => "Server Shutdown",
            Self::Internal => "Internal Error",
        })
    }
}
