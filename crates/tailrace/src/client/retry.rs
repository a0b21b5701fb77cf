//! Retries.

use std::time::{Duration, Instant};

use super::{ClientError, Cluster};

/// Wait before the first retry.
const WAIT_FIRST: Duration = Duration::from_millis(20);
/// Longest wait between retries.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Waits that double, until a deadline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    wait: Duration,
    deadline: Instant,
}

impl Backoff {
    /// Allows retries until `timeout` from now.
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { wait: WAIT_FIRST, deadline: Instant::now() + timeout }
    }

    /// The wait before the next retry. `None` once the deadline has passed.
    pub(crate) fn next(&mut self) -> Option<Duration> {
        let left = self.deadline.checked_duration_since(Instant::now())?;
        let wait = self.wait.min(left);
        self.wait = (self.wait * 2).min(WAIT_MAX);
        Some(wait)
    }
}

/// Runs `attempt` until it succeeds, fails with an error that is not retriable, or the timeout has passed.
/// Returns its last error then.
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
