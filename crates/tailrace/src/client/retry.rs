//! Trying again.

use std::time::{Duration, Instant};

use super::{ClientError, Cluster};

/// First wait before another try.
const WAIT_FIRST: Duration = Duration::from_millis(20);
/// Longest wait.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Waits that double, up to a deadline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    wait: Duration,
    deadline: Instant,
}

impl Backoff {
    /// Gives up `timeout` from now.
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { wait: WAIT_FIRST, deadline: Instant::now() + timeout }
    }

    /// How long to wait before the next try; `None` if there shall be none.
    pub(crate) fn next(&mut self) -> Option<Duration> {
        let left = self.deadline.checked_duration_since(Instant::now())?;
        let wait = self.wait.min(left);
        self.wait = (self.wait * 2).min(WAIT_MAX);
        Some(wait)
    }
}

/// Runs `attempt` until it succeeds, fails for good, or the time is up; then its last error counts.
pub(crate) async fn retrying<T>(
    cluster: &mut Cluster,
    mut attempt: impl AsyncFnMut(&mut Cluster) -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    let mut backoff = Backoff::new(cluster.timeout());
    loop {
        let error = match attempt(cluster).await {
            Err(error) if error.is_retriable() => error,
            result => return result,
        };
        match backoff.next() {
            Some(wait) => tokio::time::sleep(wait).await,
            None => return Err(error),
        }
        cluster.forget_connections();
    }
}
