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
/// Ticks that a replica makes up for together with messages: one that was not stepped for long must not take that for its
/// leader's silence.
const TICKS_MAX: u32 = 2;

/// How often a replica that is to lead from the beginning asks for it.
const ASKS_MAX: u32 = 20;

/// Ticks between two times: an election takes a while.
const ASK_TICKS: u32 = 5;

/// The inbox of one replica.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    waiting: Mutex<Waiting>,
    ticks: AtomicU32,
    /// With so many ticks it has to be stepped: less do nothing.
    due: AtomicU32,
    /// How often it still asks to be elected without waiting for a leader's silence.
    eager: AtomicU32,
    /// Ticks since it asked last.
    waited: AtomicU32,
    asks: AtomicBool,
    /// It has to wake: one more than the ticks over which elections are spread.
    woken: AtomicU32,
    /// A snapshot is fetched.
    fetching: AtomicBool,
    /// So that its partition is in the stepper's queue at most once.
    pub(crate) claim: Claim,
}

/// What a replica is stepped with.
#[derive(Debug)]
pub(crate) struct Received {
    /// Ticks that passed before the messages came, or before the last of them did: none of these was due to do anything.
    pub(crate) ticks_before: u32,
    pub(crate) messages: VecDeque<PeerMessage>,
    pub(crate) ticks: u32,
    /// It is to ask for votes, if nobody leads.
    pub(crate) asks: bool,
    /// It is to wake, and its election to be spread over so many ticks.
    pub(crate) wakes: Option<usize>,
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

    /// Lets a tick pass. True if the replica has to be stepped.
    pub(crate) fn tick(&self) -> bool {
        self.ticks.fetch_add(1, Ordering::AcqRel) + 1 >= self.due.load(Ordering::Acquire)
    }

    /// With how many ticks it has to be stepped next.
    pub(crate) fn set_due(&self, ticks: usize) {
        // One that waits for nothing says so with a number that is never reached.
        self.due.store(u32::try_from(ticks).unwrap_or(u32::MAX), Ordering::Release);
    }

    /// A replica that is to lead from the beginning asks to be elected a few times, without waiting for a leader's silence: the
    /// others may not be there yet.
    pub(crate) fn set_eager(&self, eager: bool) {
        self.eager.store(if eager { ASKS_MAX } else { 0 }, Ordering::Release);
    }

    /// To be asked at each tick: true if it is to ask now.
    pub(crate) fn is_eager(&self) -> bool {
        self.eager.load(Ordering::Acquire) > 0
            && self.waited.fetch_add(1, Ordering::AcqRel).is_multiple_of(ASK_TICKS)
    }

    /// With the next step it asks.
    pub(crate) fn ask(&self) {
        let less = |left: u32| left.checked_sub(1);
        let _ = self.eager.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        self.asks.store(true, Ordering::Release);
    }

    /// With the next step it wakes; its election may wait for so many ticks more.
    pub(crate) fn wake(&self, spread_ticks: usize) {
        self.woken.store(u32::try_from(spread_ticks).unwrap_or(u32::MAX - 1) + 1, Ordering::Release);
    }

    pub(crate) fn is_woken(&self) -> bool {
        self.woken.load(Ordering::Acquire) != 0
    }

    /// True if the caller is to fetch the replica's snapshot; false if somebody does.
    pub(crate) fn begin_fetching(&self) -> bool {
        !self.fetching.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn end_fetching(&self) {
        self.fetching.store(false, Ordering::Release);
    }

    /// Everything that has come.
    pub(crate) fn take(&self) -> Received {
        let messages = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.bytes = 0;
            std::mem::take(&mut waiting.messages)
        };
        let (ticks, due) = (self.ticks.swap(0, Ordering::AcqRel), self.due.load(Ordering::Acquire));
        // They count: others who ask for votes must not be told that the leader was heard of just now.
        let ticks_before = if messages.is_empty() { 0 } else { ticks.min(due.saturating_sub(1)) };
        let ticks_max = if messages.is_empty() { due } else { TICKS_MAX };
        Received {
            ticks_before,
            messages,
            ticks: (ticks - ticks_before).min(ticks_max),
            asks: self.asks.swap(false, Ordering::AcqRel),
            wakes: self.woken.swap(0, Ordering::AcqRel).checked_sub(1).map(|ticks| ticks as usize),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;

    /// A heartbeat (docs/replication.md) without anything in it.
    fn message() -> PeerMessage {
        let mut bytes = BytesMut::zeroed(92);
        (bytes[0], bytes[1]) = (1, 3);
        PeerMessage::decode(bytes.freeze()).unwrap()
    }

    fn inbox(due: usize, ticks: u32) -> Inbox {
        let inbox = Inbox::default();
        inbox.set_due(due);
        for _ in 0..ticks {
            inbox.tick();
        }
        inbox
    }

    fn ticks_of(inbox: &Inbox) -> (u32, u32) {
        let received = inbox.take();
        (received.ticks_before, received.ticks)
    }

    /// A replica that is stepped only when a tick does something has let others pass; a message that comes then finds it as late as it is.
    #[test]
    fn ticks_that_were_not_due_count_before_a_message() {
        let quiet = inbox(15, 9);
        assert!(quiet.put(message()));
        assert_eq!(ticks_of(&quiet), (9, 0));
        let late = inbox(15, 100);
        assert!(late.put(message()));
        assert_eq!(
            ticks_of(&late),
            (14, TICKS_MAX),
            "one that hung does not take that for its leader's silence"
        );
        assert_eq!(ticks_of(&inbox(15, 100)), (0, 15));
        assert_eq!(ticks_of(&inbox(15, 15)), (0, 15));
        assert_eq!(ticks_of(&quiet), (0, 0), "they are counted once");
    }
}
