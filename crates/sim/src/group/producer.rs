//! An idempotent producer that sends one batch at a time, and resends it until it is committed.

use bytes::Bytes;
use tailrace_records::{BatchBuilder, BatchHeader, BatchOptions};
use tailrace_replication::Appended;
use tailrace_replication::raft::{Fate, ProposeError, Replica, Role};
use tailrace_types::{ProducerEpoch, ProducerId, TimestampMs};

use super::history::{History, key};
use super::options::REPLICAS;
use crate::{Rng, SimDisk};

/// Without an answer for this long, it asks another node.
const PATIENCE_MS: u64 = 300;

pub(super) struct Producer {
    id: i64,
    rng: Rng,
    sequence: i32,
    target: u64,
    waiting: Option<Waiting>,
    /// The batch that was sent and is not known to be committed.
    unanswered: Option<Bytes>,
    stopping: bool,
    retries: u64,
}

struct Waiting {
    appended: Appended,
    since_ms: u64,
}

impl Producer {
    pub(super) fn new(id: i64, mut rng: Rng) -> Self {
        let target = rng.between(1, REPLICAS);
        Self { id, rng, sequence: 0, target, waiting: None, unanswered: None, stopping: false, retries: 0 }
    }

    /// Returns the node that it believes to be the leader, which is one of `nodes`.
    pub(super) fn target(&mut self, nodes: &[u64]) -> u64 {
        if !nodes.contains(&self.target) {
            self.target = nodes.iter().copied().find(|node| *node > self.target).unwrap_or(nodes[0]);
        }
        self.target
    }

    /// Stops sending new batches.
    pub(super) fn stop(&mut self) {
        self.stopping = true;
    }

    pub(super) fn is_idle(&self) -> bool {
        self.unanswered.is_none()
    }

    pub(super) fn retries(&self) -> u64 {
        self.retries
    }

    pub(super) fn step(
        &mut self,
        now_ms: u64,
        now: TimestampMs,
        replica: Option<&mut Replica<SimDisk>>,
        eager: bool,
        history: &mut History,
    ) {
        let Some(replica) = replica else {
            return self.ask_another();
        };
        match self.waiting.take() {
            Some(waiting) => self.wait(now_ms, waiting, replica, eager, history),
            None => self.send(now_ms, now, replica),
        }
    }

    fn wait(
        &mut self,
        now_ms: u64,
        waiting: Waiting,
        replica: &Replica<SimDisk>,
        eager: bool,
        history: &mut History,
    ) {
        match replica.fate(&waiting.appended) {
            Fate::Open if !eager && now_ms - waiting.since_ms < PATIENCE_MS => self.waiting = Some(waiting),
            Fate::Open if !eager => self.ask_another(),
            Fate::Lost if !eager => self.ask_another(),
            _ => {
                let Some(bytes) = self.unanswered.take() else { return };
                history.acknowledged(waiting.appended.base_offset, &bytes);
                self.sequence += 1;
            }
        }
    }

    fn send(&mut self, now_ms: u64, now: TimestampMs, replica: &mut Replica<SimDisk>) {
        if self.unanswered.is_none() && (self.stopping || !self.rng.percent(20)) {
            return;
        }
        if replica.role() != Role::Leader {
            return self.ask_another();
        }
        let again = self.unanswered.is_some();
        let bytes = self.unanswered.take().unwrap_or_else(|| self.batch());
        self.unanswered = Some(bytes.clone());
        let Ok(header) = BatchHeader::parse(&bytes) else { return };
        self.retries += u64::from(again);
        match replica.append(&header, bytes, None, now) {
            Ok(appended) => self.waiting = Some(Waiting { appended, since_ms: now_ms }),
            Err(ProposeError::NotLeader { leader: Some(leader) }) => self.target = leader.0,
            Err(_) => self.ask_another(),
        }
    }

    fn ask_another(&mut self) {
        self.target += 1;
    }

    /// Builds the next batch. Its content follows from the producer and the sequence number, so no two
    /// batches are alike.
    fn batch(&mut self) -> Bytes {
        let mut builder = BatchBuilder::new(BatchOptions {
            producer_id: ProducerId(self.id),
            producer_epoch: ProducerEpoch(0),
            base_sequence: self.sequence,
            ..BatchOptions::default()
        });
        let mut value = format!("{}:{}:", self.id, self.sequence).into_bytes();
        let filler = self.rng.below(200) as usize;
        value.extend(self.rng.bytes(filler));
        // A single record of this size always fits.
        let key = key(self.id, self.sequence);
        let _ = builder.push(TimestampMs(1), Some(format!("{key:?}").as_bytes()), Some(&value), &[]);
        builder.build()
    }
}
