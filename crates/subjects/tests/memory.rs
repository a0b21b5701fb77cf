//! Removal frees memory: the resident size after a million subscriptions were added and removed, and every
//! value dropped exactly once.
//!
//! The tests run one after the other, since the resident size is that of the whole process.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tailrace_subjects::{Dialect, Limits, Pattern, Subscription, TupleSpace, tuple_space::SHAPES_MAX};

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pattern(dialect: Dialect, text: &str) -> Pattern {
    Pattern::parse(dialect, text, &Limits::widest()).unwrap()
}

/// Lets the reclamation scheme free what no thread reads any more: it advances while threads pin.
fn reclaim() {
    for _ in 0..if cfg!(miri) { 200 } else { 4_096 } {
        crossbeam_epoch::pin().flush();
    }
}

/// The system's allocator, with a count of the bytes that it has handed out: what it keeps for itself does
/// not belong to the matcher.
struct Counting;

static ALLOCATED: AtomicIsize = AtomicIsize::new(0);

#[expect(unsafe_code, reason = "an allocator that counts")]
// SAFETY: all calls go to the system's allocator unchanged; no method of the trait that is left out returns
// memory in another way.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size() as isize, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size() as isize, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size() as isize, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// KiB that are allocated now.
fn allocated() -> isize {
    ALLOCATED.load(SeqCst) / 1_024
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "functions of glibc")]
mod glibc {
    unsafe extern "C" {
        fn malloc_trim(pad: usize) -> i32;
        fn mallopt(parameter: i32, value: i32) -> i32;
    }

    /// `M_TRIM_THRESHOLD` and `M_MMAP_THRESHOLD` of malloc.h.
    const THRESHOLDS: [i32; 2] = [-1, -3];

    /// Pins glibc's thresholds at their defaults: by itself it raises them as large pieces are freed.
    pub(super) fn keep_thresholds() {
        for parameter in THRESHOLDS {
            // SAFETY: the signature is that of malloc.h, and the value is the threshold's default.
            assert_eq!(unsafe { mallopt(parameter, 128 * 1_024) }, 1);
        }
    }

    /// Releases everything that is cached. `malloc_trim` does not trim the end of a thread's heap, which may
    /// have grown to tens of MiB as small pieces were merged; freeing a piece of 64 KiB or more releases it.
    pub(super) fn trim() {
        // SAFETY: the signature is that of malloc.h, and any amount of padding will do.
        let trim = || unsafe { malloc_trim(0) };
        trim();
        drop(std::hint::black_box(vec![1_u8; 96 * 1_024]));
        trim();
    }
}

/// Elsewhere the allocator is used as it is.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod glibc {
    pub(super) fn keep_thresholds() {}
    pub(super) fn trim() {}
}

/// Resident size of this process in KiB.
#[cfg(target_os = "linux")]
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Subscriptions of the big tests: a million if the build is fast enough.
const MANY: usize = if cfg!(debug_assertions) { 150_000 } else { 1_000_000 };

/// Five words, one in ten with a `*`.
fn five_words(index: usize, round: usize) -> Pattern {
    let last = if index.is_multiple_of(10) { "*".to_owned() } else { format!("e{}", index % 7) };
    pattern(Dialect::Nats, &format!("a{}.b{}.c{round}.d{index}.{last}", index % 10, index % 100))
}

/// Subscribes to this many patterns, and removes all of them again.
fn all_and_none(space: &TupleSpace<u64>, round: usize) -> (isize, usize) {
    let mut held: Vec<Subscription> = Vec::with_capacity(MANY);
    held.extend((0..MANY).map(|index| space.subscribe(&five_words(index, round), index as u64).unwrap()));
    let most = (allocated(), resident());
    held.drain(..).for_each(|held| assert!(space.unsubscribe(held)));
    most
}

/// Subscribes and removes this many times, one pattern after the other.
fn pairs(space: &TupleSpace<u64>, round: usize) -> (isize, usize) {
    for index in 0..MANY {
        let held = space.subscribe(&five_words(index, round), index as u64).unwrap();
        assert!(space.unsubscribe(held));
    }
    (allocated(), resident())
}

#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn the_resident_size_comes_back_after_a_million_subscriptions() {
    let _alone = alone();
    glibc::keep_thresholds();
    for (name, cycle) in [("pairs", pairs as fn(&_, _) -> _), ("all, then none", all_and_none)] {
        let space = TupleSpace::new(Dialect::Nats);
        let fresh = (allocated(), resident());
        for round in 0..5 {
            let before = (allocated(), resident());
            let most = cycle(&space, round);
            reclaim();
            let after = (allocated(), resident());
            // glibc keeps small freed pieces until it is told to release them; how many is random.
            glibc::trim();
            let trimmed = (allocated(), resident());
            println!(
                "{name}, cycle {round} of {MANY}, KiB allocated and resident: before {before:?}, most {most:?}, after {after:?}, \
                 when the allocator is asked to give back what it keeps {trimmed:?}"
            );
            assert!(after.0 <= fresh.0 + 64, "{name}: {} KiB at first, {} KiB at last", fresh.0, after.0);
            assert!(
                // Code that is run for the first time takes some hundred KiB.
                trimmed.1 * 10 <= fresh.1 * 11 + 10 * 1024,
                "{name}: {} KiB at first, {} KiB at last",
                fresh.1,
                trimmed.1
            );
        }
        assert_eq!(space.len(), 0);
    }
}

/// A value whose instances are counted.
struct Counted {
    tally: Arc<Tally>,
    /// Tells whether it was dropped already.
    alive: Box<AtomicBool>,
}

#[derive(Default)]
struct Tally {
    made: AtomicUsize,
    dropped: AtomicUsize,
}

impl Counted {
    fn new(tally: &Arc<Tally>) -> Self {
        tally.made.fetch_add(1, SeqCst);
        Self { tally: tally.clone(), alive: Box::new(AtomicBool::new(true)) }
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        assert!(self.alive.load(SeqCst), "cloned after its drop");
        Self::new(&self.tally)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        assert!(self.alive.swap(false, SeqCst), "dropped twice");
        self.tally.dropped.fetch_add(1, SeqCst);
    }
}

/// Runs `work` with a matcher, drops the matcher, and waits until as many values are dropped as were made.
fn drops_all(dialect: Dialect, work: impl FnOnce(&TupleSpace<Counted>, &dyn Fn() -> Counted)) {
    let _alone = alone();
    let tally = Arc::new(Tally::default());
    let space = TupleSpace::new(dialect);
    work(&space, &|| Counted::new(&tally));
    drop(space);
    let began = Instant::now();
    while tally.made.load(SeqCst) != tally.dropped.load(SeqCst) {
        reclaim();
        let (made, dropped) = (tally.made.load(SeqCst), tally.dropped.load(SeqCst));
        assert!(began.elapsed() < Duration::from_secs(30), "{made} made, {dropped} dropped");
    }
}

const SOME: usize = if cfg!(miri) { 40 } else { 5_000 };

fn add<'a>(
    space: &'a TupleSpace<Counted>,
    value: &'a dyn Fn() -> Counted,
) -> impl Fn(String) -> Subscription + 'a {
    let dialect = space.dialect();
    move |text| space.subscribe(&pattern(dialect, &text), value()).unwrap()
}

#[test]
fn values_are_dropped_once_with_their_matcher() {
    drops_all(Dialect::Nats, |space, value| {
        let add = add(space, value);
        let mut held: Vec<_> = (0..SOME).map(|index| add(format!("a.{}", index / 3))).collect();
        held.extend((0..SOME).map(|index| add(format!("{index}.*"))));
        // Half of them are removed before the matcher is dropped, in the middle of moves.
        held.drain(..SOME).for_each(|held| assert!(space.unsubscribe(held)));
        let mut found = Vec::new();
        space.matches(b"5.x", &mut found).unwrap();
    });
}

#[test]
fn values_are_dropped_once_after_snapshots() {
    drops_all(Dialect::Nats, |space, value| {
        let add = add(space, value);
        let held: Vec<_> = (0..SOME).map(|index| add(format!("a.{index}"))).collect();
        let (first, second) = (space.snapshot(), space.snapshot());
        held.into_iter().for_each(|held| assert!(space.unsubscribe(held)));
        let again: Vec<_> = (0..SOME).map(|index| add(format!("a.{index}"))).collect();
        drop(second);
        assert_eq!(first.len(), SOME);
        again.into_iter().for_each(|held| assert!(space.unsubscribe(held)));
        assert_eq!((first.to_vec().len(), space.len()), (SOME, 0));
        drop(first);
        // The last snapshot is the only owner of its matcher.
        add("b".to_owned()).forget();
        let last = space.snapshot();
        add("b".to_owned()).forget();
        assert_eq!(last.len(), 1);
    });
}

#[test]
fn a_snapshot_outlives_its_matcher() {
    let _alone = alone();
    let tally = Arc::new(Tally::default());
    let space = TupleSpace::new(Dialect::Nats);
    space.subscribe(&pattern(Dialect::Nats, "a"), Counted::new(&tally)).unwrap().forget();
    let snapshot = space.snapshot();
    drop(space);
    assert_eq!(snapshot.len(), 1);
    drop(snapshot);
    let began = Instant::now();
    while tally.made.load(SeqCst) != tally.dropped.load(SeqCst) {
        reclaim();
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}

#[test]
fn values_are_dropped_once_in_the_overflow() {
    drops_all(Dialect::Amqp, |space, value| {
        let add = add(space, value);
        let count = SOME / 10;
        let mut held: Vec<_> = (0..count).map(|index| add(format!("a.#.{}", index / 2))).collect();
        let snapshot = space.snapshot();
        held.drain(..count / 2).for_each(|held| assert!(space.unsubscribe(held)));
        held.extend((0..count).map(|index| add(format!("#.{index}.b"))));
        assert_eq!(snapshot.len(), count);
        drop(snapshot);
        held.drain(..count).for_each(|held| assert!(space.unsubscribe(held)));
    });
}

#[test]
fn values_are_dropped_once_that_have_very_many_words() {
    drops_all(Dialect::Nats, |space, value| {
        let add = add(space, value);
        let count = SOME / 10;
        let long = |last: usize| format!("{}{last}", "w.*.".repeat(20));
        let mut held: Vec<_> = (0..count).map(|index| add(long(index / 2))).collect();
        let snapshot = space.snapshot();
        held.drain(..count / 2).for_each(|held| assert!(space.unsubscribe(held)));
        held.extend((0..count).map(|index| add(long(index) + ".>")));
        assert_eq!(snapshot.len(), count);
        drop(snapshot);
        held.drain(..count).for_each(|held| assert!(space.unsubscribe(held)));
    });
}

#[test]
fn values_are_dropped_once_with_retired_shapes() {
    drops_all(Dialect::Nats, |space, value| {
        let add = add(space, value);
        let shape = |index: usize| {
            let words: Vec<_> = (0..9).map(|bit| if index >> bit & 1 == 1 { "*" } else { "w" }).collect();
            words.join(".")
        };
        for round in 0..4 {
            let shapes = round * 100..round * 100 + 100;
            let held: Vec<_> = shapes.map(|index| add(shape(index))).collect();
            let snapshot = space.snapshot();
            held.into_iter().for_each(|held| assert!(space.unsubscribe(held)));
            assert_eq!(snapshot.len(), 100);
        }
        assert!(space.shapes() <= SHAPES_MAX);
    });
}

#[test]
fn values_are_dropped_once_by_any_remover() {
    drops_all(Dialect::Amqp, |space, value| {
        let count = if cfg!(miri) { 10 } else { 20_000 };
        let tally = value().tally.clone();
        thread::scope(|scope| {
            for thread in 0..3 {
                let tally = &tally;
                scope.spawn(move || {
                    let make = || Counted::new(tally);
                    let add = add(space, &make);
                    for index in 0..count {
                        let text = match index % 5 {
                            0 => "shared.x".to_owned(),
                            1 => format!("own{thread}.{}", index % 300),
                            2 => format!("a.#.b{}", index % 20),
                            3 => format!("*.{}.#", index % 50),
                            _ => format!("fresh{thread}.{index}"),
                        };
                        let held = add(text);
                        let snapshot = (index % 100 == 7).then(|| space.snapshot());
                        if index % 9 == 0 {
                            held.forget();
                        } else {
                            assert!(space.unsubscribe(held));
                        }
                        drop(snapshot);
                    }
                });
            }
        });
    });
}
