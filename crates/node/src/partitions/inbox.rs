//! The work that a replica has yet to be stepped with: messages from its peers, and ticks.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;
use tailrace_replication::raft::PeerMessage;

use crate::partitions::workers::Claim;

/// Messages that may wait for one replica. More are dropped, as a network might.
const MESSAGES_MAX: usize = 1024;
/// Bytes of batches that may wait, beyond the last message.
const BYTES_MAX: usize = 16 << 20;
/// Missed ticks, replayed together with the next batch of messages. A replica that was not stepped for long
/// must not mistake that for a silent leader.
const TICKS_MAX: u32 = 2;

/// How often a replica that should lead from the start asks to be elected.
const ASKS_MAX: u32 = 20;

/// Ticks between two such requests, because an election takes a while.
const ASK_TICKS: u32 = 5;

/// The inbox of one replica.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    waiting: Mutex<Waiting>,
    ticks: AtomicU32,
    /// The replica has to be stepped at this many ticks. Fewer have no effect.
    due: AtomicU32,
    /// How many more times it asks to be elected without waiting for a silent leader.
    eager: AtomicU32,
    /// Ticks since it last asked.
    waited: AtomicU32,
    asks: AtomicBool,
    /// Set if the replica has to wake: one more than the ticks over which to spread elections.
    woken: AtomicU32,
    /// True while a snapshot is being fetched.
    fetching: AtomicBool,
    /// Keeps the partition at most once in the stepper's queue.
    pub(crate) claim: Claim,
}

/// What a replica is stepped with.
#[derive(Debug)]
pub(crate) struct Received {
    /// Ticks that passed before the messages arrived, none of which was due to do anything.
    pub(crate) ticks_before: u32,
    pub(crate) messages: VecDeque<PeerMessage>,
    pub(crate) ticks: u32,
    /// It has to ask for votes, if there is no leader.
    pub(crate) asks: bool,
    /// It has to wake, and to spread its election over this many ticks.
    pub(crate) wakes: Option<usize>,
}

#[derive(Debug, Default)]
struct Waiting {
    messages: VecDeque<PeerMessage>,
    bytes: usize,
}

impl Inbox {
    /// Queues a message. False if there is no room: the message is dropped.
    pub(crate) fn put(&self, message: PeerMessage) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.messages.len() >= MESSAGES_MAX || waiting.bytes >= BYTES_MAX {
            return false;
        }
        waiting.bytes += message.weight();
        waiting.messages.push_back(message);
        true
    }

    /// Counts a tick. True if the replica has to be stepped.
    pub(crate) fn tick(&self) -> bool {
        self.ticks.fetch_add(1, Ordering::AcqRel) + 1 >= self.due.load(Ordering::Acquire)
    }

    /// Sets the number of ticks at which the replica has to be stepped next.
    pub(crate) fn set_due(&self, ticks: usize) {
        // A replica that waits for nothing passes a number that is never reached.
        self.due.store(u32::try_from(ticks).unwrap_or(u32::MAX), Ordering::Release);
    }

    /// Makes a replica that should lead from the start ask to be elected a few times, without waiting for a
    /// silent leader: the others may not be up yet.
    pub(crate) fn set_eager(&self, eager: bool) {
        self.eager.store(if eager { ASKS_MAX } else { 0 }, Ordering::Release);
    }

    /// Called at each tick. True if the replica has to ask now.
    pub(crate) fn is_eager(&self) -> bool {
        self.eager.load(Ordering::Acquire) > 0
            && self.waited.fetch_add(1, Ordering::AcqRel).is_multiple_of(ASK_TICKS)
    }

    /// Makes the replica ask with its next step.
    pub(crate) fn ask(&self) {
        let less = |left: u32| left.checked_sub(1);
        let _ = self.eager.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        self.asks.store(true, Ordering::Release);
    }

    /// Wakes the replica with its next step. Its election may wait for this many more ticks.
    pub(crate) fn wake(&self, spread_ticks: usize) {
        self.woken.store(u32::try_from(spread_ticks).unwrap_or(u32::MAX - 1) + 1, Ordering::Release);
    }

    pub(crate) fn is_woken(&self) -> bool {
        self.woken.load(Ordering::Acquire) != 0
    }

    /// True if the caller has to fetch the replica's snapshot. False if another task does.
    pub(crate) fn begin_fetching(&self) -> bool {
        !self.fetching.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn end_fetching(&self) {
        self.fetching.store(false, Ordering::Release);
    }

    /// Takes everything that has arrived.
    pub(crate) fn take(&self) -> Received {
        let messages = {
            let mut waiting = self.waiting.lock();
            waiting.bytes = 0;
            std::mem::take(&mut waiting.messages)
        };
        let (ticks, due) = (self.ticks.swap(0, Ordering::AcqRel), self.due.load(Ordering::Acquire));
        // These ticks count: otherwise other candidates would be told that the leader was heard from just
        // now.
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

    /// An empty heartbeat (docs/replication.md).
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

    /// A replica that is stepped only when a tick does something has let other ticks pass. A message that
    /// arrives then must find it as late as it is.
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
            "a replica that hung does not mistake that for a silent leader"
        );
        assert_eq!(ticks_of(&inbox(15, 100)), (0, 15));
        assert_eq!(ticks_of(&inbox(15, 15)), (0, 15));
        assert_eq!(ticks_of(&quiet), (0, 0), "they are counted once");
    }
}
