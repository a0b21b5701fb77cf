//! Members of classic groups over an unreliable network. Requests are late, duplicated or lost, replies are
//! lost, and the coordinator is replayed at any moment. Whatever happens, acknowledged results hold, and no
//! request is answered twice. When the network recovers, the group completes a generation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tailrace_metadata::TopicRef;

use crate::rig::{Logged, Rig, shared, show, subscription};
use bytes::Bytes;
use proptest::prelude::*;
use tailrace_coordination::coordinator::{Effects, Token, TransactionalProducer};
use tailrace_coordination::groups::{
    ClassicEvent, ClassicReply, ClientIdentity, CommitPartition, CommitRequest, CommitTopic, Committer,
    FetchRequest, GroupCoordinator, GroupError, GroupEvent, GroupReply, GroupState, JoinAbilities,
    JoinRequest, LeavingMember, MemberReference, OffsetsEvent, OffsetsReply, SyncRequest,
};
use tailrace_records::internal::{GroupKey, GroupValue};
use tailrace_types::{ProducerEpoch, ProducerId};

const CLIENTS: usize = 4;
const PARTITIONS: i32 = 2;
const GROUP: &str = "g";

/// The next step of a client, or an event on the network.
#[derive(Clone, Debug)]
enum Op {
    /// A client takes its next step in the protocol.
    Act(usize),
    /// A client leaves.
    Leave(usize),
    /// A client commits an offset, perhaps in a transaction.
    Commit(usize, i32, i64, Option<i64>),
    /// A transaction ends.
    Marker(i64, bool),
    /// One of the requests in flight arrives.
    Deliver(usize),
    /// One arrives, and will arrive again.
    Duplicate(usize),
    /// One is lost.
    Drop(usize),
    /// The next reply to this client is lost.
    Deaf(usize),
    /// Time passes.
    Wait(u16),
    /// The coordinator is replayed.
    Restart,
    /// A client's process restarts, and forgets its member id.
    Reborn(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let client = 0..CLIENTS;
    prop_oneof![
        12 => client.clone().prop_map(Op::Act),
        12 => (0..8_usize).prop_map(Op::Deliver),
        3 => (0..8_usize).prop_map(Op::Duplicate),
        2 => (0..8_usize).prop_map(Op::Drop),
        2 => client.clone().prop_map(Op::Deaf),
        1 => client.clone().prop_map(Op::Leave),
        1 => client.clone().prop_map(Op::Reborn),
        4 => (client, 0..PARTITIONS, -2..50_i64, prop::option::weighted(0.3, 0..3_i64))
            .prop_map(|(client, partition, offset, producer)| Op::Commit(client, partition, offset, producer)),
        2 => (0..3_i64, any::<bool>()).prop_map(|(producer, committed)| Op::Marker(producer, committed)),
        4 => (0..4000_u16).prop_map(Op::Wait),
        1 => Just(Op::Restart),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Out,
    Joined,
    Member,
}

#[derive(Debug)]
struct Client {
    name: String,
    /// Half of the clients are static.
    instance: Option<Arc<str>>,
    member: Arc<str>,
    generation: i32,
    phase: Phase,
    leads: Vec<Arc<str>>,
    deaf: bool,
    births: u32,
}

#[derive(Clone, Debug)]
enum Request {
    Join(JoinRequest),
    Sync(SyncRequest),
    Heartbeat(MemberReference),
    Leave(Vec<LeavingMember>),
    Commit(CommitRequest),
}

struct World {
    rig: Rig,
    /// Another server, whose coordinator has only replayed the log.
    twin: Rig,
    clients: Vec<Client>,
    on_their_way: Vec<(usize, Request)>,
    /// The client and its process that sent each request.
    asked: BTreeMap<Token, (usize, u32)>,
    open: BTreeSet<Token>,
    fresh: u32,
    /// The leaders' assignments by generation, as written.
    written: BTreeMap<i32, BTreeMap<String, Bytes>>,
    /// The last committed offsets, as acknowledged.
    committed: BTreeMap<i32, i64>,
    /// The offsets in open transactions, in order.
    pending: BTreeMap<i64, BTreeMap<i32, (u64, i64)>>,
    committed_order: BTreeMap<i32, u64>,
    order: u64,
}

impl World {
    fn new() -> Self {
        let settings = BTreeMap::from([("group.initial.rebalance.delay.ms".to_owned(), "500".to_owned())]);
        let mut rig = Rig::new(settings);
        rig.create_topic("t", PARTITIONS);
        let mut twin = Rig::new(BTreeMap::new());
        twin.create_topic("t", PARTITIONS);
        let client = |number: usize| Client {
            name: format!("c{number}"),
            instance: (number % 2 == 1).then(|| format!("i{number}").into()),
            member: shared(""),
            generation: -1,
            phase: Phase::Out,
            leads: Vec::new(),
            deaf: false,
            births: 0,
        };
        Self {
            rig,
            twin,
            clients: (0..CLIENTS).map(client).collect(),
            on_their_way: Vec::new(),
            asked: BTreeMap::new(),
            open: BTreeSet::new(),
            fresh: 0,
            written: BTreeMap::new(),
            committed: BTreeMap::new(),
            pending: BTreeMap::new(),
            committed_order: BTreeMap::new(),
            order: 0,
        }
    }

    fn play(&mut self, op: &Op) {
        match op {
            Op::Act(client) => {
                let request = self.next_request(*client);
                self.on_their_way.push((*client, request));
            }
            Op::Leave(client) => {
                let client_state = &self.clients[*client];
                let leaving = LeavingMember {
                    member: Arc::clone(&client_state.member),
                    instance: client_state.instance.clone(),
                };
                self.on_their_way.push((*client, Request::Leave(vec![leaving])));
            }
            Op::Commit(client, partition, offset, producer) => {
                let request = self.commit(*client, *partition, *offset, *producer);
                self.on_their_way.push((*client, request));
            }
            Op::Marker(producer, committed) => self.marker(*producer, *committed),
            Op::Deliver(which) => self.deliver(*which, false),
            Op::Duplicate(which) => self.deliver(*which, true),
            Op::Drop(which) => {
                if *which < self.on_their_way.len() {
                    self.on_their_way.remove(*which);
                }
            }
            Op::Deaf(client) => self.clients[*client].deaf = true,
            Op::Wait(ms) => self.wait((*ms).into()),
            Op::Restart => self.restart(),
            Op::Reborn(client) => {
                let client = &mut self.clients[*client];
                client.births += 1;
                (client.member, client.generation, client.phase) = (shared(""), -1, Phase::Out);
            }
        }
    }

    fn next_request(&self, number: usize) -> Request {
        let client = &self.clients[number];
        let by = MemberReference {
            member: Arc::clone(&client.member),
            instance: client.instance.clone(),
            generation: client.generation,
        };
        match client.phase {
            Phase::Out => Request::Join(JoinRequest {
                client: ClientIdentity { client_id: client.name.clone(), client_host: "/h".to_owned() },
                member: by.member,
                // Filled in when the request arrives, as the server does.
                fresh_member: shared(""),
                instance: by.instance,
                session_timeout_ms: 6000,
                rebalance_timeout_ms: 9000,
                protocol_type: "consumer".to_owned(),
                protocols: vec![("range".to_owned(), subscription(&["t"]))],
                abilities: JoinAbilities { comes_back_with_id: true, skips_assignment: number < 2 },
            }),
            Phase::Joined => {
                let assignment = |member: &Arc<str>| {
                    (
                        Arc::clone(member),
                        Bytes::from(format!("{member} in {} by {}", client.generation, client.name)),
                    )
                };
                let assignments = client.leads.iter().map(assignment).collect();
                Request::Sync(SyncRequest { by, protocol_type: None, protocol: None, assignments })
            }
            Phase::Member => Request::Heartbeat(by),
        }
    }

    fn commit(&self, client: usize, index: i32, offset: i64, producer: Option<i64>) -> Request {
        let client = &self.clients[client];
        let producer =
            producer.map(|id| TransactionalProducer { id: ProducerId(id), epoch: ProducerEpoch(0) });
        let by = Committer {
            member: Arc::clone(&client.member),
            instance: client.instance.clone().filter(|_| !client.member.is_empty()),
            generation_or_epoch: client.generation,
            knows_epochs: false,
            transaction: producer,
        };
        let partition = CommitPartition { index, offset, leader_epoch: -1, metadata: String::new() };
        let topics = vec![CommitTopic { topic: TopicRef::Name("t".to_owned()), partitions: vec![partition] }];
        Request::Commit(CommitRequest { by, retention_ms: None, topics })
    }

    fn deliver(&mut self, which: usize, again: bool) {
        if which >= self.on_their_way.len() {
            return;
        }
        let (client, request) = self.on_their_way.remove(which);
        if again {
            self.on_their_way.push((client, request.clone()));
        }
        let token = self.rig.token();
        self.asked.insert(token, (client, self.clients[client].births));
        self.open.insert(token);
        let group = shared(GROUP);
        let committed = match &request {
            Request::Commit(commit) => Some(commit.clone()),
            _ => None,
        };
        let classic = |event| GroupEvent::Classic { token, group: group.clone(), event };
        let event = match request {
            Request::Join(mut join) => {
                self.fresh += 1;
                join.fresh_member = format!("m{}", self.fresh).into();
                classic(ClassicEvent::Join(join))
            }
            Request::Sync(sync) => classic(ClassicEvent::Sync(sync)),
            Request::Heartbeat(by) => classic(ClassicEvent::Heartbeat(by)),
            Request::Leave(members) => classic(ClassicEvent::Leave(members)),
            Request::Commit(commit) => {
                GroupEvent::Offsets { token, group, event: OffsetsEvent::Commit(commit) }
            }
        };
        let effects = self.rig.step(event);
        if let Some(commit) = committed {
            self.note_commit(&commit, &effects);
        }
        self.take(effects);
    }

    fn note_commit(&mut self, commit: &CommitRequest, effects: &Effects<GroupCoordinator>) {
        let (_, GroupReply::Offsets(OffsetsReply::Commit(reply))) = &effects.replies[0] else {
            panic!("a commit is answered as such");
        };
        let Ok(topics) = reply else { return };
        assert_eq!(topics[0].partitions[0].1, Ok(()));
        let partition = &commit.topics[0].partitions[0];
        self.order += 1;
        match commit.by.transaction {
            Some(producer) => {
                let pending = self.pending.entry(producer.id.0).or_default();
                pending.insert(partition.index, (self.order, partition.offset));
            }
            None => {
                self.committed.insert(partition.index, partition.offset);
                self.committed_order.insert(partition.index, self.order);
            }
        }
    }

    fn marker(&mut self, producer: i64, committed: bool) {
        let producer = TransactionalProducer { id: ProducerId(producer), epoch: ProducerEpoch(0) };
        self.rig.marker(producer, committed);
        for (partition, (order, offset)) in self.pending.remove(&producer.id.0).unwrap_or_default() {
            if committed && self.committed_order.get(&partition).is_none_or(|before| *before < order) {
                self.committed.insert(partition, offset);
                self.committed_order.insert(partition, order);
            }
        }
    }

    fn wait(&mut self, ms: i64) {
        for (_, effects) in self.rig.advance(ms) {
            self.take(effects);
        }
    }

    fn restart(&mut self) {
        let effects = self.rig.restart();
        // Pending requests are told that the coordinator is gone.
        self.open.clear();
        self.take(effects);
    }

    fn take(&mut self, effects: Effects<GroupCoordinator>) {
        for append in &effects.appends {
            for record in &append.records {
                self.note_record(record);
            }
        }
        for (token, reply) in effects.replies {
            assert!(self.open.remove(&token), "{token:?} is answered without having asked, or twice");
            let (client, births) = self.asked[&token];
            self.check(&reply);
            if births == self.clients[client].births {
                self.hear(client, reply);
            }
        }
    }

    fn note_record(&mut self, record: &tailrace_coordination::coordinator::CoordinatorRecord) {
        if GroupKey::decode(&record.key).is_err() {
            return;
        }
        let Some(value) = &record.value else { return };
        let value = GroupValue::decode(value).expect("a group");
        let member = |member: &tailrace_records::internal::GroupMemberValue<'_>| {
            (member.member.to_owned(), Bytes::copy_from_slice(member.assignment))
        };
        self.written.insert(value.generation, value.members.iter().map(member).collect());
    }

    /// Checks that an assignment given to a member was written for it.
    fn check(&self, reply: &GroupReply) {
        if let GroupReply::Classic(ClassicReply::Sync(Ok(synced))) = reply {
            let known = self.written.values().flat_map(BTreeMap::values);
            assert!(known.into_iter().any(|assignment| *assignment == synced.assignment));
        }
    }

    fn hear(&mut self, number: usize, reply: GroupReply) {
        let client = &mut self.clients[number];
        if std::mem::take(&mut client.deaf) {
            return;
        }
        match reply {
            GroupReply::Classic(ClassicReply::Join(Ok(joined))) => {
                client.member = joined.member;
                client.generation = joined.generation;
                client.phase = Phase::Joined;
                let skip = joined.skip_assignment;
                client.leads =
                    joined.members.into_iter().filter(|_| !skip).map(|member| member.member).collect();
            }
            GroupReply::Classic(ClassicReply::Sync(Ok(_))) => client.phase = Phase::Member,
            GroupReply::Classic(
                ClassicReply::Join(Err(error))
                | ClassicReply::Sync(Err(error))
                | ClassicReply::Heartbeat(Err(error)),
            ) => client.fail(error),
            GroupReply::Classic(ClassicReply::Leave(Ok(_))) => {
                (client.member, client.generation, client.phase) = (shared(""), -1, Phase::Out);
            }
            _ => {}
        }
    }

    /// Checks that replaying the log yields the coordinator's state.
    fn check_replay(&mut self) {
        self.twin.now = self.rig.now;
        self.twin.core = self.rig.replayed();
        for require_stable in [false, true] {
            assert_eq!(fetch(&mut self.rig, require_stable), fetch(&mut self.twin, require_stable));
        }
        let live = describe(&mut self.rig);
        // Changes between two generations are not written.
        if live.starts_with("Stable") || (live.starts_with("Empty") && self.written_something()) {
            assert_eq!(live, describe(&mut self.twin));
        }
    }

    fn written_something(&self) -> bool {
        self.rig.log.iter().any(|logged| match logged {
            Logged::Record { record, .. } => GroupKey::decode(&record.key).is_ok(),
            Logged::Marker { .. } => false,
        })
    }

    fn check_offsets(&mut self) {
        let token = self.rig.token();
        let group = shared(GROUP);
        let event = OffsetsEvent::Fetch(FetchRequest { member_epoch: -1, ..FetchRequest::default() });
        let effects = self.rig.step(GroupEvent::Offsets { token, group, event });
        let (_, GroupReply::Offsets(OffsetsReply::Fetch(Ok(topics)))) = &effects.replies[0] else {
            panic!("offsets can be fetched");
        };
        let mut found = BTreeMap::new();
        for partition in topics.iter().flat_map(|topic| &topic.partitions) {
            let offset = partition.offset.clone().expect("no error").expect("a known offset");
            found.insert(partition.index, offset.offset);
        }
        assert_eq!(found, self.committed);
    }

    /// Repairs the network: all live clients join the same generation, and no request stays pending.
    fn settle(&mut self) {
        for client in &mut self.clients {
            client.deaf = false;
        }
        self.on_their_way.clear();
        for _ in 0..400 {
            for number in 0..CLIENTS {
                let waiting = self.open.iter().any(|token| {
                    let (client, births) = self.asked[token];
                    client == number && births == self.clients[number].births
                });
                if !waiting {
                    let request = self.next_request(number);
                    self.on_their_way.push((number, request));
                    self.deliver(0, false);
                }
            }
            self.wait(500);
        }
        let phases: Vec<_> = self.clients.iter().map(|client| client.phase).collect();
        assert!(
            phases.iter().all(|phase| *phase == Phase::Member),
            "{phases:?}: {}",
            describe(&mut self.rig)
        );
        let generations: BTreeSet<_> = self.clients.iter().map(|client| client.generation).collect();
        assert_eq!(generations.len(), 1, "everybody is in the same generation");
        let members: BTreeSet<_> = self.clients.iter().map(|client| Arc::clone(&client.member)).collect();
        assert_eq!(members.len(), CLIENTS);
        assert!(self.open.is_empty(), "nobody waits: {:?}", self.open);
        let census = self.rig.core.census();
        assert!(census.keys().all(|(_, state)| *state == GroupState::Stable), "{census:?}");
        self.commit_all();
    }

    /// Checks that each member of the current generation can commit, with and without a transaction.
    fn commit_all(&mut self) {
        for (number, offset) in (0..CLIENTS).zip(100..) {
            for producer in [Some(0), None] {
                let index = number as i32 % PARTITIONS;
                let offset = if producer.is_some() { offset } else { 2 * offset };
                let request = self.commit(number, index, offset, producer);
                self.on_their_way.push((number, request));
                self.deliver(0, false);
                if let Some(producer) = producer {
                    self.marker(producer, true);
                }
                assert_eq!(self.committed.get(&index), Some(&offset), "client {number}, {producer:?}");
            }
        }
    }
}

impl Client {
    /// Reacts to an error as clients do.
    fn fail(&mut self, error: GroupError) {
        match error {
            GroupError::MemberIdRequired { member } => {
                self.member = member;
                self.phase = Phase::Out;
            }
            GroupError::RebalanceInProgress => self.phase = Phase::Out,
            GroupError::UnknownMember { .. }
            | GroupError::IllegalGeneration { .. }
            | GroupError::FencedInstance { .. } => {
                (self.member, self.generation, self.phase) = (shared(""), -1, Phase::Out);
            }
            other => panic!("{other}"),
        }
    }
}

fn fetch(rig: &mut Rig, require_stable: bool) -> Vec<String> {
    let token = rig.token();
    let request = FetchRequest { require_stable, member_epoch: -1, ..FetchRequest::default() };
    let event = GroupEvent::Offsets { token, group: shared(GROUP), event: OffsetsEvent::Fetch(request) };
    rig.step(event).replies.iter().flat_map(|(_, reply)| show::reply(reply)).collect()
}

fn describe(rig: &mut Rig) -> String {
    let token = rig.token();
    let effects = rig.step(GroupEvent::Describe { token, groups: vec![shared(GROUP)] });
    effects.replies.iter().flat_map(|(_, reply)| show::reply(reply)).collect::<Vec<_>>().join("\n")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn what_was_acknowledged_holds_and_groups_come_together(ops in prop::collection::vec(op(), 0..150)) {
        let mut world = World::new();
        for op in &ops {
            world.play(op);
            world.check_offsets();
            world.check_replay();
        }
        world.settle();
        world.check_offsets();
        world.check_replay();
    }
}
