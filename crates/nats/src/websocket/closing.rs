//! What the closing frame of a connection says: set by the connection, which knows why it ends, and read by the stream, which writes it.

use std::sync::{Arc, OnceLock};

use super::status;
use crate::close::CloseReason;

/// One connection's.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClosingFrame(Arc<OnceLock<CloseReason>>);

impl ClosingFrame {
    /// The connection ends for this reason. Only the first one counts.
    pub(crate) fn set(&self, reason: CloseReason) {
        let _ = self.0.set(reason);
    }

    /// Status and text, as nats-server has them.
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
        | CloseReason::MaximumControlLine
        | CloseReason::MaximumConnections => status::POLICY_VIOLATION,
        CloseReason::MaximumPayload => status::TOO_BIG,
        CloseReason::NoRespondersNeedHeaders | CloseReason::TlsHandshake | CloseReason::Internal => {
            status::SERVER_ERROR
        }
    }
}
