//! Messages of one link that wait for an earlier one, which is being delivered to very many subscribers.
//!
//! The link carries more than messages, so it is not blocked for them. Messages without room are dropped, as
//! the sending node does when too much waits for the link.

use std::collections::VecDeque;

use bytes::Bytes;
use tailrace_types::take_off;

/// Most bytes of waiting messages, except for a single larger one. This memory is needed once per other node.
pub(super) const WAITING_BYTES_MAX: usize = 1 << 20;

/// Bytes that each message takes besides its own.
const MESSAGE_OVERHEAD: usize = 64;

/// The messages, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    frames: VecDeque<Bytes>,
    bytes: usize,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Queues a message. Reports whether there was room for it.
    pub(super) fn push(&mut self, frame: &Bytes) -> bool {
        let bytes = charge(frame);
        if self.bytes > 0 && self.bytes + bytes > WAITING_BYTES_MAX {
            return false;
        }
        // The frame is a slice of everything the link has read at once, and would keep all of it in memory.
        // That may be much more than is charged. For a larger message there is hardly more.
        let kept = if bytes > WAITING_BYTES_MAX { frame.clone() } else { Bytes::copy_from_slice(frame) };
        self.frames.push_back(kept);
        self.bytes += bytes;
        true
    }

    /// Takes the oldest message.
    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let frame = self.frames.pop_front()?;
        take_off(&mut self.bytes, charge(&frame), "bytes of waiting messages");
        if self.frames.is_empty() {
            // The empty queue keeps no memory.
            self.frames = VecDeque::new();
        }
        Some(frame)
    }
}

fn charge(frame: &Bytes) -> usize {
    frame.len() + MESSAGE_OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_so_many_bytes_or_for_a_single_message_that_has_more() {
        let (small, large) = (Bytes::from(vec![7; 1000]), Bytes::from(vec![8; 3 * WAITING_BYTES_MAX]));
        let mut waiting = Waiting::default();
        let count = (0..).take_while(|_| waiting.push(&small)).count();
        assert_eq!(count, WAITING_BYTES_MAX / (1000 + MESSAGE_OVERHEAD));
        assert!(!waiting.push(&large));
        assert_eq!(waiting.len(), count);
        assert_eq!(waiting.pop().as_ref(), Some(&small));
        assert!(waiting.push(&small) && !waiting.push(&small));
        while waiting.pop().is_some() {}
        assert!(waiting.is_empty() && waiting.push(&large));
        assert!(!waiting.push(&Bytes::new()), "even an empty one takes memory");
        assert_eq!(waiting.pop(), Some(large));
        assert_eq!((waiting.bytes, waiting.frames.capacity()), (0, 0));
    }

    #[test]
    fn what_waits_keeps_nothing_of_what_came_with_it() {
        let read = Bytes::from(vec![7; 64 * 1024]);
        let mut waiting = Waiting::default();
        assert!(waiting.push(&read.slice(10..20)));
        assert!(read.is_unique());
        assert_eq!(waiting.pop().as_deref(), Some(&[7; 10][..]));
    }
}
