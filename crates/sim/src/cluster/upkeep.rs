//! What goes on beside a replica: chunks of snapshots, compaction of the internal topics, and trims.

use bytes::{Bytes, BytesMut};
use tailrace_log::{Compaction, HashSecret, KeyMap, LogError, Trim, Unhurried};
use tailrace_replication::raft::{ChunkReader, ChunkRequest};
use tailrace_replication::{CompactionPolicy, Partition};
use tailrace_types::GroupId;

use super::World;
use super::messages::Letter;
use super::node::Slot;
use crate::{CrashMode, SimDisk};

/// A chunk that did not come is asked for again after this time, in milliseconds.
const PATIENCE_MS: u64 = 150;
/// Bytes of a map of keys.
const KEYS_BYTES: usize = 1 << 14;
const POLICY: CompactionPolicy =
    CompactionPolicy { min_lag_ms: 0, max_lag_ms: i64::MAX, delete_retention_ms: 60_000, io_bytes: 1 << 14 };

#[derive(Default)]
pub(super) struct Upkeep {
    asked: Option<(ChunkRequest, u64)>,
    /// Chunks that are read, and when that ends.
    reading: Vec<(u64, ChunkRequest, ChunkReader<SimDisk>)>,
    /// A trim that is carried out, and when.
    trim: Option<(u64, Trim<SimDisk>)>,
    round: Option<Round>,
}

struct Round {
    compaction: Compaction<SimDisk>,
    map: KeyMap,
    is_indexed: bool,
}

impl World {
    pub(super) fn receive_request(&mut self, to: u64, group: GroupId, request: &ChunkRequest) {
        let (now_ms, end) = (self.now_ms, self.now_ms + self.rng.between(0, 20));
        let from = request.from().node().0 as u64;
        let Some(slot) = self.nodes.get_mut(&to).and_then(|node| node.slot(group)) else { return };
        let reader = slot.replica().and_then(|replica| replica.chunk_reader(request));
        match reader {
            Some(reader) => slot.upkeep.reading.push((end, *request, reader)),
            None => self.links.send(now_ms, to, from, Letter::Chunk(group, *request, None)),
        }
    }

    pub(super) fn receive_chunk(
        &mut self,
        to: u64,
        group: GroupId,
        request: &ChunkRequest,
        chunk: Option<Bytes>,
    ) {
        let (now_ms, crashes, down_ms) = (self.now_ms, self.rng.percent(20), self.rng.between(50, 800));
        let Some(node) = self.nodes.get_mut(&to) else { return };
        let now = node.wall(now_ms);
        let Some(replica) = node.slot(group).and_then(Slot::replica) else { return };
        let before = replica.counters().snapshots_installed;
        replica.take_chunk(request, chunk, now);
        let installed = replica.counters().snapshots_installed > before;
        self.stepped(to, group);
        if installed && crashes && !self.is_calm {
            self.count("crash right after an installation");
            self.crash(to, CrashMode::Random, down_ms);
        }
    }

    /// One millisecond of one replica.
    pub(super) fn keep_up(&mut self, number: u64, group: GroupId) {
        let (now_ms, draws) = (self.now_ms, self.rng.next_u64());
        let (later_ms, begins) = (now_ms + draws % 40, (draws >> 8) % 400 == 0);
        let Some(node) = self.nodes.get_mut(&number) else { return };
        let now = node.wall(now_ms);
        let Some(slot) = node.slot(group) else { return };
        let Slot { core: Some(core), upkeep, id, .. } = slot else { return };
        let mut letters = upkeep.ask(core, group, now_ms);
        letters.extend(upkeep.answer(group, now_ms));
        if let Some((_, trim)) = upkeep.trim.take_if(|(end, _)| *end <= now_ms) {
            let result: Result<(), LogError> = trim.run();
            core.finish_trim(&trim, &result);
        }
        let compacts = id.topic.as_str().starts_with("__") && group != super::CONTROLLER;
        let happened = if compacts && (begins || upkeep.round.is_some()) {
            upkeep.compact(core, now, later_ms)
        } else {
            None
        };
        for (to, letter) in letters {
            self.links.send(now_ms, number, to, letter);
        }
        happened.into_iter().for_each(|what| self.count(what));
    }
}

impl Upkeep {
    /// Asks for the chunk that the replica wants, again if there was no answer.
    fn ask(&mut self, core: &mut Partition<SimDisk>, group: GroupId, now_ms: u64) -> Vec<(u64, Letter)> {
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

    fn answer(&mut self, group: GroupId, now_ms: u64) -> Vec<(u64, Letter)> {
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
    fn compact(
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
