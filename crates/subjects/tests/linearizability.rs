//! Short random histories of every operation, by real threads on a few patterns: each must be linearizable.
//!
//! `TAILRACE_PROVE_HISTORIES` sets the number of histories of each kind.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod history;

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use history::{Call, Moments, Op, Set, is_linearizable, show};
use tailrace_subjects::{
    Batch, Cache, Dialect, Limits, Pattern, Subscription, TupleSpace, tuple_space::SHAPES_MAX,
};

/// Whether the matcher is broken on purpose: the test may notice.
const BROKEN: bool = cfg!(any(tailrace_broken = "conflict", tailrace_broken = "stamp"));

/// The value of patterns whose only purpose is to fill tables. They match no subject of a history.
const FILLER: u32 = 31;

fn histories() -> u64 {
    let asked = std::env::var("TAILRACE_PROVE_HISTORIES").ok().and_then(|count| count.parse().ok());
    asked.unwrap_or(if cfg!(miri) { 1 } else { 400 })
}

/// A small generator, so that a history has a number.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

fn pattern(dialect: Dialect, text: &str) -> Pattern {
    Pattern::parse(dialect, text, &Limits::widest()).unwrap()
}

/// Patterns and subjects of one kind of history.
struct Kind {
    name: &'static str,
    dialect: Dialect,
    patterns: &'static [&'static str],
    subjects: &'static [&'static str],
    /// Most other patterns present, to make tables move.
    fillers: usize,
    /// Whether the directory is full: shapes have to make room for one another.
    crowded: bool,
}

const NATS: Kind = Kind {
    name: "shapes",
    dialect: Dialect::Nats,
    patterns: &["a.b", "a.*", "*.b", "a.>"],
    subjects: &["a.b", "a.c"],
    fillers: 0,
    crowded: false,
};

const KINDS: &[Kind] = &[
    NATS,
    Kind { name: "one pattern", patterns: &["a"], subjects: &["a"], ..NATS },
    Kind { name: "one shape", patterns: &["a", "b", "c"], subjects: &["a", "b"], ..NATS },
    Kind { name: "moving tables", fillers: 40, ..NATS },
    Kind { name: "moving shapes", fillers: 12, crowded: true, ..NATS },
    Kind {
        name: "tables and overflow",
        dialect: Dialect::Amqp,
        patterns: &["a.#.b", "a.b", "#.b", "a.*"],
        subjects: &["a.b", "a.x.b"],
        fillers: 20,
        crowded: false,
    },
];

/// One history in progress.
struct World<'a> {
    kind: &'a Kind,
    space: TupleSpace<u32>,
    /// Whether they match, by subject, and by value modulo patterns.
    matching: Vec<Vec<bool>>,
    fillers: usize,
    moments: Moments,
    ready: AtomicUsize,
}

/// One thread.
struct Actor<'a> {
    world: &'a World<'a>,
    random: Random,
    calls: Vec<Call>,
    held: Vec<(u32, Subscription)>,
    values: std::ops::Range<u32>,
    cache: Cache<u32>,
    batch: Batch<u32>,
}

fn set<'a>(values: impl IntoIterator<Item = &'a u32>) -> Set {
    values.into_iter().filter(|value| **value != FILLER).fold(0, |set, value| {
        assert_eq!(set >> value & 1, 0, "{value} was found twice");
        set | 1 << value
    })
}

impl<'a> World<'a> {
    fn new(kind: &'a Kind, fillers: usize) -> Self {
        let space = TupleSpace::new(kind.dialect);
        let filler =
            |index: usize| pattern(kind.dialect, &format!("filler{index}.{}", ["x", "*"][index % 2]));
        (0..fillers).for_each(|index| space.subscribe(&filler(index), FILLER).unwrap().forget());
        let crowd = if kind.crowded { SHAPES_MAX - 3 } else { 0 };
        for index in 0..crowd {
            let words: Vec<_> = (0..8).map(|bit| if index >> bit & 1 == 1 { "*" } else { "w" }).collect();
            space.subscribe(&pattern(kind.dialect, &words.join(".")), FILLER).unwrap().forget();
        }
        let alone = |text: &str, subject: &str| {
            let space = TupleSpace::new(kind.dialect);
            space.subscribe(&pattern(kind.dialect, text), 0).unwrap().forget();
            space.has_interest(subject.as_bytes()).unwrap()
        };
        let of = |subject: &&str| kind.patterns.iter().map(|text| alone(text, subject)).collect();
        let matching = kind.subjects.iter().map(of).collect();
        let (moments, ready) = (Moments::default(), AtomicUsize::new(0));
        Self { kind, space, matching, fillers: fillers + crowd, moments, ready }
    }

    /// All values whose patterns match a subject.
    fn all_of(&self, subject: usize) -> Set {
        let own = &self.matching[subject];
        (0..FILLER).filter(|value| own[*value as usize % own.len()]).fold(0, |set, value| set | 1 << value)
    }
}

impl Actor<'_> {
    fn act(&mut self) {
        match self.random.below(16) {
            0..4 => self.add(),
            4..7 => self.remove(),
            choice => self.look(choice),
        }
    }

    fn add(&mut self) {
        let Some(value) = self.values.next() else { return self.remove() };
        let World { kind, space, moments, .. } = self.world;
        let pattern = pattern(kind.dialect, kind.patterns[value as usize % kind.patterns.len()]);
        let run = || (Op::Add(value), space.subscribe(&pattern, value).unwrap());
        self.held.push((value, moments.note(&mut self.calls, run)));
    }

    fn remove(&mut self) {
        let Some((value, subscription)) = self.held.pop() else { return };
        let World { space, moments, .. } = self.world;
        moments.note(&mut self.calls, || {
            assert!(space.unsubscribe(subscription));
            (Op::Remove(value), ())
        });
    }

    fn look(&mut self, choice: usize) {
        let World { kind, space, moments, fillers, .. } = self.world;
        let subject = self.random.below(kind.subjects.len());
        let (text, of) = (kind.subjects[subject].as_bytes(), self.world.all_of(subject));
        let (cache, batch) = (&mut self.cache, &mut self.batch);
        match choice {
            7 | 8 => moments.note(&mut self.calls, || {
                let mut found = Vec::new();
                space.matches(text, &mut found).unwrap();
                (Op::Match { of, found: set(&found) }, ())
            }),
            9 => moments.note(&mut self.calls, || {
                space.matches_many(&[text, text], batch);
                (Op::Match { of, found: set(batch.get(1).unwrap()) }, ())
            }),
            10 => moments.note(&mut self.calls, || {
                (Op::Match { of, found: set(cache.matches(space, text).unwrap()) }, ())
            }),
            11 => moments
                .note(&mut self.calls, || (Op::Interest { of, any: space.has_interest(text).unwrap() }, ())),
            12 => moments.note(&mut self.calls, || (Op::Len(space.len() - fillers), ())),
            13 => moments.note(&mut self.calls, || (Op::Generation(space.generation()), ())),
            _ => self.snapshot(),
        }
    }

    /// A snapshot is read after other operations of the same thread.
    fn snapshot(&mut self) {
        let World { kind, space, moments, .. } = self.world;
        let began = moments.next();
        let snapshot = space.snapshot();
        let ended = moments.next();
        self.add();
        let all = snapshot.to_vec();
        let found = set(all.iter().map(|(_, value)| value));
        for (subject, text) in kind.subjects.iter().enumerate() {
            let mut matched = Vec::new();
            snapshot.matches(text.as_bytes(), &mut matched).unwrap();
            assert_eq!(set(&matched), found & self.world.all_of(subject), "two reads of one snapshot");
        }
        assert_eq!(snapshot.len(), all.len());
        self.calls.push(Call { began, ended, op: Op::Snapshot { found, generation: snapshot.generation() } });
    }
}

/// One history: two to four threads of three to five operations.
fn record(kind: &Kind, number: u64) -> Vec<Call> {
    let mut random = Random(number * 7_919 + 1);
    let fillers = if kind.fillers == 0 { 0 } else { random.below(kind.fillers) };
    let world = World::new(kind, fillers);
    let threads = 2 + random.below(3);
    let actors: Vec<_> = (0..threads)
        .map(|thread| Actor {
            world: &world,
            random: Random(number * 31 + thread as u64 + 1),
            calls: Vec::new(),
            held: Vec::new(),
            values: thread as u32 * 7..thread as u32 * 7 + 7,
            cache: Cache::new(2),
            batch: Batch::new(),
        })
        .collect();
    thread::scope(|scope| {
        let started = actors.into_iter().map(|mut actor| {
            scope.spawn(move || {
                let world = actor.world;
                world.ready.fetch_add(1, SeqCst);
                while world.ready.load(SeqCst) < threads {
                    thread::yield_now();
                }
                for _ in 0..3 + actor.random.below(3) {
                    actor.act();
                }
                actor.calls
            })
        });
        let started: Vec<_> = started.collect();
        started.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn every_history_has_an_order() {
    let (mut checked, mut bad) = (0, 0);
    for kind in KINDS {
        for number in 0..histories() {
            let calls = record(kind, number);
            if !is_linearizable(0, &calls) {
                println!("{}, history {number}, has no order:\n{}", kind.name, show(&calls));
                bad += 1;
            }
            checked += 1;
        }
    }
    println!("{checked} histories checked, {bad} bad");
    assert!(bad == 0 || BROKEN);
}

#[test]
fn the_checker_knows_right_from_wrong() {
    let call = |began, ended, op| Call { began, ended, op };
    let sees = |found| Op::Match { of: 0b11, found };
    // A later value is seen without an earlier one.
    let wrong = [call(0, 1, Op::Add(0)), call(2, 3, Op::Add(1)), call(0, 4, sees(0b10))];
    assert!(!is_linearizable(0, &wrong));
    // The two writes overlap, so it is allowed.
    let right = [call(0, 3, Op::Add(0)), call(1, 2, Op::Add(1)), call(1, 4, sees(0b10))];
    assert!(is_linearizable(0, &right));
    // The thread's own value is missing, or still present.
    assert!(!is_linearizable(0, &[call(0, 1, Op::Add(0)), call(2, 3, sees(0))]));
    assert!(!is_linearizable(1, &[call(0, 1, Op::Remove(0)), call(2, 3, sees(1))]));
    assert!(!is_linearizable(1, &[call(0, 1, Op::Interest { of: 1, any: false })]));
    assert!(!is_linearizable(1, &[call(0, 1, Op::Len(2))]));
    // A write between two looks at one generation.
    let generation = |at| call(at, at + 1, Op::Generation(5));
    assert!(is_linearizable(0, &[generation(0), call(1, 3, Op::Add(0)), generation(2)]));
    assert!(!is_linearizable(0, &[generation(0), call(2, 3, Op::Add(0)), generation(4)]));
    assert!(!is_linearizable(0, &[call(0, 1, Op::Snapshot { found: 1, generation: 1 })]));
}
