//! The closing frame of a connection. The connection, which knows why it ends, sets the reason. The stream
//! writes it.

use std::sync::{Arc, OnceLock};

use super::status;
use crate::close::CloseReason;

/// The closing frame of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClosingFrame(Arc<OnceLock<CloseReason>>);

impl ClosingFrame {
    /// Sets the reason for the end. Only the first one counts.
    pub(crate) fn set(&self, reason: CloseReason) {
        let _ = self.0.set(reason);
    }

    /// Returns nats-server's status and text for the reason.
    pub(super) fn text(&self) -> (u16, String) {
        let reason = self.0.get().copied().unwrap_or(CloseReason::Client);
        (status_of(reason), reason.to_string())
    }
}

fn status_of(reason: CloseReason) -> u16 {
    match reason {
        CloseReason::Client => status::NORMAL,
        CloseReason::ReadError
        | CloseReason::WriteError
        | CloseReason::Stale
        | CloseReason::ServerShutdown => status::GOING_AWAY,
        CloseReason::Protocol | CloseReason::ProtocolVersion | CloseReason::Complaint => {
            status::PROTOCOL_ERROR
        }
        CloseReason::SlowConsumerPending
        | CloseReason::SlowConsumerDeadline
        | CloseReason::AuthenticationTimeout
        | CloseReason::Authorization
        | CloseReason::Revoked
        | CloseReason::Kicked
        | CloseReason::MaximumControlLine
        | CloseReason::MaximumConnections
        | CloseReason::MaximumAccountConnections
        | CloseReason::AccountExpired
        | CloseReason::NoLongerAllowed
        | CloseReason::Expired => status::POLICY_VIOLATION,
        CloseReason::MaximumPayload => status::TOO_BIG,
        CloseReason::NoRespondersNeedHeaders | CloseReason::TlsHandshake | CloseReason::Internal => {
            status::SERVER_ERROR
        }
    }
}
