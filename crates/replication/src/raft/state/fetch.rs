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
    /// Who offered it.
    pub(crate) from: ReplicaId,
    pub(crate) snapshot: Point,
    pub(crate) members: ConfState,
    pub(crate) manifest: Manifest,
    /// What has arrived of the table of producers.
    pub(crate) table: Vec<u8>,
    /// The producers after all batches that have arrived, once the table has.
    pub(crate) producers: Option<Producers>,
    pub(crate) staging: Staging<D>,
    pub(crate) idle_ticks: usize,
}

impl<D: Disk> Fetch<D> {
    /// The part that is wanted next, where in it, and how many of its bytes are left.
    pub(crate) fn wanted(&self) -> Option<(Part, u32, u32)> {
        let have = u32::try_from(self.table.len()).expect("a table has less than 64 MiB");
        if have < self.manifest.producers_bytes {
            return Some((Part::Producers, have, self.manifest.producers_bytes - have));
        }
        let (number, position, left) = self.staging.wanted()?;
        Some((Part::Segment(u32::try_from(number).unwrap_or(u32::MAX)), position, left))
    }

    /// Takes the next chunk. `None` if it, or what it completes, is not what was announced.
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
                self.producers = Some(Producers::from_snapshot(&self.table).ok().filter(|_| is_whole)?);
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
