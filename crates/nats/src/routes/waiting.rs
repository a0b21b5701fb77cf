//! Messages of one link that wait for one before them, which is on its way to very many.
//!
//! The link brings more than messages, so it is not held back for them: what finds no room is dropped, as it is by the node that sends
//! where too much waits for the link.

use std::collections::VecDeque;

use bytes::Bytes;
use tailrace_types::take_off;

/// Bytes of them, but for a single one that is larger. Memory: as much for each other node.
pub(super) const WAITING_BYTES_MAX: usize = 1 << 20;

/// What each takes beside its own bytes.
const MESSAGE_OVERHEAD: usize = 64;

/// The messages, as they came.
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

    /// False if there is no room for it.
    pub(super) fn push(&mut self, frame: &Bytes) -> bool {
        let bytes = charge(frame);
        if self.bytes > 0 && self.bytes + bytes > WAITING_BYTES_MAX {
            return false;
        }
        // It is a part of what the link has read, all of which it would keep: that may be much more than is charged. Of a larger one
        // there is hardly more.
        let kept = if bytes > WAITING_BYTES_MAX { frame.clone() } else { Bytes::copy_from_slice(frame) };
        self.frames.push_back(kept);
        self.bytes += bytes;
        true
    }

    /// The one that came first.
    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let frame = self.frames.pop_front()?;
        take_off(&mut self.bytes, charge(&frame), "bytes of messages that wait");
        if self.frames.is_empty() {
            // It keeps no memory for the next time.
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
        assert!(!waiting.push(&Bytes::new()), "even one of nothing takes memory");
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
