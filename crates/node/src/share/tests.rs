use std::sync::Arc;
use std::sync::atomic::Ordering;
use tailrace_env::time::Duration;

use tailrace_coordination::share::{
    AcknowledgeKind, Acknowledgement, AcquireMode, AcquireTerms, AcquiredBatch, GroupTerms, SharePartitionKey,
};
use tailrace_log::Reach;
use tailrace_metadata::{Command, CreateTopic, Requester};
use tailrace_records::{BatchBuilder, BatchOptions, Validated};
use tailrace_replication::TransactionMarker;
use tailrace_types::{Offset, ProducerEpoch, ProducerId, TimestampMs, TopicId};
use tempfile::TempDir;

use super::*;
use crate::caller::Caller;
use crate::node::Node;
use crate::partitions::{
    Isolation, PartitionHandle, ReadFailure, ReadTerms, append, append_marker, append_verified,
    begin_verification,
};
use crate::start::RunningNode;
use crate::taps::WantedBy;
use crate::testing::start_in;

const SETTINGS: [(&str, &str); 1] = [("share.coordinator.state.topic.num.partitions", "2")];

struct Rig {
    running: RunningNode,
    key: SharePartitionKey,
    folder: TempDir,
}

impl Rig {
    async fn start() -> Self {
        Self::start_with(Vec::new()).await
    }

    /// `configs`: those of the topic.
    async fn start_with(configs: Vec<(String, Option<String>)>) -> Self {
        let folder = TempDir::new().unwrap();
        let running = start_in(&folder, &SETTINGS).await;
        let node = running.node();
        let topic = TopicId::from_random(tailrace_env::random::bytes16());
        let create = CreateTopic::with_defaults("jobs", topic, node.now(), Requester::Client);
        let create = CreateTopic { configs, ..create };
        node.controller.execute(Caller::internal(), Command::CreateTopic(create), node.now()).await.unwrap();
        let key = SharePartitionKey { group: "g".into(), topic, partition: 0 };
        assert!(matches!(node.share.get_or_load(node, &key).await, Err(ShareFailure::NoState)));
        state::initialize(node, &key).await.unwrap();
        Self { key, running, folder }
    }

    /// The node stops, and starts again.
    async fn again(self) -> Self {
        let Self { key, running, folder } = self;
        running.stop().await;
        let running = start_in(&folder, &SETTINGS).await;
        Self { key, running, folder }
    }

    fn node(&self) -> &Arc<Node> {
        self.running.node()
    }

    fn handle(&self) -> Arc<PartitionHandle> {
        keep::handle_of(self.node(), &self.key).unwrap()
    }

    fn settings(&self, committed_only: bool) -> GroupSettings {
        let settings = GroupSettings::of(&self.node().image(), "g");
        GroupSettings { committed_only, ..settings }
    }

    /// Appends a batch of `count` records, in a transaction of this producer if there is one. Returns its size.
    async fn produce(&self, producer: Option<i64>, count: i64) -> u64 {
        let mut options = BatchOptions::default();
        if let Some(id) = producer {
            // Without a sequence, as a coordinator writes: nobody is asked whether the transaction is under way.
            options.producer_id = ProducerId(id);
            options.producer_epoch = ProducerEpoch(0);
            options.transactional = true;
        }
        let mut builder = BatchBuilder::new(options);
        for _ in 0..count {
            builder.push(TimestampMs(1), None, Some(b"job"), &[]).unwrap();
        }
        let (header, bytes) = builder.build_with_header();
        let size = bytes.len() as u64;
        let (node, handle) = (self.node(), self.handle());
        let (batch, now) = (Validated { header, bytes }, node.now());
        let appended = match producer {
            None => append(node, Caller::internal(), &handle, batch, now, WantedBy::NOBODY).await,
            // As if the transaction's coordinator had been asked.
            Some(_) => {
                let guard = begin_verification(&handle, &header, false, now).await.unwrap();
                append_verified(node, Caller::internal(), &handle, batch, guard, now, WantedBy::NOBODY).await
            }
        };
        let appended = appended.unwrap();
        if let Some(wait) = handle.wait_committed(&appended) {
            wait.await.unwrap();
        }
        size
    }

    async fn end(&self, producer: i64, committed: bool) {
        let marker = TransactionMarker {
            producer_id: ProducerId(producer),
            producer_epoch: ProducerEpoch(0),
            coordinator_epoch: 0,
            committed,
            epochs_are_bumped: false,
        };
        let handle = self.handle();
        let appended = append_marker(self.node(), Caller::internal(), &handle, marker, None).await.unwrap();
        if let Some(wait) = handle.wait_committed(&appended) {
            wait.await.unwrap();
        }
    }

    async fn acquire(&self, live: &Arc<LivePartition>, committed_only: bool) -> Vec<(i64, i64)> {
        let terms = AcquireTerms {
            member: "m".into(),
            records_max: 100,
            batch_size: 1,
            mode: AcquireMode::BatchOptimized,
        };
        let acquired =
            acquire(self.node(), Caller::internal(), live, &self.settings(committed_only), &terms, 1 << 20)
                .await;
        let batches = acquired.unwrap().map(|acquisition| acquisition.batches).unwrap_or_default();
        batches.iter().map(|batch: &AcquiredBatch| (batch.first.0, batch.last.0)).collect()
    }
}

#[tokio::test]
async fn only_committed_records_where_only_those_count() {
    let rig = Rig::start().await;
    let node = rig.node();
    let live = node.share.get_or_load(node, &rig.key).await.unwrap();
    rig.produce(None, 2).await; // 0, 1
    rig.produce(Some(7), 2).await; // 2, 3
    rig.produce(Some(8), 1).await; // 4
    assert_eq!(rig.acquire(&live, true).await, [(0, 1)], "two transactions are open");
    rig.end(7, false).await; // 5
    assert_eq!(rig.acquire(&live, true).await, [], "offsets 2 and 3 are aborted, 4 is still open");
    rig.end(8, true).await; // 6
    assert_eq!(rig.acquire(&live, true).await, [(4, 4)]);
    let said = |first, last| Acknowledgement {
        first: Offset(first),
        last: Offset(last),
        kinds: vec![AcknowledgeKind::Accept],
    };
    let settings = rig.settings(true);
    live.acknowledge(node, &settings, "m", &[said(0, 1), said(4, 4)]).unwrap();
    live.keep(node).kept().await.unwrap();
    assert_eq!(rig.acquire(&live, true).await, []);
    let (start, complete) = live.with_core(|core| (core.start(), core.delivery_complete_count())).unwrap();
    assert_eq!((start, complete), (Offset(7), 0), "nothing is left over at the end");
    // Another group takes everything as it comes, but for the markers.
    let other = SharePartitionKey { group: "h".into(), ..rig.key.clone() };
    state::reset(node, &other, Offset(0)).await.unwrap();
    let live = node.share.get_or_load(node, &other).await.unwrap();
    assert_eq!(rig.acquire(&live, false).await, [(0, 1), (2, 3), (4, 4)]);
    rig.running.stop().await;
}

#[tokio::test]
async fn what_is_set_anew_or_deleted_counts_no_more() {
    let rig = Rig::start().await;
    let node = rig.node();
    let live = node.share.get_or_load(node, &rig.key).await.unwrap();
    rig.produce(None, 3).await;
    assert_eq!(rig.acquire(&live, false).await, [(0, 2)]);
    state::reset(node, &rig.key, Offset(1)).await.unwrap();
    let said = [Acknowledgement { first: Offset(0), last: Offset(2), kinds: vec![AcknowledgeKind::Accept] }];
    let refused = live.acknowledge(node, &rig.settings(false), "m", &said);
    assert!(matches!(refused, Err(AcknowledgeFailure::Gone)), "{refused:?}");
    let live = node.share.get_or_load(node, &rig.key).await.unwrap();
    assert_eq!(rig.acquire(&live, false).await, [(1, 2)]);
    // A coordinator's state that changed behind its back makes a share-partition give up when it wants to keep something.
    let request = tailrace_coordination::share::ShareRequest::Delete { key: rig.key.clone() };
    state::ask(node, request).await.unwrap();
    let said = [Acknowledgement { first: Offset(1), ..said[0].clone() }];
    live.acknowledge(node, &rig.settings(false), "m", &said).unwrap();
    assert!(live.keep(node).kept().await.is_err(), "nobody may be told that it was accepted");
    let gone = node.share.get_or_load(node, &rig.key).await;
    assert!(matches!(gone, Err(ShareFailure::NoState)));
    state::initialize(node, &rig.key).await.unwrap();
    let live = node.share.get_or_load(node, &rig.key).await.unwrap();
    assert_eq!(live.with_core(|core| core.start()), Some(Offset(3)), "the group begins anew, at the end");
    assert_eq!(state::partitions_of(node, &"g".into()).await.unwrap(), std::slice::from_ref(&rig.key));
    state::delete_group(node, "g").await.unwrap();
    assert_eq!(state::partitions_of(node, &"g".into()).await.unwrap(), []);
    rig.running.stop().await;
}

#[tokio::test]
async fn what_is_not_used_any_more_is_dropped() {
    let rig = Rig::start().await;
    let node = rig.node();
    let live = node.share.get_or_load(node, &rig.key).await.unwrap();
    let now = node.share.clock.now();
    assert!(live.is_idle_since(TimestampMs(now.0 + 1_000), Duration::from_millis(500)));
    assert!(!live.is_idle_since(now, Duration::from_secs(500)));
    rig.produce(None, 1).await;
    assert_eq!(rig.acquire(&live, false).await, [(0, 0)]);
    assert!(!live.is_idle_since(TimestampMs(now.0 + 1_000), Duration::from_millis(500)), "a record is held");
    live.release_member(node, "m");
    live.keep(node).kept().await.unwrap();
    assert!(live.is_idle_since(TimestampMs(now.0 + 1_000), Duration::from_millis(500)));
    rig.running.stop().await;
}

#[tokio::test]
async fn a_sweep_drops_what_nobody_uses_once_everything_is_kept() {
    let rig = Rig::start().await;
    let (node, key) = (rig.node(), &rig.key);
    let is_swept = || {
        node.share.sweep_once(node, TimestampMs(node.share.clock.now().0 + 3_600_000));
        node.share.get(key).is_none()
    };
    let live = node.share.get_or_load(node, key).await.unwrap();
    assert!(!is_swept(), "somebody holds it");
    // As if the acquisition locks were watched: the watch itself would hold it, too.
    live.watched.store(true, Ordering::Relaxed);
    rig.produce(None, 1).await;
    assert_eq!(rig.acquire(&live, false).await, [(0, 0)]);
    drop(live);
    assert!(!is_swept(), "a record is held");
    let live = node.share.get(key).unwrap();
    let said = Acknowledgement { first: Offset(0), last: Offset(0), kinds: vec![AcknowledgeKind::Accept] };
    live.acknowledge(node, &rig.settings(false), "m", &[said]).unwrap();
    drop(live);
    assert!(!is_swept(), "the acknowledgement is not kept yet");
    node.share.get(key).unwrap().keep(node).kept().await.unwrap();
    node.share.sweep_once(node, node.share.clock.now());
    assert!(node.share.get(key).is_some(), "it was in use a moment ago");
    assert!(is_swept());
    rig.running.stop().await;
}

#[tokio::test]
async fn what_a_member_could_have_is_measured_without_acquiring_it() {
    let rig = Rig::start().await;
    let node = rig.node();
    let live = node.share.get_or_load(node, &rig.key).await.unwrap();
    let measure = |enough| acquirable_bytes(Caller::internal(), &live, &rig.settings(false), enough).unwrap();
    assert_eq!(measure(1000), 0);
    let a = rig.produce(None, 2).await; // 0, 1
    let b = rig.produce(None, 30).await; // 2 to 31
    let c = rig.produce(None, 3).await; // 32 to 34
    assert_eq!(measure(u64::MAX), a + b + c);
    assert_eq!(measure(1), a, "counted until there is enough");
    assert_eq!(rig.acquire(&live, false).await, [(0, 1), (2, 31), (32, 34)], "and nothing was taken");
    assert_eq!(measure(u64::MAX), 0, "a member has them all");
    let d = rig.produce(None, 1).await; // 35
    let say = |first, last, kind| {
        let said = Acknowledgement { first: Offset(first), last: Offset(last), kinds: vec![kind] };
        live.acknowledge(node, &rig.settings(false), "m", &[said]).unwrap();
    };
    say(0, 0, AcknowledgeKind::Release);
    assert_eq!(measure(u64::MAX), a + d, "what others hold in between does not count");
    say(4, 5, AcknowledgeKind::Release);
    say(7, 33, AcknowledgeKind::Release);
    assert_eq!(measure(u64::MAX), a + b + c + d, "a batch counts once, however many runs of it there are");
    say(34, 34, AcknowledgeKind::Accept);
    assert_eq!(measure(u64::MAX), a + b + c + d);
    // An open transaction's records do not count where only committed ones do.
    let e = rig.produce(Some(7), 4).await;
    assert_eq!(measure(u64::MAX), a + b + c + d + e);
    assert_eq!(
        acquirable_bytes(Caller::internal(), &live, &rig.settings(true), u64::MAX).unwrap(),
        a + b + c + d
    );
    let locks = |record_locks_max| {
        let settings = rig.settings(false);
        GroupSettings { terms: GroupTerms { record_locks_max, ..settings.terms }, ..settings }
    };
    assert_eq!(
        acquirable_bytes(Caller::internal(), &live, &locks(1), u64::MAX).unwrap(),
        a + b + c,
        "no room for fresh ones"
    );
    rig.running.stop().await;
}

/// Nobody goes on with a share-partition that was changed half-way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_share_partition_that_panics_is_loaded_anew() {
    let rig = Rig::start().await;
    let live = rig.node().share.get_or_load(rig.node(), &rig.key).await.unwrap();
    assert_eq!(live.with_core(|_| panic!("an invariant is broken")), None::<()>);
    assert_eq!(live.with_core(|_| ()), None, "nobody touches it any more");
    let reloaded = rig.node().share.get_or_load(rig.node(), &rig.key).await.unwrap();
    assert!(!Arc::ptr_eq(&live, &reloaded));
    assert_eq!(reloaded.with_core(|core| core.in_flight()), Some(0));
    assert_eq!(rig.running.stop().await, 0);
}

/// Another leader may have handed out records meanwhile, and kept what was said of them.
#[tokio::test]
async fn what_was_known_before_another_node_led_counts_no_more() {
    let rig = Rig::start().await;
    let node = rig.node();
    rig.produce(None, 3).await;
    let old = node.share.get_or_load(node, &rig.key).await.unwrap();
    state::reset(node, &rig.key, Offset(0)).await.unwrap();
    assert_eq!(old.with_core(|_| ()), None, "its state was set anew");
    let live = node.share.get_or_load(node, &rig.key).await.unwrap();
    assert_eq!(rig.acquire(&live, false).await, [(0, 2)]);
    live.handle.lead_again();
    let said = [Acknowledgement { first: Offset(0), last: Offset(2), kinds: vec![AcknowledgeKind::Accept] }];
    let refused = live.acknowledge(node, &rig.settings(false), "m", &said);
    assert!(matches!(refused, Err(AcknowledgeFailure::Gone)), "{refused:?}");
    live.release_member(node, "m");
    let reloaded = node.share.get_or_load(node, &rig.key).await.unwrap();
    assert!(!Arc::ptr_eq(&live, &reloaded));
    assert_eq!(reloaded.with_core(|core| core.in_flight()), Some(0));
    // One that was let go of while nobody asked is found out as well.
    reloaded.handle.lead_again();
    assert!(!Arc::ptr_eq(&reloaded, &node.share.get_or_load(node, &rig.key).await.unwrap()));
    rig.running.stop().await;
}

/// After a start no files of old segments are open: who may not wait for the disk has somebody else wait for it.
#[tokio::test]
async fn records_are_handed_out_though_the_disk_has_to_be_asked_where_they_lie() {
    let rig = Rig::start_with(vec![("internal.segment.bytes".to_owned(), Some("1000".to_owned()))]).await;
    state::reset(rig.node(), &rig.key, Offset(0)).await.unwrap();
    for _ in 0..30 {
        rig.produce(None, 3).await;
    }
    let rig = rig.again().await;
    let live = rig.node().share.get_or_load(rig.node(), &rig.key).await.unwrap();
    let terms = ReadTerms::new(Offset(0), Isolation::HighWatermark, 1);
    let at_hand = live.handle.read(Caller::internal(), &ReadTerms { reach: Reach::Memory, ..terms });
    assert!(matches!(at_hand, Err(ReadFailure::NotAtHand)), "a read of memory alone would do");
    assert_eq!(rig.acquire(&live, false).await.first().map(|batch| batch.0), Some(0));
    rig.running.stop().await;
}
