//! Runs a model: its threads, the history of what they do, and the schedulers. Under `shuttle` a table starts
//! with four slots, so that a few patterns meet in one slot, and the third one makes it move.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use shuttle::rand::{RngCore, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, MaxSteps, Runner, thread};

use super::super::counts::Outcome;
use super::super::epoch::{self, Guard};
use super::super::shape::Shape;
use super::super::sync::{choose, seen};
use super::super::table::{Seek, Table};
use super::super::words::ShapeKey;
use super::super::writing::SubscriptionPlace;
use super::super::{Batch, Cache, Snapshot, Subscription, TupleSpace};
use super::history::{Call, Moments, Op, Set, is_linearizable, show};
use crate::{Dialect, Limits, Pattern};

/// A thread of a model.
pub(crate) type Thread = Box<dyn FnOnce(&World) + Send>;

pub(crate) fn does(thread: impl FnOnce(&World) + Send + 'static) -> Thread {
    Box::new(thread)
}

pub(crate) fn swap(world: &World, value: u32) {
    world.add(value);
    world.remove(value);
}

/// A matcher whose values are numbers below 32, with the history of what threads do to it.
pub(crate) struct World {
    pub(crate) space: TupleSpace<u32>,
    dialect: Dialect,
    patterns: &'static [&'static str],
    subjects: &'static [&'static str],
    moments: Moments,
    calls: Mutex<Vec<Call>>,
    held: Mutex<Vec<(u32, Subscription)>>,
}

fn pattern(dialect: Dialect, text: &str) -> Pattern {
    Pattern::parse(dialect, text, &Limits::default()).expect("a valid pattern")
}

fn set(values: &[u32]) -> Set {
    values.iter().fold(0, |set, value| {
        assert_eq!(set >> value & 1, 0, "{value} was found twice");
        set | 1 << value
    })
}

impl World {
    /// Creates a matcher to which each thread will add `patterns[value]`, and in which it will look up
    /// `subjects`.
    pub(crate) fn new(
        dialect: Dialect,
        patterns: &'static [&'static str],
        subjects: &'static [&'static str],
    ) -> Arc<Self> {
        let (calls, held) = (Mutex::default(), Mutex::default());
        let (space, moments) = (TupleSpace::new(dialect), Moments::default());
        Arc::new(Self { space, dialect, patterns, subjects, moments, calls, held })
    }

    fn note<R>(&self, run: impl FnOnce() -> (Op, R)) -> R {
        let mut calls = Vec::new();
        let result = self.moments.note(&mut calls, run);
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).extend(calls);
        result
    }

    /// All values whose patterns match a subject.
    fn all_of(&self, subject: &str) -> Set {
        let subject = crate::Subject::parse(self.dialect, subject.as_bytes(), &Limits::default());
        let subject = subject.expect("a valid subject");
        let mut of = 0;
        for (value, text) in self.patterns.iter().enumerate() {
            let (trie, _) = super::super::trie::Trie::default().with(self.dialect, text.as_bytes(), ());
            trie.for_each_match(subject, |_| of |= 1 << value);
        }
        of
    }

    pub(crate) fn add(&self, value: u32) {
        let pattern = pattern(self.dialect, self.patterns[value as usize]);
        let subscription = self.note(|| {
            let subscription = self.space.subscribe(&pattern, value).expect("below the limit");
            (Op::Add(value), subscription)
        });
        self.held.lock().unwrap_or_else(PoisonError::into_inner).push((value, subscription));
    }

    pub(crate) fn remove(&self, value: u32) {
        let subscription = self.take(value);
        self.note(|| {
            assert!(self.space.unsubscribe(subscription), "{value} was subscribed");
            (Op::Remove(value), ())
        });
    }

    fn take(&self, value: u32) -> Subscription {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let index = held.iter().position(|(own, _)| *own == value).expect("it was added before");
        held.swap_remove(index).1
    }

    pub(crate) fn look(&self) {
        for subject in self.subjects {
            self.note(|| {
                let mut found = Vec::new();
                self.space.matches(subject.as_bytes(), &mut found).expect("a valid subject");
                (Op::Match { of: self.all_of(subject), found: set(&found) }, ())
            });
        }
    }

    pub(crate) fn look_in_batch(&self, batch: &mut Batch<u32>) {
        // Each subject is a separate call, over the same time.
        let began = self.moments.next();
        self.space.matches_many(self.subjects, batch);
        let ended = self.moments.next();
        for (index, subject) in self.subjects.iter().enumerate() {
            let found = set(batch.get(index).expect("a valid subject"));
            let op = Op::Match { of: self.all_of(subject), found };
            self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(Call { began, ended, op });
        }
    }

    pub(crate) fn look_in_cache(&self, cache: &mut Cache<u32>) {
        for subject in self.subjects {
            self.note(|| {
                let found = set(cache.matches(&self.space, subject.as_bytes()).expect("a valid subject"));
                (Op::Match { of: self.all_of(subject), found }, ())
            });
        }
    }

    pub(crate) fn interest(&self) {
        for subject in self.subjects {
            self.note(|| {
                let any = self.space.has_interest(subject.as_bytes()).expect("a valid subject");
                (Op::Interest { of: self.all_of(subject), any }, ())
            });
        }
    }

    /// Gives the last table of each shape a successor.
    pub(crate) fn grow(&self) {
        let guard = &epoch::pin();
        for shape in self.space.inner.directory(guard).shapes() {
            let mut last = shape.head(guard);
            while let Some(next) = last.successor(guard) {
                last = next;
            }
            last.begin_migration();
        }
    }

    /// Gives the last table of each shape a successor, and moves the run of a value's pattern there. Drops
    /// its history if no snapshot needs it.
    pub(crate) fn carry(&self, value: u32) {
        self.grow();
        self.trim(value);
    }

    /// Drops the history of a value's pattern, as a tidy does.
    pub(crate) fn trim(&self, value: u32) {
        let (inner, guard) = (&self.space.inner, &epoch::pin());
        let (key, hash) = self.place(value);
        if let Some(shape) = inner.directory(guard).get(key) {
            shape.trim(&inner.core, hash, guard);
        }
    }

    /// Lets other threads go ahead by some steps, so that threads whose paths to one word differ in length
    /// meet there.
    pub(crate) fn pause(&self) {
        (0..thread_rng().next_u32() % 24).for_each(|_| choose());
    }

    /// Moves the run of a value's pattern out of the head of its chain, if that is being moved.
    pub(crate) fn move_run(&self, value: u32) {
        let (inner, guard) = (&self.space.inner, &epoch::pin());
        let (shape, hash) = self.place(value);
        inner.directory(guard).get(shape).expect("its shape").head(guard).migrate_run(
            &inner.core,
            hash,
            guard,
        );
    }

    /// Like [`World::move_run`], by a thread that is slow to mark the leaf as moved.
    pub(crate) fn move_slowly(&self, value: u32) {
        let (inner, guard) = (&self.space.inner, &epoch::pin());
        let (shape, hash) = self.place(value);
        let head = inner.directory(guard).get(shape).expect("its shape").head(guard);
        if head.begin_to_move(&inner.core, hash, guard) {
            self.pause();
            self.pause();
        }
        head.migrate_run(&inner.core, hash, guard);
    }

    /// Drops a snapshot. Then a thread trims a value's pattern that had taken the head of the chain for its
    /// table before the head was moved, and has found the leaf there.
    pub(crate) fn drop_late(&self, snapshot: Snapshot<u32>, value: u32) {
        let (inner, guard) = (&self.space.inner, &epoch::pin());
        let (key, hash) = self.place(value);
        let shape = inner.directory(guard).get(key).expect("its shape");
        let mut snapshot = Some(snapshot);
        // While a place is being tidied it is not listed, so that the snapshot itself finds nothing to tidy.
        inner.core.tidy(|_| {
            let found = shape.head(guard).seek(&inner.core, hash, |_| true, guard);
            drop(snapshot.take());
            if let Seek::Found(_, _, leaf) = found {
                inner.core.trim(leaf, guard);
            }
            shape.trim(&inner.core, hash, guard)
        });
    }

    /// Gives the second table of a chain a successor, and moves the run of a value's pattern there.
    pub(crate) fn carry_on(&self, value: u32) {
        let (inner, guard) = (&self.space.inner, &epoch::pin());
        let (shape, hash) = self.place(value);
        let head = inner.directory(guard).get(shape).expect("its shape").head(guard);
        if let Some(next) = head.successor(guard) {
            self.pause();
            next.begin_migration();
            next.migrate_run(&inner.core, hash, guard);
        }
    }

    /// Like [`World::add`], by a thread that had taken the head of the chain for its table before the head
    /// was moved.
    pub(crate) fn add_late(&self, value: u32) {
        self.add_in(value, Shape::head);
    }

    /// Like [`World::add`], by a thread that has already taken the second table of the chain for its table.
    /// The run of its pattern must be moved there.
    pub(crate) fn add_next(&self, value: u32) {
        self.add_in(value, |shape, guard| {
            let head = shape.head(guard);
            head.successor(guard).unwrap_or(head)
        });
    }

    fn add_in(&self, value: u32, table: impl for<'g> Fn(&'g Shape<u32>, &'g Guard) -> &'g Table<u32>) {
        let (inner, guard) = (&self.space.inner, &epoch::pin());
        let ((key, hash), text) = (self.place(value), self.patterns[value as usize].as_bytes());
        let shape = inner.directory(guard).get(key).expect("its shape");
        let add = || {
            let early = shape.add_in(table(shape, guard), &inner.core, hash, text, &value, guard);
            let late = || shape.add(&inner.core, hash, text, &value, guard);
            let Ok(id) = early.unwrap_or_else(late) else { panic!("there is room") };
            (Subscription { place: SubscriptionPlace::Table(key, hash), id }, Outcome::Added)
        };
        assert!(inner.counts.reserve());
        let subscription = self.note(|| (Op::Add(value), inner.counts.write(add)));
        self.held.lock().unwrap_or_else(PoisonError::into_inner).push((value, subscription));
    }

    /// Like [`World::remove`], by a thread that had taken the head of the chain for its table before the head
    /// was moved.
    pub(crate) fn remove_late(&self, value: u32) {
        let (inner, guard) = (&self.space.inner, &epoch::pin());
        let id = self.take(value).id;
        let (key, hash) = self.place(value);
        let shape = inner.directory(guard).get(key).expect("its shape");
        let remove = || {
            let early = shape.remove_in(shape.head(guard), &inner.core, hash, id, guard);
            let removed = early.unwrap_or_else(|| shape.remove(&inner.core, hash, id, guard));
            assert!(removed, "{value} was subscribed");
            ((), Outcome::Removed)
        };
        self.note(|| (Op::Remove(value), inner.counts.write(remove)));
        inner.counts.release();
    }

    /// Two values whose patterns have suitable hashes.
    pub(crate) fn pair(&self, suits: impl Fn(u64, u64) -> bool) -> Option<(u32, u32)> {
        let values = 0..self.patterns.len() as u32;
        let pairs = values.clone().flat_map(|a| values.clone().map(move |b| (a, b)));
        pairs.filter(|(a, b)| a != b).find(|(a, b)| suits(self.place(*a).1, self.place(*b).1))
    }

    /// The shape and the hash of a value's pattern.
    fn place(&self, value: u32) -> (ShapeKey, u64) {
        let text = self.patterns[value as usize].as_bytes();
        let measured = self.space.inner.core.hasher.pattern(self.dialect, text);
        (measured.key.expect("a pattern with a shape"), measured.hash)
    }

    /// Retires the shapes that have no patterns.
    pub(crate) fn retire(&self) {
        let (inner, guard) = (&self.space.inner, &epoch::pin());
        let shapes = inner.directory(guard).shapes().iter();
        if shapes.filter(|shape| shape.try_retire(&inner.core, guard)).count() > 0 {
            inner.purge(guard);
        }
    }

    pub(crate) fn len(&self) {
        self.note(|| (Op::Len(self.space.len()), ()));
    }

    pub(crate) fn generation(&self) {
        self.note(|| (Op::Generation(self.space.generation()), ()));
    }

    /// Takes a snapshot, and reads it after `meanwhile`, in both ways.
    pub(crate) fn snapshot(&self, meanwhile: impl FnOnce()) {
        let began = self.moments.next();
        let snapshot = self.space.snapshot();
        let ended = self.moments.next();
        meanwhile();
        let all: Vec<u32> = snapshot.to_vec().into_iter().map(|(_, value)| value).collect();
        let found = set(&all);
        for subject in self.subjects {
            let mut matched = Vec::new();
            snapshot.matches(subject.as_bytes(), &mut matched).expect("a valid subject");
            assert_eq!(set(&matched), found & self.all_of(subject), "two reads of one snapshot");
        }
        assert_eq!(snapshot.len(), all.len());
        let op = Op::Snapshot { found, generation: snapshot.generation() };
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(Call { began, ended, op });
    }

    /// Runs the threads, then looks up once more in every way. The history must be linearizable.
    pub(crate) fn run(self: &Arc<Self>, threads: Vec<Thread>) {
        let started: Vec<_> = threads
            .into_iter()
            .map(|thread| {
                let world = self.clone();
                thread::spawn(move || thread(&world))
            })
            .collect();
        started.into_iter().for_each(|thread| thread.join().expect("a thread of the model"));
        self.look();
        self.len();
        self.snapshot(|| {});
        self.judge();
    }

    /// Asserts that the history is linearizable.
    pub(crate) fn judge(&self) {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(is_linearizable(0, &calls), "no order of\n{}", show(&calls));
    }
}

/// Runs a model under random schedules and under PCT (Burckhardt et al., "A Randomized Scheduler with
/// Probabilistic Guarantees of Finding Bugs", ASPLOS 2010). `TAILRACE_MODEL_RUNS` sets the number of runs
/// under each.
pub(crate) fn check(model: impl Fn() + Send + Sync + Clone + 'static) {
    let runs = std::env::var("TAILRACE_MODEL_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(1_000);
    explore(RandomScheduler::new(runs), model.clone());
    explore(PctScheduler::new(2, runs / 2), model.clone());
    explore(PctScheduler::new(4, runs / 2), model);
    tell();
}

/// Appends what the models of this thread have reached to the file `TAILRACE_MODEL_REACHED`, for `cargo xtask
/// prove subjects` to judge.
fn tell() {
    let seen = seen::take();
    let Some(path) = std::env::var_os("TAILRACE_MODEL_REACHED") else { return };
    let thread = std::thread::current();
    let name = thread.name().and_then(|name| name.rsplit("::").next()).unwrap_or("unnamed").to_owned();
    let mut lines = format!("model {name} {} {} {}\n", seen.runs, seen.schedules.len(), seen.steps);
    for (site, count) in seen.won {
        lines += &format!("won {}:{} {count}\n", site.file(), site.line());
    }
    for ((site, by), count) in seen.lost {
        let by = by.map_or_else(|| "?".to_owned(), |by| format!("{}:{}", by.file(), by.line()));
        lines += &format!("lost {}:{} {by} {count}\n", site.file(), site.line());
    }
    // In one write, since models run in parallel.
    let mut file =
        OpenOptions::new().append(true).create(true).open(path).expect("the file of what is reached");
    file.write_all(lines.as_bytes()).expect("room for what is reached");
}

/// Runs a script of one thread.
pub(crate) fn play(script: impl Fn() + Send + Sync + 'static) {
    explore(RandomScheduler::new(1), script);
    tell();
}

fn explore(scheduler: impl Scheduler + 'static, model: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = 0x4_0000;
    config.max_steps = MaxSteps::FailAfter(200_000);
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(move || epoch::run(&model));
}
