//! What goes on beside a replica is begun, carried on and ended.

use bytes::Bytes;
use tailrace_log::LogError;
use tailrace_replication::raft::ChunkRequest;
use tailrace_types::RaftGroup;

use super::messages::Letter;
use super::node::Slot;
use super::options::CONTROLLER;
use super::world::World;
use crate::CrashMode;

impl World {
    pub(super) fn receive_request(&mut self, to: u64, group: RaftGroup, request: &ChunkRequest) {
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
        group: RaftGroup,
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
    pub(super) fn keep_up(&mut self, number: u64, group: RaftGroup) {
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
        let compacts = id.topic.as_str().starts_with("__") && group != CONTROLLER;
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
