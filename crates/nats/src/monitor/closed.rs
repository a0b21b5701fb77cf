//! The connections that were closed most recently.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tailrace_env::time::WallTime;

use parking_lot::Mutex;

use super::connection_info::{ConnInfo, describe, user_of};
use crate::client::Client;
use crate::close::CloseReason;
use crate::go_time;

/// Closed connections that are remembered, of about half a kilobyte each. nats-server remembers 10,000.
const CLOSED_MAX: usize = 1024;

/// A closed connection.
#[derive(Debug)]
pub(super) struct Closed {
    pub(super) info: ConnInfo,
    pub(super) user: Option<String>,
    pub(super) account: String,
    pub(super) started: WallTime,
    pub(super) last: WallTime,
    pub(super) stopped: WallTime,
    pub(super) round_trip_us: u64,
}

/// The connections closed most recently, oldest first.
#[derive(Debug, Default)]
pub(super) struct ClosedList(Mutex<VecDeque<Arc<Closed>>>);

impl ClosedList {
    /// Adds a closed connection.
    pub(super) fn add(&self, client: &Client, reason: CloseReason) {
        let now = WallTime::now();
        let mut info = describe(client, now);
        info.stop = Some(go_time::rfc3339(now));
        info.reason = Some(reason.to_string());
        let closed = Arc::new(Closed {
            user: user_of(client),
            account: client.account().to_owned(),
            started: client.started,
            last: client.last_activity(),
            stopped: now,
            round_trip_us: client.counts.round_trip_us.load(Ordering::Relaxed),
            info,
        });
        let mut list = self.0.lock();
        if list.len() >= CLOSED_MAX {
            list.pop_front();
        }
        list.push_back(closed);
    }

    pub(super) fn all(&self) -> Vec<Arc<Closed>> {
        self.0.lock().iter().cloned().collect()
    }
}
