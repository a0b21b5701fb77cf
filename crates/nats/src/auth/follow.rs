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
/// the others remove the subscriptions that are no longer allowed. Ends at once if users of the cluster
/// cannot log in and no rules decide.
pub async fn follow_access(server: Arc<NatsServer>) {
    if !server.front.auth().lets_cluster_users_in() {
        return;
    }
    let mut changes = server.node.metadata_changes();
    let mut known = None;
    loop {
        let now = (server.node.access_version(), versions(&server.node));
        if known.replace(now) != Some(now) {
            apply(&server);
        }
        time::sleep(PAUSE).await;
        if changes.changed().await.is_err() {
            return;
        }
    }
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
