//! What a server does for its replicas besides carrying messages: chunks of snapshots, retention,
//! DeleteRecords, compaction. All of these take time, and other things happen meanwhile.

use bytes::Bytes;
use tailrace_replication::raft::{ChunkRequest, Replica, Role};
use tailrace_types::{Offset, TimestampMs};

use super::letter::Letter;
use super::world::{Node, World};
use crate::{CrashMode, Rule, SimDisk};

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

    /// Advances the upkeep of one running node by one millisecond.
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

    /// Makes the power fail in the middle of an operation: from some moment on nothing reaches the disk.
    pub(super) fn kill_slowly(&mut self, id: u64) {
        self.count("power failed within a step");
        let after = self.rng.below(40);
        let Some(node) = self.nodes.get_mut(&id).filter(|node| node.replica.is_some()) else { return };
        node.upkeep.is_dying = true;
        Rule::fading(after).for_each(|rule| node.disk.add_rule(rule));
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
