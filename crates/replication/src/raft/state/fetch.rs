//! The snapshot that a follower is fetching.

use raft::eraftpb::ConfState;
use tailrace_log::{Disk, LogError, Staging};
use tailrace_types::{ReplicaId, TimestampMs};

use crate::producers::Producers;
use crate::raft::ballot::Point;
use crate::raft::chunk::Part;
use crate::raft::manifest::Manifest;
use crate::rebuild::{appended_at, note_batch};

/// A snapshot that is being fetched.
pub(crate) struct Fetch<D: Disk> {
    /// The replica that offered it.
    pub(crate) from: ReplicaId,
    pub(crate) snapshot: Point,
    pub(crate) members: ConfState,
    pub(crate) manifest: Manifest,
    /// The part of the table of producers that has arrived.
    pub(crate) table: Vec<u8>,
    /// The producers after all batches that have arrived, once the table is complete.
    pub(crate) producers: Option<Producers>,
    pub(crate) staging: Staging<D>,
    pub(crate) idle_ticks: usize,
}

impl<D: Disk> Fetch<D> {
    /// Returns the part wanted next, the position in it, and how many of its bytes are left.
    pub(crate) fn wanted(&self) -> Option<(Part, u32, u32)> {
        let have = u32::try_from(self.table.len()).expect("a table has less than 64 MiB");
        if have < self.manifest.producers_bytes {
            return Some((Part::Producers, have, self.manifest.producers_bytes - have));
        }
        let (number, position, left) = self.staging.wanted()?;
        Some((
            Part::Segment(u32::try_from(number).expect("a manifest has fewer segments than bytes")),
            position,
            left,
        ))
    }

    /// Takes the next chunk. `None` if the chunk, or what it completes, is not what the manifest announced.
    pub(crate) fn take(
        &mut self,
        part: Part,
        chunk: &[u8],
        now: TimestampMs,
    ) -> Option<Result<(), LogError>> {
        if part == Part::Producers {
            self.table.extend_from_slice(chunk);
            if self.table.len() == self.manifest.producers_bytes as usize {
                let is_whole = crc32c::crc32c(&self.table) == self.manifest.producers_crc;
                let end = self.manifest.producers_offset;
                let producers = Producers::from_snapshot(&self.table).ok().filter(|_| is_whole);
                self.producers = Some(producers.filter(|producers| producers.is_below(end))?);
            }
            return Some(Ok(()));
        }
        let from = self.manifest.producers_offset;
        let producers = self.producers.get_or_insert_default();
        Some(self.staging.push(chunk, |header, bytes| {
            if header.base_offset >= from {
                note_batch(producers, header, bytes, appended_at(header, now));
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use tailrace_log::{Log, LogConfig, LogStore, PartitionIdentity, RealDisk};
    use tailrace_records::{BatchBuilder, BatchOptions};
    use tailrace_types::{
        LeaderEpoch, Offset, PartitionId, ProducerEpoch, ProducerId, TopicId, TopicName, TopicPartition,
    };

    use super::*;

    const NOW: TimestampMs = TimestampMs(1);

    /// The table of a producer that has written offsets 0 to 2.
    fn table() -> bytes::Bytes {
        let mut builder = BatchBuilder::new(BatchOptions {
            producer_id: ProducerId(7),
            producer_epoch: ProducerEpoch(0),
            base_sequence: 0,
            ..BatchOptions::default()
        });
        (0..3).for_each(|_| builder.push(NOW, None, Some(b"v"), &[]).unwrap());
        let mut producers = Producers::default();
        producers.remember(&builder.build_with_header().0, NOW);
        producers.snapshot()
    }

    /// A table sent by another replica is no invariant. The batches that follow it would panic the partition.
    #[test]
    fn a_table_that_tells_of_what_comes_behind_it_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let topic_partition = TopicPartition::new(TopicName::new("t").unwrap(), PartitionId(0));
        let identity = PartitionIdentity { topic_id: TopicId([1; 16]), topic_partition };
        let (dir, store) = (folder.path().join("t-0"), LogStore::new(RealDisk, 16));
        let (mut log, _) = Log::open(&store, &dir, &identity, LogConfig::default(), NOW).unwrap();
        for (producers_offset, is_taken) in [(2, false), (3, true)] {
            let table = table();
            let manifest = Manifest {
                producers_offset: Offset(producers_offset),
                producers_bytes: table.len() as u32,
                producers_crc: crc32c::crc32c(&table),
                ..Manifest::default()
            };
            let mut fetch = Fetch {
                from: ReplicaId(1),
                snapshot: Point::default(),
                members: ConfState::default(),
                manifest,
                table: Vec::new(),
                producers: None,
                staging: log.begin_staging(Vec::new(), LeaderEpoch(1)).unwrap(),
                idle_ticks: 0,
            };
            assert_eq!(
                fetch.take(Part::Producers, &table, NOW).is_some(),
                is_taken,
                "as of {producers_offset}"
            );
        }
    }
}
