//! What clients were told and saw, and whether that fits together.

use std::collections::BTreeMap;

use tailrace_records::{BatchHeader, PREFIX_BYTES, split_batches};
use tailrace_replication::PartitionReader;
use tailrace_types::Offset;

use super::GroupReport;
use crate::SimDisk;

/// A batch as consumers know it: its producer, its sequence, and the checksum of its content.
type Identity = (i64, i32, u32);

#[derive(Debug, Default)]
pub(super) struct History {
    acknowledged: BTreeMap<i64, Identity>,
    /// What was read, by offset, with the epoch.
    read: BTreeMap<i64, (Identity, i32)>,
    reads: u64,
    trace: u32,
}

impl History {
    pub(super) fn acknowledged(&mut self, base: Offset, bytes: &[u8]) {
        if let Ok(header) = BatchHeader::parse(bytes) {
            let identity = identity(&header, bytes);
            self.note(b'a', base.get(), identity);
            self.acknowledged.insert(base.get(), identity);
        }
    }

    fn note(&mut self, what: u8, offset: i64, identity: Identity) {
        let mut line = vec![what];
        line.extend(offset.to_le_bytes());
        line.extend(identity.2.to_le_bytes());
        self.trace = crc32c::crc32c_append(self.trace, &line);
    }

    /// Reads everything that is committed on one replica, or all that it holds.
    pub(super) fn read(&mut self, reader: &PartitionReader<SimDisk>, too_far: bool) -> Result<(), String> {
        let committed = reader.high_watermark().offset();
        let upto = if too_far { reader.log_end().offset() } else { committed };
        for (header, identity) in batches(reader, upto)? {
            let (offset, epoch) = (header.base_offset.get(), header.leader_epoch.get());
            let seen = (identity, epoch);
            match self.read.insert(offset, seen) {
                Some(before) if before != seen => {
                    return Err(format!(
                        "inconsistent-offsets: offset {offset} was {before:?}, now it is {seen:?}"
                    ));
                }
                Some(_) => {}
                None => {
                    self.reads += 1;
                    self.note(b'r', offset, identity);
                }
            }
        }
        Ok(())
    }

    /// The end of a run, on one replica.
    pub(super) fn judge(&mut self, reader: &PartitionReader<SimDisk>) -> Result<(), String> {
        let held = batches(reader, reader.high_watermark().offset())?;
        let by_offset: BTreeMap<i64, Identity> =
            held.iter().map(|(header, identity)| (header.base_offset.get(), *identity)).collect();
        for (offset, identity) in &self.acknowledged {
            if by_offset.get(offset) != Some(identity) {
                let found = by_offset.get(offset);
                return Err(format!("lost-write: offset {offset} was {identity:?}, now it is {found:?}"));
            }
        }
        for (offset, (identity, _)) in &self.read {
            if by_offset.get(offset) != Some(identity) {
                return Err(format!("lost-read: {identity:?} was read at offset {offset} and is gone"));
            }
        }
        let mut last = BTreeMap::new();
        for (header, (producer, sequence, _)) in &held {
            let expected = last.get(producer).map_or(0, |last: &i32| last + 1);
            if *sequence != expected {
                let offset = header.base_offset;
                return Err(format!(
                    "duplicate or nonmonotonic-send: producer {producer} at offset {offset}: sequence {sequence}, \
                     expected {expected}"
                ));
            }
            last.insert(*producer, *sequence);
        }
        self.read(reader, false)
    }

    pub(super) fn report(self, counts: BTreeMap<&'static str, u64>) -> GroupReport {
        let acknowledged = self.acknowledged.len() as u64;
        GroupReport { acknowledged, read: self.reads, counts, trace: self.trace }
    }
}

fn identity(header: &BatchHeader, bytes: &[u8]) -> Identity {
    (header.producer_id.get(), header.base_sequence, crc32c::crc32c(&bytes[PREFIX_BYTES..]))
}

/// The batches below `upto`.
fn batches(reader: &PartitionReader<SimDisk>, upto: Offset) -> Result<Vec<(BatchHeader, Identity)>, String> {
    let mut found = Vec::new();
    let mut at = reader.log_start();
    while let Some(slice) = reader.log().read(at, upto, 1 << 20, true).map_err(|error| error.to_string())? {
        let bytes = slice.read().map_err(|error| error.to_string())?;
        for item in split_batches(&bytes) {
            let (header, batch) = item.map_err(|error| error.to_string())?;
            if !tailrace_records::verify_crc(batch) || header.base_offset != at {
                return Err(format!("torn: the batch at offset {at} is damaged, or not there"));
            }
            at = header.next_offset();
            found.push((header, identity(&header, batch)));
        }
    }
    Ok(found)
}
