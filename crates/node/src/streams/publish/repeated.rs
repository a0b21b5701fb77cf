//! A request that comes again, under a leader that has not judged it: what an earlier one stored of it.
//!
//! What was stored of a request is a part of it, in order, with the sender's sequences from the request's on.
//! So each stored record belongs to the first message behind those before it that looks like it. Two messages
//! that look the same may be mistaken for each other. Nobody can tell that from their having come in the
//! other order.
//!
//! Messages before the last stored one were judged. Those behind it may have been or not; nobody was told, so
//! they may be judged as if they came now.

use tailrace_records::{DecodedBatch, Record, split_batches};
use tailrace_replication::ProducerState;
use tailrace_types::Offset;

use super::types::Sender;
use crate::caller::Caller;
use crate::partitions::{Isolation, PartitionHandle, ReadTerms};
use crate::streams::ids::{IdHash, IdKey};

/// Where the log has records of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) first: Offset,
    pub(super) last: Offset,
    pub(super) records: i32,
}

/// What the log has of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// Nothing.
    Nothing,
    /// These batches.
    Batches(Vec<Found>),
    /// More than is remembered.
    Forgotten,
}

/// What the producer's state says of a request. As one request of a sender is under way at a time, and each
/// begins behind all that is stored of earlier ones, everything from its sequence on is of this one.
pub(super) fn before(producer: Option<&ProducerState>, sender: &Sender) -> Before {
    let Some(state) = producer else { return Before::Nothing };
    if state.last_sequence() < sender.sequence {
        return Before::Nothing;
    }
    let mut expected = sender.sequence;
    let mut found = Vec::new();
    for batch in state.batches.iter().filter(|batch| batch.first_sequence >= sender.sequence) {
        if batch.first_sequence != expected {
            return Before::Forgotten;
        }
        let records = batch.last_sequence - batch.first_sequence + 1;
        expected += records;
        found.push(Found { first: batch.base_offset, last: batch.last_offset, records });
    }
    if found.is_empty() { Before::Forgotten } else { Before::Batches(found) }
}

/// What makes a record look like another one.
pub(super) fn look(key: IdKey, record: &Record<'_>) -> Option<IdHash> {
    let mut text = Vec::new();
    let mut part = |bytes: Option<&[u8]>| {
        let length = bytes.map_or(u64::MAX, |bytes| bytes.len() as u64);
        text.extend_from_slice(&length.to_be_bytes());
        text.extend_from_slice(bytes.unwrap_or_default());
    };
    part(record.key);
    part(record.value);
    for header in record.headers {
        part(Some(header.key));
        part(header.value);
    }
    key.hash(&text)
}

/// Reads what the log has of a request: how each record looks, and its sequence. Blocks on the disk.
pub(super) fn stored(
    handle: &PartitionHandle,
    key: IdKey,
    found: &[Found],
    decompressed: usize,
) -> Result<Vec<(Option<IdHash>, u64)>, String> {
    let mut all = Vec::new();
    for Found { first, last, .. } in found {
        let terms = ReadTerms::new(*first, Isolation::LogEnd, 1);
        let outcome = handle.read(Caller::internal(), &terms).map_err(|error| error.to_string())?;
        let slice = outcome.slice.ok_or("a stored batch is not there")?;
        let bytes = slice.read().map_err(|error| error.to_string())?;
        for batch in split_batches(&bytes) {
            let (header, batch) = batch.map_err(|error| error.to_string())?;
            if header.base_offset != *first || header.last_offset() != *last {
                continue;
            }
            let decoded = DecodedBatch::new(batch, decompressed).map_err(|error| error.to_string())?;
            for record in decoded.records() {
                let record = record.map_err(|error| error.to_string())?;
                all.push((look(key, &record), record.offset.get().unsigned_abs() + 1));
            }
        }
    }
    let expected: i32 = found.iter().map(|found| found.records).sum();
    if i32::try_from(all.len()) == Ok(expected) { Ok(all) } else { Err("stored batches differ".to_owned()) }
}

/// Says for each message that was judged for certain whether it was stored, and with which sequence. `None`
/// if what is stored is not a part of the messages.
pub(super) fn matched<T: PartialEq>(messages: &[T], stored: &[(T, u64)]) -> Option<Vec<Option<u64>>> {
    let (mut all, mut left) = (Vec::new(), stored);
    for message in messages {
        let [(look, seq), rest @ ..] = left else { break };
        let is_it = look == message;
        all.push(is_it.then_some(*seq));
        if is_it {
            left = rest;
        }
    }
    left.is_empty().then_some(all)
}

#[cfg(test)]
mod tests {
    use tailrace_replication::RememberedBatch;
    use tailrace_types::{ProducerEpoch, ProducerId, TimestampMs};

    use super::*;

    fn remembered(first: i32, last: i32, offset: i64) -> RememberedBatch {
        RememberedBatch {
            first_sequence: first,
            last_sequence: last,
            base_offset: Offset(offset),
            last_offset: Offset(offset + i64::from(last - first)),
            timestamp: TimestampMs(0),
        }
    }

    #[test]
    fn batches_from_the_sequence_of_the_request_on_are_its_own() {
        let state = |batches: &[RememberedBatch]| ProducerState {
            epoch: ProducerEpoch(0),
            batches: batches.iter().copied().collect(),
            last_append: TimestampMs(0),
            current_transaction: None,
            coordinator_epoch: -1,
        };
        let sender = |sequence| Sender { producer: ProducerId(1), sequence, request: 1, epoch: None };
        let known = state(&[remembered(0, 4, 10), remembered(5, 6, 30), remembered(7, 7, 33)]);
        assert_eq!(before(None, &sender(0)), Before::Nothing);
        assert_eq!(before(Some(&known), &sender(8)), Before::Nothing);
        let two = vec![
            Found { first: Offset(30), last: Offset(31), records: 2 },
            Found { first: Offset(33), last: Offset(33), records: 1 },
        ];
        assert_eq!(before(Some(&known), &sender(5)), Before::Batches(two));
        assert_eq!(before(Some(&known), &sender(6)), Before::Forgotten);
        assert_eq!(before(Some(&state(&[remembered(7, 7, 33)])), &sender(5)), Before::Forgotten);
    }

    #[test]
    fn stored_records_belong_to_the_messages_that_look_like_them() {
        let of = |messages: &str, stored: &str| {
            let stored: Vec<_> = stored.chars().zip(10..).collect();
            matched(&messages.chars().collect::<Vec<_>>(), &stored)
        };
        assert_eq!(of("abc", ""), Some(vec![]));
        assert_eq!(of("abcd", "ac"), Some(vec![Some(10), None, Some(11)]));
        assert_eq!(of("aab", "ab"), Some(vec![Some(10), None, Some(11)]));
        assert_eq!(of("bab", "ab"), Some(vec![None, Some(10), Some(11)]));
        assert_eq!(of("abc", "ca"), None);
        assert_eq!(of("abc", "abcd"), None);
    }
}
