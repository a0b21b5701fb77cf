//! The two anomalies of the reference CS-trie, looked for in many lookups with real threads: a thread's own
//! subscription is missing after `subscribe` returned (or still present after `unsubscribe` returned), and a
//! later subscription is seen without an earlier one.
//!
//! `TAILRACE_PROVE_LOOKUPS` sets how many lookups are checked in all (default: as many as take a few
//! seconds).
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

use tailrace_subjects::{Batch, Cache, Dialect, Limits, Pattern, Subscription, TupleSpace};

/// Whether the matcher is broken on purpose: the test must notice.
const BROKEN: bool = cfg!(any(tailrace_broken = "conflict", tailrace_broken = "stamp"));

/// Lookups per scenario and test.
fn lookups() -> u64 {
    let asked = std::env::var("TAILRACE_PROVE_LOOKUPS").ok().and_then(|count| count.parse().ok());
    asked.map_or(if cfg!(miri) { 30 } else { 8_000 }, |count: u64| count / SCENARIOS.len() as u64 / 2 + 1)
}

fn pattern(dialect: Dialect, text: &str) -> Pattern {
    Pattern::parse(dialect, text, &Limits::widest()).unwrap()
}

/// What makes tables and shapes move while lookups are checked. Its patterns match no subject of the lookups.
#[derive(Clone, Copy)]
enum Noise {
    Still,
    /// Waves of this many patterns of the same shapes: tables grow, shrink and are cleaned.
    Waves(usize),
    /// More shapes than there is room for: shapes are retired and come back.
    Shapes,
    /// Snapshots: histories are kept and dropped.
    Snapshots,
}

struct Scenario {
    name: &'static str,
    dialect: Dialect,
    /// All match the subject.
    patterns: &'static [&'static str],
    subject: &'static str,
    noise: Noise,
}

const SHAPES: &[&str] = &["s.x", "s.*", "*.x", "s.>", "*.*"];
/// 33 words: beyond what a table holds.
const LONG: &str = "s.1.2.3.4.5.6.7.8.9.10.11.12.13.14.15.16.17.18.19.20.21.22.23.24.25.26.27.28.29.30.31.x";
const LONG_STAR: &str =
    "s.*.2.3.4.5.6.7.8.9.10.11.12.13.14.15.16.17.18.19.20.21.22.23.24.25.26.27.28.29.30.31.x";

const fn nats(name: &'static str, patterns: &'static [&'static str], noise: Noise) -> Scenario {
    Scenario { name, dialect: Dialect::Nats, patterns, subject: "s.x", noise }
}

const SCENARIOS: &[Scenario] = &[
    nats("one pattern", &["s.x", "s.x", "s.x"], Noise::Still),
    nats("one pattern, growing and shrinking", &["s.x", "s.x", "s.x"], Noise::Waves(900)),
    nats("shapes", SHAPES, Noise::Still),
    nats("shapes, small tables moving", SHAPES, Noise::Waves(30)),
    nats("shapes, growing and shrinking", SHAPES, Noise::Waves(3_000)),
    nats("shapes, retired and made", SHAPES, Noise::Shapes),
    nats("shapes, with snapshots", SHAPES, Noise::Snapshots),
    Scenario {
        name: "tables and overflow",
        dialect: Dialect::Amqp,
        patterns: &["s.#.x", "s.x", "#.x", "s.*", "*.#.x", "*.x.#"],
        subject: "s.x",
        noise: Noise::Waves(30),
    },
    Scenario {
        name: "overflow, with snapshots",
        dialect: Dialect::Amqp,
        patterns: &["s.#.x", "#.x", "#.s.#.x"],
        subject: "s.x",
        noise: Noise::Snapshots,
    },
    Scenario {
        name: "more than 32 words",
        dialect: Dialect::Nats,
        patterns: &[LONG, "s.>", LONG_STAR, "*.1.>"],
        subject: LONG,
        noise: Noise::Waves(30),
    },
    Scenario {
        name: "MQTT",
        dialect: Dialect::Mqtt,
        patterns: &["s/x", "s/x/#", "+/x", "s/#", "#"],
        subject: "s/x",
        noise: Noise::Waves(100),
    },
];

impl Scenario {
    fn pattern(&self, index: u64) -> Pattern {
        pattern(self.dialect, self.patterns[index as usize % self.patterns.len()])
    }

    /// Makes noise until `stop`.
    fn make_noise(&self, space: &TupleSpace<u64>, stop: &AtomicBool) {
        let separator = char::from(self.dialect.separator());
        let one = char::from(self.dialect.one());
        let add = |text: String| space.subscribe(&pattern(self.dialect, &text), u64::MAX).unwrap();
        let wave = |texts: &mut dyn Iterator<Item = String>| {
            let held: Vec<Subscription> = texts.take_while(|_| !stop.load(SeqCst)).map(add).collect();
            held.into_iter().for_each(|held| assert!(space.unsubscribe(held)));
        };
        for round in 0_u64.. {
            if stop.load(SeqCst) {
                return;
            }
            match self.noise {
                Noise::Still => return,
                Noise::Waves(size) => wave(&mut (0..size).map(|index| match index % 3 {
                    0 => format!("n{index}{separator}y{round}"),
                    1 => format!("n{index}{separator}{one}"),
                    _ => format!("{one}{separator}n{index}"),
                })),
                Noise::Shapes => wave(&mut (0..100_u64).map(|index| {
                    let index = index + round * 50;
                    let word = |bit: u64| if index >> bit & 1 == 1 { one.to_string() } else { "n".into() };
                    (0..8).map(word).collect::<Vec<_>>().join(&separator.to_string())
                })),
                Noise::Snapshots => {
                    let (first, second) = (space.snapshot(), space.snapshot());
                    thread::yield_now();
                    drop(first);
                    wave(&mut (0..3).map(|index| format!("n{index}")));
                    drop(second);
                }
            }
        }
    }
}

const WRITERS: usize = 2;
const READERS: usize = 2;

/// The progress of one writer. At step `2 n` its one subscription has the value n; at `2 n + 1` it has those
/// of n and n + 1, of the next pattern in turn.
#[derive(Default)]
struct Progress {
    begun: AtomicU64,
    /// The last step that has ended, or that a reader has seen.
    done: AtomicU64,
}

/// State that readers and writers share.
struct Race<'a> {
    scenario: &'a Scenario,
    space: TupleSpace<u64>,
    progress: [Progress; WRITERS],
    stop: AtomicBool,
    checked: AtomicU64,
    bad: AtomicU64,
}

fn value(writer: usize, n: u64) -> u64 {
    (writer as u64) << 48 | n
}

impl Race<'_> {
    fn write(&self, writer: usize) {
        let Progress { begun, done } = &self.progress[writer];
        let add = |n: u64| {
            self.space.subscribe(&self.scenario.pattern(n + writer as u64), value(writer, n)).unwrap()
        };
        let mut held = add(0);
        done.store(1, SeqCst);
        // Steps count from 1, so 0 means that nothing exists yet.
        for n in 0.. {
            begun.store(2 * n + 2, SeqCst);
            let next = add(n + 1);
            done.fetch_max(2 * n + 2, SeqCst);
            begun.store(2 * n + 3, SeqCst);
            assert!(self.space.unsubscribe(std::mem::replace(&mut held, next)));
            done.fetch_max(2 * n + 3, SeqCst);
            if self.stop.load(SeqCst) {
                return;
            }
        }
    }

    fn low(&self) -> [u64; WRITERS] {
        std::array::from_fn(|writer| self.progress[writer].done.load(SeqCst))
    }

    /// Judges the result of a lookup that started when `low` was read.
    fn judge(&self, how: &str, low: [u64; WRITERS], found: &[u64]) {
        self.checked.fetch_add(1, SeqCst);
        for (writer, low) in low.into_iter().enumerate() {
            let high = self.progress[writer].begun.load(SeqCst);
            let mut own: Vec<u64> = found
                .iter()
                .filter(|found| **found >> 48 == writer as u64)
                .map(|found| found & !(0xffff << 48))
                .collect();
            own.sort_unstable();
            let step = match own[..] {
                [n] => Some(2 * n + 1),
                [n, next] if next == n + 1 => Some(2 * n + 2),
                _ => None,
            };
            match step {
                Some(step) if (low..=high).contains(&step) => {
                    self.progress[writer].done.fetch_max(step, SeqCst);
                }
                _ => self
                    .report(&format!("{how}: {own:?}, which is step {step:?} and must be of {low}..={high}")),
            }
        }
    }

    fn report(&self, what: &str) {
        if self.bad.fetch_add(1, SeqCst) < 3 {
            println!("  {}: {what}", self.scenario.name);
        }
    }

    fn read(&self, until: u64) {
        let subject = self.scenario.subject.as_bytes();
        let (mut found, mut batch, mut cache) = (Vec::new(), Batch::new(), Cache::new(4));
        for round in 0_u64.. {
            if self.checked.load(SeqCst) >= until {
                return;
            }
            let low = self.low();
            match round % 8 {
                0 => {
                    self.space.matches_many(&[subject, b"n.n.n", subject], &mut batch);
                    self.judge("matches_many", low, batch.get(0).unwrap());
                    self.judge("matches_many, last", low, batch.get(2).unwrap());
                }
                1 => {
                    self.checked.fetch_add(1, SeqCst);
                    if !self.space.has_interest(subject).unwrap() {
                        self.report("has_interest: nobody");
                    }
                }
                2 | 3 => {
                    let own = cache.matches(&self.space, subject).unwrap();
                    self.judge("cache", low, own);
                }
                4 => self.read_with_generations(subject, &mut cache),
                5 if round % 64 == 5 => self.read_snapshot(low, subject),
                _ => {
                    self.space.matches(subject, &mut found).unwrap();
                    self.judge("matches", low, &found);
                }
            }
        }
    }

    /// If the generations before and after are equal, the results between must be the same.
    fn read_with_generations(&self, subject: &[u8], cache: &mut Cache<u64>) {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let low = self.low();
        let before = self.space.generation();
        self.space.matches(subject, &mut first).unwrap();
        self.judge("before a generation", low, &first);
        let between = self.low();
        second.extend_from_slice(cache.matches(&self.space, subject).unwrap());
        self.judge("after a generation", between, &second);
        first.sort_unstable();
        second.sort_unstable();
        if self.space.generation() == before && first != second {
            self.report(&format!("one generation, but {first:x?} and {second:x?}"));
        }
    }

    fn read_snapshot(&self, low: [u64; WRITERS], subject: &[u8]) {
        let snapshot = self.space.snapshot();
        let (mut first, mut again) = (Vec::new(), Vec::new());
        snapshot.matches(subject, &mut first).unwrap();
        self.judge("snapshot", low, &first);
        let mut all: Vec<u64> = snapshot
            .to_vec()
            .into_iter()
            .map(|(_, value)| value)
            .filter(|value| *value != u64::MAX)
            .collect();
        snapshot.matches(subject, &mut again).unwrap();
        [&mut first, &mut again, &mut all].into_iter().for_each(|found| found.sort_unstable());
        if first != again || first != all {
            self.report(&format!("one snapshot, but {first:x?}, {again:x?} and, walking, {all:x?}"));
        }
    }
}

/// Lookups checked, and bad ones.
fn race(scenario: &Scenario) -> (u64, u64) {
    let (space, progress) = (TupleSpace::new(scenario.dialect), Default::default());
    let (stop, checked, bad) = Default::default();
    let race = Race { scenario, space, progress, stop, checked, bad };
    thread::scope(|scope| {
        let race = &race;
        (0..WRITERS).for_each(|writer| drop(scope.spawn(move || race.write(writer))));
        scope.spawn(|| scenario.make_noise(&race.space, &race.stop));
        while race.low().contains(&0) {
            thread::yield_now();
        }
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(|| race.read(lookups()))).collect();
        let ended: Vec<_> = readers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        race.stop.store(true, SeqCst);
        ended.into_iter().for_each(|reader| reader.unwrap());
    });
    (race.checked.into_inner(), race.bad.into_inner())
}

#[test]
fn no_combination_is_seen_that_never_was() {
    let mut sum = (0, 0);
    for scenario in SCENARIOS {
        let (checked, bad) = race(scenario);
        println!("{}: {checked} lookups checked, {bad} bad", scenario.name);
        sum = (sum.0 + checked, sum.1 + bad);
    }
    println!("all scenarios: {} lookups checked, {} bad", sum.0, sum.1);
    if BROKEN {
        assert!(sum.1 > 0, "the test does not notice what is broken");
    } else {
        assert_eq!(sum.1, 0);
    }
}

/// One thread's own subscriptions: they exist as soon as `subscribe` returns, and are gone as soon as
/// `unsubscribe` does.
fn own(scenario: &Scenario, space: &TupleSpace<u64>, thread: u64, rounds: u64) -> (u64, u64) {
    let subject = scenario.subject.as_bytes();
    let (mut batch, mut cache) = (Batch::new(), Cache::new(4));
    let (mut checked, mut bad) = (0, 0);
    let mut sees = |round: u64, value: u64| match round % 5 {
        0 => {
            space.matches_many(&[subject], &mut batch);
            batch.get(0).unwrap().contains(&value)
        }
        1 => cache.matches(space, subject).unwrap().contains(&value),
        2 if round % 50 == 2 => space.snapshot().to_vec().iter().any(|(_, own)| *own == value),
        _ => {
            let mut found = Vec::new();
            space.matches(subject, &mut found).unwrap();
            found.contains(&value)
        }
    };
    for round in 0..rounds {
        let value = thread << 48 | round;
        let generation = space.generation();
        let held = space.subscribe(&scenario.pattern(round / 5 + thread), value).unwrap();
        let there = sees(round, value) && space.has_interest(subject).unwrap();
        let after = space.generation();
        assert!(space.unsubscribe(held));
        let gone = !sees(round, value);
        bad += u64::from(!there || !gone || after <= generation || space.generation() <= after);
        checked += 3;
    }
    (checked, bad)
}

#[test]
fn own_subscriptions_are_there_at_once_and_gone_at_once() {
    let mut sum = (0, 0);
    for scenario in SCENARIOS {
        let space = TupleSpace::new(scenario.dialect);
        let stop = AtomicBool::new(false);
        let rounds = lookups() / 3 / 3 + 1;
        thread::scope(|scope| {
            scope.spawn(|| scenario.make_noise(&space, &stop));
            let space = &space;
            let started = (0..3).map(|thread| scope.spawn(move || own(scenario, space, thread, rounds)));
            let ended: Vec<_> =
                started.collect::<Vec<_>>().into_iter().map(thread::ScopedJoinHandle::join).collect();
            stop.store(true, SeqCst);
            for result in ended {
                let (checked, bad) = result.unwrap();
                sum = (sum.0 + checked, sum.1 + bad);
            }
        });
        assert_eq!((space.len(), space.snapshot().len()), (0, 0), "{}", scenario.name);
    }
    println!("{} lookups checked, {} bad", sum.0, sum.1);
    assert!(sum.1 == 0 || BROKEN);
}
