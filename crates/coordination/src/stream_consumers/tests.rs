//! Tests of the coordinator alone, with its log. `node` tests it together with streams and their leaders.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use tailrace_metadata::{Controller, MetadataImage, MetadataRecord};
use tailrace_types::{LeaderEpoch, Offset, TimestampMs, TopicId, TopicName};

use super::*;
use crate::coordinator::{Coordinator, Effects, Generations, Moment, Replayed, Token};

const TOPIC: TopicId = TopicId([1; 16]);
const OTHER: TopicId = TopicId([2; 16]);

fn image(topics: &[TopicId]) -> Arc<MetadataImage> {
    let mut controller = Controller::new(BTreeMap::new()).unwrap();
    for (number, id) in topics.iter().enumerate() {
        let created = MetadataRecord::TopicCreated {
            name: TopicName::new(&format!("orders{number}")).unwrap(),
            id: *id,
            partitions: 1,
            replication_factor: 1,
            created_at: TimestampMs(0),
            configs: BTreeMap::new(),
            replicas: Vec::new(),
        };
        controller.apply(&created).unwrap();
    }
    controller.image()
}

/// A coordinator and its log.
struct Rig {
    coordinator: ConsumersCoordinator,
    image: Arc<MetadataImage>,
    log: Vec<(bytes::Bytes, Option<bytes::Bytes>)>,
    epoch: i32,
    drawn: AtomicU32,
}

impl Rig {
    fn new() -> Self {
        Self {
            coordinator: ConsumersCoordinator::new(),
            image: image(&[TOPIC, OTHER]),
            log: Vec::new(),
            epoch: 0,
            drawn: AtomicU32::new(0),
        }
    }

    fn moment<'a>(image: &'a Arc<MetadataImage>, epoch: i32, drawn: &'a AtomicU32) -> Moment<'a> {
        let generations = Generations::new(LeaderEpoch(epoch), drawn);
        Moment { now: TimestampMs(0), image, generations }
    }

    fn keep(&mut self, effects: &Effects<ConsumersCoordinator>) {
        for append in &effects.appends {
            self.log.extend(append.records.iter().map(|record| (record.key.clone(), record.value.clone())));
        }
    }

    fn ask(&mut self, request: ConsumersRequest) -> ConsumersReply {
        let image = Arc::clone(&self.image);
        let moment = Self::moment(&image, self.epoch, &self.drawn);
        let effects = self.coordinator.step(ConsumersEvent { token: Token(7), request }, &moment);
        self.keep(&effects);
        let [(Token(7), reply)] = effects.replies.as_slice() else { panic!("one answer") };
        reply.clone()
    }

    /// Another node coordinates, with this log.
    fn restart(&mut self) {
        (self.epoch, self.drawn) = (self.epoch + 1, AtomicU32::new(0));
        self.coordinator = ConsumersCoordinator::new();
        for (key, value) in &self.log {
            let (value, timestamp, offset) = (value.as_deref(), TimestampMs(0), Offset(0));
            let entry = Replayed::Record { key, value, timestamp, offset, producer: None };
            self.coordinator.replay(entry).unwrap();
        }
        let image = Arc::clone(&self.image);
        let effects = self.coordinator.loaded(&Self::moment(&image, self.epoch, &self.drawn));
        self.keep(&effects);
    }

    /// Leaves the newest record of each key.
    fn compact(&mut self) {
        let newest: BTreeMap<_, _> =
            self.log.iter().enumerate().map(|(number, (key, _))| (key.clone(), number)).collect();
        let mut number = 0;
        self.log.retain(|(key, value)| {
            number += 1;
            newest[key] == number - 1 && value.is_some()
        });
    }

    fn open(&mut self, leader_epoch: i32) -> i64 {
        match self.ask(ConsumersRequest::Open { topic: TOPIC, leader_epoch }) {
            Ok(ConsumersAnswer::Opened(generation)) => generation,
            other => panic!("{other:?}"),
        }
    }

    fn write(&mut self, generation: i64, sequence: i64, write: ConsumersWrite) -> ConsumersReply {
        self.ask(ConsumersRequest::Write { topic: TOPIC, generation, sequence, write })
    }

    fn page(&mut self, generation: i64, after: &str) -> ConsumersPage {
        let after = after.to_owned();
        match self.ask(ConsumersRequest::Read { topic: TOPIC, generation, after }) {
            Ok(ConsumersAnswer::Page(page)) => page,
            other => panic!("{other:?}"),
        }
    }

    /// What a new leader would find: names, snapshots, updates.
    fn found(&mut self) -> Vec<(String, String, Option<String>)> {
        let generation = self.open(i32::MAX);
        let text = |bytes: &Arc<[u8]>| String::from_utf8(bytes.to_vec()).unwrap();
        let page = self.page(generation, "");
        let kept = page.consumers.into_iter();
        kept.map(|kept| (kept.name, text(&kept.snapshot), kept.update.as_ref().map(text))).collect()
    }
}

fn whole(name: &str, state: &str) -> ConsumerWrite {
    let whole = WholeConsumer { stream: "S".to_owned(), config: "{}".to_owned(), created_ns: 5 };
    ConsumerWrite { name: name.to_owned(), whole: Some(whole), state: state.as_bytes().into() }
}

fn update(name: &str, state: &str) -> ConsumerWrite {
    ConsumerWrite { whole: None, ..whole(name, state) }
}

fn changed(changed: impl Into<Vec<ConsumerWrite>>) -> ConsumersWrite {
    ConsumersWrite { deleted: Vec::new(), changed: changed.into() }
}

fn deleted(name: &str) -> ConsumersWrite {
    ConsumersWrite { deleted: vec![name.to_owned()], changed: Vec::new() }
}

const DONE: ConsumersReply = Ok(ConsumersAnswer::Done);

#[test]
fn what_is_written_is_found_by_the_next_leader_also_in_a_compacted_log() {
    let mut rig = Rig::new();
    let generation = rig.open(3);
    assert_eq!(rig.write(generation, 1, changed([whole("A", "a1"), whole("B", "b1")])), DONE);
    assert_eq!(rig.write(generation, 2, changed([update("A", "a2"), update("B", "b2")])), DONE);
    // A new snapshot voids the update before it.
    assert_eq!(rig.write(generation, 3, changed([update("A", "a3"), whole("B", "b3")])), DONE);
    for compacted in [false, true] {
        if compacted {
            rig.compact();
        }
        rig.restart();
        let text = |text: &str| text.to_owned();
        let expected = [(text("A"), text("a1"), Some(text("a3"))), (text("B"), text("b3"), None)];
        assert_eq!(rig.found(), expected);
    }
}

#[test]
fn an_earlier_leader_and_an_earlier_generation_are_refused_also_by_the_next_coordinator() {
    let mut rig = Rig::new();
    let first = rig.open(3);
    assert_eq!(rig.write(first, 1, changed([whole("A", "a1")])), DONE);
    let second = rig.open(4);
    for restarted in [false, true] {
        if restarted {
            rig.restart();
        }
        let fenced = Err(ConsumersError::FencedGeneration { current: second, found: first });
        assert_eq!(rig.write(first, 2, changed([update("A", "late")])), fenced);
        let earlier = rig.ask(ConsumersRequest::Open { topic: TOPIC, leader_epoch: 3 });
        assert_eq!(earlier, Err(ConsumersError::FencedEpoch { current: 4, found: 3 }));
    }
    // The same leader after a restart, in its old epoch, is another writer, too.
    let third = rig.open(4);
    assert!(third > second, "{third} {second}");
    assert!(rig.write(second, 1, deleted("A")).is_err());
    assert_eq!(rig.found().len(), 1);
}

#[test]
fn a_write_that_comes_twice_or_late_changes_nothing() {
    let mut rig = Rig::new();
    let generation = rig.open(0);
    assert_eq!(rig.write(generation, 1, changed([whole("A", "a1")])), DONE);
    assert_eq!(rig.write(generation, 2, deleted("A")), DONE);
    for restarted in [false, true] {
        if restarted {
            rig.restart();
        }
        assert_eq!(rig.write(generation, 1, changed([whole("A", "a1")])), DONE);
        assert_eq!(rig.write(generation, 2, changed([whole("A", "a1")])), DONE);
        assert!(rig.coordinator.is_empty());
    }
    assert_eq!(rig.write(generation, 3, changed([whole("A", "a2")])), DONE);
    assert_eq!(rig.coordinator.len(), 1);
}

#[test]
fn a_write_of_which_only_a_part_got_into_the_log_is_done_again() {
    let mut rig = Rig::new();
    let generation = rig.open(0);
    let write = changed([whole("A", "a1"), whole("B", "b1")]);
    assert_eq!(rig.write(generation, 1, write.clone()), DONE);
    // The record of its number comes last.
    rig.log.truncate(2);
    rig.restart();
    assert_eq!(rig.write(generation, 1, write), DONE);
    assert_eq!(rig.coordinator.len(), 2);
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut rig = Rig::new();
    let unknown = rig.ask(ConsumersRequest::Open { topic: TopicId([9; 16]), leader_epoch: 0 });
    assert_eq!(unknown, Err(ConsumersError::UnknownStream));
    let generation = rig.open(0);
    let logged = rig.log.len();
    let stranger = changed([whole("A", "a1"), update("B", "b1")]);
    assert_eq!(rig.write(generation, 1, stranger), Err(ConsumersError::NoConsumer("B".to_owned())));
    for name in [String::new(), "x".repeat(1025)] {
        assert_eq!(rig.write(generation, 1, changed([whole(&name, "")])), Err(ConsumersError::Name));
    }
    assert_eq!((rig.coordinator.len(), rig.log.len()), (0, logged));
    assert_eq!(rig.ask(ConsumersRequest::HasAny { topic: TOPIC }), Ok(ConsumersAnswer::HasAny(false)));
    assert_eq!(rig.write(generation, 1, changed([whole("A", "a1")])), DONE);
    assert_eq!(rig.ask(ConsumersRequest::HasAny { topic: TOPIC }), Ok(ConsumersAnswer::HasAny(true)));
    assert_eq!(rig.ask(ConsumersRequest::HasAny { topic: OTHER }), Ok(ConsumersAnswer::HasAny(false)));
}

#[test]
fn nothing_is_left_of_a_stream_that_was_deleted() {
    let mut rig = Rig::new();
    let generation = rig.open(7);
    assert_eq!(rig.write(generation, 1, changed([whole("A", "a1")])), DONE);
    rig.image = image(&[OTHER]);
    rig.restart();
    assert!(rig.coordinator.is_empty());
    rig.compact();
    assert!(rig.log.is_empty());
    assert!(rig.write(generation, 2, changed([update("A", "a2")])).is_err());
}

#[test]
fn many_consumers_are_read_in_pages() {
    let mut rig = Rig::new();
    let generation = rig.open(0);
    let large = "x".repeat(300_000);
    for number in 0..7 {
        let write = changed([whole(&format!("C{number}"), &large)]);
        assert_eq!(rig.write(generation, number + 1, write), DONE);
    }
    let (mut names, mut pages, mut after) = (Vec::new(), Vec::new(), String::new());
    loop {
        let page = rig.page(generation, &after);
        pages.push(page.consumers.len());
        names.extend(page.consumers.into_iter().map(|kept| kept.name));
        after = names.last().unwrap().clone();
        if !page.has_more {
            break;
        }
    }
    assert_eq!(pages, [3, 3, 1]);
    assert_eq!(names, (0..7).map(|number| format!("C{number}")).collect::<Vec<_>>());
}
