//! Records what clients were told and saw, and judges whether it is consistent.
//!
//! Clients intend to write each value once. It names its writer and, if it has one, its transaction. So a
//! value at two offsets is a duplicate, and every value tells whether it may be seen.

use std::collections::{BTreeMap, BTreeSet};

use tailrace_records::{BatchHeader, DecodedBatch, PREFIX_BYTES, split_batches};
use tailrace_types::{LeaderEpoch, Offset, TopicPartition};

/// The outcome of a transaction, as far as its producer knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The producer has not asked for the end, or at most for an abort.
    Open,
    /// The producer asked for a commit and does not know the outcome.
    Unknown,
    Committed,
    Aborted,
}

/// One batch in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) value: String,
    pub(crate) epoch: LeaderEpoch,
    /// Checksum of its content.
    pub(crate) crc: u32,
    pub(crate) next: Offset,
    pub(crate) producer: i64,
    pub(crate) is_transactional: bool,
    pub(crate) is_control: bool,
}

impl Seen {
    /// Reports whether compaction may rewrite the batch. A marker gets its delete horizon. A batch
    /// that only remembers a producer is emptied.
    pub(crate) fn is_rewritten(&self) -> bool {
        self.is_control || self.value.is_empty()
    }
}

#[derive(Default)]
struct Partition {
    by_offset: BTreeMap<i64, Seen>,
    by_value: BTreeMap<String, i64>,
    acknowledged: BTreeMap<String, i64>,
    /// The highest high watermark that the leader of each epoch has told.
    told: BTreeMap<LeaderEpoch, Offset>,
}

#[derive(Default)]
pub(crate) struct History {
    partitions: BTreeMap<TopicPartition, Partition>,
    transactions: BTreeMap<String, Outcome>,
    /// The acknowledged batches of each transaction.
    parts: BTreeMap<String, BTreeSet<(TopicPartition, String)>>,
    pub(crate) acknowledged: u64,
    pub(crate) read: u64,
}

/// Returns the transaction that a value was written in: the text before the first colon.
pub(crate) fn transaction_of(value: &str) -> Option<&str> {
    value.starts_with('t').then(|| value.split_once(':').map_or(value, |(transaction, _)| transaction))
}

impl History {
    pub(crate) fn acknowledged(
        &mut self,
        id: &TopicPartition,
        value: &str,
        base: Offset,
    ) -> Result<(), String> {
        self.acknowledged += 1;
        let partition = self.partitions.entry(id.clone()).or_default();
        if let Some(seen) = partition.by_offset.get(&base.get())
            && seen.value != value
        {
            let other = &seen.value;
            return Err(format!(
                "inconsistent-offsets: {id} at {base}: acknowledged is {value}, read was {other}"
            ));
        }
        if let Some(before) = partition.by_value.get(value)
            && *before != base.get()
        {
            return Err(format!(
                "duplicate: {id}: {value} was read at {before} and is acknowledged at {base}"
            ));
        }
        partition.acknowledged.insert(value.to_owned(), base.get());
        if let Some(transaction) = transaction_of(value) {
            self.parts.entry(transaction.to_owned()).or_default().insert((id.clone(), value.to_owned()));
        }
        Ok(())
    }

    pub(crate) fn set_outcome(&mut self, transaction: &str, outcome: Outcome) {
        self.transactions.insert(transaction.to_owned(), outcome);
    }

    pub(crate) fn outcome(&self, transaction: &str) -> Outcome {
        self.transactions.get(transaction).copied().unwrap_or(Outcome::Open)
    }

    /// Checks a leader's answer: its high watermark must not be below what earlier leaders told.
    pub(crate) fn told(
        &mut self,
        id: &TopicPartition,
        epoch: LeaderEpoch,
        high_watermark: Offset,
        last_stable: Offset,
    ) -> Result<(), String> {
        if last_stable > high_watermark {
            return Err(format!(
                "last-stable-offset: {id}: {last_stable} above the high watermark {high_watermark}"
            ));
        }
        let told = &mut self.partitions.entry(id.clone()).or_default().told;
        if let Some((before, highest)) = told.range(..epoch).max_by_key(|(_, highest)| **highest)
            && *highest > high_watermark
        {
            return Err(format!(
                "high-watermark-regression: {id}: the leader of epoch {epoch} tells {high_watermark}, that of {before} had told \
                 {highest}"
            ));
        }
        let highest = told.entry(epoch).or_insert(high_watermark);
        *highest = high_watermark.max(*highest);
        Ok(())
    }

    /// Parses what a reader got in one answer, in order. With `has_gaps`, compaction may have removed
    /// batches.
    pub(crate) fn parse(bytes: &[u8], from: Offset, has_gaps: bool) -> Result<Vec<(Offset, Seen)>, String> {
        let (mut found, mut at) = (Vec::new(), from);
        for batch in split_batches(bytes) {
            let (header, batch) = batch.map_err(|error| error.to_string())?;
            if !tailrace_records::verify_crc(batch) {
                return Err("a batch with a wrong checksum".to_owned());
            }
            if header.base_offset > at && !has_gaps {
                return Err(format!("poll-skip: the batch at {at} is at {}", header.base_offset));
            }
            if header.next_offset() <= at {
                return Err(format!("poll-again: the batch at {} ends before {at}", header.base_offset));
            }
            at = header.next_offset();
            found.push((header.base_offset, seen(&header, batch)?));
        }
        Ok(found)
    }

    /// Records a committed batch that a reader saw. Returns true if it was not seen before. With bit rot the
    /// epoch proves nothing, because a batch's checksum does not cover it. A batch that is new is not
    /// recorded then.
    pub(crate) fn saw(
        &mut self,
        id: &TopicPartition,
        base: Offset,
        seen: &Seen,
        has_rotted: bool,
    ) -> Result<bool, String> {
        let partition = self.partitions.entry(id.clone()).or_default();
        if let Some(before) = partition.by_offset.get(&base.get()) {
            let epoch = if has_rotted { before.epoch } else { seen.epoch };
            if *before != (Seen { epoch, ..seen.clone() }) {
                return Err(format!(
                    "inconsistent-offsets: {id} at {base}: was {before:?}, now it is {seen:?}"
                ));
            }
            return Ok(false);
        }
        if has_rotted {
            return Ok(false);
        }
        if !seen.is_control
            && let Some(before) = partition.by_value.insert(seen.value.clone(), base.get())
        {
            return Err(format!("duplicate: {id}: {} is at {before} and at {base}", seen.value));
        }
        partition.by_offset.insert(base.get(), seen.clone());
        self.read += 1;
        Ok(true)
    }

    /// Checks a batch that is shown to a reader of committed records.
    pub(crate) fn saw_committed(&self, id: &TopicPartition, base: Offset, seen: &Seen) -> Result<(), String> {
        let Some(transaction) = transaction_of(&seen.value) else { return Ok(()) };
        match self.outcome(transaction) {
            Outcome::Committed | Outcome::Unknown => Ok(()),
            Outcome::Open => {
                Err(format!("precommitted-read: {id} at {base}: {} is not committed", seen.value))
            }
            Outcome::Aborted => Err(format!("aborted-read: {id} at {base}: {} was aborted", seen.value)),
        }
    }

    /// Judges a partition that drops old records, at the end of a run: what was read and is still there must
    /// be unchanged.
    pub(crate) fn judge_kept(
        &self,
        id: &TopicPartition,
        held: &BTreeMap<i64, Seen>,
        node: u64,
    ) -> Result<(), String> {
        let read = self.partitions.get(id).into_iter().flat_map(|partition| &partition.by_offset);
        for (offset, seen) in read {
            if let Some(found) = held.get(offset).filter(|found| *found != seen && !found.value.is_empty()) {
                return Err(format!("{id}: {seen:?} was read at {offset}; on node {node} is {found:?}"));
            }
        }
        Ok(())
    }

    /// Judges a partition at the end of a run. `held` is what one replica holds below its high watermark.
    pub(crate) fn judge(
        &self,
        id: &TopicPartition,
        held: &BTreeMap<i64, Seen>,
        node: u64,
    ) -> Result<(), String> {
        self.judge_where(id, held, node, |_| false)
    }

    /// Judges a compacted partition that has each key once: everything committed must be there.
    pub(crate) fn judge_compacted(
        &self,
        id: &TopicPartition,
        held: &BTreeMap<i64, Seen>,
        node: u64,
    ) -> Result<(), String> {
        let is_committed =
            |value: &str| transaction_of(value).is_some_and(|name| self.outcome(name) == Outcome::Committed);
        self.judge_where(id, held, node, |value| !is_committed(value))
    }

    fn judge_where(
        &self,
        id: &TopicPartition,
        held: &BTreeMap<i64, Seen>,
        node: u64,
        may_be_gone: impl Fn(&str) -> bool,
    ) -> Result<(), String> {
        let Some(partition) = self.partitions.get(id) else { return Ok(()) };
        let is_gone = |offset: &i64, value: &str| {
            may_be_gone(value) && held.get(offset).is_none_or(|seen| seen.value.is_empty())
        };
        for (value, offset) in &partition.acknowledged {
            let found = held.get(offset).map(|seen| &seen.value);
            if found != Some(value) && !is_gone(offset, value) {
                return Err(format!(
                    "lost-write: {id}: {value} was acknowledged at {offset}; on node {node} is {found:?}"
                ));
            }
        }
        for (offset, seen) in &partition.by_offset {
            if held.get(offset) != Some(seen) && !is_gone(offset, &seen.value) {
                let found = held.get(offset);
                return Err(format!(
                    "lost-read: {id}: {seen:?} was read at {offset}; on node {node} is {found:?}"
                ));
            }
        }
        let (mut values, mut last) = (BTreeSet::new(), BTreeMap::new());
        for (offset, seen) in held.iter().filter(|(_, seen)| !seen.is_control) {
            if seen.value.is_empty() && may_be_gone("") {
                continue;
            }
            if !values.insert(&seen.value) {
                return Err(format!("duplicate: {id}: {} is again at {offset}", seen.value));
            }
            let Some((writer, number)) = seen.value.rsplit_once(':') else { continue };
            let Ok(number) = number.parse::<u64>() else { continue };
            if last.insert(writer.to_owned(), number).is_some_and(|before| before >= number) {
                return Err(format!(
                    "nonmonotonic-send: {id}: {} at {offset} comes after a later one",
                    seen.value
                ));
            }
        }
        Ok(())
    }

    /// Checks that transactions are all or nothing. `visible` is everything that readers of committed records
    /// see at the end.
    pub(crate) fn judge_transactions(
        &self,
        visible: &BTreeSet<(TopicPartition, String)>,
    ) -> Result<(), String> {
        for (transaction, parts) in &self.parts {
            let seen = parts.iter().filter(|part| visible.contains(*part)).count();
            let (outcome, all) = (self.outcome(transaction), parts.len());
            let fits = match outcome {
                Outcome::Committed => seen == all,
                Outcome::Aborted | Outcome::Open => seen == 0,
                Outcome::Unknown => seen == 0 || seen == all,
            };
            if !fits {
                return Err(format!(
                    "torn-transaction: {transaction} is {outcome:?}, {seen} of {all} batches are visible"
                ));
            }
        }
        Ok(())
    }
}

fn seen(header: &BatchHeader, batch: &[u8]) -> Result<Seen, String> {
    let decoded = DecodedBatch::new(batch, usize::MAX).map_err(|error| error.to_string())?;
    let record = decoded.records().next().transpose().map_err(|error| error.to_string())?;
    let text = record.and_then(|record| record.value).unwrap_or_default();
    // The rest is filler.
    let text = text.split(|byte| *byte == b' ').next().unwrap_or_default();
    Ok(Seen {
        value: String::from_utf8_lossy(text).into_owned(),
        epoch: header.leader_epoch,
        crc: crc32c::crc32c(&batch[PREFIX_BYTES..]),
        next: header.next_offset(),
        producer: header.producer_id.get(),
        is_transactional: header.attributes.is_transactional(),
        is_control: header.attributes.is_control(),
    })
}
