//! What a server does for its replicas besides carrying messages: chunks of snapshots, retention, DeleteRecords, compaction. All of
//! it takes time, and things happen meanwhile.

use bytes::{Bytes, BytesMut};
use tailrace_log::{Compaction, HashSecret, KeyMap, LogConfig, LogError, Trim, Unhurried};
use tailrace_replication::CompactionPolicy;
use tailrace_replication::raft::{ChunkReader, ChunkRequest, Replica, Role};
use tailrace_types::{Offset, TimestampMs};

use super::{Letter, Node, World};
use crate::{CrashMode, Effect, OpKind, Rng, Rule, SimDisk};

/// Without an answer for that long a chunk is asked for again.
const PATIENCE_MS: u64 = 80;
const RETENTION_BYTES: u64 = 6000;
const KEYS_BYTES: usize = 1 << 16;

/// How a topic is kept small.
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

/// What is under way beside a node's replica.
#[derive(Default)]
pub(super) struct Upkeep {
    asked: Option<(ChunkRequest, u64)>,
    /// Chunks that are read, and when that ends.
    reading: Vec<(u64, ChunkRequest, ChunkReader<SimDisk>)>,
    /// A trim that is carried out, and when.
    trim: Option<(u64, Trim<SimDisk>)>,
    round: Option<Round>,
    /// Everything written fails from some moment on.
    pub(super) is_dying: bool,
}

struct Round {
    compaction: Compaction<SimDisk>,
    map: KeyMap,
    is_indexed: bool,
}

impl World {
    pub(super) fn receive_request(&mut self, to: u64, request: &ChunkRequest) {
        let end = self.now_ms + self.rng.between(0, 20);
        let from = request.from().0;
        let Some(node) = self.nodes.get_mut(&to) else { return };
        let Some(replica) = &mut node.replica else { return };
        match replica.chunk_reader(request) {
            Some(reader) => node.upkeep.reading.push((end, *request, reader)),
            None => self.network.send(self.now_ms, to, from, Letter::Chunk(*request, None)),
        }
    }

    pub(super) fn receive_chunk(&mut self, to: u64, request: &ChunkRequest, chunk: Option<Bytes>) {
        let now = self.now();
        let Some(replica) = self.nodes.get_mut(&to).and_then(|node| node.replica.as_mut()) else { return };
        let before = replica.counters();
        replica.take_chunk(request, chunk, now);
        let installed = replica.counters().snapshots_installed > before.snapshots_installed;
        if installed && self.rng.percent(30) {
            self.count("crash right after an installation");
            self.crash(to, CrashMode::Random);
        }
    }

    /// One millisecond of one node that runs.
    pub(super) fn keep_up(&mut self, id: u64) -> Result<(), String> {
        let (now, now_ms, cleanup) = (self.now(), self.now_ms, self.cleanup);
        let draws = [self.rng.below(100), self.rng.below(200), self.rng.below(300)];
        let (later_ms, amount) = (now_ms + self.rng.between(0, 40), self.rng.next_u64());
        let Some(node) = self.nodes.get_mut(&id) else { return Ok(()) };
        let Node { replica: Some(replica), upkeep, .. } = node else { return Ok(()) };
        let mut happened = Vec::new();
        let mut letters = upkeep.ask(replica, now_ms);
        letters.extend(upkeep.answer(now_ms));
        upkeep.finish_trim(replica, now_ms);
        if draws[0] == 0
            && upkeep.trim.is_none()
            && let Ok(Some(trim)) = replica.retain(now)
        {
            happened.push(if trim.segments().is_empty() { "log start moved" } else { "trim" });
            upkeep.trim = Some((later_ms, trim));
        }
        if draws[1] == 0 && cleanup.deletes && replica.role() == Role::Leader {
            happened.extend(delete_records(replica, amount, now));
        }
        if cleanup.compacts && (draws[2] == 0 || upkeep.round.is_some()) {
            happened.extend(upkeep.compact(replica, now, later_ms)?);
        }
        for letter in letters {
            self.network.send(now_ms, id, letter.0, letter.1);
        }
        happened.into_iter().for_each(|what| self.count(what));
        Ok(())
    }

    /// Power fails in the middle of something: from some moment on nothing gets onto the disk.
    pub(super) fn kill_slowly(&mut self, id: u64) {
        self.count("power failed within a step");
        let after = self.rng.below(40);
        let Some(node) = self.nodes.get_mut(&id).filter(|node| node.replica.is_some()) else { return };
        node.upkeep.is_dying = true;
        let kinds = [
            OpKind::Write,
            OpKind::SyncData,
            OpKind::SyncAll,
            OpKind::SyncDir,
            OpKind::Rename,
            OpKind::SetLen,
        ];
        let kinds = [&kinds[..], &[OpKind::Remove]].concat();
        for kind in kinds {
            let (kind, path_ends) = (Some(kind), String::new());
            let after = after / if kind == Some(OpKind::Write) { 1 } else { 4 };
            node.disk.add_rule(Rule { kind, path_ends, after, times: u64::MAX, effect: Effect::Eio });
        }
    }
}

impl Upkeep {
    /// Asks for the chunk that the replica wants, again if there was no answer.
    fn ask(&mut self, replica: &Replica<SimDisk>, now_ms: u64) -> Vec<(u64, Letter)> {
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

    fn answer(&mut self, now_ms: u64) -> Vec<(u64, Letter)> {
        let read = self.reading.extract_if(.., |(end, _, _)| *end <= now_ms);
        read.map(|(_, request, reader)| (request.from().0, Letter::Chunk(request, reader.read().ok())))
            .collect()
    }

    fn finish_trim(&mut self, replica: &mut Replica<SimDisk>, now_ms: u64) {
        if let Some((_, trim)) = self.trim.take_if(|(end, _)| *end <= now_ms) {
            let result: Result<(), LogError> = trim.run();
            replica.finish_trim(&trim, &result);
        }
    }

    /// Begins a round of compaction, or carries it on by one piece.
    fn compact(
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

fn delete_records(replica: &mut Replica<SimDisk>, amount: u64, now: TimestampMs) -> Option<&'static str> {
    let reader = replica.reader();
    let (start, end) = (reader.log_start().get(), reader.high_watermark().get());
    let few = u64::try_from(end - start).unwrap_or(0) / 3;
    let to = Offset(start + (amount % (few + 1)) as i64);
    if to.get() == start {
        return None;
    }
    replica.advance_log_start(to, now).ok().map(|()| "records deleted")
}
