//! Tests of the share coordinator alone. `partition/model_test.rs` tests it together with share-partitions.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use tailrace_metadata::MetadataImage;
use tailrace_types::{LeaderEpoch, Offset, TimestampMs, TopicId};

use super::*;
use crate::coordinator::{Coordinator, Effects, Generations, Moment, Replayed, Token, partition_of_name};

pub(super) const TOPIC: TopicId = TopicId([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);

/// Returns an image with one topic of two partitions, and snapshots after `updates` updates.
pub(super) fn image(updates: u32) -> Arc<MetadataImage> {
    use tailrace_metadata::MetadataRecord;
    let settings =
        [("share.coordinator.snapshot.update.records.per.snapshot".to_owned(), updates.to_string())];
    let mut controller = tailrace_metadata::Controller::new(settings.into()).expect("legal");
    let created = MetadataRecord::TopicCreated {
        name: tailrace_types::TopicName::new("jobs").expect("legal"),
        id: TOPIC,
        partitions: 2,
        replication_factor: 1,
        created_at: TimestampMs(0),
        configs: std::collections::BTreeMap::new(),
        replicas: Vec::new(),
    };
    controller.apply(&created).expect("it applies");
    controller.image()
}

/// These tests draw no generations.
static DRAWN: AtomicU32 = AtomicU32::new(0);

fn moment(now: TimestampMs, image: &Arc<MetadataImage>) -> Moment<'_> {
    Moment { now, image, generations: Generations::new(LeaderEpoch(0), &DRAWN) }
}

pub(super) fn key() -> SharePartitionKey {
    SharePartitionKey { group: "g".into(), topic: TOPIC, partition: 1 }
}

/// A coordinator and its log.
pub(super) struct Rig {
    pub(super) coordinator: ShareCoordinator,
    pub(super) image: Arc<MetadataImage>,
    pub(super) log: Vec<(bytes::Bytes, Option<bytes::Bytes>)>,
    now: i64,
}

impl Rig {
    pub(super) fn new(updates: u32) -> Self {
        Self { coordinator: ShareCoordinator::new(), image: image(updates), log: Vec::new(), now: 0 }
    }

    fn keep(&mut self, effects: &Effects<ShareCoordinator>) {
        for append in &effects.appends {
            assert!(append.producer.is_none() && !append.records.is_empty());
            self.log.extend(append.records.iter().map(|record| (record.key.clone(), record.value.clone())));
        }
    }

    pub(super) fn ask(&mut self, request: ShareRequest) -> ShareReply {
        self.now += 1;
        let image = Arc::clone(&self.image);
        let moment = moment(TimestampMs(self.now), &image);
        let effects = self.coordinator.step(ShareEvent { token: Token(7), request }, &moment);
        self.keep(&effects);
        let [(Token(7), reply)] = effects.replies.as_slice() else { panic!("one answer") };
        reply.clone()
    }

    /// Drops the coordinator and replays its log, which may be compacted first.
    pub(super) fn restart(&mut self, compacted: bool) {
        if compacted {
            let mut last = std::collections::BTreeMap::new();
            for (number, (key, _)) in self.log.iter().enumerate() {
                last.insert(key.clone(), number);
            }
            let mut number = 0;
            self.log.retain(|(key, value)| {
                number += 1;
                last[key] == number - 1 && value.is_some()
            });
        }
        self.coordinator = ShareCoordinator::new();
        for (key, value) in &self.log {
            let entry = Replayed::Record {
                key,
                value: value.as_deref(),
                timestamp: TimestampMs(0),
                offset: Offset(0),
                producer: None,
            };
            self.coordinator.replay(entry).expect("it can be understood");
        }
        let image = Arc::clone(&self.image);
        let effects = self.coordinator.loaded(&moment(TimestampMs(self.now), &image));
        self.keep(&effects);
    }

    pub(super) fn state(&mut self) -> KeptState {
        match self.ask(ShareRequest::Read { key: key(), leader_epoch: 0 }) {
            Ok(ShareAnswer::State(state)) => state,
            other => panic!("{other:?}"),
        }
    }

    fn initialize(&mut self) -> ShareReply {
        self.ask(ShareRequest::Initialize { key: key(), generation: 1 })
    }

    fn write(&mut self, state_epoch: i32, leader_epoch: i32, first: i64) -> ShareReply {
        let batch = StateBatch {
            first: Offset(first),
            last: Offset(first),
            state: DeliveryState::Acknowledged,
            delivery_count: 1,
        };
        let write = StateWrite { start: Offset(0), delivery_complete_count: 1, batches: vec![batch] };
        self.ask(ShareRequest::Write { key: key(), generation: 1, state_epoch, leader_epoch, write })
    }
}

#[test]
fn keys_go_where_kafka_puts_them() {
    let key = SharePartitionKey { partition: 3, ..key() };
    // From Utils.abs("g:AQIDBAUGBwgJCgsMDQ4PEA:3".hashCode()) % 50.
    assert_eq!(partition_of_name(&key.coordinator_key(), 50), 49);
}

#[test]
fn a_state_is_made_once_and_stays() {
    let mut rig = Rig::new(500);
    let nothing = rig.ask(ShareRequest::Read { key: key(), leader_epoch: 0 });
    assert_eq!(nothing, Err(ShareStateError::NotInitialized));
    assert_eq!(rig.write(0, 0, 5), Err(ShareStateError::NotInitialized));
    assert!(rig.initialize().is_ok());
    assert_eq!(rig.state().start, None);
    assert_eq!(rig.write(0, 0, 5), Ok(ShareAnswer::Done));
    let before = rig.state();
    assert_eq!(rig.initialize(), Ok(ShareAnswer::State(before.clone())));
    rig.restart(false);
    assert_eq!(rig.state(), before);
    rig.restart(true);
    assert_eq!(rig.state(), before);
}

#[test]
fn unknown_topics_and_partitions_are_refused() {
    let mut rig = Rig::new(500);
    let elsewhere = [
        SharePartitionKey { topic: TopicId([9; 16]), ..key() },
        SharePartitionKey { partition: 2, ..key() },
        SharePartitionKey { partition: -1, ..key() },
    ];
    for key in elsewhere {
        let reply = rig.ask(ShareRequest::Initialize { key, generation: 1 });
        assert_eq!(reply, Err(ShareStateError::UnknownPartition));
    }
    for group in ["".to_owned(), "x".repeat(32_768)] {
        let key = SharePartitionKey { group: group.into(), ..key() };
        let reply = rig.ask(ShareRequest::Initialize { key, generation: 1 });
        assert_eq!(reply, Err(ShareStateError::GroupName));
    }
    assert!(rig.log.is_empty());
}

#[test]
fn old_epochs_are_fenced() {
    let mut rig = Rig::new(500);
    rig.initialize().expect("it is made");
    rig.ask(ShareRequest::Read { key: key(), leader_epoch: 4 }).expect("it is read");
    assert_eq!(rig.write(0, 3, 5), Err(ShareStateError::FencedLeaderEpoch { current: 4, found: 3 }));
    let old = rig.ask(ShareRequest::Read { key: key(), leader_epoch: 3 });
    assert_eq!(old, Err(ShareStateError::FencedLeaderEpoch { current: 4, found: 3 }));
    assert!(rig.write(0, 4, 5).is_ok());
    let reset = rig.ask(ShareRequest::Reset { key: key(), generation: 1, start: Offset(20) });
    assert!(matches!(
        reset,
        Ok(ShareAnswer::State(KeptState { state_epoch: 1, start: Some(Offset(20)), .. }))
    ));
    assert_eq!(rig.write(0, 4, 5), Err(ShareStateError::FencedStateEpoch { current: 1, found: 0 }));
    assert_eq!(rig.state().batches, []);
    rig.restart(true);
    assert_eq!((rig.state().state_epoch, rig.state().start), (1, Some(Offset(20))));
}

#[test]
fn a_snapshot_follows_so_many_updates() {
    let mut rig = Rig::new(2);
    rig.initialize().expect("it is made");
    for first in [1, 3, 5, 7] {
        rig.write(0, 0, first).expect("it is kept");
    }
    let kinds: Vec<u8> = rig.log.iter().map(|(key, _)| key[1]).collect();
    assert_eq!(kinds, [0, 1, 1, 0, 1], "snapshot, two updates, snapshot, update");
    let before = rig.state();
    assert_eq!(before.batches.len(), 4);
    for compacted in [false, true] {
        rig.restart(compacted);
        assert_eq!(rig.state(), before);
    }
    assert_eq!(rig.log.len(), 2, "a compacted log holds a snapshot and an update");
}

#[test]
fn what_is_deleted_is_gone() {
    let mut rig = Rig::new(500);
    rig.initialize().expect("it is made");
    rig.write(0, 0, 5).expect("it is kept");
    let delete = ShareRequest::Delete { key: key(), upto: 1 };
    assert_eq!(rig.ask(delete.clone()), Ok(ShareAnswer::Done));
    assert_eq!(rig.ask(delete), Ok(ShareAnswer::Done), "twice is fine");
    assert!(rig.coordinator.is_empty());
    assert_eq!(rig.write(0, 0, 5), Err(ShareStateError::NotInitialized));
    for compacted in [false, true] {
        rig.restart(compacted);
        assert!(rig.coordinator.is_empty());
    }
    assert!(rig.log.is_empty());
}

/// A deposed leader does not know of a state that its successor has initialized. Its deletion must not
/// succeed, so it writes tombstones, which are not committed.
#[test]
fn a_deletion_of_what_is_not_there_is_written() {
    let mut rig = Rig::new(500);
    rig.ask(ShareRequest::Delete { key: key(), upto: 1 }).expect("there is nothing");
    assert_eq!(rig.log.iter().filter(|(_, value)| value.is_none()).count(), 2);
}

#[test]
fn what_comes_late_finds_nothing_to_make_set_or_delete() {
    let mut rig = Rig::new(500);
    let make = |generation| ShareRequest::Initialize { key: key(), generation };
    let set = |generation| ShareRequest::Reset { key: key(), generation, start: Offset(9) };
    let fenced = |current| Err(ShareStateError::FencedGeneration { current, found: 3 });
    rig.ask(make(3)).expect("it is made");
    rig.ask(ShareRequest::Delete { key: key(), upto: 3 }).expect("it is deleted");
    assert_eq!(rig.ask(make(3)), fenced(3), "it was asked for before the deletion");
    assert_eq!(rig.ask(set(3)), fenced(3));
    assert!(rig.coordinator.is_empty());
    // A reloaded coordinator has forgotten the deletion. There is still nothing to reset.
    rig.restart(true);
    assert_eq!(rig.ask(set(3)), Err(ShareStateError::NotInitialized));
    // The next group of that name.
    rig.ask(make(5)).expect("it is made");
    for request in [make(3), set(3)] {
        assert_eq!(rig.ask(request), fenced(5));
    }
    let write = StateWrite { start: Offset(7), delivery_complete_count: 0, batches: Vec::new() };
    let late = ShareRequest::Write { key: key(), generation: 3, state_epoch: 0, leader_epoch: 0, write };
    assert_eq!(rig.ask(late), fenced(5), "of the leader of a share-partition of the group before");
    let before = rig.log.len();
    assert_eq!(rig.ask(ShareRequest::Delete { key: key(), upto: 4 }), Ok(ShareAnswer::Done));
    assert_eq!((rig.coordinator.len(), rig.log.len()), (1, before), "it is the state of another group");
    assert_eq!((rig.state().generation, rig.state().start), (5, None));
    rig.restart(true);
    assert_eq!((rig.state().generation, rig.state().start), (5, None));
}

/// The next group of the same name must not start at a state that was left behind.
#[test]
fn a_state_of_an_earlier_generation_makes_room() {
    let mut rig = Rig::new(500);
    rig.initialize().expect("it is made");
    rig.write(0, 4, 5).expect("it is kept");
    let fresh = rig.ask(ShareRequest::Initialize { key: key(), generation: 2 });
    let Ok(ShareAnswer::State(fresh)) = fresh else { panic!("{fresh:?}") };
    assert_eq!((fresh.generation, fresh.start, &fresh.batches[..]), (2, None, &[][..]));
    for compacted in [false, true] {
        rig.restart(compacted);
        assert_eq!(rig.state(), fresh);
    }
    // A state keeps its generation when it is reset.
    rig.ask(ShareRequest::Reset { key: key(), generation: 6, start: Offset(8) }).expect("it is set");
    assert_eq!((rig.state().generation, rig.state().start), (2, Some(Offset(8))));
}

#[test]
fn so_many_deletions_are_remembered_and_no_more() {
    let mut rig = Rig::new(500);
    for number in 0..super::coordinator::DELETED_MAX + 1 {
        let key = SharePartitionKey { group: format!("g{number}").into(), ..key() };
        let upto = i64::try_from(number).expect("there are few") + 1;
        rig.ask(ShareRequest::Delete { key, upto }).expect("it is deleted");
    }
    let mut make = |group: &str, generation| {
        let key = SharePartitionKey { group: group.into(), ..key() };
        rig.ask(ShareRequest::Initialize { key, generation }).is_ok()
    };
    assert!(make("g0", 1), "the earliest is forgotten");
    assert!(!make("g1", 2), "the others are not");
}

#[test]
fn states_of_topics_that_are_gone_are_forgotten() {
    let mut rig = Rig::new(500);
    rig.initialize().expect("it is made");
    let empty = tailrace_metadata::Controller::new(std::collections::BTreeMap::new()).expect("legal");
    rig.image = empty.image();
    rig.restart(false);
    assert!(rig.coordinator.is_empty());
    assert_eq!(rig.log.iter().filter(|(_, value)| value.is_none()).count(), 2);
    rig.image = image(500);
    rig.initialize().expect("it is made");
    let image = empty.image();
    let effects = rig.coordinator.metadata_changed(&moment(TimestampMs(9), &image));
    assert_eq!((effects.appends.len(), rig.coordinator.len()), (1, 0));
}

#[test]
fn what_nodes_ask_each_other_arrives_as_it_was() {
    let batch =
        StateBatch { first: Offset(3), last: Offset(5), state: DeliveryState::Archived, delivery_count: 2 };
    let write = StateWrite { start: Offset(3), delivery_complete_count: 1, batches: vec![batch] };
    let requests = [
        ShareRequest::Initialize { key: key(), generation: 4 },
        ShareRequest::Reset { key: key(), generation: 5, start: Offset(9) },
        ShareRequest::Read { key: key(), leader_epoch: 7 },
        ShareRequest::Write { key: key(), generation: 3, state_epoch: 1, leader_epoch: 2, write },
        ShareRequest::Delete { key: key(), upto: 6 },
        ShareRequest::Summary { key: key() },
    ];
    for request in requests {
        let text = serde_json::to_string(&request).unwrap();
        assert_eq!(serde_json::from_str::<ShareRequest>(&text).unwrap(), request, "{text}");
        assert_eq!(request.key(), &key());
    }
    let state = KeptState {
        generation: 1 << 33,
        state_epoch: 1,
        leader_epoch: 2,
        start: Some(Offset(3)),
        delivery_complete_count: -1,
        batches: vec![batch],
    };
    for answer in [ShareAnswer::Done, ShareAnswer::State(state)] {
        let text = serde_json::to_string(&answer).unwrap();
        assert_eq!(serde_json::from_str::<ShareAnswer>(&text).unwrap(), answer, "{text}");
    }
    let error = ShareStateError::FencedStateEpoch { current: 3, found: 2 };
    let text = serde_json::to_string(&error).unwrap();
    assert_eq!(serde_json::from_str::<ShareStateError>(&text).unwrap(), error, "{text}");
    assert!(serde_json::from_str::<ShareRequest>(r#"{"delete":{"key":"nonsense"}}"#).is_err());
}
