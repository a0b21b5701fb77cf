//! The deadlines of all groups of a coordinator.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tailrace_types::TimestampMs;

use super::classic::ClassicTimer;
use super::consumer::ConsumerTimer;
use super::share::ShareTimer;

/// What a group waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GroupTimer {
    /// Something of a classic group.
    Classic(ClassicTimer),
    /// Something of a consumer group.
    Consumer(ConsumerTimer),
    /// Something of a share group.
    Share(ShareTimer),
}

type TimerKey = (Arc<str>, GroupTimer);

/// Timers by name, each set at most once. Setting, clearing and taking the next cost the logarithm of their number.
///
/// A deadline that is often put off (a session, by each heartbeat) should not be set anew each time: let the timer go
/// off, compare with what the member says, and set it again.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    queue: BTreeSet<(TimestampMs, TimerKey)>,
    deadlines: BTreeMap<TimerKey, TimestampMs>,
}

impl Timers {
    /// Sets a timer, in place of what was set for it.
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

    /// Takes a timer back. None set is fine.
    pub(crate) fn clear(&mut self, group: &Arc<str>, timer: GroupTimer) {
        let key = (Arc::clone(group), timer);
        if let Some(deadline) = self.deadlines.remove(&key) {
            self.queue.remove(&(deadline, key));
        }
    }

    /// True if it is set.
    pub(crate) fn is_set(&self, group: &Arc<str>, timer: GroupTimer) -> bool {
        self.deadlines.contains_key(&(Arc::clone(group), timer))
    }

    /// The earliest deadline.
    pub(crate) fn next(&self) -> Option<TimestampMs> {
        self.queue.first().map(|(deadline, _)| *deadline)
    }

    /// Takes the earliest timer that is due.
    pub(crate) fn take_due(&mut self, now: TimestampMs) -> Option<(Arc<str>, GroupTimer)> {
        if self.next()? > now {
            return None;
        }
        let (_, key) = self.queue.pop_first()?;
        self.deadlines.remove(&key);
        Some(key)
    }
}
