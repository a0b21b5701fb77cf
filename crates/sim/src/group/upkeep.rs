//! Work in progress besides a replica: chunks of snapshots, trims, rounds of compaction.

use bytes::BytesMut;
use tailrace_log::{Compaction, HashSecret, KeyMap, LogConfig, LogError, Trim, Unhurried};
use tailrace_replication::CompactionPolicy;
use tailrace_replication::raft::{ChunkReader, ChunkRequest, Replica};
use tailrace_types::TimestampMs;

use super::letter::Letter;
use crate::{Rng, SimDisk};

/// Without an answer for this long, the chunk is requested again.
const PATIENCE_MS: u64 = 80;
const RETENTION_BYTES: u64 = 6000;
const KEYS_BYTES: usize = 1 << 16;

/// The cleanup settings of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cleanup {
    pub(super) retains: bool,
    pub(super) compacts: bool,
    pub(super) deletes: bool,
}

impl Cleanup {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let [retains, compacts, deletes] = match rng.below(6) {
            0 => [false, false, false],
            1 => [true, false, false],
            2 => [false, true, false],
            3 => [false, false, true],
            4 => [false, true, true],
            _ => [true, true, true],
        };
        Self { retains, compacts, deletes }
    }

    pub(super) fn config(&self) -> LogConfig {
        LogConfig {
            segment_bytes: 2048,
            preallocate_bytes: 1024,
            retention_ms: None,
            retention_bytes: self.retains.then_some(RETENTION_BYTES),
            ..LogConfig::default()
        }
    }
}

/// Work in progress besides a node's replica.
#[derive(Default)]
pub(super) struct Upkeep {
    pub(super) asked: Option<(ChunkRequest, u64)>,
    /// Chunks that are being read, and when each read ends.
    pub(super) reading: Vec<(u64, ChunkRequest, ChunkReader<SimDisk>)>,
    /// A trim that is being carried out, and when it ends.
    pub(super) trim: Option<(u64, Trim<SimDisk>)>,
    pub(super) round: Option<Round>,
    /// From some moment on, every write fails.
    pub(super) is_dying: bool,
}

pub(super) struct Round {
    pub(super) compaction: Compaction<SimDisk>,
    pub(super) map: KeyMap,
    pub(super) is_indexed: bool,
}

impl Upkeep {
    /// Requests the chunk that the replica wants. Repeats the request if there was no answer.
    pub(super) fn ask(&mut self, replica: &Replica<SimDisk>, now_ms: u64) -> Vec<(u64, Letter)> {
        let Some(request) = replica.wanted_chunk() else {
            self.asked = None;
            return Vec::new();
        };
        if self.asked.is_some_and(|(asked, since)| asked == request && now_ms - since < PATIENCE_MS) {
            return Vec::new();
        }
        self.asked = Some((request, now_ms));
        let mut bytes = BytesMut::new();
        request.encode(&mut bytes);
        vec![(request.to().0, Letter::Ask(bytes.freeze()))]
    }

    pub(super) fn answer(&mut self, now_ms: u64) -> Vec<(u64, Letter)> {
        let read = self.reading.extract_if(.., |(end, _, _)| *end <= now_ms);
        read.map(|(_, request, reader)| (request.from().0, Letter::Chunk(request, reader.read().ok())))
            .collect()
    }

    pub(super) fn finish_trim(&mut self, replica: &mut Replica<SimDisk>, now_ms: u64) {
        if let Some((_, trim)) = self.trim.take_if(|(end, _)| *end <= now_ms) {
            let result: Result<(), LogError> = trim.run();
            replica.finish_trim(&trim, &result);
        }
    }

    /// Starts a round of compaction, or continues it by one step.
    pub(super) fn compact(
        &mut self,
        replica: &mut Replica<SimDisk>,
        now: TimestampMs,
        later_ms: u64,
    ) -> Result<Option<&'static str>, String> {
        if self.trim.is_some() {
            return Ok(None);
        }
        let Some(round) = &mut self.round else {
            let policy = CompactionPolicy {
                min_lag_ms: 0,
                max_lag_ms: i64::MAX,
                delete_retention_ms: 0,
                io_bytes: 1 << 14,
            };
            if let Ok(Some(compaction)) = replica.begin_compaction(&policy, now) {
                let map = KeyMap::new(KEYS_BYTES, 0.9, HashSecret([1, 2]));
                self.round = Some(Round { compaction, map, is_indexed: false });
            }
            return Ok(None);
        };
        if !round.is_indexed {
            round.is_indexed = true;
            if round.compaction.index(&mut round.map, &mut Unhurried).is_err() {
                self.round = None;
            }
            return Ok(None);
        }
        let next = round.compaction.rewrite_next(&round.map, &mut Unhurried);
        let Ok(Some(rewritten)) = next else {
            self.round = None;
            return Ok(None);
        };
        match replica.install_compacted(rewritten) {
            Ok(Ok(trim)) => {
                self.trim = Some((later_ms, trim));
                Ok(Some("compaction"))
            }
            Ok(Err(discarded)) => {
                discarded.run();
                Ok(Some("compaction overtaken"))
            }
            Err(_) => Ok(None),
        }
    }
}
