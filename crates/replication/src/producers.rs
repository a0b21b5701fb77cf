//! The leader's table of idempotent producers, by which a retried batch is stored only once, and of their
//! transactions.
//!
//! The rules are those of KIP-98 and KIP-890 as Kafka's `ProducerStateManager` applies them. The last five
//! batches of a producer are remembered. A repeated batch is answered with its first offset, and a gap is
//! refused. An unknown producer may start at any sequence. A producer is unknown if its records expired, or
//! if it was silent for longer than `producer.id.expiration.ms`. A producer's first transactional batch opens
//! a transaction, and a marker ends it. While the transaction is open, the producer is not forgotten and may
//! write nothing outside of it.
//!
//! Batches with a producer id but without a sequence come from coordinators (offsets committed within a
//! transaction). Their epoch is checked, and they open transactions.
//!
//! Deliberately not here: any I/O, and the check that a coordinator knows of a transaction. The table is
//! rebuilt from a snapshot and the log behind it.

use std::collections::{BTreeMap, VecDeque};

use tailrace_records::{BatchHeader, EndTransactionMarker, NO_SEQUENCE};
use tailrace_types::{Offset, ProducerEpoch, ProducerId, TimestampMs};

use crate::aborted::{ABORTED_TRANSACTIONS_MAX, AbortedTransaction, AbortedTransactions};

/// Batches remembered per producer, as many as a client may have in flight
/// (`max.in.flight.requests.per.connection`).
pub const BATCHES_REMEMBERED: usize = 5;

/// Producers remembered per partition. At this number, the one silent for longest without an open transaction
/// is forgotten. One costs about 270 bytes, so a partition's table stays below 18 MiB.
pub const PRODUCERS_MAX: usize = 65_536;

/// The coordinator epoch of a producer of which no coordinator has ended a transaction here.
pub const NO_COORDINATOR_EPOCH: i32 = -1;

/// One remembered batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RememberedBatch {
    /// Sequence of its first record, -1 in a coordinator's batch.
    pub first_sequence: i32,
    /// Sequence of its last record, -1 in a coordinator's batch.
    pub last_sequence: i32,
    /// Offset of its first record.
    pub base_offset: Offset,
    /// Offset of its last record.
    pub last_offset: Offset,
    /// Its largest timestamp.
    pub timestamp: TimestampMs,
}

/// The partition's state of one producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerState {
    /// The newest epoch seen.
    pub epoch: ProducerEpoch,
    /// The last batches, oldest first. Empty for a producer whose epoch was raised by a marker.
    pub batches: VecDeque<RememberedBatch>,
    /// When it last appended, or a marker was last appended for it, by this node's clock. Expiry counts from
    /// here.
    pub last_append: TimestampMs,
    /// First offset of its transaction without a marker.
    pub current_transaction: Option<Offset>,
    /// Epoch of the coordinator that last ended one of its transactions, or [`NO_COORDINATOR_EPOCH`].
    pub coordinator_epoch: i32,
}

impl ProducerState {
    pub(crate) fn new(epoch: ProducerEpoch, now: TimestampMs) -> Self {
        Self {
            epoch,
            batches: VecDeque::new(),
            last_append: now,
            current_transaction: None,
            coordinator_epoch: NO_COORDINATOR_EPOCH,
        }
    }

    /// Returns the sequence of the last record appended, -1 if there is none.
    pub fn last_sequence(&self) -> i32 {
        self.batches.back().map_or(NO_SEQUENCE, |b| b.last_sequence)
    }

    fn raise_epoch(&mut self, epoch: ProducerEpoch) {
        if epoch > self.epoch {
            self.epoch = epoch;
            self.batches.clear();
        }
    }
}

/// The end of a producer's transaction, as its coordinator requests it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionMarker {
    /// The transaction's producer.
    pub producer_id: ProducerId,
    /// The producer's epoch. With transaction version 2 it is the one after the transaction's.
    pub producer_epoch: ProducerEpoch,
    /// Epoch of the coordinator.
    pub coordinator_epoch: i32,
    /// True if the transaction was committed, false if it was aborted.
    pub committed: bool,
    /// Each transaction of the producer has its own epoch (transaction version 2). So a marker with the epoch
    /// of an open transaction is a late marker of an earlier one (KIP-1228).
    pub epochs_are_bumped: bool,
}

/// The verdict on a batch before it is appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceCheck {
    /// The next in sequence, or not from an idempotent producer.
    Append,
    /// Already stored. The answer is that of the stored batch.
    Duplicate(RememberedBatch),
}

/// The reason why a batch of a producer with an id, or a marker for it, is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProducerError {
    /// A newer epoch of the producer has written, which fences this one.
    #[error("producer {producer} has epoch {current}, which fences epoch {found}")]
    StaleEpoch {
        /// The producer.
        producer: ProducerId,
        /// Its newest epoch.
        current: ProducerEpoch,
        /// The epoch of the batch or marker.
        found: ProducerEpoch,
    },
    /// Not the next sequence. The records in between were lost, or come later.
    #[error("producer {producer}: expected sequence {expected}, the batch starts at {found}")]
    OutOfOrder {
        /// The producer.
        producer: ProducerId,
        /// The next sequence.
        expected: i32,
        /// The batch's first sequence.
        found: i32,
    },
    /// A batch outside of the producer's open transaction here.
    #[error("producer {producer} has a transaction open since offset {since}, the batch is not part of it")]
    NotTransactional {
        /// The producer.
        producer: ProducerId,
        /// First offset of its transaction.
        since: Offset,
    },
    /// A batch of a transaction that has not started here and that no coordinator has verified.
    #[error("producer {producer} has no verified transaction on this partition")]
    Unverified {
        /// The producer.
        producer: ProducerId,
    },
    /// A newer coordinator has written, which fences this one.
    #[error(
        "coordinator epoch {current} has ended a transaction of producer {producer}, the marker carries {found}"
    )]
    CoordinatorFenced {
        /// The producer.
        producer: ProducerId,
        /// The newest coordinator's epoch.
        current: i32,
        /// The marker's epoch.
        found: i32,
    },
    /// No room for another transaction, see [`ABORTED_TRANSACTIONS_MAX`] and [`PRODUCERS_MAX`].
    #[error(
        "the partition accepts no new transactions: {open} are open, {aborted} aborted ones are remembered"
    )]
    TooManyTransactions {
        /// Open transactions.
        open: usize,
        /// Aborted transactions above the log start.
        aborted: usize,
    },
}

/// The producers of one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Producers {
    by_id: BTreeMap<ProducerId, ProducerState>,
    /// Open transactions, by their first offset.
    open: BTreeMap<Offset, ProducerId>,
    /// Transactions whose marker is not yet below the high watermark: first offset, offset of the marker. The
    /// limit on uncommitted appends bounds it.
    decided: BTreeMap<Offset, Offset>,
    aborted: AbortedTransactions,
    /// Producers with an open transaction that may be several: its records below this offset may belong to an
    /// earlier transaction whose marker is lost. Not part of any snapshot, and no snapshot is taken while
    /// this is not empty.
    unsure: BTreeMap<ProducerId, Offset>,
}

impl Producers {
    pub(crate) fn from_parts(
        by_id: BTreeMap<ProducerId, ProducerState>,
        decided: BTreeMap<Offset, Offset>,
        aborted: AbortedTransactions,
    ) -> Self {
        let open = by_id.iter().filter_map(|(id, state)| Some((state.current_transaction?, *id))).collect();
        Self { by_id, open, decided, aborted, unsure: BTreeMap::new() }
    }

    /// Transactions whose marker is not yet committed: first offset, offset of the marker.
    pub(crate) fn decided(&self) -> &BTreeMap<Offset, Offset> {
        &self.decided
    }

    /// Number of known producers.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// True if no producer is known.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Iterates over all producers in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (ProducerId, &ProducerState)> {
        self.by_id.iter().map(|(id, state)| (*id, state))
    }

    /// Returns the state of one producer.
    pub fn get(&self, id: ProducerId) -> Option<&ProducerState> {
        self.by_id.get(&id)
    }

    /// True if the producer has an open transaction here and this is its newest epoch.
    pub fn has_transaction(&self, id: ProducerId, epoch: ProducerEpoch) -> bool {
        self.by_id.get(&id).is_some_and(|state| state.epoch == epoch && state.current_transaction.is_some())
    }

    /// The aborted transactions above the log start.
    pub fn aborted(&self) -> &AbortedTransactions {
        &self.aborted
    }

    /// First offset of the oldest transaction without a marker below the high watermark.
    pub fn first_undecided(&self) -> Option<Offset> {
        let (open, decided) = (self.open.keys().next(), self.decided.keys().next());
        open.into_iter().chain(decided).min().copied()
    }

    /// Checks a batch without changing anything.
    ///
    /// # Errors
    /// [`ProducerError`] if the batch is fenced, leaves a gap, is not part of the producer's transaction, or
    /// would open a transaction for which there is no room.
    pub fn check(&self, batch: &BatchHeader) -> Result<SequenceCheck, ProducerError> {
        let producer = batch.producer_id;
        if producer.get() < 0 {
            return Ok(SequenceCheck::Append);
        }
        let state = self.by_id.get(&producer);
        if let Some(state) = state
            && let SequenceCheck::Duplicate(original) = check_known(state, batch)?
        {
            return Ok(SequenceCheck::Duplicate(original));
        }
        let open = state.and_then(|state| state.current_transaction);
        match (open, batch.attributes.is_transactional()) {
            (Some(since), false) => Err(ProducerError::NotTransactional { producer, since }),
            (None, true) if !self.has_room(producer) => Err(self.too_many()),
            _ => Ok(SequenceCheck::Append),
        }
    }

    /// Checks a marker without changing anything.
    ///
    /// # Errors
    /// [`ProducerError`] if the epoch of the producer or of the coordinator is older than one seen before.
    pub fn check_marker(&self, marker: &TransactionMarker) -> Result<(), ProducerError> {
        let producer = marker.producer_id;
        let Some(state) = self.by_id.get(&producer) else { return Ok(()) };
        let (current, found) = (state.epoch, marker.producer_epoch);
        // Without an open transaction this is a retry of the same marker by a coordinator that got no answer.
        let late = marker.epochs_are_bumped && found == current && state.current_transaction.is_some();
        if found < current || late {
            return Err(ProducerError::StaleEpoch { producer, current, found });
        }
        let (current, found) = (state.coordinator_epoch, marker.coordinator_epoch);
        if found < current {
            return Err(ProducerError::CoordinatorFenced { producer, current, found });
        }
        Ok(())
    }

    /// Every open transaction may be aborted later, and it also keeps its producer from being forgotten.
    fn has_room(&self, producer: ProducerId) -> bool {
        let place = self.by_id.contains_key(&producer)
            || self.by_id.len() < PRODUCERS_MAX
            || self.open.len() < self.by_id.len();
        place && self.open.len() + self.aborted.len() < ABORTED_TRANSACTIONS_MAX
    }

    fn too_many(&self) -> ProducerError {
        ProducerError::TooManyTransactions { open: self.open.len(), aborted: self.aborted.len() }
    }

    /// # Panics
    /// If a batch about to be appended does not continue its producer's state, which means that it was not
    /// checked.
    pub(crate) fn assert_continues(&self, batch: &BatchHeader) {
        let Some(state) = self.by_id.get(&batch.producer_id) else { return };
        let (producer, epoch) = (batch.producer_id, batch.producer_epoch);
        assert!(epoch >= state.epoch, "producer {producer} went back from epoch {} to {epoch}", state.epoch);
        let Some(last) = state.batches.back() else { return };
        let (base, found) = (batch.base_offset, batch.base_sequence);
        assert!(
            last.last_offset < base,
            "producer {producer} has offset {} already, and appends at {base}",
            last.last_offset
        );
        assert!(
            epoch > state.epoch || found == NO_SEQUENCE || found == sequence_after(last.last_sequence),
            "sequence {found} of producer {producer} is appended after {}",
            last.last_sequence
        );
    }

    /// True if everything in the table is below `end`, as in a table taken at that offset.
    pub(crate) fn is_below(&self, end: Offset) -> bool {
        let batches = |state: &ProducerState| state.batches.iter().all(|batch| batch.last_offset < end);
        let is_open_below = |state: &ProducerState| state.current_transaction.is_none_or(|first| first < end);
        self.by_id.values().all(|state| batches(state) && is_open_below(state))
            && self.decided.values().all(|marker| *marker < end)
            && self.aborted.newest().is_none_or(|newest| newest.last_offset < end)
    }

    /// Records a batch that was appended, or that is read back at start. `now` is the time for expiry.
    ///
    /// Does not record control batches: see [`Producers::remember_marker`].
    pub fn remember(&mut self, batch: &BatchHeader, now: TimestampMs) {
        if batch.producer_id.get() < 0 || batch.attributes.is_control() {
            return;
        }
        let Some(state) = self.state_of(batch.producer_id, batch.producer_epoch, now) else { return };
        if state.batches.len() == BATCHES_REMEMBERED {
            state.batches.pop_front();
        }
        state.batches.push_back(RememberedBatch {
            first_sequence: batch.base_sequence,
            last_sequence: batch.last_sequence(),
            base_offset: batch.base_offset,
            last_offset: batch.last_offset(),
            timestamp: batch.max_timestamp,
        });
        // Compaction stops at the last stable offset. So an emptied batch belongs to a decided transaction,
        // whose marker may be gone.
        if batch.attributes.is_transactional()
            && batch.record_count > 0
            && state.current_transaction.is_none()
        {
            state.current_transaction = Some(batch.base_offset);
            self.open.insert(batch.base_offset, batch.producer_id);
        }
    }

    /// Records a marker that was appended, or that is read back at start. `batch` is the header of its
    /// control batch.
    pub fn remember_marker(&mut self, batch: &BatchHeader, marker: EndTransactionMarker, now: TimestampMs) {
        if batch.producer_id.get() < 0 {
            return;
        }
        let Some(state) = self.state_of(batch.producer_id, batch.producer_epoch, now) else { return };
        state.coordinator_epoch = marker.coordinator_epoch;
        let Some(first_offset) = state.current_transaction.take() else { return };
        let unsure = self.unsure.remove(&batch.producer_id);
        let last_offset = batch.base_offset;
        self.open.remove(&first_offset);
        self.decided.insert(first_offset, last_offset);
        if !marker.committed {
            let next_open = self.open.keys().next().copied();
            self.aborted.push(AbortedTransaction {
                producer_id: batch.producer_id,
                first_offset: first_offset.max(unsure.unwrap_or_default()),
                last_offset,
                last_stable_offset: next_open.unwrap_or(last_offset.plus(1)),
            });
        }
    }

    /// Records that the content of batches right below `offset` is lost. Any of them may have ended a
    /// transaction. So if an open transaction is aborted later, that hides no records from below `offset`.
    pub(crate) fn pass_lost(&mut self, offset: Offset) {
        for id in self.open.values() {
            self.unsure.insert(*id, offset);
        }
    }

    /// True if the start of some transactions is not known.
    pub(crate) fn is_unsure(&self) -> bool {
        !self.unsure.is_empty()
    }

    /// Records the epoch of a control batch that compaction has emptied. Nothing else is left of its
    /// transaction.
    pub(crate) fn remember_epoch(&mut self, batch: &BatchHeader, now: TimestampMs) {
        self.state_of(batch.producer_id, batch.producer_epoch, now);
    }

    /// Returns the producer's state, with this epoch if it is newer. `None` if the table is full of open
    /// transactions.
    fn state_of(
        &mut self,
        id: ProducerId,
        epoch: ProducerEpoch,
        now: TimestampMs,
    ) -> Option<&mut ProducerState> {
        if !self.by_id.contains_key(&id) {
            if self.by_id.len() >= PRODUCERS_MAX && !self.forget_most_silent() {
                return None;
            }
            self.by_id.insert(id, ProducerState::new(epoch, now));
        }
        let state = self.by_id.get_mut(&id)?;
        state.raise_epoch(epoch);
        state.last_append = now;
        Some(state)
    }

    /// Records that everything below `high_watermark` is committed.
    pub fn commit(&mut self, high_watermark: Offset) {
        if !self.decided.is_empty() {
            self.decided.retain(|_, marker| *marker >= high_watermark);
        }
    }

    /// Removes the aborted transactions that end below the log start. Returns true if there were any.
    pub fn trim(&mut self, log_start: Offset) -> bool {
        self.aborted.trim(log_start)
    }

    /// Keeps the aborted transactions that `keep` accepts. Returns true if any were removed.
    pub(crate) fn retain_aborted(&mut self, keep: impl FnMut(&AbortedTransaction) -> bool) -> bool {
        self.aborted.retain(keep)
    }

    /// Forgets producers that appended nothing for `silent_ms` milliseconds and have no open transaction.
    pub fn expire(&mut self, now: TimestampMs, silent_ms: i64) {
        self.by_id.retain(|_, state| {
            state.current_transaction.is_some() || now.since(state.last_append) < silent_ms
        });
    }

    /// Returns false if no producer can be forgotten.
    fn forget_most_silent(&mut self) -> bool {
        let forgettable = self.by_id.iter().filter(|(_, state)| state.current_transaction.is_none());
        let oldest = forgettable.min_by_key(|(_, state)| state.last_append).map(|(id, _)| *id);
        oldest.is_some_and(|id| self.by_id.remove(&id).is_some())
    }
}

/// Checks a batch of a known producer, without regard to transactions.
fn check_known(state: &ProducerState, batch: &BatchHeader) -> Result<SequenceCheck, ProducerError> {
    let (producer, current, found) = (batch.producer_id, state.epoch, batch.producer_epoch);
    if found < current {
        return Err(ProducerError::StaleEpoch { producer, current, found });
    }
    // Coordinators keep their own order.
    if batch.base_sequence == NO_SEQUENCE {
        return Ok(SequenceCheck::Append);
    }
    if found > current {
        return expect_sequence(batch, 0);
    }
    let repeated = |b: &&RememberedBatch| {
        b.first_sequence == batch.base_sequence && b.last_sequence == batch.last_sequence()
    };
    match state.batches.iter().find(repeated) {
        Some(original) => Ok(SequenceCheck::Duplicate(*original)),
        None => expect_sequence(batch, sequence_after(state.last_sequence())),
    }
}

fn expect_sequence(batch: &BatchHeader, expected: i32) -> Result<SequenceCheck, ProducerError> {
    if batch.base_sequence == expected {
        Ok(SequenceCheck::Append)
    } else {
        let (producer, found) = (batch.producer_id, batch.base_sequence);
        Err(ProducerError::OutOfOrder { producer, expected, found })
    }
}

/// Sequences run from 0 to `i32::MAX` and wrap to 0. The first one follows -1, "none".
fn sequence_after(last: i32) -> i32 {
    if last == i32::MAX { 0 } else { last + 1 }
}
