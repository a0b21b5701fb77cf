use std::sync::Arc;
use std::sync::atomic::Ordering;
use tailrace_env::time::Duration;

use tailrace_coordination::coordinator::partition_of_name;
use tailrace_coordination::groups::{
    GroupCoordinator, GroupError, GroupEvent, GroupReply, GroupWork, Partitions, ShareEvent, ShareHeartbeat,
    ShareReply, ShareWork,
};
use tailrace_coordination::share::{
    AcknowledgeKind, Acknowledgement, AcquireMode, AcquireTerms, AcquiredBatch, GroupTerms,
    SharePartitionKey, ShareRequest, ShareStateError,
};
use tailrace_log::Reach;
use tailrace_metadata::{Command, CreateTopic, Requester};
use tailrace_records::{BatchBuilder, BatchOptions, Validated};
use tailrace_replication::TransactionMarker;
use tailrace_types::{Offset, ProducerEpoch, ProducerId, TimestampMs, TopicId};
use tempfile::TempDir;

use super::state::StateFailure;
use super::*;
use crate::caller::Caller;
use crate::coordinators::Perform;
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
        let topic = create(node, "jobs", 1, configs).await;
        let key = SharePartitionKey { group: "g".into(), topic, partition: 0 };
        assert!(matches!(
            node.share.get_or_load(node, Caller::internal(), &key).await,
            Err(ShareFailure::NoState)
        ));
        state::initialize(node, Caller::internal(), &key, 1).await.unwrap();
        Self { key, running, folder }
    }

    /// Stops the node, and starts it again.
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

    /// Appends a batch of `count` records, in a transaction of this producer if there is one. Returns its
    /// size.
    async fn produce(&self, producer: Option<i64>, count: i64) -> u64 {
        let mut options = BatchOptions::default();
        if let Some(id) = producer {
            // Without a sequence, as a coordinator writes, so that nothing checks whether the transaction is
            // in progress.
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
            // Pretends that the transaction's coordinator was asked.
            Some(_) => {
                let guard =
                    begin_verification(Caller::internal(), &handle, &header, false, now).await.unwrap();
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

async fn create(
    node: &Arc<Node>,
    name: &str,
    partitions: i32,
    configs: Vec<(String, Option<String>)>,
) -> TopicId {
    let topic = TopicId::from_random(tailrace_env::random::bytes16());
    let create = CreateTopic::with_defaults(name, topic, node.now(), Requester::Client);
    let create = Command::CreateTopic(CreateTopic { partitions, configs, ..create });
    node.controller.execute(Caller::internal(), create, node.now()).await.unwrap();
    topic
}

async fn beat(node: &Arc<Node>, group: &Arc<str>, epoch: i32, topics: &[&str]) {
    let topics = (epoch == 0).then(|| topics.iter().map(|topic| (*topic).to_owned()).collect());
    let beat = ShareHeartbeat { member: "m".into(), epoch, topics, ..Default::default() };
    let answer = tell_share_group(node, Caller::internal(), group, ShareEvent::Heartbeat(beat)).await;
    assert!(matches!(answer, Ok(ShareReply::Heartbeat(Ok(_)))), "{answer:?}");
}

/// Returns the topics and partitions that the group has states of.
async fn states_of(node: &Arc<Node>, group: &Arc<str>) -> Partitions {
    match tell_share_group(node, Caller::internal(), group, ShareEvent::InitializedStates).await {
        Ok(ShareReply::InitializedStates(Ok(states))) => states,
        other => panic!("{other:?}"),
    }
}

/// Creates a group without members that has states of these topics.
async fn group_of(node: &Arc<Node>, topics: &[&str]) -> Arc<str> {
    let group: Arc<str> = "crew".into();
    beat(node, &group, 0, topics).await;
    while states_of(node, &group).await.len() < topics.len() {
        // The coordinator creates them after the heartbeat. The test runner ends a test that waits forever.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    beat(node, &group, -1, topics).await;
    group
}

async fn delete_group(node: &Arc<Node>, group: &Arc<str>) -> Result<(), GroupError> {
    let groups = vec![Arc::clone(group)];
    let event = move |token| GroupEvent::Delete { token, groups };
    let pending = node.coordinators.groups.submit(node, Caller::internal(), group, event).await.unwrap();
    match pending.reply().await.unwrap() {
        GroupReply::Delete(mut fates) => fates.remove(0),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn states_go_before_their_group_and_each_answers_for_itself() {
    let rig = Rig::start().await;
    let node = rig.node();
    let topic = create(node, "many", 8, Vec::new()).await;
    let group = group_of(node, &["many"]).await;
    let left = Err(GroupError::StatesLeft { group: Arc::clone(&group) });
    assert_eq!(delete_group(node, &group).await, left);
    let keys = (0..8).map(|partition| SharePartitionKey { group: Arc::clone(&group), topic, partition });
    let keys: Vec<SharePartitionKey> = keys.collect();
    let kept_at = |key: &SharePartitionKey| partition_of_name(&key.coordinator_key(), 2);
    // Makes one of the two share coordinators refuse everything.
    node.coordinators.shares.refuse_until(1, i64::MAX).await;
    let outcomes = delete_states(node, Caller::internal(), &group, None).await.unwrap();
    assert!(outcomes[&topic].is_err());
    assert_eq!(delete_group(node, &group).await, left, "it stays");
    assert!(states_of(node, &group).await.is_empty(), "and its states no longer count");
    node.coordinators.shares.refuse_until(1, 0).await;
    for key in &keys {
        let is_gone = state::summary(node, Caller::internal(), key).await.unwrap().is_none();
        assert_eq!(is_gone, kept_at(key) == 0, "{key}");
    }
    assert!((0..2).all(|number| keys.iter().any(|key| kept_at(key) == number)));
    // Again.
    for _ in 0..2 {
        let outcomes = delete_states(node, Caller::internal(), &group, None).await.unwrap();
        assert!(outcomes.values().all(Result::is_ok));
    }
    for key in &keys {
        assert_eq!(state::summary(node, Caller::internal(), key).await, Ok(None), "{key}");
    }
    assert_eq!(delete_group(node, &group).await, Ok(()));
    let gone = delete_states(node, Caller::internal(), &group, None).await;
    assert!(matches!(gone, Err(DeletionFailure::Refused(GroupError::GroupNotFound { .. }))), "{gone:?}");
    rig.running.stop().await;
}

/// A node is killed, or a coordinator moves, after the group has recorded that its states are being deleted.
#[tokio::test]
async fn a_deletion_that_was_begun_is_carried_out_after_a_start() {
    let rig = Rig::start().await;
    let group = group_of(rig.node(), &["jobs"]).await;
    let key = SharePartitionKey { group: Arc::clone(&group), ..rig.key.clone() };
    let begun =
        tell_share_group(rig.node(), Caller::internal(), &group, ShareEvent::DeleteStates { topics: None })
            .await;
    assert!(matches!(begun, Ok(ShareReply::DeleteStates(Ok(_)))), "{begun:?}");
    assert!(state::summary(rig.node(), Caller::internal(), &key).await.unwrap().is_some());
    rig.running.stop().await;
    let running = start_in(&rig.folder, &SETTINGS).await;
    let node = running.node();
    while delete_group(node, &group).await.is_err() {
        // Coordinators are loaded after the start.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(state::summary(node, Caller::internal(), &key).await, Ok(None));
    running.stop().await;
}

/// By a coordinator that has moved, or a node that was stopped for a while.
#[tokio::test]
async fn states_that_are_made_for_a_group_that_is_gone_are_taken_back() {
    let rig = Rig::start().await;
    let node = rig.node();
    let key = SharePartitionKey { group: "gone".into(), ..rig.key.clone() };
    let topics = vec![(key.topic, vec![key.partition])];
    let late = ShareWork::InitializeStates { group: "gone".into(), generation: 7, topics };
    GroupCoordinator::perform(Arc::clone(node), 0, GroupWork::Share(late)).await;
    assert_eq!(state::summary(node, Caller::internal(), &key).await, Ok(None));
    rig.running.stop().await;
}

/// A node that missed a deletion.
#[tokio::test]
async fn a_share_partition_in_use_finds_out_that_its_state_is_another_one() {
    let rig = Rig::start().await;
    let node = rig.node();
    let delete =
        |upto| state::ask(node, Caller::internal(), ShareRequest::Delete { key: rig.key.clone(), upto });
    for generation in 1..3 {
        let live = node.share.get_or_load(node, Caller::internal(), &rig.key).await.unwrap();
        live.check(node).await;
        assert!(live.with_core(|_| ()).is_some(), "it is the same");
        delete(generation).await.unwrap();
        if generation == 1 {
            state::initialize(node, Caller::internal(), &rig.key, 2).await.unwrap();
        }
        live.check(node).await;
        assert!(live.with_core(|_| ()).is_none());
    }
    assert!(matches!(
        node.share.get_or_load(node, Caller::internal(), &rig.key).await,
        Err(ShareFailure::NoState)
    ));
    // Using it checks the state from time to time.
    state::initialize(node, Caller::internal(), &rig.key, 3).await.unwrap();
    let live = node.share.get_or_load(node, Caller::internal(), &rig.key).await.unwrap();
    delete(3).await.unwrap();
    live.checked_at.store(i64::MIN, Ordering::Relaxed);
    while live.with_core(|_| ()).is_some() {
        let _ = node.share.get_or_load(node, Caller::internal(), &rig.key).await;
        // The check of the state runs after the answer.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    rig.running.stop().await;
}

#[tokio::test]
async fn only_committed_records_where_only_those_count() {
    let rig = Rig::start().await;
    let node = rig.node();
    let live = node.share.get_or_load(node, Caller::internal(), &rig.key).await.unwrap();
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
    live.acknowledge(node, Caller::internal(), &settings, "m", &[said(0, 1), said(4, 4)]).unwrap();
    live.keep(node, Caller::internal()).kept().await.unwrap();
    assert_eq!(rig.acquire(&live, true).await, []);
    let (start, complete) = live.with_core(|core| (core.start(), core.delivery_complete_count())).unwrap();
    assert_eq!((start, complete), (Offset(7), 0), "nothing is left over at the end");
    // Another group takes everything except the markers.
    let other = SharePartitionKey { group: "h".into(), ..rig.key.clone() };
    let missing = state::reset(node, Caller::internal(), &other, 1, Offset(0)).await;
    assert_eq!(missing, Err(StateFailure::Refused(ShareStateError::NotInitialized)));
    state::initialize(node, Caller::internal(), &other, 1).await.unwrap();
    state::reset(node, Caller::internal(), &other, 1, Offset(0)).await.unwrap();
    let live = node.share.get_or_load(node, Caller::internal(), &other).await.unwrap();
    assert_eq!(rig.acquire(&live, false).await, [(0, 1), (2, 3), (4, 4)]);
    rig.running.stop().await;
}

#[tokio::test]
async fn what_is_set_again_or_deleted_no_longer_counts() {
    let rig = Rig::start().await;
    let node = rig.node();
    let live = node.share.get_or_load(node, Caller::internal(), &rig.key).await.unwrap();
    rig.produce(None, 3).await;
    assert_eq!(rig.acquire(&live, false).await, [(0, 2)]);
    state::reset(node, Caller::internal(), &rig.key, 1, Offset(1)).await.unwrap();
    let said = [Acknowledgement { first: Offset(0), last: Offset(2), kinds: vec![AcknowledgeKind::Accept] }];
    let refused = live.acknowledge(node, Caller::internal(), &rig.settings(false), "m", &said);
    assert!(matches!(refused, Err(AcknowledgeFailure::Gone)), "{refused:?}");
    let live = node.share.get_or_load(node, Caller::internal(), &rig.key).await.unwrap();
    assert_eq!(rig.acquire(&live, false).await, [(1, 2)]);
    // If a coordinator's state changes behind its back, a share-partition is invalidated when it next keeps
    // something.
    let request = ShareRequest::Delete { key: rig.key.clone(), upto: 1 };
    state::ask(node, Caller::internal(), request).await.unwrap();
    let said = [Acknowledgement { first: Offset(1), ..said[0].clone() }];
    live.acknowledge(node, Caller::internal(), &rig.settings(false), "m", &said).unwrap();
    assert!(
        live.keep(node, Caller::internal()).kept().await.is_err(),
        "no client may be told that it was accepted"
    );
    let gone = node.share.get_or_load(node, Caller::internal(), &rig.key).await;
    assert!(matches!(gone, Err(ShareFailure::NoState)));
    state::initialize(node, Caller::internal(), &rig.key, 2).await.unwrap();
    let live = node.share.get_or_load(node, Caller::internal(), &rig.key).await.unwrap();
    assert_eq!(live.with_core(|core| core.start()), Some(Offset(3)), "the group starts again, at the end");
    for _ in 0..2 {
        assert_eq!(
            state::delete(node, Caller::internal(), std::slice::from_ref(&rig.key), 2).await,
            [Ok(())]
        );
        assert_eq!(state::summary(node, Caller::internal(), &rig.key).await, Ok(None));
    }
    assert_eq!(live.with_core(|_| ()), None);
    rig.running.stop().await;
}

#[tokio::test]
async fn what_is_not_used_any_more_is_dropped() {
    let rig = Rig::start().await;
    let node = rig.node();
    let live = node.share.get_or_load(node, Caller::internal(), &rig.key).await.unwrap();
    let now = node.share.clock.now();
    assert!(live.is_idle_since(TimestampMs(now.0 + 1_000), Duration::from_millis(500)));
    assert!(!live.is_idle_since(now, Duration::from_secs(500)));
    rig.produce(None, 1).await;
    assert_eq!(rig.acquire(&live, false).await, [(0, 0)]);
    assert!(!live.is_idle_since(TimestampMs(now.0 + 1_000), Duration::from_millis(500)), "a record is held");
    live.release_member(node, Caller::internal(), "m");
    live.keep(node, Caller::internal()).kept().await.unwrap();
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
    let live = node.share.get_or_load(node, Caller::internal(), key).await.unwrap();
    assert!(!is_swept(), "it is in use");
    // Pretends that the acquisition locks are watched. A real watch would hold it, too.
    live.watched.store(true, Ordering::Relaxed);
    rig.produce(None, 1).await;
    assert_eq!(rig.acquire(&live, false).await, [(0, 0)]);
    drop(live);
    assert!(!is_swept(), "a record is held");
    let live = node.share.get(key).unwrap();
    let said = Acknowledgement { first: Offset(0), last: Offset(0), kinds: vec![AcknowledgeKind::Accept] };
    live.acknowledge(node, Caller::internal(), &rig.settings(false), "m", &[said]).unwrap();
    drop(live);
    assert!(!is_swept(), "the acknowledgement is not kept yet");
    node.share.get(key).unwrap().keep(node, Caller::internal()).kept().await.unwrap();
    node.share.sweep_once(node, node.share.clock.now());
    assert!(node.share.get(key).is_some(), "it was in use a moment ago");
    assert!(is_swept());
    rig.running.stop().await;
}

#[tokio::test]
async fn what_a_member_could_have_is_measured_without_acquiring_it() {
    let rig = Rig::start().await;
    let node = rig.node();
    let live = node.share.get_or_load(node, Caller::internal(), &rig.key).await.unwrap();
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
        live.acknowledge(node, Caller::internal(), &rig.settings(false), "m", &[said]).unwrap();
    };
    say(0, 0, AcknowledgeKind::Release);
    assert_eq!(measure(u64::MAX), a + d, "what others hold in between does not count");
    say(4, 5, AcknowledgeKind::Release);
    say(7, 33, AcknowledgeKind::Release);
    assert_eq!(measure(u64::MAX), a + b + c + d, "a batch counts once, however many runs of it there are");
    say(34, 34, AcknowledgeKind::Accept);
    assert_eq!(measure(u64::MAX), a + b + c + d);
    // An open transaction's records do not count if only committed ones do.
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

/// A share-partition that was changed half-way must not be used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_share_partition_that_panics_is_loaded_again() {
    let rig = Rig::start().await;
    let live = rig.node().share.get_or_load(rig.node(), Caller::internal(), &rig.key).await.unwrap();
    assert_eq!(live.with_core(|_| panic!("an invariant is broken")), None::<()>);
    assert_eq!(live.with_core(|_| ()), None, "it is no longer reachable");
    let reloaded = rig.node().share.get_or_load(rig.node(), Caller::internal(), &rig.key).await.unwrap();
    assert!(!Arc::ptr_eq(&live, &reloaded));
    assert_eq!(reloaded.with_core(|core| core.in_flight()), Some(0));
    assert_eq!(rig.running.stop().await, 0);
}

/// An acknowledgement may still be in flight to the coordinator, with the same epoch.
#[tokio::test]
async fn a_fresh_one_is_not_loaded_while_the_one_before_is_being_kept() {
    let rig = Rig::start().await;
    let (node, key) = (Arc::clone(rig.node()), rig.key.clone());
    let old = node.share.get_or_load(&node, Caller::internal(), &key).await.unwrap();
    let writes = old.keeping.lock().await;
    old.give_up();
    let again = tokio::spawn({
        let (node, key) = (Arc::clone(&node), key.clone());
        async move { node.share.get_or_load(&node, Caller::internal(), &key).await }
    });
    // By then it would have read the state.
    for _ in 0..20 {
        state::summary(&node, Caller::internal(), &key).await.unwrap();
    }
    assert!(!again.is_finished());
    drop(writes);
    assert!(!Arc::ptr_eq(&old, &again.await.unwrap().unwrap()));
    assert_eq!(rig.running.stop().await, 0);
}

/// Another leader may have handed out records meanwhile, and kept acknowledgements.
#[tokio::test]
async fn what_was_known_before_another_node_led_counts_no_more() {
    let rig = Rig::start().await;
    let node = rig.node();
    rig.produce(None, 3).await;
    let old = node.share.get_or_load(node, Caller::internal(), &rig.key).await.unwrap();
    state::reset(node, Caller::internal(), &rig.key, 1, Offset(0)).await.unwrap();
    assert_eq!(old.with_core(|_| ()), None, "its state was reset");
    let live = node.share.get_or_load(node, Caller::internal(), &rig.key).await.unwrap();
    assert_eq!(rig.acquire(&live, false).await, [(0, 2)]);
    live.handle.lead_again();
    let said = [Acknowledgement { first: Offset(0), last: Offset(2), kinds: vec![AcknowledgeKind::Accept] }];
    let refused = live.acknowledge(node, Caller::internal(), &rig.settings(false), "m", &said);
    assert!(matches!(refused, Err(AcknowledgeFailure::Gone)), "{refused:?}");
    live.release_member(node, Caller::internal(), "m");
    let reloaded = node.share.get_or_load(node, Caller::internal(), &rig.key).await.unwrap();
    assert!(!Arc::ptr_eq(&live, &reloaded));
    assert_eq!(reloaded.with_core(|core| core.in_flight()), Some(0));
    // Leadership that was lost while nothing used the share-partition is detected as well.
    reloaded.handle.lead_again();
    assert!(!Arc::ptr_eq(
        &reloaded,
        &node.share.get_or_load(node, Caller::internal(), &rig.key).await.unwrap()
    ));
    rig.running.stop().await;
}

/// After a start no files of old segments are open. Code that must not wait for the disk hands the read to a
/// thread that may.
#[tokio::test]
async fn records_are_handed_out_though_the_disk_has_to_be_asked_where_they_lie() {
    let rig = Rig::start_with(vec![("internal.segment.bytes".to_owned(), Some("1000".to_owned()))]).await;
    state::reset(rig.node(), Caller::internal(), &rig.key, 1, Offset(0)).await.unwrap();
    for _ in 0..30 {
        rig.produce(None, 3).await;
    }
    let rig = rig.again().await;
    let live = rig.node().share.get_or_load(rig.node(), Caller::internal(), &rig.key).await.unwrap();
    let terms = ReadTerms::new(Offset(0), Isolation::HighWatermark, 1);
    let at_hand = live.handle.read(Caller::internal(), &ReadTerms { reach: Reach::Memory, ..terms });
    assert!(matches!(at_hand, Err(ReadFailure::NotAtHand)), "a read of memory alone would do");
    assert_eq!(rig.acquire(&live, false).await.first().map(|batch| batch.0), Some(0));
    rig.running.stop().await;
}
