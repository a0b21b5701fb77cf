//! Waiting for what the nodes are at.

use std::time::Duration;

/// Pause between two looks at what is under way.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(500);
