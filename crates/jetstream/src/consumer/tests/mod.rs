//! Tests of consumers: a stream in memory, and a consumer on it. What the consumer sends is compared as text.

mod acks;
mod durable;
mod model;
mod pull;
mod push;
mod size;
mod traps;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::*;

const SECOND: i64 = 1_000_000_000;
const MS: i64 = 1_000_000;
/// Any time after 1970.
const START_NS: i64 = 1_700_000_000 * SECOND;

#[derive(Clone, Copy, Debug)]
struct Stored {
    subject: char,
    timestamp_ns: i64,
    payload: u32,
    headers: u32,
}

/// A stream, and the subscriptions of clients.
#[derive(Clone, Debug, Default)]
struct Log {
    messages: BTreeMap<u64, Stored>,
    last: u64,
    /// Subjects that the consumer wants. Empty: all.
    filter: Vec<char>,
    appended: u64,
    /// The last messages of their subjects at the cut.
    lasts: BTreeSet<u64>,
    gone_inboxes: BTreeSet<String>,
    /// Messages that must be read first.
    unread: BTreeSet<u64>,
}

impl Log {
    fn matches(&self, stored: &Stored) -> bool {
        self.filter.is_empty() || self.filter.contains(&stored.subject)
    }

    fn append(&mut self, subject: char, timestamp_ns: i64) -> u64 {
        self.last += 1;
        let stored = Stored { subject, timestamp_ns, payload: 10, headers: 0 };
        self.appended += u64::from(self.matches(&stored));
        self.messages.insert(self.last, stored);
        self.last
    }

    fn cut(&mut self) -> u64 {
        let last_of: BTreeMap<char, u64> =
            self.messages.iter().filter(|(_, m)| self.matches(m)).map(|(seq, m)| (m.subject, *seq)).collect();
        self.lasts = last_of.into_values().collect();
        self.last
    }

    fn found(&self, seq: u64) -> Found {
        if self.unread.contains(&seq) {
            return Found::Later;
        }
        let Stored { timestamp_ns, payload, headers, .. } = self.messages[&seq];
        Found::Message(Candidate {
            seq,
            timestamp_ns,
            subject_len: 1,
            header_len: headers,
            payload_len: payload,
        })
    }
}

impl StreamView for Log {
    fn next(&mut self, from: u64, cut: Option<u64>) -> Found {
        let next = self.messages.range(from..).find(|(seq, stored)| match cut {
            Some(_) => self.lasts.contains(*seq),
            None => self.matches(stored),
        });
        match next {
            Some((&seq, _)) => self.found(seq),
            None => Found::Nothing { through: cut.unwrap_or(self.last) },
        }
    }

    fn get(&mut self, seq: u64) -> Found {
        if self.messages.contains_key(&seq) { self.found(seq) } else { Found::Nothing { through: seq } }
    }

    fn appended(&mut self) -> u64 {
        self.appended
    }

    fn count(&mut self, first: u64, last: u64, cut: Option<u64>) -> u64 {
        let counted = |(seq, stored): &(&u64, &Stored)| match cut {
            Some(_) => self.lasts.contains(*seq),
            None => self.matches(stored),
        };
        self.messages.range(first..=last).filter(counted).count() as u64
    }

    fn last_seq(&mut self) -> u64 {
        self.last
    }

    fn is_interested(&mut self, inbox: &str) -> bool {
        !self.gone_inboxes.contains(inbox)
    }
}

fn pull_rules() -> PullRules {
    PullRules {
        waiting_max: 512,
        batch_max: 0,
        expires_max_ns: 0,
        bytes_max: 0,
        priority: PriorityPolicy::None,
        groups: Vec::new(),
        pin_ns: 120 * SECOND,
    }
}

fn rules() -> Rules {
    Rules {
        ack: AckPolicy::Explicit,
        ack_wait_ns: 30 * SECOND,
        backoff_ns: Vec::new(),
        max_deliver: 0,
        max_ack_pending: 1000,
        mode: Mode::Pull(pull_rules()),
        headers_only: false,
        replay_original: false,
        sample_percent: 0,
        inactive_ns: 0,
        start: StartRule::All,
        retention: Retention::Limits,
        durable: true,
    }
}

/// A consumer on a stream. After each call it is served, and saved if it must be.
struct Rig {
    log: Log,
    consumer: Consumer,
    now_ns: i64,
    out: Outbox,
    /// The last durable snapshot and update.
    stored: (Vec<u8>, Option<Vec<u8>>),
    setup: Setup,
    seen: Vec<String>,
    subjects: BTreeMap<u64, String>,
}

impl Rig {
    fn new(rules: Rules, subjects: &str) -> Self {
        Self::filtered(rules, subjects, "")
    }

    fn filtered(rules: Rules, subjects: &str, filter: &str) -> Self {
        let mut log = Log { filter: filter.chars().collect(), ..Log::default() };
        for subject in subjects.chars() {
            log.append(subject, START_NS);
        }
        Self::on(rules, log, Start { first: 1, cut: None })
    }

    fn on(rules: Rules, mut log: Log, start: Start) -> Self {
        let names = Names { stream: "S".into(), consumer: "C".into() };
        let setup = Setup { names, rules, bounds: Bounds::default(), paused_until_ns: 0 };
        let at = Moment { now_ns: START_NS, random: 1 };
        let consumer = Consumer::create(setup.clone(), start, &mut log, at);
        let out = Outbox::default();
        let stored = (Vec::new(), None);
        let mut rig = Self {
            log,
            consumer,
            now_ns: START_NS,
            out,
            stored,
            setup,
            seen: vec![],
            subjects: BTreeMap::new(),
        };
        rig.save();
        rig
    }

    fn at(&self) -> Moment {
        Moment { now_ns: self.now_ns, random: self.now_ns.unsigned_abs() ^ 0x55 }
    }

    fn serve(&mut self) -> &mut Self {
        loop {
            let at = self.at();
            match self.consumer.serve(16, &mut self.log, at, &mut self.out) {
                Served::More => {}
                Served::Save => self.save(),
                Served::Idle | Served::Later => break,
            }
        }
        self.collect();
        self
    }

    fn save(&mut self) {
        let mut bytes = Vec::new();
        let (version, is_snapshot) = self.consumer.encode_update(&mut bytes);
        self.stored = if is_snapshot.0 { (bytes, None) } else { (self.stored.0.clone(), Some(bytes)) };
        self.consumer.saved(version);
        let held = std::mem::take(&mut self.out.after_save);
        self.out.now.extend(held);
        self.collect();
    }

    /// Writes down what was sent.
    fn collect(&mut self) {
        for send in std::mem::take(&mut self.out.now) {
            if let Send::Message(delivery) = &send {
                let mut reply = Vec::new();
                self.setup.names.write_reply(delivery, &mut reply);
                self.subjects.insert(delivery.stream_seq, String::from_utf8(reply).expect("it is text"));
            }
            self.seen.push(text(&send));
        }
    }

    fn seen(&mut self) -> Vec<String> {
        self.collect();
        std::mem::take(&mut self.seen)
    }

    fn publish(&mut self, subjects: &str) -> &mut Self {
        for subject in subjects.chars() {
            self.log.append(subject, self.now_ns);
        }
        self.serve()
    }

    fn pull(&mut self, inbox: &str, body: &str) -> &mut Self {
        let at = self.at();
        self.consumer.pull(&inbox.into(), body.as_bytes(), &mut self.log, at, &mut self.out);
        self.serve()
    }

    /// Acknowledges the last delivery of a message.
    fn ack(&mut self, seq: u64, payload: &str) -> &mut Self {
        let subject = self.subjects[&seq].clone();
        self.ack_with(&subject, payload, None)
    }

    fn ack_sync(&mut self, seq: u64, payload: &str) -> &mut Self {
        let subject = self.subjects[&seq].clone();
        self.ack_with(&subject, payload, Some("sync"))
    }

    fn ack_with(&mut self, subject: &str, payload: &str, reply: Option<&str>) -> &mut Self {
        let reply: Option<Arc<str>> = reply.map(Arc::from);
        let subject = AckSubject::parse(subject).expect("an ack subject");
        let ack = Ack { subject, payload: payload.as_bytes(), reply: reply.as_ref() };
        let at = self.at();
        self.consumer.ack(ack, &mut self.log, at, &mut self.out);
        self.serve()
    }

    /// Lets time pass, and does what is due on the way.
    fn pass(&mut self, ns: i64) -> &mut Self {
        let until_ns = self.now_ns + ns;
        for _ in 0..100_000 {
            let due_ns = self.consumer.next_deadline_ns().filter(|due_ns| *due_ns <= until_ns);
            let Some(due_ns) = due_ns else { break };
            self.now_ns = self.now_ns.max(due_ns);
            let at = self.at();
            self.consumer.tick(&mut self.log, at, &mut self.out);
            self.serve();
        }
        let due_ns = self.consumer.next_deadline_ns();
        assert!(due_ns.is_none_or(|due_ns| due_ns > until_ns), "it is due again and again");
        self.now_ns = until_ns;
        self
    }

    fn delete_message(&mut self, seq: u64) -> &mut Self {
        let Some(stored) = self.log.messages.remove(&seq) else { return self };
        let is_counted = match self.consumer.cut.is_some_and(|cut| seq <= cut) {
            true => self.log.lasts.remove(&seq),
            false => self.log.matches(&stored),
        };
        self.consumer.removed(seq, is_counted, &mut self.out);
        self.serve()
    }

    /// The leader dies, and another one continues from what was saved.
    fn crash(&mut self) -> &mut Self {
        let state = DurableState::decode(&self.stored.0, self.stored.1.as_deref()).expect("it was saved");
        self.out = Outbox::default();
        let at = self.at();
        self.consumer = Consumer::load(self.setup.clone(), &state, &mut self.log, at);
        self.save();
        self
    }

    fn info(&mut self) -> Info {
        self.consumer.info(&mut self.log, self.now_ns)
    }

    /// Returns num_pending, num_ack_pending, num_redelivered.
    fn numbers(&mut self) -> (u64, u64, u64) {
        let info = self.info();
        (info.num_pending, info.num_ack_pending, info.num_redelivered)
    }

    /// Returns the ack floor: consumer, stream.
    fn floor(&mut self) -> (u64, u64) {
        let floor = self.info().ack_floor;
        (floor.consumer, floor.stream)
    }
}

/// `inbox: sequence #consumer sequence xdeliveries +pending`.
fn text(send: &Send) -> String {
    match send {
        Send::Message(Delivery { to, stream_seq, consumer_seq, deliveries, pending, pin, .. }) => {
            let pin = if pin.is_some() { " pinned" } else { "" };
            format!("{to}: {stream_seq} #{consumer_seq} x{deliveries} +{pending}{pin}")
        }
        Send::Status(status) => {
            let block = status.block();
            let lines = block.strip_prefix("NATS/1.0 ").expect("a status").trim_end().replace("\r\n", " | ");
            format!("{}: {lines}", status.to)
        }
        Send::Empty { to } => format!("{to}: empty"),
        Send::Advisory(Advisory::Terminated { message, reason }) => {
            format!("terminated {} {reason:?}", message.stream_seq)
        }
        Send::Advisory(Advisory::MaxDeliver { stream_seq, deliveries }) => {
            format!("max deliveries {stream_seq} x{deliveries}")
        }
        Send::Advisory(Advisory::Nak(message)) => format!("naked {}", message.stream_seq),
        Send::Advisory(Advisory::Pinned { group, .. }) => format!("pinned {group}"),
        Send::Advisory(Advisory::Unpinned { group, admin }) => format!("unpinned {group} admin={admin}"),
        Send::Advisory(Advisory::Pause { paused, .. }) => format!("paused={paused}"),
        Send::Advisory(Advisory::Ack { message, ack_time_ns }) => {
            format!("sample {} {}ms", message.stream_seq, ack_time_ns / MS)
        }
        Send::Done { first, last } => format!("done {first}..={last}"),
        Send::Inactive => "inactive".to_owned(),
    }
}
