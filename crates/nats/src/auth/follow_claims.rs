//! Applies changed claims of accounts, and the time, to open connections.

use std::sync::Arc;
use tailrace_env::task;
use tailrace_env::time::{self, Duration};
use tailrace_identity::nats_accounts::jwt::UserDenied;

use super::clock::now_s;
use crate::close::CloseReason;
use crate::server::NatsServer;

/// Longest time between two looks. Ends of single connections do not wait for it: they have timers.
const PAUSE: Duration = Duration::from_millis(500);

/// Follows the claims of accounts until the task is dropped. Ends at once without an operator.
pub async fn follow_claims(server: Arc<NatsServer>) {
    let Some(operator) = server.front.auth().operator().cloned() else { return };
    let mut known = operator.version();
    let mut changes = server.node.metadata_changes();
    loop {
        operator.set_stored(server.node.image().access().account_claims());
        let looking = Arc::clone(&operator);
        if let Err(error) = task::spawn_blocking(move || looking.look_at_file()).await {
            tracing::error!(%error, "a bug in the server: reading claims panicked");
        }
        operator.look_at_clock(now_s());
        let now = operator.version();
        if std::mem::replace(&mut known, now) != now {
            apply(&server);
        }
        // What the file says is looked for at intervals, what the metadata say at once.
        if let Ok(Err(_)) = time::timeout(PAUSE, changes.changed()).await {
            return;
        }
    }
}

/// Applies the claims that are in force now. May be done more than once.
pub(crate) fn apply(server: &NatsServer) {
    let front = &server.front;
    let Some(operator) = front.auth().operator() else { return };
    front.accounts().define(&operator.table());
    for client in front.clients() {
        let Some(permissions) = client.permissions() else { continue };
        permissions.forget_decisions();
        let Some(claimed) = permissions.claimed() else { continue };
        match operator.recheck(claimed, client.connection()) {
            Ok(_) => client.out.signal(|signals| signals.limits = true),
            Err(reason) => {
                tracing::info!(client = client.id, %reason, "a NATS client may not stay");
                client.out.finish(close_reason(&reason));
            }
        }
    }
    // The newest connections over the limit go.
    for account in front.accounts().all() {
        let Some(max) = account.limits().and_then(|limits| limits.connections) else { continue };
        if account.connections() <= max {
            continue;
        }
        let mut members: Vec<_> =
            front.clients().into_iter().filter(|client| client.account() == &**account.name()).collect();
        members.sort_by_key(|client| client.id);
        for client in members.into_iter().skip(usize::try_from(max).unwrap_or(usize::MAX)) {
            client.out.finish(CloseReason::MaximumAccountConnections);
        }
    }
}

fn close_reason(reason: &UserDenied) -> CloseReason {
    match reason.closing_text() {
        "User Authentication Expired" => CloseReason::Expired,
        "Account Authentication Expired" => CloseReason::AccountExpired,
        "User Authentication Revoked" => CloseReason::Revoked,
        _ => CloseReason::NoLongerAllowed,
    }
}
