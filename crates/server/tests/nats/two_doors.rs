//! What a user gets by Kafka and by NATS is within what the rules allow, also while rules change: random
//! rules come and go while messages and records are on their way, and a plain list of the rules is asked
//! afterwards.
//!
//! An observation has a window: from the last change that was acknowledged before it began, to the last one
//! that had begun when it was over. One of the states in between must agree with it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tailrace_identity::acl::{Operation, Permission, ResourceKind};
use tokio::net::TcpStream;

use crate::common::lines::Lines;
use crate::common::logins::plain;
use crate::common::rig::{decoded, fetch_request};
use crate::common::{Client, PATIENCE};
use crate::rights::{Rule, World};
use Operation::Read;
use Permission::{Allow, Deny};
use ResourceKind::{Subject, Topic};

const CHANGES: usize = 80;
const TOPIC_REFUSED: i16 = 29;

/// Topics and their bindings.
const TOPICS: [(&str, &str); 3] = [("a", "a.>"), ("b", "x.*"), ("c.d", "")];

/// Rules that come and go. Some collide with topics that they do not name.
const RULES: [Rule<'static>; 11] = [
    ("alice", Allow, Read, Topic, "a"),
    ("alice", Allow, Read, Topic, "b"),
    ("alice", Allow, Read, Topic, "c.d"),
    ("alice", Deny, Read, Topic, "a"),
    ("alice", Deny, Read, Topic, "c.d"),
    ("alice", Allow, Read, Subject, "a.>"),
    ("alice", Allow, Read, Subject, "x.1"),
    ("alice", Allow, Read, Subject, "free"),
    ("alice", Deny, Read, Subject, "a.k"),
    ("alice", Deny, Read, Subject, "x.*"),
    ("alice", Deny, Read, Subject, "*.d.key"),
];

/// Subjects of messages by NATS.
const SUBJECTS: [&str; 8] = ["a", "a.k", "a.b.c", "x.1", "x.k", "c.d", "c.d.key", "free"];

pub(crate) fn words(text: &str) -> Vec<&str> {
    text.split('.').collect()
}

/// Whether some subject has both patterns.
pub(crate) fn collide(one: &[&str], other: &[&str]) -> bool {
    match (one, other) {
        ([">"], [_, ..]) | ([_, ..], [">"]) => true,
        ([], []) => true,
        ([a, one @ ..], [b, other @ ..]) => (a == b || *a == "*" || *b == "*") && collide(one, other),
        _ => false,
    }
}

/// Whether the first pattern has all subjects of the second.
pub(crate) fn covers(one: &[&str], other: &[&str]) -> bool {
    match (one, other) {
        ([">"], [_, ..]) => true,
        ([], []) => true,
        ([a, one @ ..], [b, other @ ..]) => (a == b || *a == "*" && *b != ">") && covers(one, other),
        _ => false,
    }
}

fn subjects_of(topic: (&str, &str)) -> Vec<String> {
    let bindings = topic.1.split(',').filter(|binding| !binding.is_empty()).map(str::to_owned);
    bindings.chain([topic.0.to_owned(), format!("{}.>", topic.0)]).collect()
}

/// The numbers of the rules at one time.
type State = BTreeSet<usize>;

fn any(state: &State, permission: Permission, kind: ResourceKind, is_met: impl Fn(&str) -> bool) -> bool {
    let of = |number: &usize| {
        let (_, is, _, about, name) = RULES[*number];
        is == permission && about == kind && is_met(name)
    };
    state.iter().any(of)
}

/// Whether alice may read a topic by Kafka.
fn may_fetch(state: &State, topic: (&str, &str)) -> bool {
    let subjects = subjects_of(topic);
    let denies = |name: &str| subjects.iter().any(|subject| collide(&words(name), &words(subject)));
    let covered = |subject: &String| any(state, Allow, Subject, |name| covers(&words(name), &words(subject)));
    !any(state, Deny, Topic, |name| name == topic.0)
        && !any(state, Deny, Subject, denies)
        && (any(state, Allow, Topic, |name| name == topic.0) || subjects.iter().all(covered))
}

/// Whether alice may hear a message on a subject.
fn may_hear(state: &State, subject: &str) -> bool {
    let has = |pattern: &str| covers(&words(pattern), &words(subject));
    let topics: Vec<_> =
        TOPICS.into_iter().filter(|topic| subjects_of(*topic).iter().any(|own| has(own))).collect();
    let is_denied = any(state, Deny, Subject, has)
        || topics.iter().any(|topic| any(state, Deny, Topic, |name| name == topic.0));
    let by_topics = |topic: &(&str, &str)| any(state, Allow, Topic, |name| name == topic.0);
    match topics.as_slice() {
        _ if is_denied => false,
        _ if any(state, Allow, Subject, has) => true,
        // Subjects of no topic: everything, unless the user has a list.
        [] => !any(state, Allow, Subject, |_| true),
        topics => topics.iter().all(by_topics),
    }
}

/// The states of the rules, and how far the changes have come.
#[derive(Default)]
struct Course {
    states: Mutex<Vec<State>>,
    begun: AtomicUsize,
    done: AtomicUsize,
    is_over: AtomicBool,
}

impl Course {
    fn done(&self) -> usize {
        self.done.load(Ordering::SeqCst)
    }

    fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Whether one of the states of a window has this answer.
    fn agrees(&self, from: usize, to: usize, answer: impl Fn(&State) -> bool) -> bool {
        self.states.lock().unwrap()[from..=to].iter().any(answer)
    }
}

/// Random numbers, the same in each run.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

async fn admin(world: &World) -> Client {
    let mut client = world.server.connect().await;
    assert_eq!(plain(&mut client, "admin", "open sesame").await.error_code, 0);
    client
}

/// Fetches all topics as alice until the course is over. Returns how often she got records, and was refused.
async fn fetch(mut client: Client, course: Arc<Course>) -> (usize, usize) {
    let (mut got, mut refused) = (0, 0);
    while !course.is_over() {
        for topic in TOPICS {
            let from = course.done();
            let mut request = fetch_request(topic.0, 0, 0);
            request.max_wait_ms = 0;
            let answer = client.call(11, &request).await;
            let to = course.begun();
            let data = &answer.responses[0].partitions[0];
            let records = decoded(data).len();
            match data.error_code {
                0 if records > 0 => {
                    assert!(
                        course.agrees(from, to, |state| may_fetch(state, topic)),
                        "{topic:?} {from}..{to}"
                    );
                    got += 1;
                }
                TOPIC_REFUSED => {
                    let agrees = course.agrees(from, to, |state| !may_fetch(state, topic));
                    assert!(agrees, "{topic:?} is refused, {from}..{to}");
                    refused += 1;
                }
                code => assert_eq!(code, 0),
            }
        }
    }
    (got, refused)
}

/// The subject of a message, and the window in which it was delivered.
type Seen = (String, usize, usize);

async fn user(address: SocketAddr, name: &str, password: &str) -> Lines<TcpStream> {
    let mut lines = Lines::over(TcpStream::connect(address).await.unwrap());
    lines.info().await;
    let login = format!("\"user\":\"{name}\",\"pass\":\"{password}\"");
    lines.send(&format!("CONNECT {{\"verbose\":false,\"headers\":true,{login}}}\r\n")).await;
    assert!(lines.until_pong().await.is_empty());
    lines
}

/// Publishes by NATS, and produces by Kafka, until the course is over. A super user who hears everything says
/// when a message was delivered.
async fn publish(address: SocketAddr, mut kafka: Client, course: Arc<Course>) -> Vec<Seen> {
    let mut nats = user(address, "admin", "open sesame").await;
    let mut witness = user(address, "admin", "open sesame").await;
    witness.send("SUB > 1\r\n").await;
    assert!(witness.until_pong().await.is_empty());
    let (mut sent, mut dice) = (Vec::new(), Dice(7));
    while !course.is_over() {
        let (number, from) = (sent.len(), course.done());
        if number % 4 == 3 {
            // Its key is "key", so it is heard below the topic.
            let topic = TOPICS[dice.roll(TOPICS.len())].0;
            kafka.produce(topic, 0, &[i64::try_from(number).unwrap()]).await;
        } else {
            let (subject, text) = (SUBJECTS[dice.roll(SUBJECTS.len())], number.to_string());
            nats.send(&format!("PUB {subject} {}\r\n{text}\r\n", text.len())).await;
        }
        let line = loop {
            let line = witness.line().await.expect("the witness stays connected");
            if line.starts_with("MSG ") || line.starts_with("HMSG ") {
                break line;
            }
        };
        let subject = line.split(' ').nth(1).unwrap().to_owned();
        sent.push((subject, from, course.begun()));
    }
    sent
}

/// Hears as alice what she may, until the course is over. The subscription may be removed by a rule, so it is
/// made again and again. Returns the subjects that she heard, with the window of each.
async fn hear(address: SocketAddr, course: Arc<Course>) -> Vec<Seen> {
    let mut alice = user(address, "alice", "p").await;
    let (mut heard, mut sid, mut earlier, mut from) = (Vec::new(), 0, 0, 0);
    while !course.is_over() {
        sid += 1;
        let last = sid - 1;
        alice.send(&format!("SUB > {sid}\r\nUNSUB {last}\r\n")).await;
        let before = course.done();
        let lines = alice.until_pong().await;
        let to = course.begun();
        // A line came after the PONG before this one. Its delivery was decided a moment earlier, on another
        // thread, so the window begins with the PONG before that.
        let subjects = lines.iter().filter(|line| line.starts_with("MSG ") || line.starts_with("HMSG "));
        heard.extend(subjects.map(|line| (line.split(' ').nth(1).unwrap().to_owned(), from, to)));
        (from, earlier) = (earlier, before);
    }
    heard
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_user_gets_at_either_door_is_allowed_while_rules_change() {
    let mut world = World::with_topics(&TOPICS).await;
    for topic in TOPICS {
        world.admin.produce(topic.0, 0, &[1]).await;
    }
    let course = Arc::new(Course::default());
    course.states.lock().unwrap().push(State::new());
    let (mut alice, producer, address) =
        (world.server.connect().await, admin(&world).await, world.server.nats());
    assert_eq!(plain(&mut alice, "alice", "p").await.error_code, 0);
    let fetching = tokio::spawn(fetch(alice, Arc::clone(&course)));
    let publishing = tokio::spawn(publish(address, producer, Arc::clone(&course)));
    let hearing = tokio::spawn(hear(address, Arc::clone(&course)));
    let (began, mut dice, mut state) = (Instant::now(), Dice(3), State::new());
    for change in 1..=CHANGES {
        let number = dice.roll(RULES.len());
        let is_new = state.insert(number);
        if !is_new {
            state.remove(&number);
        }
        course.states.lock().unwrap().push(state.clone());
        course.begun.store(change, Ordering::SeqCst);
        match is_new {
            true => world.add(&[RULES[number]]).await,
            false => world.remove(&[RULES[number]]).await,
        }
        course.done.store(change, Ordering::SeqCst);
        // Observations between two changes allow no excuse.
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(began.elapsed() < 3 * PATIENCE, "the changes take too long");
    }
    course.is_over.store(true, Ordering::SeqCst);
    let (got, refused) = fetching.await.unwrap();
    let (sent, heard) = (publishing.await.unwrap(), hearing.await.unwrap());
    for (subject, from, to) in &heard {
        assert!(course.agrees(*from, *to, |state| may_hear(state, subject)), "{subject} {from}..{to}");
    }
    // The test would be worth nothing if there was nothing to see.
    let is_withheld =
        |(subject, from, to): &&Seen| !course.agrees(*from, *to, |state| may_hear(state, subject));
    let withheld = sent.iter().filter(is_withheld);
    let (sent, withheld, heard) = (sent.len(), withheld.count(), heard.len());
    assert!(got > 10 && refused > 10, "{got} fetches got records, {refused} were refused");
    assert!(heard > 10 && withheld > 10, "of {sent} messages, {heard} were heard and {withheld} withheld");
}
