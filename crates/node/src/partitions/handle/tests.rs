//! A partition whose replica is one of three. The test decides what the others do, and which messages arrive.

use std::path::Path;
use std::sync::Arc;

use tailrace_log::LogConfig;
use tailrace_records::{BatchBuilder, BatchHeader, BatchOptions, TimestampType};
use tailrace_replication::raft::{Members, PeerMessage, Replica, ReplicaOptions, Role};
use tailrace_replication::{Appended, Durability, Policy};
use tailrace_types::{Offset, ReplicaId, TimestampMs};
use tempfile::TempDir;

use super::{Core, PartitionHandle, WaitOutcome};
use crate::disk::NodeDisk;
use crate::testing::{alone, identity, log_store};

const NOW: TimestampMs = TimestampMs(1000);

/// Replica 1 has a handle, 2 and 3 have none.
struct Three {
    handle: Arc<PartitionHandle>,
    others: [Replica<NodeDisk>; 2],
    /// Messages of the first one that have not been delivered.
    said: Vec<PeerMessage>,
    _folder: TempDir,
}

fn open(folder: &Path, id: u64) -> Replica<NodeDisk> {
    let members = Members { voters: [1, 2, 3].map(ReplicaId).to_vec(), learners: Vec::new() };
    let options =
        ReplicaOptions { id: ReplicaId(id), members, election_ticks: 10, heartbeat_ticks: 2, seed: id };
    // Relaxed, so that nothing waits for a sync.
    let durability = Durability::Relaxed { flush_messages: None, flush_ms: None };
    let timestamp_type = TimestampType::CreateTime;
    let policy = Policy { durability, producer_expiration_ms: i64::MAX, timestamp_type };
    let (store, dir) = (log_store(), folder.join(format!("t-{id}")));
    let opened = Replica::open(&store, &dir, &identity(), LogConfig::default(), policy, options, NOW);
    opened.unwrap().0
}

fn append(replica: &mut Replica<NodeDisk>, text: &str) -> Appended {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    builder.push(NOW, None, Some(text.as_bytes()), &[]).unwrap();
    let bytes = builder.build();
    replica.append(&BatchHeader::parse(&bytes).unwrap(), bytes, None, NOW).unwrap()
}

impl Three {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let others = [2, 3].map(|id| open(folder.path(), id));
        let handle = alone(Core::Replica(Box::new(open(folder.path(), 1))));
        Self { handle, others, said: Vec::new(), _folder: folder }
    }

    /// Has the first one do something.
    async fn first<T>(&mut self, act: impl FnOnce(&mut Replica<NodeDisk>) -> T) -> T {
        let done = self.handle.with(|core| {
            let replica = core.replica().expect("one of several");
            (act(replica), replica.take_messages())
        });
        let (done, said) = done.await.expect("it is in service");
        self.said.extend(said);
        done
    }

    /// Delivers messages until none is left. `cut_off`: nothing reaches the first one.
    async fn talk(&mut self, cut_off: bool) {
        loop {
            let mut said = std::mem::take(&mut self.said);
            said.extend(self.others.iter_mut().flat_map(Replica::take_messages));
            if said.is_empty() {
                return;
            }
            for message in said {
                match message.to().0 {
                    1 if cut_off => {}
                    1 => self.first(|first| first.receive(message, NOW)).await,
                    other => self.others[other as usize - 2].receive(message, NOW),
                }
            }
        }
    }
}

/// Deposed between the append and the wait, while nothing else is committed at its offsets.
#[tokio::test]
async fn who_waits_after_another_one_has_come_to_lead_is_told_at_once() {
    let mut three = Three::new();
    three.first(|first| first.campaign(NOW)).await;
    three.talk(false).await;
    let lost = three.first(|first| append(first, "lost")).await;
    three.said.clear();
    for _ in 0..40 {
        three.others.iter_mut().for_each(|other| other.tick(NOW));
        three.talk(true).await;
    }
    let leader = three.others.iter().position(|other| other.role() == Role::Leader).expect("two are enough");
    // One message of the later term is enough.
    for _ in 0..2 {
        three.others[leader].tick(NOW);
    }
    let said = three.others[leader].take_messages();
    let word = said.into_iter().find(|message| message.to() == ReplicaId(1)).expect("a heartbeat");
    three.first(|first| first.receive(word, NOW)).await;
    assert!(three.handle.leads().is_none());
    assert!(three.handle.reader.high_watermark() < lost.committed_at);
    let mut waits = three.handle.wait_committed(&lost).expect("it is not committed");
    assert_eq!(waits.try_recv(), Ok(WaitOutcome::Deposed));
}

/// What is below the high watermark then is another batch, of another epoch.
#[tokio::test]
async fn who_waits_for_a_batch_that_was_overwritten_is_not_told_that_it_is_committed() {
    let mut three = Three::new();
    three.first(|first| first.campaign(NOW)).await;
    three.talk(false).await;
    assert!(three.handle.leads().is_some());
    let lost = three.first(|first| append(first, "lost")).await;
    three.said.clear();
    let waits = three.handle.wait_committed(&lost).expect("no other replica has it");

    for _ in 0..40 {
        three.others.iter_mut().for_each(|other| other.tick(NOW));
        three.talk(true).await;
    }
    let leader = three.others.iter().position(|other| other.role() == Role::Leader).expect("two are enough");
    let other = append(&mut three.others[leader], "in its place");
    assert_eq!((other.base_offset, lost.base_offset), (Offset(0), Offset(0)));
    for _ in 0..10 {
        three.others[leader].tick(NOW);
        three.talk(false).await;
    }
    assert!(three.handle.reader.high_watermark() >= lost.committed_at);
    assert_eq!(three.handle.reader.log().epoch_at(Offset(0)), Some(other.epoch));

    assert_eq!(waits.await, Ok(WaitOutcome::Deposed), "an earlier waiter");
    let waits = three.handle.wait_committed(&lost).expect("it is not committed");
    assert_eq!(waits.await, Ok(WaitOutcome::Deposed), "a later waiter");
    assert!(three.handle.wait_committed(&other).is_none(), "the other one is");
}
