//! State of the monitoring between two requests.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use tailrace_env::sync::Semaphore;

use super::closed::ClosedList;
use super::page::{COUNTED, PATHS};
use super::process::CpuMeter;
use crate::client::Client;
use crate::close::CloseReason;

/// Lists that are made at the same time. Further requests wait.
const LISTS_MAX: usize = 2;

/// State of the monitoring between two requests.
#[derive(Debug)]
pub struct Monitor {
    pub(super) cpu: CpuMeter,
    pub(super) closed: ClosedList,
    /// Number of requests, in the order of [`PATHS`].
    pub(super) requests: [AtomicU64; PATHS.len()],
    /// Number of requests, in the order of [`COUNTED`].
    other_requests: [AtomicU64; COUNTED.len()],
    pub(super) lists: Semaphore,
    /// Number of events and answers of the server itself.
    pub(crate) said: AtomicU64,
}

impl Monitor {
    pub(crate) fn new() -> Self {
        Self {
            cpu: CpuMeter::new(),
            closed: ClosedList::default(),
            requests: std::array::from_fn(|_| AtomicU64::new(0)),
            other_requests: std::array::from_fn(|_| AtomicU64::new(0)),
            lists: Semaphore::new(LISTS_MAX),
            said: AtomicU64::new(0),
        }
    }

    /// Adds a closed connection.
    pub(crate) fn ended(&self, client: &Client, reason: CloseReason) {
        self.closed.add(client, reason);
    }

    /// Counts a request for `/` or `/healthz`, which are answered elsewhere.
    pub fn asked_for(&self, path: &str) {
        if let Some(at) = COUNTED.iter().position(|known| *known == path) {
            self.other_requests[at].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the requested paths and the number of requests for each.
    pub(super) fn request_counts(&self) -> BTreeMap<&'static str, u64> {
        let pages = PATHS.iter().map(|(path, _)| *path).zip(&self.requests);
        let counts = pages.chain(COUNTED.iter().copied().zip(&self.other_requests));
        let counts = counts.map(|(path, count)| (path, count.load(Ordering::Relaxed)));
        counts.filter(|(_, count)| *count > 0).collect()
    }
}
