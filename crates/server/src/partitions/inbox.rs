//! What a replica has still to be stepped with: messages of its peers, and ticks.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use tailrace_replication::raft::PeerMessage;

use crate::partitions::workers::Claim;

/// Messages that wait for one replica; further ones are dropped, as a network may.
const MESSAGES_MAX: usize = 1024;
/// The same in bytes of batches, beyond the last message.
const BYTES_MAX: usize = 16 << 20;
/// Ticks that a replica makes up for: one that was not stepped for long must not take that for its leader's silence.
const TICKS_MAX: u32 = 2;

/// How often a replica that is to lead from the beginning asks for it.
const EAGER_TICKS: u32 = 20;

/// The inbox of one replica.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    waiting: Mutex<Waiting>,
    ticks: AtomicU32,
    /// How often it still asks to be elected without waiting for a leader's silence.
    eager: AtomicU32,
    /// A snapshot is fetched.
    fetching: AtomicBool,
    /// So that its partition is in the stepper's queue at most once.
    pub(crate) claim: Claim,
}

#[derive(Debug, Default)]
struct Waiting {
    messages: VecDeque<PeerMessage>,
    bytes: usize,
}

impl Inbox {
    /// False if there is no room: the message is lost.
    pub(crate) fn put(&self, message: PeerMessage) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.messages.len() >= MESSAGES_MAX || waiting.bytes >= BYTES_MAX {
            return false;
        }
        waiting.bytes += message.weight();
        waiting.messages.push_back(message);
        true
    }

    pub(crate) fn tick(&self) {
        // Only a bound is lost in a race.
        if self.ticks.load(Ordering::Relaxed) < TICKS_MAX {
            self.ticks.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// A replica that is to lead from the beginning asks to be elected at each tick, a few times: the others may not be
    /// there yet.
    pub(crate) fn set_eager(&self, eager: bool) {
        self.eager.store(if eager { EAGER_TICKS } else { 0 }, Ordering::Release);
    }

    /// True if it is to ask now.
    pub(crate) fn is_eager(&self) -> bool {
        let less = |left: u32| left.checked_sub(1);
        self.eager.fetch_update(Ordering::AcqRel, Ordering::Acquire, less).is_ok()
    }

    /// True if the caller is to fetch the replica's snapshot; false if somebody does.
    pub(crate) fn begin_fetching(&self) -> bool {
        !self.fetching.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn end_fetching(&self) {
        self.fetching.store(false, Ordering::Release);
    }

    /// Everything that has come, and how many ticks.
    pub(crate) fn take(&self) -> (VecDeque<PeerMessage>, u32) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.bytes = 0;
        (std::mem::take(&mut waiting.messages), self.ticks.swap(0, Ordering::AcqRel))
    }
}
