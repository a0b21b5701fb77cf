//! Everything at once: threads that subscribe, unsubscribe and look up at random, in tables and overflow,
//! with growing tables, retired shapes, snapshots, caches and batches. Each thread knows its own
//! subscriptions, so every result has a part that is exactly known.
//!
//! `TAILRACE_PROVE_SECONDS` sets how long it runs.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use tailrace_subjects::{Batch, Cache, Dialect, Limits, Pattern, Snapshot, Subscription, TupleSpace};

const THREADS: u64 = 4;
/// Steps of a thread between two checks of the time. Miri takes some ten thousand times as long for each.
const WAVE: usize = if cfg!(miri) { 100 } else { 2_000 };
/// The number of contended patterns, wave by wave: few; or many, so that tables grow, and shrink when the
/// wave is over.
const KEYS: [usize; 3] = if cfg!(miri) { [3, 12, 40] } else { [3, 40, 4_000] };
/// Shapes that are added and removed at once.
const SHAPES: usize = if cfg!(miri) { 3 } else { 40 };

fn seconds() -> u64 {
    let asked = std::env::var("TAILRACE_PROVE_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    asked.unwrap_or(2)
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

/// Patterns of key `k`, all of which match the subject `k.x`; the last two are in the overflow.
fn text(key: usize, kind: usize) -> String {
    match kind {
        0 => format!("{key}.x"),
        1 => format!("{key}.*"),
        2 => format!("{key}.#"),
        3 => format!("*.x.#.{key}"),
        4 => format!("{key}.#.x"),
        _ => format!("#.{key}.#.x"),
    }
}

const KINDS: usize = 6;

/// Reports whether [`text`] of this kind matches the subject of its key.
fn matches_own_subject(kind: usize) -> bool {
    kind != 3
}

struct Actor<'a> {
    space: &'a TupleSpace<u64>,
    own: u64,
    random: Random,
    /// By key: kinds, values and subscriptions.
    held: HashMap<usize, Vec<(usize, u64, Subscription)>>,
    /// Snapshots, each with this thread's own values that were live then.
    snapshots: Vec<(Snapshot<u64>, Vec<u64>)>,
    cache: Cache<u64>,
    batch: Batch<u64>,
    next: u64,
    checked: u64,
}

impl<'a> Actor<'a> {
    fn new(space: &'a TupleSpace<u64>, own: u64) -> Self {
        let (held, snapshots) = (HashMap::new(), Vec::new());
        let (cache, batch, random) = (Cache::new(64), Batch::new(), Random(own));
        Self { space, own, random, held, snapshots, cache, batch, next: 0, checked: 0 }
    }

    fn run(mut self, until: Instant) -> u64 {
        let mut wave = 0;
        while Instant::now() < until {
            let keys = KEYS[wave % 3];
            for _ in 0..WAVE {
                self.act(keys, [6, 2][wave / 3 % 2]);
            }
            wave += 1;
        }
        self.snapshots.clear();
        let keys: Vec<usize> = self.held.keys().copied().collect();
        keys.into_iter().for_each(|key| while self.remove(key) {});
        self.checked
    }

    fn act(&mut self, keys: usize, adds: usize) {
        let key = self.random.below(keys);
        match self.random.below(20) {
            choice if choice < adds => self.add(key),
            ..8 => drop(self.remove(key)),
            8 if self.random.below(40) == 0 => self.take_snapshot(),
            9 if self.random.below(20) == 0 => self.read_snapshot(),
            10 if self.random.below(10) == 0 => self.make_shapes(),
            _ => self.look(key),
        }
    }

    fn add(&mut self, key: usize) {
        // The overflow has one root, and copies a path at every write, so it is used less often.
        let kinds = if self.random.below(10) == 0 { KINDS } else { 3 };
        let kind = self.random.below(kinds);
        self.next += 1;
        let value = self.own << 56 | self.next;
        let pattern = Pattern::parse(Dialect::Amqp, text(key, kind), &Limits::default()).unwrap();
        let held = self.space.subscribe(&pattern, value).unwrap();
        self.held.entry(key).or_default().push((kind, value, held));
    }

    fn remove(&mut self, key: usize) -> bool {
        let Some(held) = self.held.get_mut(&key).filter(|held| !held.is_empty()) else { return false };
        let (_, _, held) = held.swap_remove(self.random.below(held.len()));
        assert!(self.space.unsubscribe(held));
        true
    }

    /// This thread's own values among these, in order.
    fn own_of<'v>(&self, values: impl IntoIterator<Item = &'v u64>) -> Vec<u64> {
        let mut own: Vec<u64> =
            values.into_iter().filter(|value| **value >> 56 == self.own).copied().collect();
        own.sort_unstable();
        own
    }

    fn expected(&self, key: usize) -> Vec<u64> {
        let held = self.held.get(&key).into_iter().flatten();
        let values: Vec<u64> =
            held.filter(|(kind, ..)| matches_own_subject(*kind)).map(|(_, value, _)| *value).collect();
        self.own_of(&values)
    }

    fn look(&mut self, key: usize) {
        let subject = format!("{key}.x");
        let found = match self.random.below(4) {
            0 => {
                self.space.matches_many(&[&subject, "0.x", &subject], &mut self.batch);
                let first = self.own_of(self.batch.get(0).unwrap());
                assert_eq!(first, self.own_of(self.batch.get(2).unwrap()), "one thread, one batch");
                first
            }
            1 => {
                let found = self.cache.matches(self.space, subject.as_bytes()).unwrap().to_vec();
                self.own_of(&found)
            }
            _ => {
                let mut found = Vec::new();
                self.space.matches(subject.as_bytes(), &mut found).unwrap();
                self.own_of(&found)
            }
        };
        let expected = self.expected(key);
        assert_eq!(found, expected, "own subscriptions of {subject}");
        if !expected.is_empty() {
            assert!(self.space.has_interest(subject.as_bytes()).unwrap());
        }
        self.checked += 1;
    }

    fn take_snapshot(&mut self) {
        if self.snapshots.len() == 4 {
            self.snapshots.swap_remove(self.random.below(4));
        }
        let all: Vec<u64> = self.held.values().flatten().map(|(_, value, _)| *value).collect();
        self.snapshots.push((self.space.snapshot(), self.own_of(&all)));
    }

    fn read_snapshot(&mut self) {
        let Some((snapshot, expected)) = self.snapshots.first() else { return };
        let all = snapshot.to_vec();
        let own = self.own_of(all.iter().map(|(_, value)| value));
        assert!(own == *expected, "a snapshot: {} own values, {} expected", own.len(), expected.len());
        assert_eq!(snapshot.len(), all.len());
        self.checked += 1;
    }

    /// Adds and removes shapes, so that the directory is full at times.
    fn make_shapes(&mut self) {
        let first = self.random.below(400);
        let pattern = |index: usize| {
            let words: Vec<_> = (0..10).map(|bit| if index >> bit & 1 == 1 { "*" } else { "w" }).collect();
            Pattern::parse(Dialect::Amqp, words.join("."), &Limits::default()).unwrap()
        };
        let held: Vec<_> = (first..first + SHAPES)
            .map(|index| self.space.subscribe(&pattern(index), u64::MAX).unwrap())
            .collect();
        held.into_iter().for_each(|held| assert!(self.space.unsubscribe(held)));
    }
}

#[test]
fn every_thread_finds_its_own_subscriptions_whatever_happens() {
    let space = TupleSpace::new(Dialect::Amqp);
    let until = Instant::now() + Duration::from_secs(seconds());
    let checked = AtomicU64::new(0);
    thread::scope(|scope| {
        for own in 0..THREADS {
            let (space, checked) = (&space, &checked);
            scope.spawn(move || checked.fetch_add(Actor::new(space, own).run(until), SeqCst));
        }
    });
    println!("{} answers checked", checked.into_inner());
    assert_eq!((space.len(), space.snapshot().len()), (0, 0));
    assert!(!space.has_interest(b"0.x").unwrap());
}
