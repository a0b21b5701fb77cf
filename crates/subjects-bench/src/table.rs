//! A matcher filled with patterns, and the operations that all parts share.

use std::fmt::Write as _;
use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use crate::measure::{self, CLOCK_EVERY};
use crate::random::checksum;
use crate::systems::{System, Way, subscribe};
use crate::workload::Texts;

/// Subjects whose results are counted to compare the systems.
const CHECKED: usize = 10_000;
/// Seconds between one way of asking and the next.
const SLICE_S: f64 = 0.05;
/// Time for a matcher to free what it has retired.
const SETTLE: Duration = Duration::from_millis(200);

/// A matcher with its subscriptions.
pub struct Table<S: System> {
    /// The algorithm.
    pub matcher: S,
    /// By the index of the pattern, which is also the value.
    pub subscriptions: Vec<Option<S::Subscription>>,
    /// Nanoseconds to parse and subscribe one pattern.
    pub insert_ns: f64,
    /// Resident bytes that the subscriptions added, or 0 if the memory was used before.
    pub resident: f64,
}

impl<S: System> Table<S> {
    /// Subscribes the first `count` patterns.
    pub fn fill(patterns: &Texts, count: usize, topics: &Texts) -> Self {
        // Touched before, so that it does not count as the matcher's memory.
        let mut subscriptions: Vec<Option<S::Subscription>> = Vec::with_capacity(count);
        subscriptions.resize_with(count, || None);
        black_box(&mut subscriptions);
        let before = measure::resident_bytes();
        let matcher = S::build(topics);
        let insert_ns = measure::each_ns(count, |index| {
            subscriptions[index] = Some(subscribe(&matcher, patterns.get(index), index as u64));
        });
        Self { matcher, subscriptions, insert_ns, resident: (measure::resident_bytes() - before).max(0.0) }
    }

    /// Checksums of the texts and of the matches, for the comparison with other systems.
    ///
    /// # Panics
    /// Two ways of asking find different subscriptions.
    pub(crate) fn check(&self, patterns: &Texts, subjects: &Texts) -> String {
        let slices: Vec<&[u8]> = subjects.iter().take(CHECKED).collect();
        let mut text = format!("{:016x} {:016x}", checksum(patterns.iter()), checksum(subjects.iter()));
        let mut first = None;
        for way in S::WAYS {
            // Twice, so that a cache is also asked for what it holds.
            for _ in 0..2 {
                let found = count(&self.matcher, *way, &slices);
                assert_eq!(*first.get_or_insert(found), found, "{way:?} finds something else");
            }
        }
        let (hits, sum) = first.expect("there is a way");
        write!(text, " {hits} {sum:x}").expect("a string takes everything");
        text
    }

    /// Unsubscribes everything. Returns nanoseconds per subscription.
    ///
    /// # Panics
    /// A subscription does not exist.
    pub(crate) fn drain(&mut self) -> f64 {
        let Self { matcher, subscriptions, .. } = self;
        measure::each_ns(subscriptions.len(), |index| {
            let subscription = subscriptions[index].take().expect("it was subscribed");
            assert!(matcher.unsubscribe(subscription), "a subscription is missing");
        })
    }

    /// Lets epoch reclamation catch up: it advances when the matcher is used.
    pub(crate) fn settle(&self, subjects: &Texts) {
        let until = Instant::now() + SETTLE;
        let slices: Vec<&[u8]> = subjects.iter().take(CLOCK_EVERY).collect();
        while Instant::now() < until {
            count(&self.matcher, Way::Plain, &slices);
            thread::yield_now();
        }
    }
}

/// The number of matches for all subjects together, and the sum of their values.
fn count<S: System>(matcher: &S, way: Way, subjects: &[&[u8]]) -> (usize, u64) {
    let (mut own, mut hits, mut sum) = (S::own(), 0, 0_u64);
    for group in subjects.chunks(way.group()) {
        matcher.ask(&mut own, way, group, |found| {
            hits += found.len();
            sum = found.iter().fold(sum, |sum, value| sum.wrapping_add(*value));
        });
    }
    (hits, sum)
}

/// Cycles through a list of subjects, some at a time.
pub struct Round<'a> {
    subjects: &'a [&'a [u8]],
    next: usize,
}

impl<'a> Round<'a> {
    /// Starts at `start`.
    #[must_use]
    pub fn new(subjects: &'a [&'a [u8]], start: usize) -> Self {
        Self { subjects, next: start % subjects.len() }
    }

    /// Returns the next ones: `count`, or what is left before the end of the list.
    pub fn take(&mut self, count: usize) -> &'a [&'a [u8]] {
        let end = (self.next + count).min(self.subjects.len());
        let taken = &self.subjects[self.next..end];
        self.next = if end == self.subjects.len() { 0 } else { end };
        taken
    }
}

/// Nanoseconds per lookup in each way. The ways take turns, so that all of them run under the same
/// conditions.
pub(crate) fn ways_ns<S: System>(matcher: &S, subjects: &[&[u8]], seconds: f64) -> Vec<(Way, f64)> {
    let mut own: Vec<S::Own> = S::WAYS.iter().map(|_| S::own()).collect();
    let mut rounds: Vec<Round<'_>> = S::WAYS.iter().map(|_| Round::new(subjects, 0)).collect();
    let slices = (seconds / SLICE_S).ceil().max(2.0);
    let mut spent = vec![(0.0, 0.0); S::WAYS.len()];
    for slice in 0..=slices as usize {
        for (index, way) in S::WAYS.iter().enumerate() {
            let (own, round) = (&mut own[index], &mut rounds[index]);
            let mut done = 0;
            let ns = measure::pace(seconds / slices, || {
                let before = done;
                ask(matcher, own, *way, round, CLOCK_EVERY, &mut done);
                done - before
            });
            // The first slice warms up.
            if slice > 0 {
                spent[index].0 += ns * done as f64;
                spent[index].1 += done as f64;
            }
        }
    }
    S::WAYS.iter().zip(spent).map(|(way, (ns, done))| (*way, ns / done)).collect()
}

/// Makes about `count` lookups in groups; adds their number to `done`.
pub fn ask<S: System>(
    matcher: &S,
    own: &mut S::Own,
    way: Way,
    round: &mut Round<'_>,
    count: usize,
    done: &mut usize,
) {
    let mut left = count;
    while left > 0 {
        let group = round.take(way.group().min(left));
        matcher.ask(own, way, group, |found| {
            black_box(found);
        });
        *done += group.len();
        left -= group.len();
    }
}
