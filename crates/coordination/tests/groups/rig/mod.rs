//! A group coordinator without a server, with a list as its log and a number as its clock.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

pub(crate) mod show;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use bytes::{BufMut, Bytes, BytesMut};
use tailrace_coordination::coordinator::{
    Coordinator, CoordinatorRecord, Effects, Generations, Moment, Replayed, Token, TransactionalProducer,
};
use tailrace_coordination::groups::{GroupCoordinator, GroupEvent};
use tailrace_metadata::{Command, Controller, CreateTopic, Requester, TopicRef};
use tailrace_types::{LeaderEpoch, Offset, TimestampMs, TopicId};

/// An entry of a coordinator's partition.
#[derive(Clone, Debug)]
pub(crate) enum Logged {
    Record { record: CoordinatorRecord, timestamp: TimestampMs, producer: Option<TransactionalProducer> },
    Marker { producer: TransactionalProducer, committed: bool },
}

pub(crate) struct Rig {
    controller: Controller,
    pub(crate) core: GroupCoordinator,
    pub(crate) log: Vec<Logged>,
    /// Milliseconds since the rig was created.
    pub(crate) now: i64,
    next_token: u64,
    next_topic: u8,
    /// The number of generations drawn, over all restarts.
    drawn: AtomicU32,
}

impl Rig {
    pub(crate) fn new(settings: BTreeMap<String, String>) -> Self {
        let controller = Controller::new(settings).expect("legal settings");
        let mut rig = Self {
            controller,
            core: GroupCoordinator::new(),
            log: Vec::new(),
            now: 0,
            next_token: 0,
            next_topic: 0,
            drawn: AtomicU32::new(0),
        };
        rig.with_core(|core, moment| core.loaded(moment));
        rig
    }

    fn with_core(
        &mut self,
        act: impl FnOnce(&mut GroupCoordinator, &Moment<'_>) -> Effects<GroupCoordinator>,
    ) -> Effects<GroupCoordinator> {
        let image = self.controller.image();
        let now = TimestampMs(self.now);
        let generations = Generations::new(LeaderEpoch(0), &self.drawn);
        let effects = act(&mut self.core, &Moment { now, image: &image, generations });
        for append in &effects.appends {
            assert!(!append.records.is_empty(), "an empty batch");
            self.log.extend(append.records.iter().map(|record| Logged::Record {
                record: record.clone(),
                timestamp: now,
                producer: append.producer,
            }));
        }
        effects
    }

    /// Changes the settings from the next step on.
    pub(crate) fn set(&mut self, settings: BTreeMap<String, String>) {
        let mut controller = Controller::new(settings).expect("legal settings");
        for record in self.controller.snapshot_records() {
            controller.apply(&record).expect("a snapshot can be applied");
        }
        self.controller = controller;
    }

    pub(crate) fn token(&mut self) -> Token {
        self.next_token += 1;
        Token(self.next_token)
    }

    pub(crate) fn step(&mut self, event: GroupEvent) -> Effects<GroupCoordinator> {
        self.with_core(|core, moment| core.step(event, moment))
    }

    /// Ends a transaction. As in the server, the marker is in the log before the coordinator is told about
    /// it.
    pub fn marker(&mut self, producer: TransactionalProducer, committed: bool) {
        self.log.push(Logged::Marker { producer, committed });
        let marker = Replayed::Marker { producer, coordinator_epoch: 0, committed };
        self.core.replay(marker).expect("markers are understood");
    }

    /// Advances the time, and calls the coordinator at its deadlines. Returns the effects at each of them.
    pub(crate) fn advance(&mut self, ms: i64) -> Vec<(i64, Effects<GroupCoordinator>)> {
        let end = self.now + ms;
        let mut all = Vec::new();
        while let Some(deadline) = self.core.deadline().filter(|deadline| deadline.0 <= end) {
            self.now = self.now.max(deadline.0);
            let effects = self.with_core(|core, moment| core.tick(moment));
            assert_ne!(self.core.deadline(), Some(deadline), "a tick must move the deadline");
            all.push((self.now, effects));
        }
        self.now = end;
        all
    }

    /// Returns a coordinator that has replayed the log.
    pub(crate) fn replayed(&self) -> GroupCoordinator {
        let mut core = GroupCoordinator::new();
        for (offset, logged) in (0..).zip(&self.log) {
            let entry = match logged {
                Logged::Record { record, timestamp, producer } => Replayed::Record {
                    key: &record.key,
                    value: record.value.as_deref(),
                    timestamp: *timestamp,
                    offset: Offset(offset),
                    producer: *producer,
                },
                Logged::Marker { producer, committed } => {
                    Replayed::Marker { producer: *producer, coordinator_epoch: 0, committed: *committed }
                }
            };
            core.replay(entry).expect("what was written can be read");
        }
        core
    }

    /// Restarts the server: everything that is not in the log is lost.
    pub(crate) fn restart(&mut self) -> Effects<GroupCoordinator> {
        self.core = self.replayed();
        self.with_core(|core, moment| core.loaded(moment))
    }

    pub(crate) fn create_topic(&mut self, name: &str, partitions: i32) -> TopicId {
        self.next_topic += 1;
        let id = TopicId([self.next_topic; 16]);
        let mut create = CreateTopic::with_defaults(name, id, TimestampMs(self.now), Requester::Client);
        create.partitions = partitions;
        self.command(&Command::CreateTopic(create));
        id
    }

    pub(crate) fn delete_topic(&mut self, name: &str) -> Effects<GroupCoordinator> {
        let topic = TopicRef::Name(name.to_owned());
        self.command(&Command::DeleteTopic { topic, by: Requester::Client });
        self.with_core(|core, moment| core.metadata_changed(moment))
    }

    fn command(&mut self, command: &Command) {
        for record in self.controller.plan(command).expect("a legal command") {
            self.controller.apply(&record).expect("what was planned can be applied");
        }
    }

    pub(crate) fn topic_id(&self, name: &str) -> Option<TopicId> {
        self.controller.image().topic(name).map(|topic| topic.id)
    }
}

/// Returns the JoinGroup subscription of a consumer of these topics.
pub(crate) fn subscription(topics: &[&str]) -> Bytes {
    subscription_with_data(topics, None)
}

/// The same, with user data for the client's own assignor.
pub(crate) fn subscription_with_data(topics: &[&str], data: Option<&str>) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_i16(1);
    bytes.put_i32(i32::try_from(topics.len()).expect("few topics"));
    for topic in topics {
        bytes.put_i16(i16::try_from(topic.len()).expect("short names"));
        bytes.put_slice(topic.as_bytes());
    }
    put_data(&mut bytes, data);
    bytes.put_i32(0);
    bytes.freeze()
}

/// Returns an assignment without partitions, with user data for the client's own assignor.
pub(crate) fn assignment_of_data(data: &str) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_i16(1);
    bytes.put_i32(0);
    put_data(&mut bytes, Some(data));
    bytes.freeze()
}

fn put_data(bytes: &mut BytesMut, data: Option<&str>) {
    match data {
        Some(data) => {
            bytes.put_i32(i32::try_from(data.len()).expect("little data"));
            bytes.put_slice(data.as_bytes());
        }
        None => bytes.put_i32(-1),
    }
}

pub(crate) fn shared(text: &str) -> Arc<str> {
    text.into()
}
