//! A follower's part in snapshots. It fetches the files of an offered snapshot chunk by chunk, and then
//! replaces its log with them.
//!
//! The old log stays untouched until the new one is complete and durable. Only then does raft learn of the
//! snapshot.

use bytes::Bytes;
use raft::StateRole;
use raft::eraftpb::{ConfState, Message, MessageType, Snapshot};
use tailrace_log::{Disk, InstallTarget, LogError};
use tailrace_types::{HighWatermark, RaftIndex, ReplicaId, TimestampMs};

use super::ballot::{Point, lists};
use super::chunk::{CHUNK_BYTES_MAX, ChunkRequest, Part};
use super::manifest::Manifest;
use super::replica::Replica;
use super::state::{Fetch, IDLE_TIMEOUTS, lost_range};
use super::storage::epoch_of;

impl<D: Disk> Replica<D> {
    /// Returns the next chunk to request, and from which replica, while this replica fetches a snapshot or
    /// mends a damaged segment. Stays the same until [`Replica::take_chunk`] gets the response or the fetch
    /// is abandoned, so a lost request is sent again.
    pub fn wanted_chunk(&self) -> Option<ChunkRequest> {
        if self.halted().is_some() {
            return None;
        }
        let Some(fetch) = self.fetch.as_ref() else { return self.wanted_range() };
        let (part, position, left) = fetch.wanted()?;
        Some(ChunkRequest {
            from: self.options.id,
            to: fetch.from,
            snapshot: fetch.snapshot,
            part,
            position,
            bytes_max: left.min(CHUNK_BYTES_MAX as u32),
        })
    }

    /// Handles the response to a request: the result of [`ChunkReader::read`](super::ChunkReader::read), or
    /// `None` if there was nothing. Drops responses that were not requested. Blocks on the disk. The last
    /// chunk puts the snapshot in place.
    pub fn take_chunk(&mut self, request: &ChunkRequest, chunk: Option<Bytes>, now: TimestampMs) {
        if self.wanted_chunk().as_ref() != Some(request) {
            return;
        }
        if matches!(request.part, Part::Range { .. }) {
            return self.take_range(chunk, now);
        }
        let Some(fetch) = &mut self.fetch else { return };
        fetch.idle_ticks = 0;
        let chunk = chunk.filter(|chunk| chunk.len() == request.bytes_max as usize);
        match chunk.and_then(|chunk| fetch.take(request.part, &chunk, now)) {
            Some(Ok(())) => self.try_install(now),
            Some(Err(LogError::Damaged { .. })) => {
                let (of, end) = (fetch.from, fetch.manifest.end_offset);
                let from = fetch.staging.next_offset();
                self.give_up_fetching();
                self.suspect(of, from, end);
            }
            // The disk is full, or the source is gone. There will be another offer.
            None | Some(Err(LogError::NoSpace { .. })) => self.give_up_fetching(),
            Some(Err(error)) => self.fail(&error),
        }
    }

    /// Handles a snapshot offer of the leader.
    pub(super) fn consider_offer(&mut self, mut message: Message, now: TimestampMs) {
        let raft = &self.node.raft;
        if message.term != raft.term || raft.state != StateRole::Follower || raft.leader_id != message.from {
            return;
        }
        let metadata = message.get_snapshot().get_metadata();
        let snapshot = Point { index: metadata.index, term: metadata.term };
        let manifest = Manifest::decode(message.get_snapshot().data.clone(), snapshot.index);
        let is_member =
            lists(metadata.get_conf_state()).into_iter().flatten().any(|id| *id == self.options.id.0);
        let Some(manifest) = manifest.filter(|_| is_member && snapshot.term <= message.term) else {
            self.counters.refused_messages += 1;
            return;
        };
        let log = &raft.raft_log;
        if log.committed >= snapshot.index || log.match_term(snapshot.index, snapshot.term) {
            // Everything is here already. Raft tells the leader how far.
            let _ = self.engine(|node| node.step(message));
            self.carry_on(now);
            return;
        }
        let here = log.committed.min(log.persisted);
        if manifest.first_index <= here + 1 {
            self.tell_what_is_here(message.from, here);
        } else if self.fetch.is_none() {
            let members = message.mut_snapshot().mut_metadata().take_conf_state();
            self.begin_fetching(ReplicaId(message.from), snapshot, members, manifest);
        }
    }

    /// Tells the leader that entries after the commit index suffice, which the leader does not know.
    fn tell_what_is_here(&mut self, leader: u64, index: u64) {
        let mut answer = Message::default();
        answer.set_msg_type(MessageType::MsgAppendResponse);
        (answer.from, answer.to, answer.term) = (self.options.id.0, leader, self.node.raft.term);
        (answer.index, answer.commit) = (index, self.node.raft.raft_log.committed);
        self.outgoing.push(answer);
    }

    fn begin_fetching(&mut self, from: ReplicaId, snapshot: Point, members: ConfState, manifest: Manifest) {
        let storage = self.node.mut_store();
        let room = storage.disk.free_bytes(&storage.dir());
        if room.is_ok_and(|room| room < manifest.bytes()) {
            self.counters.snapshots_given_up += 1;
            return;
        }
        let epoch_max = epoch_of(snapshot.term);
        match storage.ledger.log.begin_staging(manifest.segments.clone(), epoch_max) {
            Ok(staging) => {
                let (table, producers) = (Vec::new(), None);
                self.fetch = Some(Fetch {
                    from,
                    snapshot,
                    members,
                    manifest,
                    table,
                    producers,
                    staging,
                    idle_ticks: 0,
                });
            }
            Err(_) => self.counters.snapshots_given_up += 1,
        }
    }

    pub(super) fn tick_fetch(&mut self, now: TimestampMs) {
        let Some(fetch) = &mut self.fetch else { return };
        fetch.idle_ticks += 1;
        if fetch.idle_ticks > IDLE_TIMEOUTS * self.options.election_ticks {
            self.give_up_fetching();
        } else {
            self.try_install(now);
        }
    }

    fn give_up_fetching(&mut self) {
        if let Some(fetch) = self.fetch.take() {
            self.counters.snapshots_given_up += 1;
            fetch.staging.discard();
        }
    }

    /// Passes a complete snapshot to raft, which leads to a call of [`Replica::install`].
    ///
    /// The snapshot may come from a leader of an earlier term. Everything in it is committed, so it is as
    /// good as one of the current leader.
    fn try_install(&mut self, now: TimestampMs) {
        let Some(fetch) = self.fetch.as_ref().filter(|fetch| fetch.wanted().is_none()) else { return };
        let (raft, Point { index, term }) = (&self.node.raft, fetch.snapshot);
        if raft.raft_log.committed >= index || raft.raft_log.match_term(index, term) {
            // Entries arrived first. What follows the snapshot's end here may have been acknowledged.
            return self.give_up_fetching();
        }
        if raft.state != StateRole::Follower || raft.leader_id == 0 {
            return;
        }
        let mut snapshot = Snapshot::default();
        let metadata = snapshot.mut_metadata();
        (metadata.index, metadata.term) = (index, term);
        metadata.set_conf_state(fetch.members.clone());
        let mut message = Message::default();
        message.set_msg_type(MessageType::MsgSnapshot);
        (message.from, message.to, message.term) = (raft.leader_id, self.options.id.0, raft.term);
        message.set_snapshot(snapshot);
        let _ = self.engine(|node| node.step(message));
        self.carry_on(now);
        // A no-op if raft has taken the snapshot.
        self.give_up_fetching();
    }

    /// Replaces the log with the snapshot. Durable on return. After a crash, the ballot and the log together
    /// tell which of the two is in place.
    pub(super) fn install(&mut self, now: TimestampMs) -> Result<(), LogError> {
        let storage = self.node.mut_store();
        let Some(Fetch { snapshot, members, manifest, producers, staging, .. }) = self.fetch.take() else {
            return Err(LogError::damaged(&storage.dir(), 0, "a snapshot without its files"));
        };
        let policy = storage.ledger.policy;
        let mut producers = producers.unwrap_or_default();
        producers.commit(manifest.end_offset);
        producers.trim(manifest.log_start);
        producers.expire(now, policy.producer_expiration_ms);
        let dir = storage.dir();
        let target = InstallTarget {
            log_start: manifest.log_start,
            end_offset: manifest.end_offset,
            next_raft_index: RaftIndex(snapshot.index + 1),
            last_epoch: epoch_of(snapshot.term),
            first_dirty: manifest.first_dirty,
            epochs: manifest.epochs,
            sections: Some(producers.to_sections())
                .filter(|sections| sections.total_bytes() <= tailrace_log::SNAPSHOT_BYTES_MAX),
            lost: manifest.lost.iter().map(|(from, upto)| lost_range(&dir, *from, *upto)).collect(),
        };
        // The entry at the snapshot's index is not here, so nothing from there on was ever committed, nor
        // anything beyond its end offset.
        let log = &mut storage.ledger.log;
        log.truncate_from(RaftIndex(snapshot.index))?;
        log.truncate_to(manifest.end_offset)?;
        assert!(
            log.log_end().offset() >= storage.ledger.reader.high_watermark().offset(),
            "what is committed was cut off"
        );
        storage.ballot.installing = Some((snapshot, members));
        // From here on a crash leaves either the old or the new log.
        storage.ballot.log_start = storage.ballot.log_start.max(Some(manifest.log_start));
        storage.ballot.first_dirty = storage.ballot.first_dirty.min(manifest.first_dirty);
        storage.write_ballot()?;
        storage.ledger.install(staging, &target, producers)?;
        storage.ballot.finish_installing();
        (storage.ballot.log_start, storage.ballot.first_dirty) =
            (Some(manifest.log_start), manifest.first_dirty);
        storage.write_ballot()?;
        (storage.known, storage.applied) = (snapshot.index, snapshot.index);
        let ledger = &mut storage.ledger;
        (ledger.unsynced, ledger.unsynced_since) = (0, None);
        ledger.commit(HighWatermark(manifest.end_offset.get()));
        self.uncommitted.clear();
        self.written.clear();
        self.counters.snapshots_installed += 1;
        Ok(())
    }
}
