//! Ownership of partitions, which all members of consumer groups have for a while.

use std::collections::BTreeSet;

use tailrace_env::time::{self, Duration, Instant};

use super::client::Client;
use crate::storm::site::SESSION_TIMEOUT;

/// Time between two heartbeats.
pub(super) const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(300);

/// A member that has had no answer for this long no longer owns anything. The time is shorter than a session:
/// a deposed coordinator that does not know yet still answers, and its successor does not see those
/// heartbeats.
pub(super) const OWNS_UNHEARD: Duration = SESSION_TIMEOUT.checked_div(3).expect("3 is not 0");

/// Runs `does` while the member owns partitions. `since` is when the member sent the last request that was
/// answered, or its first one. `None` if the member no longer owns anything. The wait for `does` ends then.
/// Checking only between two requests would not be enough, because one request may take longer than a
/// session.
pub(super) async fn while_owning<T>(since: Instant, does: impl Future<Output = T>) -> Option<T> {
    let end = since + OWNS_UNHEARD;
    if Instant::now() >= end {
        return None;
    }
    time::timeout_at(end, does).await.ok()
}

/// The partitions that a member owns.
pub(super) struct Ownership {
    /// The group's name.
    group: &'static str,
    /// The member's number in the history.
    number: usize,
    partitions: BTreeSet<i32>,
}

impl Ownership {
    pub(super) fn none(group: &'static str, number: usize) -> Self {
        Self { group, number, partitions: BTreeSet::new() }
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    pub(super) fn partitions(&self) -> &BTreeSet<i32> {
        &self.partitions
    }

    /// Takes ownership of these partitions and gives up all others. Returns false if nothing changed.
    pub(super) fn take(&mut self, client: &Client, assigned: BTreeSet<i32>) -> bool {
        if assigned == self.partitions {
            return false;
        }
        let mut history = client.history.lock();
        history.count("an assignment was applied");
        for partition in self.partitions.difference(&assigned) {
            history.released(self.group, self.number, *partition);
        }
        for partition in assigned.difference(&self.partitions) {
            history.owned(self.group, self.number, *partition);
        }
        self.partitions = assigned;
        true
    }

    pub(super) fn give_up(&mut self, client: &Client) {
        self.take(client, BTreeSet::new());
    }
}
