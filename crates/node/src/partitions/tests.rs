//! What follows from each change of a partition.

use std::sync::Arc;

use tailrace_metadata::{Command, CreateTopic, Requester};
use tailrace_records::{BatchBuilder, BatchOptions, Validated};
use tailrace_replication::{AppendError, TransactionMarker};
use tailrace_types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, TopicId};

use super::{
    AppendFailure, EpochMismatch, Isolation, PartitionHandle, ReadFailure, ReadTerms, WaitOutcome, append,
    append_marker,
};
use crate::caller::Caller;
use crate::node::Node;
use crate::start::RunningNode;
use crate::taps::WantedBy;
use crate::testing::start_in;

struct Rig {
    running: RunningNode,
    node: Arc<Node>,
    handle: Arc<PartitionHandle>,
    folder: tempfile::TempDir,
}

impl Rig {
    /// Starts a node with a topic `t` that holds one record, `first`.
    async fn start() -> Self {
        let folder = tempfile::TempDir::new().unwrap();
        let running = start_in(&folder, &[]).await;
        let node = Arc::clone(running.node());
        let create = CreateTopic::with_defaults("t", TopicId([1; 16]), node.now(), Requester::Client);
        node.controller.execute(Caller::internal(), Command::CreateTopic(create), node.now()).await.unwrap();
        let topic = node.topics().by_name("t").unwrap();
        let rig = Self { handle: Arc::clone(topic.here(0).unwrap()), running, node, folder };
        rig.store(BatchOptions::default(), "first").await;
        rig
    }

    async fn restart(self) -> Self {
        let Self { running, node, handle, folder } = self;
        drop((node, handle));
        running.stop().await;
        let running = start_in(&folder, &[]).await;
        let node = Arc::clone(running.node());
        let handle = Arc::clone(node.topics().by_name("t").unwrap().here(0).unwrap());
        Self { running, node, handle, folder }
    }

    /// Creates topic `u`.
    async fn create_other(&self) {
        let now = self.node.now();
        let create = CreateTopic::with_defaults("u", TopicId([7; 16]), now, Requester::Client);
        self.node.controller.execute(Caller::internal(), Command::CreateTopic(create), now).await.unwrap();
    }

    /// Appends a record of a producer's transaction, as a coordinator would.
    async fn append(&self, producer: i64, value: &str) {
        let options = BatchOptions {
            producer_id: ProducerId(producer),
            producer_epoch: ProducerEpoch(0),
            transactional: true,
            ..BatchOptions::default()
        };
        self.store(options, value).await;
    }

    async fn store(&self, options: BatchOptions, value: &str) {
        let mut builder = BatchBuilder::new(options);
        builder.push(self.node.now(), None, Some(value.as_bytes()), &[]).unwrap();
        let (header, bytes) = builder.build_with_header();
        let (now, batch) = (self.node.now(), Validated { header, bytes });
        let appended =
            append(&self.node, Caller::internal(), &self.handle, batch, now, WantedBy::NOBODY).await.unwrap();
        if let Some(wait) = self.handle.wait_committed(&appended) {
            wait.await.unwrap();
        }
    }

    async fn end(&self, producer: i64, committed: bool) {
        let marker = TransactionMarker {
            producer_id: ProducerId(producer),
            producer_epoch: ProducerEpoch(1),
            coordinator_epoch: 0,
            committed,
            epochs_are_bumped: true,
        };
        append_marker(&self.node, Caller::internal(), &self.handle, marker, None).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_believes_in_another_epoch_reads_nothing() {
    let rig = Rig::start().await;
    let current = rig.handle.reader.epoch().get();
    let read = |claimed| {
        let terms = ReadTerms::new(Offset(0), Isolation::HighWatermark, 1);
        let terms = ReadTerms { claimed_epoch: Some(LeaderEpoch(claimed)), from_followers: false, ..terms };
        rig.handle.read(Caller::internal(), &terms).map(|outcome| outcome.slice.is_some())
    };
    assert!(read(current).unwrap());
    assert!(matches!(read(current - 1), Err(ReadFailure::Epoch(EpochMismatch::Fenced))));
    assert!(matches!(read(current + 1), Err(ReadFailure::Epoch(EpochMismatch::Unknown))));
    rig.running.stop().await;
}

/// The log learns of an epoch with its first record, but readers know of it before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_beyond_the_end_of_its_epoch_has_parted_from_this_log_also_if_the_epoch_has_no_records() {
    let rig = Rig::start().await;
    let written = rig.handle.reader.epoch();
    let rig = rig.restart().await;
    let current = rig.handle.reader.epoch();
    assert!(current > written);
    let read = |from, epoch| {
        let terms = ReadTerms::new(Offset(from), Isolation::HighWatermark, 1);
        let terms = ReadTerms { last_fetched_epoch: Some(epoch), ..terms };
        let read = rig.handle.read(Caller::internal(), &terms);
        read.map(|outcome| outcome.diverging).map_err(|e| e.to_string())
    };
    for epoch in [written, current] {
        assert_eq!(read(1, epoch), Ok(None), "{epoch}");
        assert_eq!(read(5, epoch), Ok(Some((epoch, Offset(1)))), "{epoch}");
    }
    rig.running.stop().await;
}

/// Its position is not beyond the end of this log, but the records before it differ: this log has none of the
/// epoch that the reader names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_with_records_of_an_epoch_that_has_none_here_has_parted_from_this_log_wherever_it_is() {
    let rig = Rig::start().await;
    let first = rig.handle.reader.epoch();
    let rig = rig.restart().await;
    rig.handle.with(|core| core.begin_epoch()).await.unwrap().unwrap();
    let without_records = rig.handle.reader.epoch();
    let rig = rig.restart().await;
    assert!(first < without_records && without_records < rig.handle.reader.epoch());
    rig.store(BatchOptions::default(), "second").await;
    let read = |from, epoch| {
        let terms = ReadTerms::new(Offset(from), Isolation::HighWatermark, 1);
        let terms = ReadTerms { last_fetched_epoch: Some(epoch), ..terms };
        rig.handle.read(Caller::internal(), &terms).unwrap().diverging
    };
    assert_eq!(read(1, first), None);
    assert_eq!(read(1, without_records), Some((first, Offset(1))));
    assert_eq!(read(2, rig.handle.reader.epoch()), None);
    rig.running.stop().await;
}

/// Bytes that were counted in [`DirtyPages`](crate::dirty::DirtyPages) while `write` ran.
async fn counted(node: &Node, write: impl Future<Output = ()>) -> u64 {
    let before = node.dirty.appended_bytes();
    write.await;
    node.dirty.appended_bytes() - before
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_written_counts_as_dirty() {
    const MARKER_BYTES: u64 = 78;

    let rig = Rig::start().await;
    let record = counted(&rig.node, rig.append(1, "one")).await;
    assert!(record > 61 + 3, "a batch has a header: {record}");
    assert_eq!(counted(&rig.node, rig.end(1, true)).await, MARKER_BYTES, "a marker");
    assert!(counted(&rig.node, rig.create_other()).await > 61, "the metadata log");
    rig.running.stop().await;
}

/// A panic costs this partition and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_panics_takes_the_partition_out_of_service() {
    let rig = Rig::start().await;
    let reader = rig.handle.reader.clone();
    let waits = rig.handle.wait_stable(tailrace_types::Offset(5)).unwrap();
    assert_eq!(rig.handle.with(|_| panic!("an invariant is broken")).await, None::<()>);
    assert_eq!(waits.await, Ok(WaitOutcome::Halted));
    assert!(rig.handle.is_halted());
    assert_eq!(rig.handle.with(|_| ()).await, None, "it is no longer reachable");
    assert!(rig.node.problems().iter().any(|problem| problem.contains("t-0")), "{:?}", rig.node.problems());
    // It can still be read, and the server continues.
    assert_eq!(reader.high_watermark().get(), 1);
    rig.create_other().await;
    assert_eq!(rig.running.stop().await, 1, "it was not closed cleanly");
}

/// Uses an assertion of the core, not a panic made up for the test. Its message is the reported reason
/// everywhere, as a bug in the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_whose_invariant_is_broken_names_it_and_others_go_on() {
    let rig = Rig::start().await;
    rig.create_other().await;
    let now = rig.node.now();
    let beyond = rig.handle.with(move |core| core.advance_log_start(tailrace_types::Offset(9), now).is_ok());
    assert_eq!(beyond.await, None);
    let invariant = "log start 9 beyond the high watermark";
    let problems = rig.node.problems();
    assert!(
        problems.iter().any(|problem| problem.contains("t-0") && problem.contains(invariant)),
        "{problems:?}"
    );
    let mut builder = BatchBuilder::new(BatchOptions::default());
    builder.push(now, None, Some(b"second"), &[]).unwrap();
    let (header, bytes) = builder.build_with_header();
    let batch = || Validated { header, bytes: bytes.clone() };
    let refused = append(&rig.node, Caller::internal(), &rig.handle, batch(), now, WantedBy::NOBODY).await;
    let Err(AppendFailure::Refused(AppendError::Halted { reason })) = refused else {
        panic!("it is out of service: {refused:?}")
    };
    assert!(reason.contains(invariant), "{reason}");
    let other = rig.node.topics().by_name("u").unwrap();
    let other = other.here(0).unwrap();
    append(&rig.node, Caller::internal(), other, batch(), now, WantedBy::NOBODY).await.unwrap();
    assert_eq!(rig.running.stop().await, 1, "it was not closed cleanly, the other one was");
}

/// What the flusher does without the partition's lock, such as a sync.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_of_a_thread_that_panics_takes_the_partition_out_of_service() {
    let rig = Rig::start().await;
    let waits = rig.handle.wait_stable(tailrace_types::Offset(5)).unwrap();
    let handle = Arc::clone(&rig.handle);
    let taken = tailrace_env::task::spawn_blocking(move || handle.take_out_of_service("a sync went wrong"));
    taken.await.unwrap();
    assert_eq!(waits.await, Ok(WaitOutcome::Halted));
    assert_eq!(rig.handle.with(|_| ()).await, None);
    let reason = rig.handle.halted().unwrap();
    assert!(reason.ends_with("a sync went wrong"), "{reason}");
    assert_eq!(rig.running.stop().await, 1, "it was not closed cleanly");
}
