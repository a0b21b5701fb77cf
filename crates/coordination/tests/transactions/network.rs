//! Producers that share a transactional id, over a network that loses, delays and repeats messages. The
//! coordinator is restarted at any moment and loses steps, and its markers are written late and more than
//! once.
//!
//! The model is simple: the set of what each transaction wrote, and what its producer decided. All producers
//! use the protocol with an epoch per transaction. The classic one cannot give these guarantees.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tailrace_coordination::coordinator::{Token, TransactionalProducer};
use tailrace_coordination::transactions::*;
use tailrace_types::{ProducerEpoch, ProducerId};

use crate::world::{World, partition};

const ID: &str = "t";
const PARTITIONS: i32 = 3;

/// A transaction: the producer's id and epoch while it was open.
type Name = (i64, i16);

fn name(producer: TransactionalProducer) -> Name {
    (producer.id.get(), producer.epoch.get())
}

/// A partition, with its open and its decided writes.
#[derive(Default)]
struct Partition {
    epochs: BTreeMap<i64, i16>,
    open: BTreeMap<i64, Name>,
    written: BTreeSet<Name>,
    committed: BTreeSet<Name>,
    aborted: BTreeSet<Name>,
}

impl Partition {
    /// Writes to a transaction. Returns false for an old epoch.
    fn write(&mut self, transaction: Name) -> bool {
        let (id, epoch) = transaction;
        let present = self.epochs.entry(id).or_insert(epoch);
        if epoch < *present {
            return false;
        }
        *present = epoch;
        if let Some(other) = self.open.insert(id, transaction) {
            assert_eq!(other, transaction, "a transaction begins where another is open");
        }
        self.written.insert(transaction);
        true
    }

    fn mark(&mut self, (id, epoch): Name, committed: bool) {
        if self.epochs.get(&id).is_some_and(|&present| epoch <= present) {
            // A repeated marker, perhaps after a later transaction has started: the partition knows its epoch
            // already.
            return;
        }
        self.epochs.insert(id, epoch);
        let Some(open) = self.open.remove(&id) else { return };
        assert!(open.1 < epoch, "a marker {id}/{epoch} ends {open:?}, which came after it");
        let decided = if committed { &mut self.committed } else { &mut self.aborted };
        decided.insert(open);
    }
}

/// The state of a producer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// It has asked for an epoch.
    Starting,
    /// It may start or continue a transaction.
    Free(TransactionalProducer),
    /// It has asked for the end of its transaction.
    Ending(TransactionalProducer, bool),
    /// It was fenced and has stopped.
    Gone,
}

struct Producer {
    stage: Stage,
    /// Its last request, if it has not been answered.
    asked: Option<TransactionEvent>,
}

struct Net {
    world: World,
    partitions: Vec<Partition>,
    producers: Vec<Producer>,
    /// Requests in flight, with their producers. They may arrive in any order, twice, or never.
    requests: Vec<(usize, TransactionEvent)>,
    /// The producer and the request of each token.
    tokens: BTreeMap<Token, (usize, TransactionEvent)>,
    /// Replies in flight.
    answers: Vec<(usize, TransactionEvent, TransactionReply)>,
    markers: Vec<WriteMarkers>,
    fresh: i64,
    /// Transactions that their producers asked to commit.
    commits_asked: BTreeSet<Name>,
    /// Transactions whose producers know the outcome.
    told: BTreeMap<Name, bool>,
    /// Epochs that were given out, with their owners.
    given: BTreeMap<Name, usize>,
}

impl Net {
    fn new() -> Self {
        Self {
            world: World::new(&[]),
            partitions: (0..PARTITIONS).map(|_| Partition::default()).collect(),
            producers: Vec::new(),
            requests: Vec::new(),
            tokens: BTreeMap::new(),
            answers: Vec::new(),
            markers: Vec::new(),
            fresh: 100,
            commits_asked: BTreeSet::new(),
            told: BTreeMap::new(),
            given: BTreeMap::new(),
        }
    }

    fn ask(&mut self, who: usize, event: TransactionEvent) {
        self.producers[who].asked = Some(event.clone());
        self.requests.push((who, event));
    }

    /// Takes a producer's next step, according to `choice`. A producer that has stopped is replaced.
    fn act(&mut self, who: usize, choice: usize) {
        while self.producers.len() <= who {
            self.producers.push(Producer { stage: Stage::Gone, asked: None });
        }
        // A request without a reply is repeated.
        if let Some(event) = self.producers[who].asked.clone() {
            self.requests.push((who, event));
            return;
        }
        match self.producers[who].stage {
            Stage::Gone => {
                self.producers[who].stage = Stage::Starting;
                self.fresh += 1;
                let fresh = Some(ProducerId(self.fresh));
                self.ask(who, init(fresh));
            }
            Stage::Starting | Stage::Ending(..) => {}
            Stage::Free(producer) if choice < 6 => {
                let partitions = (0..PARTITIONS).filter(|number| (choice + 1) & (1 << number) != 0);
                let add = AddPartitions {
                    token: Token(0),
                    transactional_id: ID.to_owned(),
                    producer,
                    partitions: partitions.map(|number| partition("out", number)).collect(),
                    protocol: TransactionProtocol::EpochPerTransaction,
                };
                self.ask(who, TransactionEvent::Add(add));
            }
            Stage::Free(producer) => {
                let committed = choice.is_multiple_of(2);
                self.producers[who].stage = Stage::Ending(producer, committed);
                if committed {
                    self.commits_asked.insert(name(producer));
                }
                self.fresh += 1;
                self.ask(who, end(producer, committed, Some(ProducerId(self.fresh))));
            }
        }
    }

    /// Delivers a request. `keep` leaves a copy in flight, `fails` loses its step.
    fn arrive(&mut self, at: usize, keep: bool, fails: bool) {
        if self.requests.is_empty() {
            return;
        }
        let at = at % self.requests.len();
        let (who, event) = if keep { self.requests[at].clone() } else { self.requests.swap_remove(at) };
        let token = self.world.token();
        let original = event.clone();
        let event = with_token(event, token);
        self.tokens.insert(token, (who, original));
        if fails {
            self.world.failing_step(event);
        } else {
            self.world.step(event);
        }
        self.gather();
    }

    fn gather(&mut self) {
        for (token, reply) in std::mem::take(&mut self.world.replies) {
            let Some((who, event)) = self.tokens.remove(&token) else { continue };
            self.answers.push((who, event, reply));
        }
        self.markers.append(&mut self.world.work);
    }

    /// Delivers a reply to its producer.
    fn answer(&mut self, at: usize) {
        if self.answers.is_empty() {
            return;
        }
        let at = at % self.answers.len();
        let (who, event, reply) = self.answers.swap_remove(at);
        if self.producers[who].asked.as_ref() != Some(&event) {
            return;
        }
        match reply {
            TransactionReply::Refused(TransactionError::Concurrent) => return,
            TransactionReply::FreshIdNeeded => {
                // As in the server: the same request with another id.
                self.fresh += 1;
                return self.ask(who, with_fresh(event, ProducerId(self.fresh)));
            }
            TransactionReply::Initialized(producer) => {
                self.give(who, producer);
                self.producers[who].stage = Stage::Free(producer);
            }
            TransactionReply::Added => self.write(&event),
            TransactionReply::Ended(next) => {
                let Stage::Ending(producer, committed) = self.producers[who].stage else {
                    panic!("an end that nobody asked for")
                };
                self.told.insert(name(producer), committed);
                self.give(who, next);
                self.producers[who].stage = Stage::Free(next);
            }
            TransactionReply::Refused(TransactionError::State { .. }) => {
                let Stage::Ending(_, true) = self.producers[who].stage else {
                    panic!("an abort is never refused for the state")
                };
                // A commit of an empty transaction. Clients stop here: a repetition might still commit this
                // epoch.
                self.producers[who].stage = Stage::Gone;
            }
            TransactionReply::Refused(_) => self.producers[who].stage = Stage::Gone,
            other => panic!("{other:?} to {event:?}"),
        }
        self.producers[who].asked = None;
    }

    /// Checks that no epoch is given to two producers.
    fn give(&mut self, who: usize, producer: TransactionalProducer) {
        let owner = *self.given.entry(name(producer)).or_insert(who);
        assert_eq!(owner, who, "{producer:?} was given to two");
    }

    /// Writes to partitions that were added, or that the producer believes to be added. The partition may
    /// refuse.
    fn write(&mut self, event: &TransactionEvent) {
        let TransactionEvent::Add(add) = event else { panic!("added what?") };
        for partition in &add.partitions {
            self.partitions[partition.partition.0 as usize].write(name(add.producer));
        }
    }

    /// Writes markers. With `part` only some of them, and they have to be written again. With `again` the
    /// work is kept after it is done, and its report is repeated later.
    fn mark(&mut self, at: usize, part: bool, again: bool) {
        if self.markers.is_empty() {
            return;
        }
        let at = at % self.markers.len();
        let work = if part || again { self.markers[at].clone() } else { self.markers.swap_remove(at) };
        let partitions = work.partitions.iter().take(if part { 1 } else { usize::MAX });
        for partition in partitions {
            self.partitions[partition.partition.0 as usize].mark(name(work.producer), work.committed);
        }
        if !part {
            let token = self.world.token();
            self.world.step(TransactionEvent::MarkersWritten { token, markers: work });
            self.gather();
        }
    }

    fn restart(&mut self) {
        self.world.restart();
        self.gather();
    }

    /// Delivers everything in flight and does all work until nothing is left. Then a new producer aborts the
    /// last transaction and commits one of its own, and the outcomes are compared.
    fn settle(mut self) {
        self.finish();
        self.producers.push(Producer { stage: Stage::Starting, asked: None });
        let who = self.producers.len() - 1;
        self.fresh += 1;
        let fresh = Some(ProducerId(self.fresh));
        self.ask(who, init(fresh));
        self.finish();
        assert!(matches!(self.producers[who].stage, Stage::Free(_)), "nobody can begin any more");
        let last = self.commit_one(who);
        assert_eq!(self.partitions.iter().filter(|p| p.committed.contains(&last)).count(), 2);

        for (number, partition) in self.partitions.iter().enumerate() {
            assert!(partition.open.is_empty(), "partition {number} is left with {:?}", partition.open);
            for transaction in &partition.committed {
                assert!(self.commits_asked.contains(transaction), "{transaction:?} was never committed");
                assert_ne!(self.told.get(transaction), Some(&false), "{transaction:?} was aborted");
            }
            for transaction in &partition.written {
                let is_committed = partition.committed.contains(transaction);
                assert!(
                    is_committed || self.told.get(transaction) != Some(&true),
                    "{transaction:?} is not there"
                );
            }
            for transaction in &partition.aborted {
                assert_ne!(self.told.get(transaction), Some(&true), "{transaction:?} was committed");
            }
            for other in &self.partitions {
                let torn: Vec<_> = partition.committed.intersection(&other.aborted).collect();
                assert!(torn.is_empty(), "half of {torn:?} was committed");
            }
        }
    }

    /// Commits a transaction in two partitions while no other producer is active. It may have to start twice:
    /// if it repeated its request for an epoch while the first one waited, the second has fenced the epoch
    /// from the first.
    fn commit_one(&mut self, who: usize) -> Name {
        for _ in 0..2 {
            let Stage::Free(producer) = self.producers[who].stage else {
                panic!("nobody can begin any more")
            };
            self.act(who, 2);
            self.finish();
            // Asks for the end, or for an epoch.
            self.act(who, 8);
            self.finish();
            if self.told.get(&name(producer)) == Some(&true) {
                return name(producer);
            }
        }
        panic!("nobody can commit any more")
    }

    fn finish(&mut self) {
        for _ in 0..100 {
            while !self.requests.is_empty() {
                self.arrive(0, false, false);
            }
            while !self.markers.is_empty() {
                self.mark(0, false, false);
            }
            while !self.answers.is_empty() {
                self.answer(0);
            }
            // Producers that were refused, or got no reply, retry.
            for who in 0..self.producers.len() {
                if self.producers[who].asked.is_some() {
                    self.act(who, 0);
                }
            }
            if self.requests.is_empty() {
                return;
            }
        }
        panic!("it never comes to rest");
    }
}

fn init(fresh: Option<ProducerId>) -> TransactionEvent {
    TransactionEvent::Init(InitProducer {
        token: Token(0),
        transactional_id: ID.to_owned(),
        timeout_ms: 60_000,
        expected: None,
        fresh,
    })
}

fn end(producer: TransactionalProducer, committed: bool, fresh: Option<ProducerId>) -> TransactionEvent {
    TransactionEvent::End(EndTransaction {
        token: Token(0),
        transactional_id: ID.to_owned(),
        producer,
        committed,
        protocol: TransactionProtocol::EpochPerTransaction,
        fresh,
    })
}

fn with_fresh(event: TransactionEvent, fresh: ProducerId) -> TransactionEvent {
    match event {
        TransactionEvent::Init(init) => TransactionEvent::Init(InitProducer { fresh: Some(fresh), ..init }),
        TransactionEvent::End(end) => TransactionEvent::End(EndTransaction { fresh: Some(fresh), ..end }),
        other => panic!("{other:?} needs no id"),
    }
}

fn with_token(event: TransactionEvent, token: Token) -> TransactionEvent {
    match event {
        TransactionEvent::Init(init) => TransactionEvent::Init(InitProducer { token, ..init }),
        TransactionEvent::Add(add) => TransactionEvent::Add(AddPartitions { token, ..add }),
        TransactionEvent::End(end) => TransactionEvent::End(EndTransaction { token, ..end }),
        other => other,
    }
}

/// A random event: its kind, and two numbers that choose among the candidates.
type Happening = (u8, u8, u8);

fn run(happenings: &[Happening], epoch: i16) {
    let mut net = Net::new();
    if epoch > 0 {
        start_at(&mut net, epoch);
    }
    for &(what, a, b) in happenings {
        let (a, b) = (a as usize, b as usize);
        match what % 16 {
            0..=4 => net.act(a % 2, b % 10),
            5..=7 => net.arrive(a, false, false),
            8 => net.arrive(a, true, false),
            9 => net.arrive(a, false, true),
            10 | 11 => net.answer(a),
            12 => net.mark(a, false, b % 3 == 0),
            13 => net.mark(a, true, false),
            14 if b % 4 == 0 => net.restart(),
            14 => {
                net.world.pass(if b % 4 == 1 { 60_000 } else { 50 });
                net.gather();
            }
            // A message is lost.
            _ if b % 2 == 0 && !net.requests.is_empty() => {
                drop(net.requests.swap_remove(a % net.requests.len()))
            }
            _ if !net.answers.is_empty() => drop(net.answers.swap_remove(a % net.answers.len())),
            _ => {}
        }
    }
    net.settle();
}

/// Starts the transactional id at an epoch near the maximum.
fn start_at(net: &mut Net, epoch: i16) {
    use tailrace_coordination::coordinator::CoordinatorRecord;
    use tailrace_records::internal::{TransactionLogKey, TransactionLogValue};
    let value = TransactionLogValue {
        producer_id: 1,
        previous_producer_id: 1,
        next_producer_id: -1,
        producer_epoch: ProducerEpoch(epoch).get(),
        next_producer_epoch: -1,
        timeout_ms: 60_000,
        status: TransactionState::Empty.number(),
        partitions: None,
        last_update_ms: net.world.now,
        start_ms: -1,
        client_transaction_version: 2,
    };
    let key = TransactionLogKey { transactional_id: ID.to_owned() }.encode();
    net.world.log.push(CoordinatorRecord { key, value: Some(value.encode(1)) });
    net.restart();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn no_delayed_request_touches_a_later_transaction(
        happenings in prop::collection::vec(any::<Happening>(), 0..200)
    ) {
        run(&happenings, 0);
    }

    #[test]
    fn nor_does_one_where_the_epochs_are_used_up(
        happenings in prop::collection::vec(any::<Happening>(), 0..150), epoch in 32_755_i16..=32_766
    ) {
        run(&happenings, epoch);
    }
}
