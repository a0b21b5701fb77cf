//! Applies changed users and rules to open connections.

use std::sync::Arc;
use tailrace_env::time::{self, Duration};

use crate::close::CloseReason;
use crate::server::NatsServer;
use tailrace_node::Node;

/// Time between two rounds. Each round looks at all subscriptions of all connections. Nothing depends on it:
/// publications and deliveries are decided by the current rules.
const PAUSE: Duration = Duration::from_millis(100);

/// Follows the metadata until the task is dropped. Closes connections whose login no longer holds, and has
/// the others remove the subscriptions that are no longer allowed. Ends at once if there are no users of the
/// settings, users of the cluster cannot log in, and no rules decide.
pub async fn follow_access(server: Arc<NatsServer>) {
    let (auth, node) = (server.front.auth(), &server.node);
    let lets_in = auth.lets_cluster_users_in();
    if !lets_in && !auth.required() {
        return;
    }
    let mut changes = node.metadata_changes();
    let (mut known, mut twice) = (None, Vec::new());
    loop {
        let now = (node.access_version(), versions(node));
        if known.replace(now) != Some(now) {
            if lets_in {
                apply(&server);
            }
            twice = report_twice(node.users_twice(&node.image()), &twice);
        }
        time::sleep(PAUSE).await;
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Logs the names that two users have since `known`. This node's settings forbid them, so other nodes, with
/// other settings, have created users of these names. To stop would make that a way to stop nodes.
fn report_twice(names: Vec<String>, known: &[String]) -> Vec<String> {
    for name in names.iter().filter(|name| !known.contains(name)) {
        tracing::error!(
            user = %name.escape_debug(),
            "a user of the NATS settings or users file has the name of a user of the cluster: for NATS clients, only the \
             password of the settings or file counts, and this node will not start again before one of them is gone; \
             give all nodes the same users file"
        );
    }
    names
}

fn versions(node: &Node) -> Option<tailrace_node::access::SubjectVersions> {
    node.has_authorizer().then(|| node.subject_versions())
}

fn apply(server: &NatsServer) {
    for client in server.front.clients() {
        let Some(permissions) = client.permissions() else { continue };
        if permissions.login().is_some_and(|login| !server.node.login_holds(login)) {
            client.out.finish(CloseReason::Revoked);
        } else if permissions.has_rights() {
            client.out.signal(|signals| signals.rights = true);
        }
    }
}
