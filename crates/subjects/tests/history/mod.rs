//! A linearizability checker for short histories: is there an order of the operations, each within its call,
//! that one matcher in one thread could have shown? (Wing and Gong, "Testing and Verifying Concurrent
//! Objects", 1993.) At most 32 values and 63 operations.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// A set of values, which are numbers below 32.
pub(crate) type Set = u32;

/// An operation, and its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Add(u32),
    Remove(u32),
    /// Of the values in `of`, those in `found` were found.
    Match {
        of: Set,
        found: Set,
    },
    Interest {
        of: Set,
        any: bool,
    },
    Len(usize),
    /// What a snapshot showed, whenever it was read, and its generation.
    Snapshot {
        found: Set,
        generation: u64,
    },
    Generation(u64),
}

/// One call: the moments at which it started and ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) began: u64,
    pub(crate) ended: u64,
    pub(crate) op: Op,
}

/// Assigns moments to the threads of one history.
#[derive(Default)]
pub(crate) struct Moments(AtomicU64);

impl Moments {
    pub(crate) fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }

    /// Runs one operation and records its call. Returns what `run` returns besides the operation.
    pub(crate) fn note<R>(&self, calls: &mut Vec<Call>, run: impl FnOnce() -> (Op, R)) -> R {
        let began = self.next();
        let (op, result) = run();
        calls.push(Call { began, ended: self.next(), op });
        result
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct State {
    done: u64,
    live: Set,
    /// The last generation seen, and whether anything was written since.
    generation: u64,
    written: bool,
}

impl State {
    fn after(self, op: Op) -> Option<Self> {
        let mut next = self;
        let possible = match op {
            Op::Add(value) => {
                (next.live, next.written) = (self.live | 1 << value, true);
                self.live >> value & 1 == 0
            }
            Op::Remove(value) => {
                (next.live, next.written) = (self.live & !(1 << value), true);
                self.live >> value & 1 == 1
            }
            Op::Match { of, found } => self.live & of == found,
            Op::Interest { of, any } => (self.live & of != 0) == any,
            Op::Len(len) => self.live.count_ones() as usize == len,
            Op::Snapshot { found, generation } => {
                let same = self.live == found;
                next = next.at_generation(generation)?;
                same
            }
            Op::Generation(generation) => {
                next = next.at_generation(generation)?;
                true
            }
        };
        possible.then_some(next)
    }

    /// A generation must differ from the last one if anything was written since, and never decreases.
    fn at_generation(self, generation: u64) -> Option<Self> {
        let fits = generation > self.generation || (generation == self.generation && !self.written);
        fits.then_some(Self { generation, written: false, ..self })
    }
}

/// Reports whether the calls are linearizable, starting with these values.
pub(crate) fn is_linearizable(start: Set, calls: &[Call]) -> bool {
    assert!(calls.len() < 64, "a set of calls has 64 bits");
    let all = (1_u64 << calls.len()) - 1;
    let mut seen = HashSet::new();
    let mut todo = vec![State { done: 0, live: start, generation: 0, written: true }];
    while let Some(state) = todo.pop() {
        if state.done == all {
            return true;
        }
        let open = || calls.iter().enumerate().filter(|(index, _)| state.done >> index & 1 == 0);
        // A call that started after another one ended comes after it.
        let first_end = open().map(|(_, call)| call.ended).min().unwrap_or(u64::MAX);
        for (index, call) in open().filter(|(_, call)| call.began < first_end) {
            if let Some(next) = state.after(call.op) {
                let next = State { done: state.done | 1 << index, ..next };
                if seen.insert(next) {
                    todo.push(next);
                }
            }
        }
    }
    false
}

/// The calls in the order in which they started, one per line.
pub(crate) fn show(calls: &[Call]) -> String {
    let mut calls = calls.to_vec();
    calls.sort_unstable_by_key(|call| call.began);
    calls.iter().map(|call| format!("{:3}..{:<3} {:x?}\n", call.began, call.ended, call.op)).collect()
}
