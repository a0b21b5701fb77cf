//! What the leader remembers of producers with an id, so that a retried batch is stored once, and of their transactions.
//!
//! The rules are those of KIP-98 and KIP-890 as Kafka's `ProducerStateManager` applies them: the last five batches of a
//! producer are remembered, a repeated one is answered with its first offset, a gap is refused. A producer that is not
//! known (its records expired, or it was silent for longer than `producer.id.expiration.ms`) may begin at any sequence.
//! A producer's first transactional batch opens a transaction, a marker ends it. While it is open the producer is not
//! forgotten, and may write nothing outside of it.
//!
//! Batches with a producer id and no sequence come from coordinators (offsets committed within a transaction). Their
//! epoch is checked, and they open transactions.
//!
//! Deliberately not here: any I/O, and whether a coordinator knows of a transaction. The table is rebuilt from a snapshot
//! and what the log holds behind it.

use std::collections::{BTreeMap, VecDeque};

use tailrace_records::{BatchHeader, EndTransactionMarker, NO_SEQUENCE};
use tailrace_types::{Offset, ProducerEpoch, ProducerId, TimestampMs};

use crate::aborted::{ABORTED_TRANSACTIONS_MAX, AbortedTransaction, AbortedTransactions};

/// Batches remembered for each producer; as many as a client may have in flight (`max.in.flight.requests.per.connection`).
pub const BATCHES_REMEMBERED: usize = 5;

/// Producers remembered for each partition. Beyond it the one silent for longest is forgotten, unless it has an open
/// transaction. One costs about 270 bytes, so a partition's table stays below 18 MiB.
pub const PRODUCERS_MAX: usize = 65_536;

/// "No coordinator has ended a transaction of this producer here."
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

/// One producer as the partition knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerState {
    /// Its newest generation seen.
    pub epoch: ProducerEpoch,
    /// Its last batches, oldest first; empty for a producer whose epoch was raised by a marker.
    pub batches: VecDeque<RememberedBatch>,
    /// When it last appended, or a marker was appended for it, by this node's clock; what expiry counts from.
    pub last_append: TimestampMs,
    /// First offset of its transaction that has no marker yet.
    pub current_transaction: Option<Offset>,
    /// Generation of the coordinator that last ended a transaction of it, [`NO_COORDINATOR_EPOCH`] if none has.
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

    /// Sequence of the last record appended, -1 if none.
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

/// The end of a producer's transaction, as its coordinator wants it written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionMarker {
    /// Whose transaction.
    pub producer_id: ProducerId,
    /// The producer's generation; with transaction version 2 the one that comes after the transaction's.
    pub producer_epoch: ProducerEpoch,
    /// Generation of the coordinator.
    pub coordinator_epoch: i32,
    /// Whether the transaction's records count.
    pub committed: bool,
    /// Each transaction of the producer has an epoch of its own (transaction version 2), so that a marker with the
    /// epoch of an open transaction is a late one of an earlier transaction (KIP-1228).
    pub epochs_are_bumped: bool,
}

/// Verdict on a batch, before it is appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceCheck {
    /// Next in line, or not from an idempotent producer.
    Append,
    /// Already stored: answer with what was stored then.
    Duplicate(RememberedBatch),
}

/// Why a batch of a producer with an id, or a marker for it, is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProducerError {
    /// A newer generation of the producer has written: this one is fenced off.
    #[error("producer {producer} has epoch {current}, which fences off {found}")]
    StaleEpoch {
        /// The producer.
        producer: ProducerId,
        /// Its newest generation.
        current: ProducerEpoch,
        /// That of the batch or marker.
        found: ProducerEpoch,
    },
    /// Not the next sequence: records between were lost, or come later.
    #[error("producer {producer}: expected sequence {expected}, the batch begins at {found}")]
    OutOfOrder {
        /// The producer.
        producer: ProducerId,
        /// The sequence that would be next.
        expected: i32,
        /// The batch's first.
        found: i32,
    },
    /// A batch outside of the transaction that its producer has open here.
    #[error("producer {producer} has a transaction open since offset {since}, the batch is not part of it")]
    NotTransactional {
        /// The producer.
        producer: ProducerId,
        /// Where its transaction begins.
        since: Offset,
    },
    /// A batch of a transaction that has not begun here, and of which no coordinator was asked.
    #[error("producer {producer} has no transaction here that its coordinator knows of")]
    Unverified {
        /// The producer.
        producer: ProducerId,
    },
    /// A newer coordinator has written: this one is fenced off.
    #[error(
        "coordinator epoch {current} has ended a transaction of producer {producer}, the marker carries {found}"
    )]
    CoordinatorFenced {
        /// The producer.
        producer: ProducerId,
        /// The newest coordinator's generation.
        current: i32,
        /// The marker's.
        found: i32,
    },
    /// No room for another transaction, see [`ABORTED_TRANSACTIONS_MAX`] and [`PRODUCERS_MAX`].
    #[error(
        "the partition takes no new transactions: {open} are open, {aborted} aborted ones are remembered"
    )]
    TooManyTransactions {
        /// Transactions without a marker.
        open: usize,
        /// Aborted ones above the log start.
        aborted: usize,
    },
}

/// The table of one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Producers {
    by_id: BTreeMap<ProducerId, ProducerState>,
    /// Transactions without a marker, by their first offset.
    open: BTreeMap<Offset, ProducerId>,
    /// Transactions whose marker is not yet below the high watermark: first offset, offset of the marker. Bounded by what
    /// may be appended without being committed.
    decided: BTreeMap<Offset, Offset>,
    aborted: AbortedTransactions,
    /// Producers with an open transaction of which records below this offset may belong to an earlier one, whose marker is lost. In no
    /// snapshot: while there are some, none is made.
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

    /// Number of producers known.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// True if none is known.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// All producers in order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (ProducerId, &ProducerState)> {
        self.by_id.iter().map(|(id, state)| (*id, state))
    }

    /// One producer.
    pub fn get(&self, id: ProducerId) -> Option<&ProducerState> {
        self.by_id.get(&id)
    }

    /// True if the producer has a transaction without a marker here, and this is its newest epoch.
    pub fn has_transaction(&self, id: ProducerId, epoch: ProducerEpoch) -> bool {
        self.by_id.get(&id).is_some_and(|state| state.epoch == epoch && state.current_transaction.is_some())
    }

    /// The aborted transactions above the log start.
    pub fn aborted(&self) -> &AbortedTransactions {
        &self.aborted
    }

    /// First offset of the oldest transaction that has no marker below the high watermark.
    pub fn first_undecided(&self) -> Option<Offset> {
        let (open, decided) = (self.open.keys().next(), self.decided.keys().next());
        open.into_iter().chain(decided).min().copied()
    }

    /// Decides about a batch without changing anything.
    ///
    /// # Errors
    /// [`ProducerError`] if the batch is fenced off, leaves a gap, is no part of the producer's transaction, or there is
    /// no room for the transaction that it would begin.
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

    /// Decides about a marker without changing anything.
    ///
    /// # Errors
    /// [`ProducerError`] if the producer's epoch or the coordinator's is older than one seen before.
    pub fn check_marker(&self, marker: &TransactionMarker) -> Result<(), ProducerError> {
        let producer = marker.producer_id;
        let Some(state) = self.by_id.get(&producer) else { return Ok(()) };
        let (current, found) = (state.epoch, marker.producer_epoch);
        // Without an open transaction it is the same marker once more: whoever wrote it had no answer.
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

    /// Every open transaction may come to be an aborted one. And it keeps its producer from being forgotten.
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
    /// If a batch that is about to be appended here does not follow what is remembered of its producer: then it was not checked.
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
            "sequence {found} of producer {producer} is appended behind {}",
            last.last_sequence
        );
    }

    /// True if all that the table tells of lies below `end`, as it does in a table as of there.
    pub(crate) fn is_below(&self, end: Offset) -> bool {
        let batches = |state: &ProducerState| state.batches.iter().all(|batch| batch.last_offset < end);
        let is_open_below = |state: &ProducerState| state.current_transaction.is_none_or(|first| first < end);
        self.by_id.values().all(|state| batches(state) && is_open_below(state))
            && self.decided.values().all(|marker| *marker < end)
            && self.aborted.newest().is_none_or(|newest| newest.last_offset < end)
    }

    /// Remembers a batch that was appended (or is read back at start). `now` is when, for expiry.
    ///
    /// Control batches are not for here: see [`Producers::remember_marker`].
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
        // Compaction goes no further than the last stable offset: what it has emptied belongs to a decided transaction,
        // whose marker may be gone.
        if batch.attributes.is_transactional()
            && batch.record_count > 0
            && state.current_transaction.is_none()
        {
            state.current_transaction = Some(batch.base_offset);
            self.open.insert(batch.base_offset, batch.producer_id);
        }
    }

    /// Remembers that a marker was appended (or is read back at start): `batch` is the header of its control batch.
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

    /// Takes note that nobody knows what was in batches right below `offset`: any of them may have ended a transaction. What then turns out
    /// to be aborted hides nothing from before.
    pub(crate) fn pass_lost(&mut self, offset: Offset) {
        for id in self.open.values() {
            self.unsure.insert(*id, offset);
        }
    }

    /// True if it is not known where some transactions began.
    pub(crate) fn is_unsure(&self) -> bool {
        !self.unsure.is_empty()
    }

    /// Remembers the epoch of a control batch that compaction has emptied: nothing else is left of its transaction.
    pub(crate) fn remember_epoch(&mut self, batch: &BatchHeader, now: TimestampMs) {
        self.state_of(batch.producer_id, batch.producer_epoch, now);
    }

    /// The producer's state, with this epoch if it is newer. `None` if the table is full of open transactions.
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

    /// Takes note that everything below `high_watermark` is committed.
    pub fn commit(&mut self, high_watermark: Offset) {
        if !self.decided.is_empty() {
            self.decided.retain(|_, marker| *marker >= high_watermark);
        }
    }

    /// Forgets the aborted transactions that end below the log start. Returns true if there were any.
    pub fn trim(&mut self, log_start: Offset) -> bool {
        self.aborted.trim(log_start)
    }

    /// Keeps of the aborted transactions those that `keep` says. Returns true if any went.
    pub(crate) fn retain_aborted(&mut self, keep: impl FnMut(&AbortedTransaction) -> bool) -> bool {
        self.aborted.retain(keep)
    }

    /// Forgets producers that appended nothing for `silent_ms` milliseconds and have no open transaction.
    pub fn expire(&mut self, now: TimestampMs, silent_ms: i64) {
        self.by_id.retain(|_, state| {
            state.current_transaction.is_some() || now.since(state.last_append) < silent_ms
        });
    }

    /// Returns false if there is none to forget.
    fn forget_most_silent(&mut self) -> bool {
        let forgettable = self.by_id.iter().filter(|(_, state)| state.current_transaction.is_none());
        let oldest = forgettable.min_by_key(|(_, state)| state.last_append).map(|(id, _)| *id);
        oldest.is_some_and(|id| self.by_id.remove(&id).is_some())
    }
}

/// Decides about a batch of a producer that is known, its transaction left aside.
fn check_known(state: &ProducerState, batch: &BatchHeader) -> Result<SequenceCheck, ProducerError> {
    let (producer, current, found) = (batch.producer_id, state.epoch, batch.producer_epoch);
    if found < current {
        return Err(ProducerError::StaleEpoch { producer, current, found });
    }
    // Coordinators see to their order themselves.
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

/// Sequences run from 0 to `i32::MAX` and begin again at 0; the first one follows -1, "none".
fn sequence_after(last: i32) -> i32 {
    if last == i32::MAX { 0 } else { last + 1 }
}
