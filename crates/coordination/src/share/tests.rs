//! The share coordinator by itself; together with share-partitions see `partition/model_test.rs`.

use std::sync::Arc;

use tailrace_metadata::MetadataImage;
use tailrace_types::{Offset, TimestampMs, TopicId};

use super::*;
use crate::coordinator::{Coordinator, Effects, Moment, Replayed, Token, partition_of_name};

pub(super) const TOPIC: TopicId = TopicId([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);

/// An image with one topic of two partitions, and snapshots after `updates` updates.
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
        let moment = Moment { now: TimestampMs(self.now), image: &image };
        let effects = self.coordinator.step(ShareEvent { token: Token(7), request }, &moment);
        self.keep(&effects);
        let [(Token(7), reply)] = effects.replies.as_slice() else { panic!("one answer") };
        reply.clone()
    }

    /// Throws the coordinator away and replays its log, compacted first if so wished.
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
        let effects = self.coordinator.loaded(&Moment { now: TimestampMs(self.now), image: &image });
        self.keep(&effects);
    }

    pub(super) fn state(&mut self) -> KeptState {
        match self.ask(ShareRequest::Read { key: key(), leader_epoch: 0 }) {
            Ok(ShareAnswer::State(state)) => state,
            other => panic!("{other:?}"),
        }
    }

    fn initialize(&mut self) -> ShareReply {
        self.ask(ShareRequest::Initialize { key: key(), state_epoch: 0, start: None })
    }

    fn write(&mut self, state_epoch: i32, leader_epoch: i32, first: i64) -> ShareReply {
        let batch = StateBatch {
            first: Offset(first),
            last: Offset(first),
            state: DeliveryState::Acknowledged,
            delivery_count: 1,
        };
        let write = StateWrite { start: Offset(0), delivery_complete_count: 1, batches: vec![batch] };
        self.ask(ShareRequest::Write { key: key(), state_epoch, leader_epoch, write })
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
        let reply = rig.ask(ShareRequest::Initialize { key, state_epoch: 0, start: None });
        assert_eq!(reply, Err(ShareStateError::UnknownPartition));
    }
    for group in ["".to_owned(), "x".repeat(32_768)] {
        let key = SharePartitionKey { group: group.into(), ..key() };
        let reply = rig.ask(ShareRequest::Initialize { key, state_epoch: 0, start: None });
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
    let reset = rig.ask(ShareRequest::Reset { key: key(), start: Offset(20) });
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
    let requests = [ShareRequest::Delete { key: key() }, ShareRequest::GroupDeleted { group: "g".into() }];
    for request in requests {
        rig.initialize().expect("it is made");
        rig.write(0, 0, 5).expect("it is kept");
        assert_eq!(rig.ask(request.clone()), Ok(ShareAnswer::Done));
        assert_eq!(rig.ask(request), Ok(ShareAnswer::Done), "twice is fine");
        assert!(rig.coordinator.is_empty());
        assert_eq!(rig.write(0, 0, 5), Err(ShareStateError::NotInitialized));
        rig.restart(false);
        assert!(rig.coordinator.is_empty());
    }
    rig.restart(true);
    assert!(rig.log.is_empty());
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
    let effects = rig.coordinator.metadata_changed(&Moment { now: TimestampMs(9), image: &image });
    assert_eq!((effects.appends.len(), rig.coordinator.len()), (1, 0));
}

#[test]
fn what_nodes_ask_each_other_arrives_as_it_was() {
    let batch =
        StateBatch { first: Offset(3), last: Offset(5), state: DeliveryState::Archived, delivery_count: 2 };
    let write = StateWrite { start: Offset(3), delivery_complete_count: 1, batches: vec![batch] };
    let requests = [
        ShareRequest::Initialize { key: key(), state_epoch: 4, start: None },
        ShareRequest::Reset { key: key(), start: Offset(9) },
        ShareRequest::Read { key: key(), leader_epoch: 7 },
        ShareRequest::Write { key: key(), state_epoch: 1, leader_epoch: 2, write },
        ShareRequest::Delete { key: key() },
        ShareRequest::Summary { key: key() },
        ShareRequest::List { group: "a:b".into() },
        ShareRequest::GroupDeleted { group: "g".into() },
    ];
    for request in requests {
        let text = serde_json::to_string(&request).unwrap();
        assert_eq!(serde_json::from_str::<ShareRequest>(&text).unwrap(), request, "{text}");
        assert_eq!(
            request.key().is_none(),
            matches!(request, ShareRequest::List { .. } | ShareRequest::GroupDeleted { .. })
        );
    }
    let state = KeptState {
        state_epoch: 1,
        leader_epoch: 2,
        start: Some(Offset(3)),
        delivery_complete_count: -1,
        batches: vec![batch],
    };
    for answer in [ShareAnswer::Done, ShareAnswer::State(state), ShareAnswer::Partitions(vec![key()])] {
        let text = serde_json::to_string(&answer).unwrap();
        assert_eq!(serde_json::from_str::<ShareAnswer>(&text).unwrap(), answer, "{text}");
    }
    let error = ShareStateError::FencedStateEpoch { current: 3, found: 2 };
    let text = serde_json::to_string(&error).unwrap();
    assert_eq!(serde_json::from_str::<ShareStateError>(&text).unwrap(), error, "{text}");
    assert!(serde_json::from_str::<ShareRequest>(r#"{"delete":{"key":"nonsense"}}"#).is_err());
}
