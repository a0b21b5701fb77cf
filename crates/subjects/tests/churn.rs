//! Patterns of one shape are added and removed while their table is moved, under snapshots and lookups: a
//! stress test of a table's slots and leaves. Made for detectors of invalid memory accesses, `cargo xtask
//! prove subjects --full`: every value is an allocation of its own, and is dropped once.
//!
//! `TAILRACE_PROVE_SECONDS` sets how long it runs.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use tailrace_subjects::{Dialect, Limits, Pattern, Snapshot, Subscription, TupleSpace};

const THREADS: u64 = if cfg!(miri) { 3 } else { 4 };
/// Patterns that all threads contend for.
const COMMON: usize = 4;
/// Patterns that one thread adds and removes at once, so that the table grows and shrinks.
const BURST: usize = if cfg!(miri) { 6 } else { 60 };
/// Snapshots that a thread keeps.
const SNAPSHOTS: usize = 2;

fn until() -> Instant {
    let asked = std::env::var("TAILRACE_PROVE_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    Instant::now() + Duration::from_secs(asked.unwrap_or(2))
}

/// A value that counts its live instances.
struct Value {
    owner: u64,
    number: u64,
    live: Arc<AtomicUsize>,
}

impl Value {
    fn new(owner: u64, number: u64, live: &Arc<AtomicUsize>) -> Box<Self> {
        live.fetch_add(1, SeqCst);
        Box::new(Self { owner, number, live: live.clone() })
    }
}

impl Clone for Value {
    fn clone(&self) -> Self {
        *Self::new(self.owner, self.number, &self.live)
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.live.fetch_sub(1, SeqCst);
    }
}

struct Actor<'a> {
    space: &'a TupleSpace<Box<Value>>,
    live: &'a Arc<AtomicUsize>,
    own: u64,
    random: u64,
    next: u64,
    held: Vec<(usize, u64, Subscription)>,
    snapshots: Vec<(Snapshot<Box<Value>>, Vec<u64>)>,
}

impl Actor<'_> {
    fn below(&mut self, bound: usize) -> usize {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) as usize % bound
    }

    fn add(&mut self, text: &str) -> (u64, Subscription) {
        self.next += 1;
        let pattern = Pattern::parse(Dialect::Nats, text, &Limits::default()).unwrap();
        let value = Value::new(self.own, self.next, self.live);
        (self.next, self.space.subscribe(&pattern, value).unwrap())
    }

    /// Numbers of this thread's values among these, in order.
    fn own_of<'v>(&self, values: impl IntoIterator<Item = &'v Box<Value>>) -> Vec<u64> {
        let own = values.into_iter().filter(|value| value.owner == self.own);
        let mut own: Vec<u64> = own.map(|value| value.number).collect();
        own.sort_unstable();
        own
    }

    fn expected(&self, of: impl Fn(usize) -> bool) -> Vec<u64> {
        let mut own: Vec<u64> =
            self.held.iter().filter(|(key, ..)| of(*key)).map(|(_, number, _)| *number).collect();
        own.sort_unstable();
        own
    }

    fn act(&mut self) {
        let key = self.below(COMMON);
        match self.below(20) {
            0..6 => {
                let (number, subscription) = self.add(&format!("common.{key}"));
                self.held.push((key, number, subscription));
            }
            6..12 if !self.held.is_empty() => {
                let index = self.below(self.held.len());
                assert!(self.space.unsubscribe(self.held.swap_remove(index).2));
            }
            12 | 13 => {
                if self.snapshots.len() == SNAPSHOTS {
                    let index = self.below(SNAPSHOTS);
                    self.read(index);
                    self.snapshots.swap_remove(index);
                }
                self.snapshots.push((self.space.snapshot(), self.expected(|_| true)));
            }
            14 => {
                let held: Vec<_> =
                    (0..BURST).map(|index| self.add(&format!("{}.{index}", self.own)).1).collect();
                held.into_iter().for_each(|held| assert!(self.space.unsubscribe(held)));
            }
            _ => {
                let mut found = Vec::new();
                self.space.matches(format!("common.{key}").as_bytes(), &mut found).unwrap();
                assert_eq!(self.own_of(&found), self.expected(|own| own == key));
            }
        }
    }

    fn read(&self, index: usize) {
        let (snapshot, expected) = &self.snapshots[index];
        let all = snapshot.to_vec();
        assert_eq!(self.own_of(all.iter().map(|(_, value)| value)), *expected);
    }

    fn run(mut self, until: Instant) -> usize {
        let mut acts = 0;
        while Instant::now() < until {
            (0..20).for_each(|_| self.act());
            acts += 20;
        }
        (0..self.snapshots.len()).for_each(|index| self.read(index));
        self.snapshots.clear();
        self.held.drain(..).for_each(|(_, _, held)| assert!(self.space.unsubscribe(held)));
        acts
    }
}

#[test]
fn a_table_that_is_always_moved_keeps_what_is_there_and_frees_what_is_gone() {
    let (space, live) = (TupleSpace::new(Dialect::Nats), Arc::new(AtomicUsize::new(0)));
    let (until, acts) = (until(), AtomicUsize::new(0));
    thread::scope(|scope| {
        for own in 0..THREADS {
            let (space, live, acts) = (&space, &live, &acts);
            let (held, snapshots) = (Vec::new(), Vec::new());
            let actor = Actor { space, live, own, random: own + 1, next: 0, held, snapshots };
            scope.spawn(move || acts.fetch_add(actor.run(until), SeqCst));
        }
    });
    println!("{} acts", acts.into_inner());
    assert_eq!((space.len(), space.snapshot().len()), (0, 0));
    drop(space);
    // The reclamation scheme advances while threads pin.
    let patience = Instant::now() + Duration::from_secs(60);
    while live.load(SeqCst) > 0 && Instant::now() < patience {
        crossbeam_epoch::pin().flush();
    }
    assert_eq!(live.load(SeqCst), 0, "values that are left");
}
