//! Stores batches for callers that do not care which node leads the partition: see [`store`].
//!
//! The rule: if this node has the only replica, it appends the batch, and later batches need not wait.
//! Everywhere else several nodes may lead, and each node is an idempotent producer to the partition: its
//! batches carry a producer id from the controller and sequences, which the partition's replicated state
//! remembers. If the answer to a request is lost, or its leader is deposed, the request is retried unchanged
//! at the node that leads then, which recognises batches that are already stored. The same holds if this node
//! leads now, because it may no longer do so when the batch should be committed. A partition has one request
//! in flight at a time, with at most as many batches as are remembered.
//!
//! `build`: when a worker compresses. `queue`: the waiting batches. `leader`: sending them to the leader.
//! `serve`: the leader's side. `wire`: the bytes. `road`: which node is asked.
//!
//! Messages for a stream of JetStream that ask for more than storage take the same way, and the same order
//! (`publish`). Their leader judges them (`crate::streams`), and says of each what became of it. `judged`,
//! `judge` and `judge_wire` are the sender's side, the leader's side, and the bytes. What the leader refuses
//! takes no sequence of the sender. So a request begins behind all that earlier ones have stored, which a
//! later leader finds in the producer's state, too.

mod build;
mod failure;
mod judge;
mod judge_wire;
mod judged;
mod leader;
mod queue;
mod road;
mod serve;
mod wire;

use std::sync::Arc;

use tailrace_env::sync::oneshot;
use tailrace_env::task;
use tailrace_records::{BatchBuilder, Validated};
use tailrace_replication::Appended;
use tailrace_types::{Offset, PartitionId, RaftGroup, TimestampMs};

use self::build::{Building, build};
pub use self::failure::NotStored;
pub(crate) use self::judge::serve as serve_judge;
use self::queue::Queued;
pub(crate) use self::queue::Relay;
use self::queue::Teller;
pub use self::queue::{Told, ToldEach};
pub(crate) use self::serve::serve;
use crate::caller::Caller;
use crate::node::Node;
use crate::partitions::{NotHere, PartitionHandle, Topic, WaitOutcome, append};
use crate::streams::{PublishRequest, Published, PublishedHere, publish_here};

/// A batch to store, and where.
#[derive(Debug)]
pub struct Batch<'t> {
    /// The topic.
    pub topic: &'t Arc<Topic>,
    /// The partition's number.
    pub partition: PartitionId,
    /// The records, at least one.
    pub builder: BatchBuilder,
    /// The current time.
    pub now: TimestampMs,
}

/// What has happened to a batch so far.
#[derive(Debug)]
pub enum Stored<'t> {
    /// It is in the log of this node, which has the only replica. The next batch will be behind it.
    Here(StoredHere<'t>),
    /// It is queued for the leader. The receiver resolves once the waiter has been told or dropped.
    UnderWay(oneshot::Receiver<()>),
}

/// A batch in the log of this node.
#[derive(Debug)]
pub struct StoredHere<'t> {
    partition: &'t Arc<PartitionHandle>,
    appended: Appended,
    /// Its size there.
    pub bytes: u64,
}

impl StoredHere<'_> {
    /// Returns the offset of its first record.
    pub fn first(&self) -> Offset {
        self.appended.base_offset
    }

    /// Returns a wait until it is as durable as its topic promises. `None` if it already is.
    pub fn committing(&self) -> Option<Committing> {
        self.partition.wait_committed(&self.appended).map(Committing)
    }
}

/// A batch that is in a log, and not committed yet.
#[derive(Debug)]
pub struct Committing(oneshot::Receiver<WaitOutcome>);

impl Committing {
    /// Waits until the batch is committed.
    ///
    /// # Errors
    /// It is not committed, or its state is unknown.
    pub async fn committed(self) -> Result<(), NotStored> {
        NotStored::of_wait(self.0.await.ok())
    }
}

/// Stores a batch in its partition, wherever that is led. Batches of one partition are stored in the order of
/// these calls, if each call's future completes before the next call.
///
/// A batch that has to go to the leader is offered to it until the caller's deadline, or for as long as the
/// settings say (`tailrace.nats.capture.forward.timeout.ms`). Only in this case `waiter` is called, for the
/// function that is told the outcome.
///
/// # Errors
/// The batch is not stored, and not in flight.
pub fn store<'t, W: FnOnce() -> Told>(
    node: &'t Arc<Node>,
    caller: &'t Caller,
    batch: Batch<'t>,
    waiter: W,
) -> impl Future<Output = Result<Stored<'t>, NotStored>> {
    let Batch { topic, partition, builder, now } = batch;
    // Decided before the first await, so that a connection's task keeps no room for the waiter.
    let road = match only_replica(node, topic, partition) {
        Ok(Some(partition)) => Ok(Road::Here(partition, builder)),
        Ok(None) => {
            let group = RaftGroup { topic: topic.id, partition };
            let waiter = || Teller::Batch(waiter());
            relay(node, caller, group, builder, waiter).map(Road::UnderWay)
        }
        Err(failure) => Err(failure),
    };
    async move {
        let (partition, builder) = match road? {
            Road::Here(partition, builder) => (partition, builder),
            Road::UnderWay(done) => return Ok(Stored::UnderWay(done)),
        };
        let built = match build(&node.workers, builder, BatchBuilder::build_with_header) {
            Building::Done(built) => Ok(built),
            Building::OnWorker(worker) => worker.await,
        };
        let (header, bytes) = built.map_err(|error| {
            tracing::error!(partition = %partition.id, %error, "building a batch panicked");
            NotStored::Panicked
        })?;
        if bytes.len() > topic.batch_bytes_max() {
            return Err(NotStored::TooLarge);
        }
        let size = bytes.len() as u64;
        let wanted = node.taps.wanted(topic, node.relay.known_to);
        let appended = append(node, caller, partition, Validated { header, bytes }, now, wanted).await?;
        Ok(Stored::Here(StoredHere { partition, appended, bytes: size }))
    }
}

/// What has happened so far to messages that are judged.
#[derive(Debug)]
pub enum Judged {
    /// They were judged on this node, which has the only replica. The next batch will be behind them.
    Here(JudgedHere),
    /// They are queued for the leader. The receiver resolves once the waiter has been told or dropped.
    UnderWay(oneshot::Receiver<()>),
}

/// Messages that were judged on this node.
#[derive(Debug)]
pub struct JudgedHere {
    partition: Arc<PartitionHandle>,
    outcome: PublishedHere,
}

impl JudgedHere {
    /// How many of them were stored now.
    pub fn stored(&self) -> u64 {
        u64::from(self.outcome.stored.unsigned_abs())
    }

    /// Bytes of the batches in the log.
    pub fn bytes(&self) -> u64 {
        self.outcome.bytes
    }

    /// What became of each message, and a wait until that may be told. `None` if it may be told now.
    pub fn into_parts(self) -> (Vec<Published>, Option<Committing>) {
        let Self { partition, outcome } = self;
        let wait = outcome.awaited.and_then(|awaited| partition.wait_committed(awaited));
        (outcome.published, wait.map(Committing))
    }
}

/// Has messages for a stream judged by its leader, in their order, and stored as far as they pass. It keeps
/// its place among the batches that are stored with [`store`]. The partition has to be the only one of its
/// topic.
///
/// # Errors
/// None of the messages was judged, and none is in flight.
pub async fn publish(
    node: &Arc<Node>,
    caller: &Caller,
    batch: Batch<'_>,
    waiter: impl FnOnce() -> ToldEach,
) -> Result<Judged, NotStored> {
    let Batch { topic, partition, builder, .. } = batch;
    let Some(handle) = only_replica(node, topic, partition)? else {
        let group = RaftGroup { topic: topic.id, partition };
        return relay(node, caller, group, builder, || Teller::Each(waiter())).map(Judged::UnderWay);
    };
    let built = match build(&node.workers, builder, BatchBuilder::build) {
        Building::Done(built) => Ok(built),
        Building::OnWorker(worker) => worker.await,
    };
    let bytes = built.map_err(|error| {
        tracing::error!(partition = %handle.id, %error, "building a batch panicked");
        NotStored::Panicked
    })?;
    if bytes.len() > topic.batch_bytes_max() {
        return Err(NotStored::TooLarge);
    }
    let request = PublishRequest { batches: vec![bytes], sender: None };
    let deadline = caller.until(node.relay.timeout());
    let outcome = publish_here(node, topic, handle, request, deadline).await?;
    Ok(Judged::Here(JudgedHere { partition: Arc::clone(handle), outcome }))
}

/// The path that a batch takes.
enum Road<'t> {
    Here(&'t Arc<PartitionHandle>, BatchBuilder),
    UnderWay(oneshot::Receiver<()>),
}

/// Returns the partition if this node has its only replica. `None` if the leader, which may be this node, has
/// to be asked.
fn only_replica<'t>(
    node: &Node,
    topic: &'t Topic,
    partition: PartitionId,
) -> Result<Option<&'t Arc<PartitionHandle>>, NotStored> {
    match topic.here(partition.0) {
        Ok(partition) if !partition.is_replica() => Ok(Some(partition)),
        Err(NotHere::NoSuchPartition) => Err(NotStored::NoSuchPartition),
        Ok(_) | Err(NotHere::Elsewhere | NotHere::Offline(_)) if !node.is_alone() => Ok(None),
        Err(NotHere::Offline(offline)) => Err(NotStored::Offline(Arc::clone(&offline.reason))),
        // There is no other node.
        Ok(_) | Err(NotHere::Elsewhere) => Err(NotStored::NoSuchPartition),
    }
}

/// Queues the batch for the leader of its partition.
fn relay(
    node: &Arc<Node>,
    caller: &Caller,
    group: RaftGroup,
    builder: BatchBuilder,
    waiter: impl FnOnce() -> Teller,
) -> Result<oneshot::Receiver<()>, NotStored> {
    let queued = node.relay.push(group, builder, caller.deadline(), waiter).inspect_err(|_| {
        tracing::debug!(%caller, %group, "refused a batch for the leader of its partition: too many are waiting");
    })?;
    let Queued { starts, done } = queued;
    if starts {
        task::spawn(leader::run(Arc::clone(node), group));
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tailrace_metadata::{Command, CreateTopic, Requester};
    use tailrace_records::{BatchOptions, Compression};
    use tailrace_types::{ProducerEpoch, ProducerId, TopicId};

    use super::wire::StoreAnswer;
    use super::*;
    use crate::testing::start_in;

    fn builder(values: &[&[u8]], compression: Compression) -> BatchBuilder {
        let mut builder = BatchBuilder::new(BatchOptions { compression, ..BatchOptions::default() });
        for value in values {
            builder.push(TimestampMs(1), None, Some(value), &[]).unwrap();
        }
        builder
    }

    /// Must not be called, because nothing goes through the queue.
    fn nobody() -> Told {
        panic!("it needs no leader")
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_only_replica_takes_batches_itself_and_says_at_once_what_it_does_not_take() {
        let folder = tempfile::TempDir::new().unwrap();
        let running = start_in(&folder, &[]).await;
        let (node, caller) = (running.node(), Caller::internal());
        let create = CreateTopic::with_defaults("t", TopicId([1; 16]), node.now(), Requester::Client);
        node.execute(caller, Command::CreateTopic(create)).await.unwrap();
        let topic = node.topics().by_name("t").unwrap();
        let batch = |partition, builder| Batch {
            topic: &topic,
            partition: PartitionId(partition),
            builder,
            now: TimestampMs(1),
        };
        // A worker compresses the second one.
        let small = builder(&[b"a", b"b"], Compression::None);
        let large = builder(&[&[b'x'; 100_000]], Compression::Zstd);
        for (first, what) in [(0, small), (2, large)] {
            let stored = store(node, caller, batch(0, what), nobody).await.unwrap();
            let Stored::Here(stored) = stored else { panic!("{stored:?}") };
            assert_eq!(stored.first(), Offset(first));
            assert!((60..1000).contains(&stored.bytes), "{}", stored.bytes);
            if let Some(committing) = stored.committing() {
                committing.committed().await.unwrap();
            }
        }
        let too_large = builder(&[&vec![b'x'; topic.batch_bytes_max()]], Compression::None);
        let one = || builder(&[b"a"], Compression::None);
        for (what, reason) in
            [(batch(0, too_large), NotStored::TooLarge), (batch(1, one()), NotStored::NoSuchPartition)]
        {
            assert_eq!(store(node, caller, what, nobody).await.unwrap_err(), reason);
        }
        topic.here(0).unwrap().abandon(crate::partitions::Ending::Deleted).await;
        let gone = store(node, caller, batch(0, one()), nobody).await.unwrap_err();
        assert_eq!(gone, NotStored::Gone);
        running.stop().await;
    }

    /// The retried request is the same, so all of its batches have to be recognised, however many there are.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_request_whose_answer_is_lost_is_answered_as_before_when_it_comes_again() {
        let folder = tempfile::TempDir::new().unwrap();
        let running = start_in(&folder, &[]).await;
        let (node, caller) = (running.node(), Caller::internal());
        let create = CreateTopic::with_defaults("t", TopicId([1; 16]), node.now(), Requester::Client);
        node.execute(caller, Command::CreateTopic(create)).await.unwrap();
        let group = RaftGroup { topic: TopicId([1; 16]), partition: PartitionId(0) };
        for wanted in 1..=20 {
            for _ in 0..wanted {
                let queued =
                    node.relay.push(group, builder(&[b"a", b"b"], Compression::None), None, nobody_yet);
                assert!(queued.is_ok());
            }
            let (items, _) = node.relay.take(group).unwrap();
            // The rest waits for the next request.
            while node.relay.take(group).is_some() {}
            let batch = |(number, item): (i32, queue::Item)| {
                let (id, epoch) = (ProducerId(wanted), ProducerEpoch(0));
                item.builder.of_producer(id, epoch, 2 * number).build()
            };
            let batches: Vec<Bytes> = (0..).zip(items).map(batch).collect();
            let request = wire::encode_request(group, &batches);
            let lost = serve(node, caller, request.clone()).await.unwrap();
            let Some(StoreAnswer::Stored(stored)) = StoreAnswer::decode(lost.clone()) else {
                panic!("{} batches: {lost:?}", batches.len())
            };
            assert_eq!(stored.len(), batches.len());
            let again = serve(node, caller, request).await.unwrap();
            assert_eq!(
                StoreAnswer::decode(again),
                Some(StoreAnswer::Stored(stored)),
                "{} batches",
                batches.len()
            );
        }
        running.stop().await;
    }

    fn nobody_yet() -> Teller {
        Teller::Batch(Box::new(|_| ()))
    }
}
