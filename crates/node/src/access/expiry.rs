//! Removes what has expired from the metadata: older passwords at once, so that their sessions end, and
//! delegation tokens within `delegation.token.expiry.check.interval.ms`. Neither is accepted in between.

use std::sync::Arc;
use tailrace_env::time::{Duration, sleep};

use tailrace_metadata::{Command, MetadataImage};
use tailrace_types::TimestampMs;

use crate::caller::Caller;
use crate::node::Node;

/// Pause between two looks at the clock.
const PAUSE: Duration = Duration::from_secs(1);

/// Removes what has expired, on the node that leads the metadata log. Never ends.
pub(crate) async fn remove_expired(node: Arc<Node>) {
    let (mut version, mut due) = (None, None);
    loop {
        sleep(PAUSE).await;
        let image = node.image();
        // Users and tokens are looked through only when one of them has changed.
        if version.replace(image.access().version()) != Some(image.access().version()) {
            due = first_end(&image);
        }
        let now = node.now();
        if due.is_none_or(|due| now < due) || !node.controller.leads() {
            continue;
        }
        match node.execute(Caller::internal(), Command::RemoveExpired { now }).await {
            // A token that another node's clock still takes for valid is tried again.
            Ok(_) => version = None,
            Err(error) => tracing::debug!(%error, "what has expired could not be removed yet"),
        }
    }
}

/// Returns when the next removal is due.
fn first_end(image: &MetadataImage) -> Option<TimestampMs> {
    let interval_ms =
        i64::try_from(image.broker().delegation_token_expiry_check_interval_ms).unwrap_or(i64::MAX);
    let credentials = image.access().users().flat_map(|user| &user.credentials);
    let passwords = credentials.filter_map(|credential| Some(credential.previous.as_ref()?.valid_until));
    let tokens = image.access().tokens();
    passwords.chain(tokens.map(|token| TimestampMs(token.expires_at.0.saturating_add(interval_ms)))).min()
}
