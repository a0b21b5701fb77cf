//! Three replicas whose messages arrive where and when a test says.

use std::path::Path;

use bytes::Bytes;
use tailrace_log::{Disk, LogConfig, LogError, LogStore, PartitionIdentity};
use tailrace_records::{BatchBuilder, BatchHeader, BatchOptions};
use tailrace_replication::raft::{
    Members, PeerMessage, ProposeError, Replica, ReplicaId, ReplicaOptions, Role,
};
use tailrace_replication::{Appended, Durability, Policy};
use tailrace_sim::SimDisk;
use tailrace_types::{PartitionId, TimestampMs, TopicId, TopicName, TopicPartition};

pub(crate) const NOW: TimestampMs = TimestampMs(1000);
pub(crate) const STRICT: Policy = Policy {
    durability: Durability::Strict,
    producer_expiration_ms: i64::MAX,
    timestamp_type: tailrace_records::TimestampType::CreateTime,
};

pub(crate) fn disk() -> SimDisk {
    let disk = SimDisk::new(1);
    disk.create_dir(Path::new("/data")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk
}

pub(crate) fn identity() -> PartitionIdentity {
    let topic_partition = TopicPartition::new(TopicName::new("t").unwrap(), PartitionId(0));
    PartitionIdentity { topic_id: TopicId([7; 16]), topic_partition }
}

pub(crate) fn options(id: u64, voters: &[u64]) -> ReplicaOptions {
    let members = Members { voters: voters.iter().copied().map(ReplicaId).collect(), learners: Vec::new() };
    ReplicaOptions { id: ReplicaId(id), members, election_ticks: 10, heartbeat_ticks: 2, seed: id }
}

pub(crate) fn open(disk: &SimDisk, options: ReplicaOptions) -> Result<Replica<SimDisk>, LogError> {
    open_with(disk, LogConfig::default(), options)
}

pub(crate) fn open_with(
    disk: &SimDisk,
    config: LogConfig,
    options: ReplicaOptions,
) -> Result<Replica<SimDisk>, LogError> {
    let store = LogStore::new(disk.clone(), 4);
    let opened = Replica::open(&store, Path::new("/data/t-0"), &identity(), config, STRICT, options, NOW);
    opened.map(|(replica, _)| replica)
}

pub(crate) fn batch(text: &str) -> (BatchHeader, Bytes) {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    builder.push(TimestampMs(1), None, Some(text.as_bytes()), &[]).unwrap();
    let bytes = builder.build();
    (BatchHeader::parse(&bytes).unwrap(), bytes)
}

pub(crate) fn append(replica: &mut Replica<SimDisk>, text: &str) -> Result<Appended, ProposeError> {
    let (header, bytes) = batch(text);
    replica.append(&header, bytes, None, NOW)
}

/// Three replicas whose messages arrive where and when a test says.
pub(crate) struct Trio {
    pub(crate) disks: Vec<SimDisk>,
    pub(crate) replicas: Vec<Replica<SimDisk>>,
}

impl Trio {
    pub(crate) fn new() -> Self {
        Self::with(&LogConfig::default())
    }

    pub(crate) fn with(config: &LogConfig) -> Self {
        let disks: Vec<_> = (0..3).map(|_| disk()).collect();
        let open = |(id, disk)| open_with(disk, config.clone(), options(id, &[1, 2, 3])).unwrap();
        let replicas = (1..).zip(&disks).map(open).collect();
        Self { disks, replicas }
    }

    pub(crate) fn at(&mut self, id: u64) -> &mut Replica<SimDisk> {
        &mut self.replicas[id as usize - 1]
    }

    pub(crate) fn sync(&mut self, id: u64) {
        while let Some(ticket) = self.at(id).begin_sync(false) {
            let result = ticket.run();
            self.at(id).finish_sync(&ticket, &result, NOW);
        }
    }

    /// Lets all replicas work and exchange messages until none are left. Messages for which `lost` returns
    /// true are dropped.
    pub(crate) fn talk(&mut self, lost: impl Fn(u64, u64) -> bool) {
        loop {
            let mut all = Vec::new();
            for id in 1..=3 {
                self.sync(id);
                all.extend(self.at(id).take_messages());
            }
            if all.is_empty() && !self.fetch(&lost) {
                return;
            }
            for message in all {
                let (from, to) = (message.from().0, message.to().0);
                if !lost(from, to) {
                    self.at(to).receive(message, NOW);
                }
            }
        }
    }

    /// Carries chunks of snapshots. Returns true if there were any.
    fn fetch(&mut self, lost: impl Fn(u64, u64) -> bool) -> bool {
        let mut any = false;
        for id in 1..=3 {
            let Some(request) = self.at(id).wanted_chunk() else { continue };
            let from = request.to().0;
            if lost(id, from) || lost(from, id) {
                continue;
            }
            let chunk = self.at(from).chunk_reader(&request).and_then(|reader| reader.read().ok());
            self.at(id).take_chunk(&request, chunk, NOW);
            any = true;
        }
        any
    }

    /// Cuts the first replica off until one of the others leads. Returns which one.
    pub(crate) fn replace_first(&mut self) -> u64 {
        for _ in 0..40 {
            self.at(2).tick(NOW);
            self.at(3).tick(NOW);
            self.talk(cut_off(1));
        }
        if self.at(2).role() == Role::Leader { 2 } else { 3 }
    }

    /// Ticks the leader `times` times and delivers the messages.
    pub(crate) fn beat(&mut self, leader: u64, times: usize, lost: impl Fn(u64, u64) -> bool) {
        for _ in 0..times {
            self.at(leader).tick(NOW);
            self.talk(&lost);
        }
    }

    /// Like `talk`, but only among `some`. Returns the messages to others.
    pub(crate) fn talk_among(&mut self, some: &[u64]) -> Vec<PeerMessage> {
        let mut to_others = Vec::new();
        loop {
            let mut all = Vec::new();
            for &id in some {
                self.sync(id);
                all.extend(self.at(id).take_messages());
            }
            if all.is_empty() {
                return to_others;
            }
            for message in all {
                let to = message.to().0;
                if some.contains(&to) { self.at(to).receive(message, NOW) } else { to_others.push(message) }
            }
        }
    }

    /// Lets time pass until `to` leads.
    pub(crate) fn hand_over(&mut self, to: u64) {
        for _ in 0..200 {
            if self.at(to).role() == Role::Leader {
                return;
            }
            for id in 1..=3 {
                self.at(id).tick(NOW);
                self.at(id).transfer_leadership(ReplicaId(to), NOW);
            }
            self.talk(|_, _| false);
        }
        panic!("replica {to} does not become the leader");
    }

    pub(crate) fn lead(&mut self, id: u64) {
        self.at(id).campaign(NOW);
        self.talk(|_, _| false);
        assert_eq!(self.at(id).role(), Role::Leader);
    }
}

pub(crate) fn cut_off(id: u64) -> impl Fn(u64, u64) -> bool {
    move |from, to| from == id || to == id
}
