//! The leader of the metadata log fences nodes that fall silent, and unfences those that come back.

use std::sync::Arc;
use tailrace_env::time;
use tailrace_env::time::{Duration, Instant};

use tailrace_metadata::Command;
use tailrace_types::NodeId;

use crate::controller::UNCHECKED;
use crate::node::Node;

/// Interval between two checks.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// A node that was heard from within this time is up.
const FRESH: Duration = Duration::from_secs(2);

pub(super) async fn run(here: &Arc<Node>) {
    let mut leads_since: Option<Instant> = None;
    loop {
        time::sleep(POLL_INTERVAL).await;
        if here.controller.handle().leads().is_none() {
            leads_since = None;
            continue;
        }
        // A new leader gives every node a full session to be heard from.
        let since = *leads_since.get_or_insert_with(Instant::now);
        for (node, fenced) in changed(here, since) {
            let command = Command::FenceNode { node, fenced };
            match here.controller.execute_here(command, here.now(), UNCHECKED).await {
                Ok(_) if fenced => tracing::warn!(%node, "a node has fallen silent and is fenced"),
                Ok(_) => tracing::info!(%node, "a node is up"),
                Err(error) => tracing::warn!(%node, fenced, %error, "could not record whether a node is up"),
            }
        }
    }
}

/// Returns the nodes whose state differs from the metadata.
fn changed(here: &Node, leads_since: Instant) -> Vec<(NodeId, bool)> {
    let (image, own) = (here.image(), here.id());
    let timeout = Duration::from_millis(image.broker().broker_session_timeout_ms);
    let mut changed = Vec::new();
    for node in image.nodes() {
        let id = node.registration.node;
        let silence = if id == own { Some(Duration::ZERO) } else { here.silence(id) };
        let silent = silence.unwrap_or(Duration::MAX).min(leads_since.elapsed()) > timeout;
        // Well below the time after which it is fenced again.
        let fresh = silence.is_some_and(|silence| silence < FRESH.min(timeout / 2));
        if node.fenced && fresh {
            changed.push((id, false));
        } else if !node.fenced && silent {
            changed.push((id, true));
        }
    }
    changed
}
