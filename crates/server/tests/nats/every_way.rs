//! Every way into a topic and out of it, at both doors, under random rules. A plain list of the rules says
//! for each of them whether it must work. No way does what the rules refuse, and none is closed that they
//! allow.
//!
//! Ways in: Produce (with a key, and with a subject in a header), PUB, HPUB with another key, tombstones,
//! reply subjects, and services that another account imports. Ways out: Fetch, subscriptions (plain, wide, in
//! a queue group), and streams that another account imports. `two_doors` changes rules while messages are on
//! their way.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tailrace_identity::acl::{Operation, Permission, ResourceKind};
use tailrace_records::{BatchBuilder, BatchOptions, DecodedBatch, split_batches};
use tokio::net::TcpStream;

use crate::common::lines::Lines;
use crate::common::logins::plain;
use crate::common::rig::{bytes_of, fetch_request, now, only_partition, produce_request};
use crate::common::{Client, PATIENCE};
use crate::rights::{Rule, World};
use crate::two_doors::{Dice, collide, covers, words};
use Operation::{Read, Write};
use Permission::{Allow, Deny};
use ResourceKind::{Subject, Topic};

/// Sets of rules that are tried.
const STATES: usize = 40;
const RULES_AT_ONCE: usize = 8;

/// Whom a rule is for. Alice and bee try the ways, carol does nothing.
const WHOM: [&str; 4] = ["*", "alice", "bee", "carol"];

/// Topics and their bindings. `z` is compacted.
const TOPICS: [(&str, &str); 4] = [("a", "a.>"), ("b", "x.*"), ("c.d", ""), ("z", "z.>")];

/// The account B imports the subjects of `a`, and bee is in it.
const USERS: &str = r#"
[[accounts]]
name = "$G"
exports = [{ stream = "a.>" }, { service = "a.*" }]

[[accounts]]
name = "B"
imports = [{ stream = "a.>", from = "$G", to = "in.>" }, { service = "a.*", from = "$G", to = "out.*" }]

[[users]]
user = "bee"
password = "p"
account = "B"
"#;

/// Rules, for any of `WHOM`. Some collide with topics that they do not name.
const RULES: [Rule<'static>; 28] = [
    ("*", Allow, Read, Topic, "a"),
    ("*", Allow, Read, Topic, "b"),
    ("*", Allow, Read, Topic, "c.d"),
    ("*", Deny, Read, Topic, "a"),
    ("*", Deny, Read, Topic, "c.d"),
    ("*", Allow, Read, Subject, ">"),
    ("*", Allow, Read, Subject, "a.>"),
    ("*", Allow, Read, Subject, "in.>"),
    ("*", Allow, Read, Subject, "x.1"),
    ("*", Allow, Read, Subject, "free"),
    ("*", Deny, Read, Subject, "a.k"),
    ("*", Deny, Read, Subject, "x.*"),
    ("*", Deny, Read, Subject, "*.d.key"),
    ("*", Allow, Write, Topic, "a"),
    ("*", Allow, Write, Topic, "b"),
    ("*", Allow, Write, Topic, "c.d"),
    ("*", Allow, Write, Topic, "z"),
    ("*", Deny, Write, Topic, "a"),
    ("*", Allow, Write, Subject, "a.>"),
    ("*", Allow, Write, Subject, "a.b"),
    ("*", Allow, Write, Subject, "out.*"),
    ("*", Allow, Write, Subject, "x.1"),
    ("*", Allow, Write, Subject, "free"),
    ("*", Allow, Write, Subject, "z.a"),
    ("*", Allow, Write, Subject, "z.k"),
    ("*", Deny, Write, Subject, "a.k"),
    ("*", Deny, Write, Subject, "x.*"),
    ("*", Deny, Write, Subject, "*.d.key"),
];

/// Subjects of messages.
const SUBJECTS: [&str; 11] =
    ["a", "a.k", "a.b", "a.b.c", "x.1", "x.k", "c.d", "c.d.key", "z.a", "z.k", "free"];

/// The rules at one time: their numbers, and whom they are for.
type Rules = BTreeSet<(usize, &'static str)>;

/// The numbers of the rules that concern a user at one time.
type State = BTreeSet<usize>;

fn state_of(rules: &Rules, user: &str) -> State {
    rules.iter().filter(|(_, whom)| ["*", user].contains(whom)).map(|(number, _)| *number).collect()
}

fn any(state: &State, rule: (Permission, Operation, ResourceKind), is_met: impl Fn(&str) -> bool) -> bool {
    let of = |number: &usize| {
        let (_, permission, operation, kind, name) = RULES[*number];
        (permission, operation, kind) == rule && is_met(name)
    };
    state.iter().any(of)
}

fn subjects_of(topic: &str) -> Vec<String> {
    let (_, binding) = TOPICS.into_iter().find(|(name, _)| *name == topic).unwrap();
    let own = [topic.to_owned(), format!("{topic}.>")];
    Some(binding).filter(|text| !text.is_empty()).map(str::to_owned).into_iter().chain(own).collect()
}

fn has(topic: &str, subject: &str) -> bool {
    subjects_of(topic).iter().any(|own| covers(&words(own), &words(subject)))
}

/// Whether a user may read or write a topic by Kafka.
fn whole(state: &State, operation: Operation, topic: &str) -> bool {
    let subjects = subjects_of(topic);
    let collides = |name: &str| subjects.iter().any(|subject| collide(&words(name), &words(subject)));
    let is_covered = |subject: &String| {
        any(state, (Allow, operation, Subject), |name| covers(&words(name), &words(subject)))
    };
    !any(state, (Deny, operation, Topic), |name| name == topic)
        && !any(state, (Deny, operation, Subject), collides)
        && (any(state, (Allow, operation, Topic), |name| name == topic) || subjects.iter().all(is_covered))
}

/// Whether a user may hear or publish a message on a subject.
fn one(state: &State, operation: Operation, subject: &str) -> bool {
    let matches = |pattern: &str| covers(&words(pattern), &words(subject));
    let topics: Vec<_> = TOPICS.iter().map(|topic| topic.0).filter(|topic| has(topic, subject)).collect();
    let of = |permission, topic: &str| any(state, (permission, operation, Topic), |name| name == topic);
    if any(state, (Deny, operation, Subject), matches) || topics.iter().any(|topic| of(Deny, topic)) {
        return false;
    }
    if any(state, (Allow, operation, Subject), matches) {
        return true;
    }
    match topics.as_slice() {
        // Subjects of no topic: everything, unless there is a list.
        [] => !any(state, (Allow, operation, Subject), |_| true),
        topics => topics.iter().all(|topic| of(Allow, topic)),
    }
}

/// A way into a topic.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Produce with this key, and with this subject in a header.
    Produce { topic: &'static str, key: &'static str, subject: Option<&'static str> },
    /// A message of alice, with another key or none, and with a value or none.
    Publish { subject: &'static str, key: Option<&'static str>, is_tombstone: bool },
    /// A message whose answer is to go somewhere.
    Ask { subject: &'static str, reply: &'static str },
    /// A message of bee, who is in another account.
    Import { subject: &'static str, key: Option<&'static str> },
}

impl Way {
    fn all() -> Vec<Self> {
        let produce = TOPICS.iter().flat_map(|&(topic, _)| {
            [None, Some("a.k"), Some("x.1")].map(|subject| Self::Produce { topic, key: "key", subject })
        });
        let publish =
            SUBJECTS.iter().map(|&subject| Self::Publish { subject, key: None, is_tombstone: false });
        let keys = [
            ("a.b", "a.k"),
            ("a.b", "text"),
            ("x.1", "x.k"),
            ("x.1", "a.k"),
            ("c.d", "c.d.key"),
            ("z.a", "k"),
            ("z.a", "z.k"),
            ("z.k", "a"),
            ("free", "a.k"),
        ];
        let keyed = keys.into_iter().flat_map(|(subject, key)| {
            [false, true].map(|is_tombstone| Self::Publish { subject, key: Some(key), is_tombstone })
        });
        let asked = [("a.b", "x.1"), ("x.1", "a.k"), ("free", "a.b"), ("a.b", "free"), ("free", "c.d.key")]
            .map(|(subject, reply)| Self::Ask { subject, reply });
        let imported =
            [("out.b", None), ("out.k", None), ("out.b", Some("a.k")), ("a.b", None), ("x.1", None)]
                .map(|(subject, key)| Self::Import { subject, key });
        produce.chain(publish).chain(keyed).chain(asked).chain(imported).collect()
    }

    /// The topic that the message leads into, if it is let in.
    fn topic(self) -> Option<&'static str> {
        let bound = |subject: &str| {
            let binds = |binding: &str| !binding.is_empty() && covers(&words(binding), &words(subject));
            TOPICS.iter().find(|(_, binding)| binds(binding)).map(|topic| topic.0)
        };
        match self {
            Self::Produce { topic, .. } => Some(topic),
            Self::Publish { subject, .. } | Self::Ask { subject, .. } => bound(subject),
            Self::Import { subject, .. } => subject.starts_with("out.").then_some("a"),
        }
    }

    fn is_allowed(self, state: &State) -> bool {
        let may = |subject: &str| one(state, Write, subject);
        // What the record replaces.
        let may_use = |subject: &str, key: &str| {
            TOPICS.iter().map(|topic| topic.0).filter(|topic| has(topic, subject)).all(|topic| {
                let is_free = !has(topic, key) && topic != "z";
                is_free || if has(topic, key) { may(key) } else { may(&format!("{topic}.{key}")) }
            })
        };
        match self {
            Self::Produce { topic, .. } => whole(state, Write, topic),
            Self::Publish { subject, key, .. } => may(subject) && key.is_none_or(|key| may_use(subject, key)),
            Self::Ask { subject, reply } => {
                let is_of_topic = TOPICS.iter().any(|topic| has(topic.0, reply));
                may(subject) && (!is_of_topic || may(reply))
            }
            Self::Import { subject, key } => {
                let there = subject.replace("out.", "a.");
                may(subject) && may(&there) && key.is_none_or(|key| may_use(&there, key))
            }
        }
    }

    /// What a NATS client sends.
    fn text(self, tag: &str) -> String {
        let (subject, reply, key, is_tombstone) = match self {
            Self::Produce { .. } => unreachable!("it is sent by Kafka"),
            Self::Publish { subject, key, is_tombstone } => (subject, "", key, is_tombstone),
            Self::Ask { subject, reply } => (subject, reply, None, false),
            Self::Import { subject, key } => (subject, "", key, false),
        };
        let key = key.map(|key| format!("Kafka-Key: {key}\r\n")).unwrap_or_default();
        let (null, payload) = if is_tombstone { ("Kafka-Value: null\r\n", "") } else { ("", "value") };
        let head = format!("NATS/1.0\r\nTag: {tag}\r\n{key}{null}\r\n");
        format!("HPUB {subject} {reply} {} {}\r\n{head}{payload}\r\n", head.len(), head.len() + payload.len())
    }
}

async fn user(address: SocketAddr, name: &str, password: &str) -> Lines<TcpStream> {
    let mut lines = Lines::over(TcpStream::connect(address).await.unwrap());
    lines.info().await;
    let login = format!("\"user\":\"{name}\",\"pass\":\"{password}\"");
    lines.send(&format!("CONNECT {{\"verbose\":false,\"headers\":true,{login}}}\r\n")).await;
    assert!(lines.until_pong().await.is_empty());
    lines
}

async fn produce(client: &mut Client, topic: &str, key: &str, subject: Option<&str>, tag: &str) -> i16 {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    let mut headers = vec![(&b"Tag"[..], Some(tag.as_bytes()))];
    headers.extend(subject.map(|subject| (&b"Nats-Subject"[..], Some(subject.as_bytes()))));
    builder.push(now(), Some(key.as_bytes()), Some(b"value"), &headers).unwrap();
    let answer = client.call(9, &produce_request(topic, 0, -1, builder.build())).await;
    answer.responses[0].partition_responses[0].error_code
}

/// The topics, as a super user reads them.
#[derive(Default)]
struct Logs {
    next: BTreeMap<&'static str, i64>,
    /// The topic of each tag.
    found: BTreeMap<String, &'static str>,
}

impl Logs {
    async fn read(&mut self, admin: &mut Client) {
        for (topic, _) in TOPICS {
            let next = self.next.entry(topic).or_default();
            let mut request = fetch_request(topic, 0, *next);
            request.max_wait_ms = 0;
            let data = only_partition(admin.call(12, &request).await);
            assert_eq!(data.error_code, 0);
            let bytes = bytes_of(&data);
            for batch in split_batches(&bytes) {
                let batch = DecodedBatch::new(batch.unwrap().1, usize::MAX).unwrap();
                for record in batch.records().map(Result::unwrap) {
                    if record.offset.get() < *next {
                        continue;
                    }
                    *next = record.offset.get() + 1;
                    let tags = record
                        .headers
                        .filter(|header| header.key == b"Tag")
                        .filter_map(|header| header.value);
                    for tag in tags {
                        let twice = self.found.insert(String::from_utf8(tag.to_vec()).unwrap(), topic);
                        assert_eq!(twice, None, "a message is in two places");
                    }
                }
            }
        }
    }
}

struct Doors {
    world: World,
    alice: Lines<TcpStream>,
    alice_by_kafka: Client,
    bee: Lines<TcpStream>,
    admin: Lines<TcpStream>,
    logs: Logs,
    /// The topic of each message that was allowed, by its tag.
    expected: BTreeMap<String, &'static str>,
    tags: usize,
}

impl Doors {
    /// Tries every way in. Returns how many were allowed and refused.
    async fn write(&mut self, rules: &Rules) -> (usize, usize) {
        let (of_alice, of_bee) = (state_of(rules, "alice"), state_of(rules, "bee"));
        let (mut expected, mut refusals) = (BTreeMap::new(), [0, 0]);
        let ways = Way::all();
        for way in &ways {
            self.tags += 1;
            let tag = format!("{:07}", self.tags);
            let is_allowed = way.is_allowed(match way {
                Way::Import { .. } => &of_bee,
                Way::Produce { .. } | Way::Publish { .. } | Way::Ask { .. } => &of_alice,
            });
            match *way {
                Way::Produce { topic, key, subject } => {
                    let code = produce(&mut self.alice_by_kafka, topic, key, subject, &tag).await;
                    assert_eq!(code, if is_allowed { 0 } else { 29 }, "{way:?} {rules:?}");
                }
                Way::Import { .. } => {
                    refusals[1] += usize::from(!is_allowed);
                    self.bee.send(&way.text(&tag)).await;
                }
                _ => {
                    refusals[0] += usize::from(!is_allowed);
                    self.alice.send(&way.text(&tag)).await;
                }
            }
            if let (true, Some(topic)) = (is_allowed, way.topic()) {
                expected.insert(tag, topic);
            }
        }
        for (lines, count) in [&mut self.alice, &mut self.bee].into_iter().zip(refusals) {
            let said = lines.until_pong().await;
            let said = said.iter().filter(|line| line.starts_with("-ERR 'Permissions Violation"));
            assert_eq!(said.count(), count, "refusals {rules:?}");
        }
        let count = expected.len();
        self.expected.extend(expected);
        self.await_logs(&ways, rules).await;
        (count, refusals[0] + refusals[1])
    }

    /// Waits until the topics have all messages that were allowed, and checks that they have no others, now
    /// or of earlier rules.
    async fn await_logs(&mut self, ways: &[Way], rules: &Rules) {
        let (began, way) =
            (Instant::now(), |tag: &String| ways[(tag.parse::<usize>().unwrap() - 1) % ways.len()]);
        loop {
            self.logs.read(&mut self.world.admin).await;
            for (tag, topic) in &self.logs.found {
                assert_eq!(self.expected.get(tag), Some(topic), "{:?} was let in: {rules:?}", way(tag));
            }
            let Some(missing) = self.expected.keys().find(|tag| !self.logs.found.contains_key(*tag)) else {
                return;
            };
            assert!(began.elapsed() < PATIENCE, "{:?} is not in its topic: {rules:?}", way(missing));
            // A pause between two looks at the topics.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Tries every way out. Returns how many messages were heard and withheld.
    async fn read(&mut self, rules: &Rules) -> (usize, usize) {
        let (of_alice, of_bee) = (state_of(rules, "alice"), state_of(rules, "bee"));
        for (topic, _) in TOPICS {
            let answer = self.alice_by_kafka.call(12, &fetch_request(topic, 0, 0)).await;
            let expected = if whole(&of_alice, Read, topic) { 0 } else { 29 };
            assert_eq!(only_partition(answer).error_code, expected, "{topic} {rules:?}");
        }
        let literal =
            SUBJECTS.iter().enumerate().map(|(number, subject)| format!("SUB {subject} {}\r\n", 10 + number));
        let all: String = literal.collect();
        // As in nats-server, a wide subscription needs a part that is allowed, or one rule that covers it.
        self.alice.send(&format!("SUB > 1\r\nSUB > q 2\r\n{all}")).await;
        let said = self.alice.until_pong().await;
        let is_let_in = |said: &[String], text: &str| !said.iter().any(|line| line.contains(text));
        let wide = is_let_in(&said, "Subscription to \">\"'");
        assert_eq!(wide, is_let_in(&said, "Subscription to \">\" using queue"), "{rules:?}");
        self.bee.send("SUB in.> 1\r\nSUB > 2\r\n").await;
        let said = self.bee.until_pong().await;
        let imported = is_let_in(&said, "\"in.>\"");
        for subject in SUBJECTS {
            self.admin.send(&format!("PUB {subject} 4\r\nread\r\n")).await;
        }
        assert_eq!(self.admin.until_pong().await, [""; 0]);
        let (by_alice, by_bee) = (sids(&self.alice.until_pong().await), sids(&self.bee.until_pong().await));
        let (mut heard, mut withheld) = (0, 0);
        for (number, subject) in SUBJECTS.into_iter().enumerate() {
            let sids = [1, 2, 10 + number].map(|sid| (subject.to_owned(), sid.to_string()));
            let expected = match (one(&of_alice, Read, subject), wide) {
                (true, true) => sids.len(),
                (true, false) => 1,
                (false, _) => 0,
            };
            let found = sids.iter().filter(|sid| by_alice.contains(*sid)).count();
            assert_eq!(found, expected, "{subject} {by_alice:?} {rules:?}");
            heard += found;
            withheld += sids.len() - found;
            if let Some(rest) = subject.strip_prefix("a.") {
                let there = format!("in.{rest}");
                let may = imported && one(&of_bee, Read, &there) && one(&of_bee, Read, subject);
                let found = by_bee.contains(&(there.clone(), "1".to_owned()));
                assert_eq!(found, may, "{there} {by_bee:?} {rules:?}");
            }
        }
        assert!(by_bee.iter().all(|(subject, _)| subject.starts_with("in.")), "{by_bee:?}");
        let unsubscribe = |sid: usize| format!("UNSUB {sid}\r\n");
        let all: String = (1..10 + SUBJECTS.len()).map(unsubscribe).collect();
        self.alice.send(&all).await;
        self.bee.send(&(unsubscribe(1) + &unsubscribe(2))).await;
        self.alice.until_pong().await;
        self.bee.until_pong().await;
        (heard, withheld)
    }
}

/// The subjects of messages, and the numbers of the subscriptions that heard them.
fn sids(lines: &[String]) -> BTreeSet<(String, String)> {
    let messages = lines.iter().filter(|line| line.starts_with("MSG ") || line.starts_with("HMSG "));
    let parts = messages.map(|line| line.split(' ').collect::<Vec<_>>());
    parts.map(|parts| (parts[1].to_owned(), parts[2].to_owned())).collect()
}

async fn doors(folder: &tempfile::TempDir) -> Doors {
    let path = folder.path().join("users.toml");
    std::fs::write(&path, USERS).unwrap();
    let mut world = World::new(&[("tailrace.nats.users.file", path.to_str().unwrap())]).await;
    for (name, subjects) in TOPICS {
        let policy = if name == "z" { "compact" } else { "delete" };
        let settings = [("tailrace.subjects", subjects), ("cleanup.policy", policy)];
        world.admin.create_topic(name, 1, &settings).await;
    }
    let address = world.server.nats();
    let mut alice_by_kafka = world.server.connect().await;
    assert_eq!(plain(&mut alice_by_kafka, "alice", "p").await.error_code, 0);
    Doors {
        alice: user(address, "alice", "p").await,
        bee: user(address, "bee", "p").await,
        admin: user(address, "admin", "open sesame").await,
        alice_by_kafka,
        world,
        logs: Logs::default(),
        expected: BTreeMap::new(),
        tags: 0,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_way_is_open_exactly_if_the_rules_allow_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut doors = doors(&folder).await;
    let (mut dice, mut counts) = (Dice(11), [0; 4]);
    for round in 0..STATES {
        // The last one finds what arrives late.
        let count = if round == 0 || round + 1 == STATES { 0 } else { dice.roll(RULES_AT_ONCE + 1) };
        let now: Rules = (0..count).map(|_| (dice.roll(RULES.len()), WHOM[dice.roll(WHOM.len())])).collect();
        let rules: Vec<Rule<'_>> = now
            .iter()
            .map(|&(number, whom)| {
                let (_, permission, operation, kind, name) = RULES[number];
                (whom, permission, operation, kind, name)
            })
            .collect();
        if !rules.is_empty() {
            doors.world.add(&rules).await;
        }
        let (written, refused) = doors.write(&now).await;
        let (heard, withheld) = doors.read(&now).await;
        for (sum, more) in counts.iter_mut().zip([written, refused, heard, withheld]) {
            *sum += more;
        }
        if !rules.is_empty() {
            doors.world.remove(&rules).await;
        }
    }
    // The test would be worth nothing if there was nothing to see.
    assert!(counts.iter().all(|count| *count > 100), "{counts:?}");
}
