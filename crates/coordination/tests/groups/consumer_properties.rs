//! Consumer groups under all failures between members and coordinator. Requests and replies are lost or
//! duplicated. Members die, leave and come back. Topics are created, extended and deleted. The coordinator is
//! replayed at any moment, or loses its last writes. At no time may two members own the same partition. When
//! the failures stop, everything must be assigned.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use proptest::prelude::*;
use tailrace_coordination::coordinator::{
    Coordinator, CoordinatorRecord, Effects, Generations, Moment, Replayed, Token,
};
use tailrace_coordination::groups::{
    ConsumerDescription, ConsumerEvent, ConsumerHeartbeat, ConsumerReply, GroupCoordinator, GroupError,
    GroupEvent, GroupReply, GroupState, HeartbeatAnswer, Partitions,
};
use tailrace_metadata::{Command, Controller, CreateTopic, MetadataImage, Requester, TopicRef};
use tailrace_types::{LeaderEpoch, Offset, TimestampMs, TopicId};

const MEMBERS: usize = 6;
const TOPICS: usize = 3;
const GROUP: &str = "g";
/// A client that has heard nothing for this long sends a heartbeat, whatever the script says, in
/// milliseconds.
const PATIENCE_MS: i64 = 10_000;

/// These tests draw no generations.
static DRAWN: AtomicU32 = AtomicU32::new(0);

fn moment(now: TimestampMs, image: &Arc<MetadataImage>) -> Moment<'_> {
    Moment { now, image, generations: Generations::new(LeaderEpoch(0), &DRAWN) }
}

type Owned = BTreeSet<(TopicId, i32)>;

/// A coordinator with a list as its log and a number as its clock.
struct Rig {
    controller: Controller,
    core: GroupCoordinator,
    log: Vec<Vec<CoordinatorRecord>>,
    now: i64,
    next_topic: u8,
}

impl Rig {
    fn new(assignment_interval_ms: &str, assignor: &str) -> Self {
        let settings = [
            ("group.consumer.assignment.interval.ms", assignment_interval_ms),
            ("group.consumer.assignors", assignor),
        ];
        let settings = settings.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let controller = Controller::new(settings).expect("legal settings");
        Self { controller, core: GroupCoordinator::new(), log: Vec::new(), now: 1_000, next_topic: 0 }
    }

    fn act(
        &mut self,
        act: impl FnOnce(&mut GroupCoordinator, &Moment<'_>) -> Effects<GroupCoordinator>,
    ) -> Effects<GroupCoordinator> {
        let image = self.controller.image();
        let effects = act(&mut self.core, &moment(TimestampMs(self.now), &image));
        self.log.extend(effects.appends.iter().map(|append| append.records.clone()));
        effects
    }

    fn heartbeat(&mut self, beat: &ConsumerHeartbeat) -> Result<HeartbeatAnswer, GroupError> {
        let event = ConsumerEvent::Heartbeat(Box::new(beat.clone()));
        match self.ask(event) {
            ConsumerReply::Heartbeat(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    fn ask(&mut self, event: ConsumerEvent) -> ConsumerReply {
        let event = GroupEvent::Consumer { token: Token(1), group: GROUP.into(), event };
        let effects = self.act(|core, moment| core.step(event, moment));
        match effects.replies.into_iter().next() {
            Some((Token(1), GroupReply::Consumer(reply))) => reply,
            other => panic!("{other:?}"),
        }
    }

    fn describe(&mut self) -> Option<ConsumerDescription> {
        match self.ask(ConsumerEvent::Describe) {
            ConsumerReply::Describe(group) => group.ok(),
            other => panic!("{other:?}"),
        }
    }

    fn wait(&mut self, ms: i64) {
        let end = self.now + ms;
        while let Some(deadline) = self.core.deadline().filter(|deadline| deadline.0 <= end) {
            self.now = self.now.max(deadline.0);
            self.act(|core, moment| core.tick(moment));
        }
        self.now = end;
    }

    /// Restarts the coordinator with the first `batches` batches of its log.
    fn restart(&mut self, batches: usize) {
        self.log.truncate(batches);
        self.core = GroupCoordinator::new();
        for (offset, record) in (0..).zip(self.log.iter().flatten()) {
            let entry = Replayed::Record {
                key: &record.key,
                value: record.value.as_deref(),
                timestamp: TimestampMs(0),
                offset: Offset(offset),
                producer: None,
            };
            self.core.replay(entry).expect("what was written can be read");
        }
        self.act(|core, moment| core.loaded(moment));
    }

    fn command(&mut self, command: &Command) {
        let Ok(records) = self.controller.plan(command) else { return };
        for record in records {
            self.controller.apply(&record).expect("what was planned can be applied");
        }
        self.act(|core, moment| core.metadata_changed(moment));
    }

    fn create_topic(&mut self, name: &str, partitions: i32) {
        self.next_topic += 1;
        let id = TopicId([self.next_topic; 16]);
        let mut create = CreateTopic::with_defaults(name, id, TimestampMs(self.now), Requester::Client);
        create.partitions = partitions;
        self.command(&Command::CreateTopic(create));
    }
}

/// A client that behaves like the Java and C clients: it gives partitions back before it reports that, and
/// uses what it is assigned.
#[derive(Clone, Debug)]
struct Client {
    incarnation: u32,
    instance: bool,
    alive: bool,
    epoch: i32,
    owned: Owned,
    names: Vec<String>,
    expression: Option<String>,
    assignor: Option<String>,
    /// The last request may be lost, so the next one sends everything again.
    say_all: bool,
    reported: Option<Owned>,
    said_names: Vec<String>,
    said_expression: Option<String>,
    heard_at: i64,
}

impl Client {
    fn id(&self, number: usize) -> Arc<str> {
        format!("m{number}-{}", self.incarnation).into()
    }

    fn beat(&self, number: usize) -> ConsumerHeartbeat {
        let all = self.say_all || self.epoch == 0;
        let grouped = |owned: &Owned| {
            let mut topics: BTreeMap<TopicId, Vec<i32>> = BTreeMap::new();
            for (topic, partition) in owned {
                topics.entry(*topic).or_default().push(*partition);
            }
            topics.into_iter().collect::<Vec<_>>()
        };
        ConsumerHeartbeat {
            member: self.id(number),
            epoch: self.epoch,
            instance: self.instance.then(|| format!("i{number}").into()),
            rebalance_timeout_ms: all.then_some(60_000),
            topics: (all || self.names != self.said_names).then(|| self.names.clone()),
            expression: (all || self.expression != self.said_expression)
                .then(|| self.expression.clone().unwrap_or_default()),
            assignor: self.assignor.clone().filter(|_| all),
            owned: (all || self.reported.as_ref() != Some(&self.owned)).then(|| grouped(&self.owned)),
            ..ConsumerHeartbeat::default()
        }
    }

    fn said(&mut self) {
        self.reported = Some(self.owned.clone());
        self.said_names = self.names.clone();
        self.said_expression = self.expression.clone();
        self.say_all = false;
    }

    /// Handles a reply. Partitions that are no longer assigned are given back at once, and reported with the
    /// next heartbeat.
    fn hear(&mut self, answer: Result<HeartbeatAnswer, GroupError>, now: i64) {
        self.heard_at = now;
        match answer {
            Ok(answer) => {
                self.epoch = answer.epoch;
                if let Some(assignment) = answer.assignment {
                    self.owned = flat(&assignment);
                }
            }
            Err(GroupError::UnreleasedInstance { .. }) => {}
            Err(
                GroupError::FencedMemberEpoch { .. }
                | GroupError::UnknownMember { .. }
                | GroupError::GroupNotFound { .. },
            ) => {
                self.epoch = 0;
                self.owned.clear();
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn flat(partitions: &Partitions) -> Owned {
    partitions
        .iter()
        .flat_map(|(topic, partitions)| partitions.iter().map(|number| (*topic, *number)))
        .collect()
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Luck {
    Fine,
    RequestLost,
    AnswerLost,
    Twice,
    /// The coordinator is replayed before its reply is sent, and loses this many of its last batches.
    Crash(usize),
}

#[derive(Clone, Debug)]
enum Action {
    Beat(usize, Luck),
    Start(usize),
    Die(usize),
    Leave(usize),
    Away(usize),
    Subscribe(usize, u8),
    Expression(usize, Option<u8>),
    Wait(i64),
    Restart,
    CreateTopic(usize, i32),
    GrowTopic(usize),
    DeleteTopic(usize),
}

fn action() -> impl Strategy<Value = Action> {
    let member = || 0..MEMBERS;
    let luck = prop_oneof![
        6 => Just(Luck::Fine),
        1 => Just(Luck::RequestLost),
        1 => Just(Luck::AnswerLost),
        1 => Just(Luck::Twice),
        1 => (0..4_usize).prop_map(Luck::Crash),
    ];
    prop_oneof![
        30 => (member(), luck).prop_map(|(member, luck)| Action::Beat(member, luck)),
        5 => member().prop_map(Action::Start),
        1 => member().prop_map(Action::Die),
        1 => member().prop_map(Action::Leave),
        1 => member().prop_map(Action::Away),
        2 => (member(), 0..8_u8).prop_map(|(member, topics)| Action::Subscribe(member, topics)),
        1 => (member(), prop::option::of(0..3_u8)).prop_map(|(member, which)| Action::Expression(member, which)),
        6 => (1..2_500_i64).prop_map(Action::Wait),
        2 => Just(Action::Restart),
        1 => (0..TOPICS, 1..6_i32).prop_map(|(topic, partitions)| Action::CreateTopic(topic, partitions)),
        1 => (0..TOPICS).prop_map(Action::GrowTopic),
        1 => (0..TOPICS).prop_map(Action::DeleteTopic),
    ]
}

fn topic_name(number: usize) -> String {
    ["a", "ab", "b"][number].to_owned()
}

struct World {
    rig: Rig,
    clients: Vec<Client>,
    sizes: Vec<i32>,
}

impl World {
    fn new(interval: &str, assignor: &str) -> Self {
        let mut rig = Rig::new(interval, assignor);
        rig.create_topic(&topic_name(0), 4);
        let client = |number: usize| Client {
            incarnation: 0,
            instance: number.is_multiple_of(3),
            alive: false,
            epoch: 0,
            owned: Owned::new(),
            names: vec![topic_name(0)],
            expression: None,
            assignor: None,
            say_all: true,
            reported: None,
            said_names: Vec::new(),
            said_expression: None,
            heard_at: 0,
        };
        Self { rig, clients: (0..MEMBERS).map(client).collect(), sizes: vec![4, 0, 0] }
    }

    fn beat(&mut self, number: usize, luck: Luck) {
        if !self.clients[number].alive {
            return;
        }
        let beat = self.clients[number].beat(number);
        self.clients[number].said();
        let before = self.rig.log.len();
        let answer = match luck {
            Luck::RequestLost => None,
            Luck::AnswerLost => self.rig.heartbeat(&beat).err().map(Err),
            Luck::Fine => Some(self.rig.heartbeat(&beat)),
            Luck::Twice => {
                // The second reply is dropped: a client that repeats a request sends everything again.
                let answer = self.rig.heartbeat(&beat);
                let _ = self.rig.heartbeat(&beat);
                Some(answer)
            }
            Luck::Crash(lost) => {
                let _ = self.rig.heartbeat(&beat);
                let kept = self.rig.log.len().saturating_sub(lost).max(before);
                self.rig.restart(kept);
                None
            }
        };
        let now = self.rig.now;
        let client = &mut self.clients[number];
        match answer {
            Some(answer) => client.hear(answer, now),
            None => client.say_all = true,
        }
    }

    fn play(&mut self, action: &Action) {
        match *action {
            Action::Beat(number, luck) => self.beat(number, luck),
            Action::Start(number) => {
                let now = self.rig.now;
                let client = &mut self.clients[number];
                if !client.alive {
                    client.alive = true;
                    client.incarnation += 1;
                    client.epoch = 0;
                    client.say_all = true;
                    client.heard_at = now;
                    self.beat(number, Luck::Fine);
                }
            }
            Action::Die(number) => self.stop(number, None),
            Action::Leave(number) => self.stop(number, Some(-1)),
            Action::Away(number) if self.clients[number].instance => self.stop(number, Some(-2)),
            Action::Away(_) => {}
            Action::Subscribe(number, topics) => {
                let names = (0..TOPICS).filter(|topic| topics & (1 << topic) != 0).map(topic_name);
                self.clients[number].names = names.collect();
            }
            Action::Expression(number, which) => {
                let expressions = ["a.*", "b|ab", "nothing"];
                self.clients[number].expression =
                    which.map(|which| expressions[usize::from(which)].to_owned());
            }
            Action::Wait(ms) => {
                self.rig.wait(ms);
                for number in 0..MEMBERS {
                    if self.rig.now - self.clients[number].heard_at > PATIENCE_MS {
                        self.beat(number, Luck::Fine);
                    }
                }
            }
            Action::Restart => {
                let described = self.rig.describe();
                let batches = self.rig.log.len();
                self.rig.restart(batches);
                assert_eq!(self.rig.describe(), described, "what was written is what was");
            }
            Action::CreateTopic(topic, partitions) => {
                if self.sizes[topic] == 0 {
                    self.sizes[topic] = partitions;
                    self.rig.create_topic(&topic_name(topic), partitions);
                }
            }
            Action::GrowTopic(topic) => {
                if self.sizes[topic] > 0 {
                    self.sizes[topic] += 1;
                    let (topic, count) = (topic_name(topic), self.sizes[topic]);
                    self.rig.command(&Command::CreatePartitions {
                        topic,
                        count,
                        assignment: None,
                        by: Requester::Client,
                    });
                }
            }
            Action::DeleteTopic(topic) => {
                if self.sizes[topic] > 0 {
                    self.sizes[topic] = 0;
                    let topic = TopicRef::Name(topic_name(topic));
                    self.rig.command(&Command::DeleteTopic { topic, by: Requester::Client });
                }
            }
        }
    }

    /// Stops a client, which may announce it.
    fn stop(&mut self, number: usize, epoch: Option<i32>) {
        let client = &mut self.clients[number];
        if !client.alive {
            return;
        }
        client.alive = false;
        client.owned.clear();
        if let Some(epoch) = epoch {
            let beat = ConsumerHeartbeat {
                member: client.id(number),
                instance: client.instance.then(|| format!("i{number}").into()),
                epoch,
                ..ConsumerHeartbeat::default()
            };
            let _ = self.rig.heartbeat(&beat);
        }
    }

    /// Checks that no two clients use the same partition.
    fn check(&self) {
        let mut owners: BTreeMap<(TopicId, i32), usize> = BTreeMap::new();
        for (number, client) in self.clients.iter().enumerate() {
            for partition in &client.owned {
                if let Some(other) = owners.insert(*partition, number) {
                    panic!("clients {other} and {number} both use {partition:?}");
                }
            }
        }
    }

    fn reads(client: &Client, name: &str) -> bool {
        let matched = match client.expression.as_deref() {
            Some("a.*") => name.starts_with('a'),
            Some("b|ab") => name == "b" || name == "ab",
            _ => false,
        };
        matched || client.names.iter().any(|one| one == name)
    }

    /// Stops the failures: all live clients get through, and in the end everything is assigned.
    fn settle(&mut self) {
        for _ in 0..40 {
            for number in 0..MEMBERS {
                self.beat(number, Luck::Fine);
                self.check();
            }
            self.rig.wait(3_000);
        }
        let image = self.rig.controller.image();
        let mut expected = Owned::new();
        for topic in image.topics() {
            let read = |client: &&Client| client.alive && Self::reads(client, topic.name.as_str());
            if self.clients.iter().find(read).is_some() {
                expected.extend((0..topic.partitions).map(|number| (topic.id, number)));
            }
        }
        let found: Owned = self.clients.iter().flat_map(|client| client.owned.iter().copied()).collect();
        assert_eq!(found, expected);
        let living = self.clients.iter().filter(|client| client.alive).count();
        let Some(group) = self.rig.describe() else {
            assert_eq!(living, 0);
            return;
        };
        assert_eq!(group.members.len(), living);
        assert_eq!(group.state, if living == 0 { GroupState::Empty } else { GroupState::Stable });
        for (number, client) in self.clients.iter().enumerate().filter(|(_, client)| client.alive) {
            let member = group.members.iter().find(|member| member.member == client.id(number));
            let member = member.expect("a living client is a member");
            let assigned: Partitions =
                member.assignment.iter().map(|topic| (topic.topic, topic.partitions.clone())).collect();
            assert_eq!((flat(&assigned), member.epoch), (client.owned.clone(), client.epoch));
            assert_eq!(member.assignment, member.target);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn no_partition_has_two_owners_and_all_have_one_in_the_end(
        actions in prop::collection::vec(action(), 1..150),
        interval in prop::sample::select(vec!["0", "1000"]),
        assignor in prop::sample::select(vec!["uniform", "range"]),
    ) {
        let mut world = World::new(interval, assignor);
        for action in &actions {
            world.play(action);
            world.check();
        }
        world.settle();
    }
}
