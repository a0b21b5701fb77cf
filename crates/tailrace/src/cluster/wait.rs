//! Waits for operations on the nodes.

use std::time::Duration;

/// Pause between two polls of an operation.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(500);
