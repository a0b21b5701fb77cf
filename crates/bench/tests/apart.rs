//! Publishers and subscribers apart, as on two agents: every message must arrive exactly once and unharmed.
//!
//! The servers are the same as in `systems`: named by the environment, started if they are installed, or
//! simulated.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "the other tests of systems use more of it")]

mod peers;

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::thread;

use tailrace_bench::clock::{Clock, MonotonicClock, SECOND_NS, Waiting};
use tailrace_bench::engine::{self, Interval, Listening, Load, LoadOptions, Part, Sent};
use tailrace_bench::requester::Requester;
use tailrace_bench::schedule::{Rate, Schedule};
use tailrace_bench::systems::{self, Role, SYSTEMS, Settings, Target};

use peers::nsqd::Nsqd;
use peers::postgres::{self, Postgres};

const CONNECTIONS: [u32; 3] = [0, 1, 2];

/// Messages per second; there is one second of load after a fifth of a second of warm-up.
const PER_SECOND: u64 = 300;

fn target(system: &str, address: &str, settings: &[(&str, &str)]) -> Target {
    Target {
        system: system.to_owned(),
        address: Some(address.to_owned()),
        connections: 3,
        payload_bytes: 128,
        run: (std::process::id() % 30_000) as u16 + 1,
        settings: Settings::new(
            settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        ),
    }
}

fn tear_down(requesters: Vec<Box<dyn Requester>>) {
    requesters.into_iter().for_each(|mut requester| requester.tear_down().unwrap());
}

fn comes_apart(target: &Target) {
    let system = &target.system;
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock::new(Waiting::Sleep));
    let mut options =
        LoadOptions::new(Load::Open(Schedule::constant(Rate::per_second(PER_SECOND).unwrap()).unwrap()));
    (options.warm_up_ns, options.duration_ns, options.run) = (SECOND_NS / 5, SECOND_NS, target.run);
    // Subscribers are set up first.
    let mut subscribers = systems::open_some(target, Role::Subscriber, &CONNECTIONS).unwrap().requesters;
    subscribers.iter_mut().for_each(|subscriber| subscriber.set_up().unwrap());
    let mut publishers = systems::open_some(target, Role::Publisher, &CONNECTIONS).unwrap().requesters;
    systems::set_up_some(&mut publishers, target, &CONNECTIONS, &*clock).unwrap();
    assert!(publishers.iter().all(|publisher| publisher.expects().payload.is_none()));
    assert!(subscribers.iter().all(|subscriber| !subscriber.expects().acknowledgement));
    let acknowledges = publishers[0].expects().acknowledgement;
    let begin_ns = clock.now_ns() + SECOND_NS / 10;
    let sent = Arc::new(Sent::default());
    let listening = subscribers.into_iter().zip(CONNECTIONS).map(|(requester, connection)| Listening {
        requester,
        connection,
        publisher_begin_ns: begin_ns,
        offset_ns: Arc::new(AtomicI64::new(0)),
    });
    let listening: Vec<Listening> = listening.collect();
    let (its_options, its_sent, its_clock) = (options.clone(), Arc::clone(&sent), Arc::clone(&clock));
    let listener = thread::spawn(move || {
        let mut observer = |_: &Interval<'_>| {};
        engine::listen(&its_options, begin_ns, listening, &its_sent, &its_clock, &mut observer).unwrap()
    });
    let part = Part { connections: CONNECTIONS.to_vec(), of: 3, begin_ns };
    let (published, publishers) =
        engine::run_part(&options, &part, publishers, &clock, &Arc::default(), &mut |_: &Interval<'_>| {})
            .unwrap();
    assert_eq!(published.failures, [""; 0], "{system}");
    // Warm-up included.
    assert_eq!(published.sent.iter().map(|(_, sent)| sent).sum::<u64>(), PER_SECOND * 6 / 5);
    sent.tell(published.sent.iter().copied().collect());
    let (listened, subscribers) = listener.join().unwrap();
    tear_down(publishers);
    tear_down(subscribers);
    let (there, here) = (published.total.counts, listened.total.counts);
    assert_eq!(
        (there.due, there.sent, there.received, there.lost),
        (PER_SECOND, PER_SECOND, 0, 0),
        "{system}"
    );
    assert_eq!(there.acknowledged, if acknowledges { PER_SECOND } else { 0 }, "{system} {there:?}");
    let wrong = [here.lost, here.duplicates, here.corrupt, here.foreign, here.unknown, here.reordered];
    assert_eq!((here.received, wrong), (PER_SECOND, [0; 6]), "{system} {here:?} {:?}", listened.failures);
    assert_eq!(listened.total.receipt.success.count(), PER_SECOND);
    assert_eq!(here.negative, 0, "one clock");
}

fn server(variable: &str) -> Option<String> {
    let found = std::env::var(variable).ok();
    if found.is_none() {
        eprintln!("not tried: {variable} names no server");
    }
    found
}

#[test]
fn nats_and_jetstream() {
    let Some(address) = server("TAILRACE_BENCH_NATS") else { return };
    comes_apart(&target("nats", &address, &[]));
    comes_apart(&target("jetstream", &address, &[("storage", "memory")]));
}

#[test]
fn tailrace_over_nats() {
    let Some(address) = server("TAILRACE_BENCH_TAILRACE_NATS") else { return };
    comes_apart(&target("tailrace-nats", &address, &[]));
}

#[test]
fn redis() {
    let Some(address) = server("TAILRACE_BENCH_REDIS") else { return };
    comes_apart(&target("redis", &address, &[]));
    comes_apart(&target("redis-streams", &address, &[]));
    comes_apart(&target("redis-lists", &address, &[]));
}

#[test]
fn rabbitmq() {
    let Some(address) = server("TAILRACE_BENCH_RABBITMQ") else { return };
    comes_apart(&target("rabbitmq", &address, &[("durable", "false")]));
}

#[test]
fn mqtt() {
    let Some(address) = server("TAILRACE_BENCH_MQTT") else { return };
    comes_apart(&target("mqtt", &address, &[]));
    comes_apart(&target("mqtt", &address, &[("qos", "0")]));
}

#[test]
fn stomp() {
    let Some(address) = server("TAILRACE_BENCH_STOMP") else { return };
    comes_apart(&target("stomp", &address, &[]));
}

#[test]
fn postgresql() {
    let Some(server) = Postgres::start() else {
        eprintln!("not tried: PostgreSQL is not installed");
        return;
    };
    let settings = [("database", "postgres"), ("password", postgres::PASSWORD)];
    comes_apart(&target("postgres", &server.address, &settings));
}

#[test]
fn nsq_simulated() {
    let nsqd = Nsqd::start();
    comes_apart(&target("nsq", &nsqd.address, &[]));
}

#[test]
fn kafka() {
    let Some(address) = server("TAILRACE_BENCH_TAILRACE_KAFKA") else { return };
    comes_apart(&target("tailrace-kafka", &address, &[]));
}

#[test]
fn others_cannot_be_apart() {
    let apart =
        |name: &&str| systems::open_some(&target(name, "127.0.0.1:1", &[]), Role::Subscriber, &[0]).is_ok();
    let possible: Vec<&str> = SYSTEMS.iter().map(|system| system.name).filter(apart).collect();
    let expected = "nats jetstream redis redis-streams redis-lists rabbitmq mqtt stomp postgres nsq kafka \
        tailrace-kafka tailrace-nats";
    assert_eq!(possible.join(" "), expected);
    let refused = systems::open_some(&target("http", "127.0.0.1:1", &[]), Role::Publisher, &[0]);
    let words = refused.err().unwrap().to_string();
    assert!(
        words.starts_with("publisher and subscriber of http cannot be apart: expected one of nats"),
        "{words}"
    );
}
