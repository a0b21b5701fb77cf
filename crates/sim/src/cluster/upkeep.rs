//! What goes on beside a replica: chunks of snapshots, compaction of the internal topics, and trims.

use bytes::BytesMut;
use tailrace_log::{Compaction, HashSecret, KeyMap, Trim, Unhurried};
use tailrace_replication::raft::{ChunkReader, ChunkRequest};
use tailrace_replication::{CompactionPolicy, Partition};
use tailrace_types::RaftGroup;

use super::messages::Letter;
use crate::SimDisk;

/// A chunk that did not come is asked for again after this time, in milliseconds.
const PATIENCE_MS: u64 = 150;
/// Bytes of a map of keys.
const KEYS_BYTES: usize = 1 << 14;
const POLICY: CompactionPolicy =
    CompactionPolicy { min_lag_ms: 0, max_lag_ms: i64::MAX, delete_retention_ms: 60_000, io_bytes: 1 << 14 };

#[derive(Default)]
pub(super) struct Upkeep {
    pub(super) asked: Option<(ChunkRequest, u64)>,
    /// Chunks that are read, and when that ends.
    pub(super) reading: Vec<(u64, ChunkRequest, ChunkReader<SimDisk>)>,
    /// A trim that is carried out, and when.
    pub(super) trim: Option<(u64, Trim<SimDisk>)>,
    pub(super) round: Option<Round>,
}

pub(super) struct Round {
    pub(super) compaction: Compaction<SimDisk>,
    pub(super) map: KeyMap,
    pub(super) is_indexed: bool,
}

impl Upkeep {
    /// Asks for the chunk that the replica wants, again if there was no answer.
    pub(super) fn ask(
        &mut self,
        core: &mut Partition<SimDisk>,
        group: RaftGroup,
        now_ms: u64,
    ) -> Vec<(u64, Letter)> {
        let Some(request) = core.replica().and_then(|replica| replica.wanted_chunk()) else {
            self.asked = None;
            return Vec::new();
        };
        if self.asked.is_some_and(|(asked, since)| asked == request && now_ms - since < PATIENCE_MS) {
            return Vec::new();
        }
        self.asked = Some((request, now_ms));
        let mut bytes = BytesMut::new();
        request.encode(&mut bytes);
        vec![(request.to().node().0 as u64, Letter::Ask(group, bytes.freeze()))]
    }

    pub(super) fn answer(&mut self, group: RaftGroup, now_ms: u64) -> Vec<(u64, Letter)> {
        if self.reading.is_empty() {
            return Vec::new();
        }
        let read = self.reading.extract_if(.., |(end, _, _)| *end <= now_ms);
        read.map(|(_, request, reader)| {
            (request.from().node().0 as u64, Letter::Chunk(group, request, reader.read().ok()))
        })
        .collect()
    }

    /// Begins a round of compaction, or carries it on by one piece.
    pub(super) fn compact(
        &mut self,
        core: &mut Partition<SimDisk>,
        now: tailrace_types::TimestampMs,
        later_ms: u64,
    ) -> Option<&'static str> {
        if self.trim.is_some() {
            return None;
        }
        let Some(round) = &mut self.round else {
            if let Ok(Some(compaction)) = core.begin_compaction(&POLICY, now) {
                let map = KeyMap::new(KEYS_BYTES, 0.9, HashSecret([1, 2]));
                self.round = Some(Round { compaction, map, is_indexed: false });
            }
            return None;
        };
        if !round.is_indexed {
            round.is_indexed = true;
            if round.compaction.index(&mut round.map, &mut Unhurried).is_err() {
                self.round = None;
            }
            return None;
        }
        let Ok(Some(rewritten)) = round.compaction.rewrite_next(&round.map, &mut Unhurried) else {
            self.round = None;
            return None;
        };
        match core.install_compacted(rewritten) {
            Ok(Ok(trim)) => {
                self.trim = Some((later_ms, trim));
                Some("compaction")
            }
            Ok(Err(discarded)) => {
                discarded.run();
                Some("compaction overtaken")
            }
            Err(_) => None,
        }
    }
}
