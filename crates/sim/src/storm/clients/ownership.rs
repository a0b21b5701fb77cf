//! What all members of consumer groups have in common: each of them owns partitions for a while.

use std::collections::BTreeSet;

use tailrace_env::time::{self, Duration, Instant};

use super::client::Client;
use crate::storm::site::SESSION_TIMEOUT;

/// Between two heartbeats.
pub(super) const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(300);

/// A member that has heard nothing for so long owns nothing any more. It is less than a session lasts: a coordinator that does not know
/// yet that it is deposed answers still, and the next one does not hear of that.
pub(super) const OWNS_UNHEARD: Duration = SESSION_TIMEOUT.checked_div(3).expect("3 is not 0");

/// Does what a member does while it owns partitions. `since`: when it sent the last request that was answered, or its first one. `None`:
/// it owns nothing any more, and what it was waiting for is not waited for any longer. To look only between two requests would not do:
/// one may take longer than a session.
pub(super) async fn while_owning<T>(since: Instant, does: impl Future<Output = T>) -> Option<T> {
    let end = since + OWNS_UNHEARD;
    if Instant::now() >= end {
        return None;
    }
    time::timeout_at(end, does).await.ok()
}

/// What a member owns.
pub(super) struct Ownership {
    /// The group's name.
    group: &'static str,
    /// The member, in the history.
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

    /// Owns these from now on. False if that is nothing new.
    pub(super) fn take(&mut self, client: &Client, assigned: BTreeSet<i32>) -> bool {
        if assigned == self.partitions {
            return false;
        }
        let mut history = client.history.lock();
        history.count("an assignment was taken");
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
