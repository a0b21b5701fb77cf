//! One stream that this node leads: its table, and how far it has followed the log.

use std::sync::Arc;
use tailrace_env::time::{Duration, Instant, timeout_at};

use parking_lot::RwLock;
use tailrace_env::sync::watch;
use tailrace_jetstream::contents::Contents;
use tailrace_types::{LeaderEpoch, Offset};

use super::charge::{Charge, Memory};
use super::failure::StreamFailure;
use super::ids::Ids;
use super::removals::Removals;
use super::rules::Rules;
use crate::partitions::PartitionHandle;

/// A failure is told for so long before the table is made again.
const FAILED_FOR: Duration = Duration::from_secs(5);

/// The table of a stream, and what it follows from besides the log.
pub(super) struct Table {
    pub(super) contents: Contents,
    pub(super) rules: Rules,
    /// The ids of its messages.
    pub(super) ids: Ids,
    /// The id of the last message. Empty if it has none.
    pub(super) last_id: Vec<u8>,
    pub(super) charge: Charge,
    pub(super) removals: Removals,
    /// How many ids there are.
    pub(super) ids_charge: Charge,
}

impl Table {
    /// Removes what is older than the stream keeps.
    pub(super) fn expire(&mut self, now_ms: i64) {
        if let Some(age) = self.rules.age_max_ms() {
            let removals = &mut self.removals;
            self.contents.expire(now_ms.saturating_sub(age), &mut |seq| removals.note(seq));
        }
        self.ids.expire(now_ms.saturating_sub(self.rules.window_ms()));
    }

    /// Reports whether [`Table::expire`] would remove messages.
    pub(super) fn is_expired(&self, now_ms: i64) -> bool {
        let first = self.contents.summary().first_time_ms;
        let age = self.rules.age_max_ms();
        first.zip(age).is_some_and(|(first, age)| first < now_ms.saturating_sub(age))
    }
}

/// How far a table has come.
#[derive(Clone, Debug)]
pub(super) enum Progress {
    /// It has everything before this offset.
    At(Offset),
    /// It is no longer kept.
    Ended(Ended),
}

/// Why a table is no longer kept.
#[derive(Clone, Debug)]
pub(super) enum Ended {
    /// This node no longer leads the stream, or a new table is needed.
    Over,
    /// It could not be kept.
    Failed(StreamFailure, Instant),
}

/// A stream that this node leads.
pub(super) struct LiveStream {
    pub(super) handle: Arc<PartitionHandle>,
    /// The epoch in which this node leads it.
    epoch: LeaderEpoch,
    /// Written in short steps. `None` once the table is no longer kept.
    pub(super) table: RwLock<Option<Table>>,
    progress: watch::Sender<Progress>,
}

impl LiveStream {
    /// An empty table at the start of the log.
    pub(super) fn new(
        handle: &Arc<PartitionHandle>,
        epoch: LeaderEpoch,
        rules: Rules,
        memory: &Memory,
        ids: &Memory,
    ) -> Self {
        let start = handle.bounds().log_start;
        let contents = Contents::new(rules.limits(), start.get().unsigned_abs() + 1);
        let table = Table {
            contents,
            rules,
            ids: Ids::default(),
            last_id: Vec::new(),
            charge: Charge::new(memory),
            ids_charge: Charge::new(ids),
            removals: Removals::default(),
        };
        let progress = watch::Sender::new(Progress::At(start));
        Self { handle: Arc::clone(handle), epoch, table: RwLock::new(Some(table)), progress }
    }

    /// Reports whether this node leads the stream, and has done so without a break since the table was begun.
    pub(super) fn is_led(&self) -> bool {
        self.handle.leads() == Some(self.epoch) && !self.handle.is_over()
    }

    /// Reports whether the table, or its failure, is the one to use.
    pub(super) fn serves(&self, handle: &Arc<PartitionHandle>) -> bool {
        let is_fresh = match &*self.progress.borrow() {
            Progress::At(_) => true,
            Progress::Ended(Ended::Over) => false,
            Progress::Ended(Ended::Failed(_, at)) => at.elapsed() < FAILED_FOR,
        };
        is_fresh && Arc::ptr_eq(&self.handle, handle) && self.is_led()
    }

    /// How far the table has come. `None` if it is no longer kept.
    pub(super) fn at(&self) -> Option<Offset> {
        match *self.progress.borrow() {
            Progress::At(at) => Some(at),
            Progress::Ended(_) => None,
        }
    }

    pub(super) fn reached(&self, at: Offset) {
        self.progress.send_replace(Progress::At(at));
    }

    /// Drops the table, and tells those who wait for it.
    pub(super) fn end(&self, ended: Ended) {
        *self.table.write() = None;
        self.progress.send_replace(Progress::Ended(ended));
    }

    /// Tells when the table comes further.
    pub(super) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Waits until the table has everything before `target`.
    pub(super) async fn wait(&self, target: Offset, deadline: Instant) -> Result<(), NotReached> {
        let mut progress = self.progress();
        let has_come = |progress: &Progress| match progress {
            Progress::At(at) => *at >= target,
            Progress::Ended(_) => true,
        };
        let waited = timeout_at(deadline, progress.wait_for(has_come)).await;
        let Ok(come) = waited else { return Err(NotReached::Late) };
        // The sender is a field of this.
        match come.map(|progress| progress.clone()) {
            Ok(Progress::At(_)) => Ok(()),
            Ok(Progress::Ended(Ended::Failed(failure, _))) => Err(NotReached::Failed(failure)),
            Ok(Progress::Ended(Ended::Over)) | Err(_) => Err(NotReached::Over),
        }
    }
}

/// Why a table has not what is needed.
#[derive(Debug)]
pub(super) enum NotReached {
    /// It takes longer than the caller waits.
    Late,
    /// This node no longer leads, or makes another table.
    Over,
    Failed(StreamFailure),
}
