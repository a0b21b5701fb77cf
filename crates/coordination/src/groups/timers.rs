//! The deadlines of all groups of a coordinator.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tailrace_types::TimestampMs;

use super::classic::ClassicTimer;
use super::consumer::ConsumerTimer;
use super::share::ShareTimer;

/// A timer of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GroupTimer {
    /// Of a classic group.
    Classic(ClassicTimer),
    /// Of a consumer group.
    Consumer(ConsumerTimer),
    /// Of a share group.
    Share(ShareTimer),
}

type TimerKey = (Arc<str>, GroupTimer);

/// Timers by name, each set at most once. Setting, clearing and taking the next one takes logarithmic time.
///
/// A deadline that is often extended (a session, by each heartbeat) should not be set again each time.
/// Instead let the timer expire, compare it with the member's deadline, and set it again.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    queue: BTreeSet<(TimestampMs, TimerKey)>,
    deadlines: BTreeMap<TimerKey, TimestampMs>,
}

impl Timers {
    /// Sets a timer, and replaces its earlier deadline.
    pub(crate) fn set(&mut self, group: &Arc<str>, timer: GroupTimer, deadline: TimestampMs) {
        let key = (Arc::clone(group), timer);
        if let Some(before) = self.deadlines.insert(key.clone(), deadline) {
            if before == deadline {
                return;
            }
            let mut row = (before, key);
            self.queue.remove(&row);
            row.0 = deadline;
            self.queue.insert(row);
        } else {
            self.queue.insert((deadline, key));
        }
    }

    /// Clears a timer, if it is set.
    pub(crate) fn clear(&mut self, group: &Arc<str>, timer: GroupTimer) {
        let key = (Arc::clone(group), timer);
        if let Some(deadline) = self.deadlines.remove(&key) {
            self.queue.remove(&(deadline, key));
        }
    }

    /// Reports whether a timer is set.
    pub(crate) fn is_set(&self, group: &Arc<str>, timer: GroupTimer) -> bool {
        self.deadlines.contains_key(&(Arc::clone(group), timer))
    }

    /// Returns the earliest deadline.
    pub(crate) fn next(&self) -> Option<TimestampMs> {
        self.queue.first().map(|(deadline, _)| *deadline)
    }

    /// Removes and returns the earliest timer that is due.
    pub(crate) fn take_due(&mut self, now: TimestampMs) -> Option<(Arc<str>, GroupTimer)> {
        if self.next()? > now {
            return None;
        }
        let (_, key) = self.queue.pop_first()?;
        self.deadlines.remove(&key);
        Some(key)
    }
}
