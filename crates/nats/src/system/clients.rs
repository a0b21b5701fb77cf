//! Clients that the system account ends, or asks to connect elsewhere.

use std::fmt;
use std::sync::Arc;

use tailrace_node::Caller;
use tailrace_node::access::ChangeEnd;

use crate::client::Client;
use crate::close::CloseReason;
use crate::front::NatsFront;
use crate::server::NatsServer;

/// What a request about a client does, or why it does nothing.
type Outcome = Result<(), (u16, String)>;

/// Ends a connection.
pub(super) fn kick(server: &NatsServer, caller: &Caller, id: u64) -> Outcome {
    let found = find(&server.front, id);
    let change = server.node.open_change(caller, &Named { what: "KickClient", id, client: found.as_deref() });
    let Some(client) = found else {
        change.end(ChangeEnd::Refused(NO_CLIENT));
        return Err((500, "no such client or leafnode id".to_owned()));
    };
    client.out.finish(CloseReason::Kicked);
    change.end(ChangeEnd::Done);
    Ok(())
}

/// Tells a client what all are told in lame duck mode: to connect to another node.
pub(super) fn send_away(server: &NatsServer, caller: &Caller, id: u64) -> Outcome {
    let found = find(&server.front, id);
    let named = Named { what: "SendClientAway", id, client: found.as_deref() };
    let change = server.node.open_change(caller, &named);
    let Some(client) = found else {
        change.end(ChangeEnd::Refused(NO_CLIENT));
        return Err((500, "no such client id".to_owned()));
    };
    if client.said().is_none_or(|said| said.protocol < 1) {
        let reason = "client does not support Lame Duck Mode or is not ready to receive the notification";
        change.end(ChangeEnd::Refused(reason));
        return Err((500, reason.to_owned()));
    }
    client.out.signal(|signals| signals.lame_duck = true);
    change.end(ChangeEnd::Done);
    Ok(())
}

const NO_CLIENT: &str = "no client has this number";

/// A client in the audit log.
struct Named<'a> {
    what: &'static str,
    id: u64,
    client: Option<&'a Client>,
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.what, self.id)?;
        self.client.map_or(Ok(()), |client| write!(f, ", {}", client.caller()))
    }
}

fn find(front: &NatsFront, id: u64) -> Option<Arc<Client>> {
    front.clients().into_iter().find(|client| client.id == id)
}
