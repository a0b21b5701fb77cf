//! Watches the disk for as long as the node runs.

use std::sync::Arc;
use tailrace_env::time::Duration;
use tailrace_env::{task, time};

use tailrace_env::time::MissedTicks;

use crate::node::Node;

/// How often to measure the free bytes.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Measures the free space, and logs when it becomes too small or sufficient again. Runs until the task is
/// dropped.
pub(crate) async fn watch(node: Arc<Node>) {
    let mut ticks = time::interval(POLL_INTERVAL);
    ticks.set_missed(MissedTicks::Delay);
    let mut warned = false;
    loop {
        ticks.tick().await;
        let looking = Arc::clone(&node);
        // A disk that hangs delays this task and nothing else.
        if task::spawn_blocking(move || looking.space.look(&looking.data_dir)).await.is_err() {
            tracing::error!("measuring the free space on the disk panicked");
        }
        let warning = node.disk_warning();
        match &warning {
            Some(reason) if !warned => tracing::warn!("{reason}"),
            None if warned => tracing::info!("the disk has room again"),
            _ => {}
        }
        warned = warning.is_some();
    }
}
