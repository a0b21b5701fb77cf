//! Clients that the system account ends, or asks to connect elsewhere.

use std::sync::Arc;

use tailrace_node::Caller;

use crate::client::Client;
use crate::close::CloseReason;
use crate::front::NatsFront;

/// Ends a connection.
pub(super) fn kick(front: &NatsFront, caller: &Caller, id: u64) -> Result<(), (u16, String)> {
    let client = find(front, id).ok_or((500, "no such client or leafnode id".to_owned()))?;
    tracing::info!(target: "tailrace::audit", %caller, client = id, kicked = %client.caller(), "a NATS client was kicked");
    client.out.finish(CloseReason::Kicked);
    Ok(())
}

/// Tells a client what all are told in lame duck mode: to connect to another node.
pub(super) fn send_away(front: &NatsFront, id: u64) -> Result<(), (u16, String)> {
    let client = find(front, id).ok_or((500, "no such client id".to_owned()))?;
    if client.said().is_none_or(|said| said.protocol < 1) {
        let reason = "client does not support Lame Duck Mode or is not ready to receive the notification";
        return Err((500, reason.to_owned()));
    }
    client.out.signal(|signals| signals.lame_duck = true);
    Ok(())
}

fn find(front: &NatsFront, id: u64) -> Option<Arc<Client>> {
    front.clients().into_iter().find(|client| client.id == id)
}
