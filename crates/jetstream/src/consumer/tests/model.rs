//! A consumer against a plain model, over thousands of random steps: clients that acknowledge late, twice or
//! not at all, deadlines, deletions, purges, and leaders that die at any moment.
//!
//! The model keeps a table with one row per message. It foretells each delivery: queued messages in the order
//! in which they were queued, then the next matching message behind the position.

use proptest::prelude::*;

use super::*;

const ACK_WAIT_NS: i64 = 10 * SECOND;
const PENDING_MAX: u32 = 6;
const MAX_DELIVER: u32 = 4;

#[derive(Clone, Debug)]
enum Step {
    Publish(char),
    Pull {
        batch: i64,
        no_wait: bool,
    },
    /// Acknowledges one of the last deliveries.
    Ack {
        back: usize,
        kind: u8,
        synced: bool,
    },
    Wait {
        ms: i64,
    },
    Delete {
        which: usize,
    },
    Purge {
        share: u64,
    },
    Save,
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => prop::sample::select(vec!['a', 'b', '.', '.']).prop_map(Step::Publish),
        5 => (1_i64..5, any::<bool>()).prop_map(|(batch, no_wait)| Step::Pull { batch, no_wait }),
        9 => (0_usize..12, 0_u8..8, any::<bool>())
            .prop_map(|(back, kind, synced)| Step::Ack { back, kind, synced }),
        3 => (1_i64..8_000).prop_map(|ms| Step::Wait { ms }),
        1 => (0_usize..20).prop_map(|which| Step::Delete { which }),
        1 => (0_u64..6).prop_map(|share| Step::Purge { share }),
        3 => Just(Step::Save),
        1 => Just(Step::Crash),
    ]
}

/// What the model knows of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// Delivered so often, and due again at this time.
    Pending {
        deliveries: u32,
        due_ms: i64,
    },
    /// To be delivered again, with its turn.
    Queued {
        deliveries: u32,
        turn: u64,
    },
    Settled,
}

struct World {
    rig: Rig,
    fates: BTreeMap<u64, Fate>,
    turn: u64,
    /// Deliveries, oldest first: message and ack subject.
    history: Vec<(u64, String)>,
    /// Acknowledgements that were answered: these may never be delivered again.
    answered: BTreeSet<u64>,
    /// Acknowledgements that wait for their answer.
    waiting: Vec<u64>,
    /// The highest number of a delivery.
    numbered: u64,
    /// The floor as it was last saved.
    saved_floor: Sequences,
    /// Messages that were delivered, or settled by the stream.
    ever: BTreeSet<u64>,
    /// What the present leader has learned of deliveries before it: their number, not before (ms).
    recalled: BTreeMap<u64, (u32, i64)>,
}

fn ms(ns: i64) -> i64 {
    (ns + MS - 1) / MS
}

impl World {
    fn new() -> Self {
        let limits = Rules {
            ack_wait_ns: ACK_WAIT_NS,
            max_deliver: MAX_DELIVER,
            max_ack_pending: PENDING_MAX,
            retention: Retention::WorkQueue,
            ..rules()
        };
        let mut rig = Rig::filtered(limits, "a.b", "ab");
        rig.setup.bounds.reserve_step = 8;
        Self {
            rig,
            fates: BTreeMap::new(),
            turn: 0,
            history: Vec::new(),
            answered: BTreeSet::new(),
            waiting: Vec::new(),
            numbered: 0,
            saved_floor: Sequences::default(),
            ever: BTreeSet::new(),
            recalled: BTreeMap::new(),
        }
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Publish(subject) => {
                self.rig.log.append(subject, self.rig.now_ns);
            }
            Step::Pull { batch, no_wait } => {
                let body = format!(r#"{{"batch":{batch},"no_wait":{no_wait},"expires":5000000000}}"#);
                let at = self.rig.at();
                let Rig { consumer, log, out, .. } = &mut self.rig;
                consumer.pull(&"i".into(), body.as_bytes(), log, at, out);
            }
            Step::Ack { back, kind, synced } => self.acknowledge(back, kind, synced),
            Step::Wait { ms } => self.wait(ms),
            Step::Delete { which } => self.delete(which),
            Step::Purge { share } => self.purge(share),
            Step::Save => self.save(),
            Step::Crash => self.crash(),
        }
        self.serve();
        self.check();
    }

    /// Serves one step at a time, and compares each delivery with what the model foretells.
    fn serve(&mut self) {
        loop {
            self.listen();
            let at = self.rig.at();
            let Rig { consumer, log, out, .. } = &mut self.rig;
            match consumer.serve(1, log, at, out) {
                Served::More => {}
                Served::Save => self.save(),
                Served::Idle | Served::Later => break,
            }
        }
        self.listen();
        let position = self.rig.consumer.position;
        self.pass_recalled(position);
    }

    /// Messages that must not be delivered yet, or not any more, are passed without a delivery.
    fn pass_recalled(&mut self, through: u64) {
        let passed: Vec<u64> = self.fresh().take_while(|seq| *seq <= through).collect();
        for seq in passed {
            let Some(&(deliveries, due_ms)) = self.recalled.get(&seq) else { continue };
            if deliveries >= MAX_DELIVER {
                self.fates.insert(seq, Fate::Settled);
            } else if due_ms > ms(self.rig.now_ns) {
                self.fates.insert(seq, Fate::Pending { deliveries, due_ms });
            }
        }
    }

    fn listen(&mut self) {
        for send in std::mem::take(&mut self.rig.out.now) {
            match send {
                Send::Message(delivery) => self.delivered(&delivery),
                Send::Advisory(Advisory::MaxDeliver { stream_seq, deliveries }) => {
                    assert!(deliveries >= MAX_DELIVER, "{stream_seq} is given up after {deliveries}");
                    self.fates.insert(stream_seq, Fate::Settled);
                }
                Send::Empty { .. } => panic!("an answer that nobody waits for"),
                _ => {}
            }
        }
    }

    fn first_queued(&self) -> Option<(u64, u32)> {
        let queued = self.fates.iter().filter_map(|(seq, fate)| match fate {
            Fate::Queued { deliveries, turn } => Some((*turn, *seq, *deliveries)),
            _ => None,
        });
        queued.min().map(|(_, seq, deliveries)| (seq, deliveries))
    }

    fn delivered(&mut self, delivery: &Delivery) {
        let seq = delivery.stream_seq;
        assert!(!self.answered.contains(&seq), "{seq} is delivered after its ack was answered");
        assert!(delivery.consumer_seq > self.numbered, "numbers rise");
        self.numbered = delivery.consumer_seq;
        assert!(delivery.deliveries <= MAX_DELIVER, "{seq} is delivered too often");
        let stored = self.rig.log.messages.get(&seq).expect("it is there");
        assert!(self.rig.log.matches(stored), "{seq} matches");
        self.pass_recalled(seq - 1);
        match self.first_queued() {
            Some((queued, deliveries)) => {
                assert_eq!((seq, delivery.deliveries), (queued, deliveries + 1), "redeliveries are in turn");
            }
            None => assert_eq!(Some(seq), self.next_fresh(), "new messages are in order"),
        }
        let due_ms = ms(self.rig.now_ns + ACK_WAIT_NS);
        self.fates.insert(seq, Fate::Pending { deliveries: delivery.deliveries, due_ms });
        let mut subject = Vec::new();
        self.rig.setup.names.write_reply(delivery, &mut subject);
        self.history.push((seq, String::from_utf8(subject).expect("it is text")));
        self.ever.insert(seq);
        assert_eq!(delivery.pending, self.fresh().count() as u64, "the pending count of {seq}");
    }

    /// Returns the matching messages that the model has no row for.
    fn fresh(&self) -> impl Iterator<Item = u64> + '_ {
        let log = &self.rig.log;
        let matching = log.messages.iter().filter(|(_, stored)| log.matches(stored)).map(|(seq, _)| *seq);
        matching.filter(|seq| !self.fates.contains_key(seq))
    }

    fn next_fresh(&self) -> Option<u64> {
        self.fresh().next()
    }

    fn acknowledge(&mut self, back: usize, kind: u8, synced: bool) {
        let Some((seq, subject)) = self.history.iter().rev().nth(back).cloned() else { return };
        let payload = ["", "+ACK", "", "+TERM no", "-NAK", "-NAK 3s", "+WPI", "+ACK"][usize::from(kind)];
        let reply: Option<Arc<str>> = synced.then(|| "sync".into());
        let ack = Ack {
            subject: AckSubject::parse(&subject).expect("an ack subject"),
            payload: payload.as_bytes(),
            reply: reply.as_ref(),
        };
        let at = self.rig.at();
        let before = self.rig.out.after_save.len();
        let Rig { consumer, log, out, .. } = &mut self.rig;
        consumer.ack(ack, log, at, out);
        // Naks and progress are answered at once.
        self.rig.out.now.retain(|send| !matches!(send, Send::Empty { .. }));
        let held = &self.rig.out.after_save[before..];
        let is_held = held.iter().any(|send| matches!(send, Send::Empty { .. }));
        let fate = self.fates.get(&seq).copied();
        match (payload, fate) {
            ("" | "+ACK" | "+TERM no", _) => {
                assert_eq!(is_held, synced, "it is answered, also if it was settled before");
                self.fates.insert(seq, Fate::Settled);
                if is_held {
                    self.waiting.push(seq);
                }
            }
            ("-NAK", Some(Fate::Pending { deliveries, .. })) if self.counts(&subject) => {
                self.turn += 1;
                self.fates.insert(seq, Fate::Queued { deliveries, turn: self.turn });
            }
            ("-NAK 3s", Some(Fate::Pending { deliveries, .. } | Fate::Queued { deliveries, .. }))
                if self.counts(&subject) =>
            {
                let due_ms = ms(self.rig.now_ns + 3 * SECOND);
                self.fates.insert(seq, Fate::Pending { deliveries, due_ms });
            }
            ("+WPI", Some(Fate::Pending { deliveries, .. })) => {
                let due_ms = ms(self.rig.now_ns + ACK_WAIT_NS);
                self.fates.insert(seq, Fate::Pending { deliveries, due_ms });
            }
            _ => {}
        }
    }

    /// A nak counts if its number is above the floor.
    fn counts(&self, subject: &str) -> bool {
        let number = AckSubject::parse(subject).map_or(0, |subject| subject.consumer_seq);
        number > self.rig.consumer.floor.consumer
    }

    fn wait(&mut self, wait_ms: i64) {
        let until_ns = self.rig.now_ns + wait_ms * MS;
        loop {
            let due_ns = self.rig.consumer.next_deadline_ns().filter(|due_ns| *due_ns <= until_ns);
            self.rig.now_ns = due_ns.unwrap_or(until_ns).max(self.rig.now_ns);
            let at = self.rig.at();
            let Rig { consumer, log, out, .. } = &mut self.rig;
            consumer.tick(log, at, out);
            self.expire();
            self.serve();
            if due_ns.is_none() {
                return;
            }
        }
    }

    fn expire(&mut self) {
        let now_ms = self.rig.now_ns / MS;
        for fate in self.fates.values_mut() {
            match *fate {
                Fate::Pending { deliveries, due_ms } if due_ms <= now_ms => {
                    self.turn += 1;
                    *fate = if deliveries >= MAX_DELIVER {
                        Fate::Settled
                    } else {
                        Fate::Queued { deliveries, turn: self.turn }
                    };
                }
                _ => {}
            }
        }
    }

    fn delete(&mut self, which: usize) {
        let Some(seq) = self.rig.log.messages.keys().nth(which).copied() else { return };
        let stored = self.rig.log.messages.remove(&seq).expect("it is there");
        let is_counted = self.rig.log.matches(&stored);
        self.rig.consumer.removed(seq, is_counted, &mut self.rig.out);
        self.gone(seq);
    }

    fn gone(&mut self, seq: u64) {
        self.fates.insert(seq, Fate::Settled);
        self.ever.insert(seq);
    }

    fn purge(&mut self, share: u64) {
        let first_live = self.rig.log.messages.keys().next().copied().unwrap_or(1);
        let first = (first_live + share).min(self.rig.log.last + 1);
        let kept = self.rig.log.messages.split_off(&first);
        let dead = std::mem::replace(&mut self.rig.log.messages, kept);
        dead.into_keys().for_each(|seq| self.gone(seq));
        let Rig { consumer, log, out, .. } = &mut self.rig;
        consumer.removed_below(first, Removal::Purge, log, out);
    }

    fn save(&mut self) {
        let mut bytes = Vec::new();
        let (version, is_snapshot) = self.rig.consumer.encode_update(&mut bytes);
        let snapshot = self.rig.stored.0.clone();
        self.rig.stored = if is_snapshot.0 { (bytes, None) } else { (snapshot, Some(bytes)) };
        self.rig.consumer.saved(version);
        self.rig.out.after_save.clear();
        self.answered.extend(std::mem::take(&mut self.waiting));
        self.saved_floor = self.rig.consumer.floor;
    }

    /// What was not saved is unknown to the next leader: it counts what it finds there.
    fn crash(&mut self) {
        let (snapshot, update) = (&self.rig.stored.0, self.rig.stored.1.as_deref());
        let state = DurableState::decode(snapshot, update).expect("it was saved");
        self.waiting.clear();
        self.fates.clear();
        for seq in 1..=self.rig.log.last {
            let is_settled = seq <= state.settled_through() || state.settled.contains(seq);
            let is_live = self.rig.log.messages.contains_key(&seq);
            if is_settled || !is_live {
                self.fates.insert(seq, Fate::Settled);
            }
        }
        for seq in &self.answered {
            assert!(self.fates.contains_key(seq), "{seq} was answered and is not in the saved state");
        }
        self.rig.out = Outbox::default();
        let at = self.rig.at();
        self.rig.consumer = Consumer::load(self.rig.setup.clone(), &state, &mut self.rig.log, at);
        self.save();
        let recalled = state.recalled.iter();
        self.recalled =
            recalled.map(|(seq, known)| (*seq, (known.deliveries, known.not_before_ms as i64))).collect();
    }

    fn check(&mut self) {
        let info = self.rig.info();
        let pending = |fate: &&Fate| !matches!(fate, Fate::Settled);
        let held = self.fates.values().filter(pending).count() as u64;
        assert_eq!(info.num_ack_pending, held, "messages that wait for acknowledgements");
        assert!(held <= u64::from(PENDING_MAX));
        assert_eq!(info.num_pending, self.fresh().count() as u64, "messages that were not delivered");
        let again = self.fates.values().filter(|fate| match fate {
            Fate::Pending { deliveries, .. } | Fate::Queued { deliveries, .. } => *deliveries > 1,
            Fate::Settled => false,
        });
        assert_eq!(info.num_redelivered, again.count() as u64);
        let floor = info.ack_floor;
        assert!(floor.stream >= self.saved_floor.stream && floor.consumer >= self.saved_floor.consumer);
        assert!(floor.stream <= info.delivered.stream && floor.consumer <= info.delivered.consumer);
        let first_held = self.fates.iter().find(|(_, fate)| pending(fate));
        assert!(first_held.is_none_or(|(seq, _)| floor.stream < *seq), "the floor passed a pending message");
        for (seq, fate) in &self.fates {
            assert!(*fate == Fate::Settled || self.rig.consumer.needs(*seq), "{seq} is still needed");
        }
    }

    /// At the end everything is delivered and acknowledged: nothing was lost.
    fn drain(&mut self) {
        for _ in 0..200 {
            self.run(&Step::Pull { batch: 4, no_wait: false });
            (0..12).for_each(|back| self.run(&Step::Ack { back, kind: 0, synced: true }));
            self.run(&Step::Wait { ms: 11_000 });
            self.run(&Step::Save);
            let info = self.rig.info();
            if info.num_pending + info.num_ack_pending == 0 {
                break;
            }
        }
        let info = self.rig.info();
        assert_eq!((info.num_pending, info.num_ack_pending), (0, 0), "all is done");
        let log = &self.rig.log;
        let lost = log.messages.iter().find(|(seq, m)| log.matches(m) && !self.ever.contains(seq));
        assert!(lost.is_none(), "{lost:?} was never delivered");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_consumer_does_what_the_model_foretells(steps in prop::collection::vec(step(), 1..160)) {
        let mut world = World::new();
        steps.iter().for_each(|step| world.run(step));
        world.drain();
    }
}
