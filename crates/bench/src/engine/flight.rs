//! The messages of one connection that are in flight: when they were due, and what they still await.
//!
//! They are in a ring of the latest sequences, and in a small map for stragglers, since one lost message must
//! not delay the others. Together they never hold more than the bound in flight.

use std::collections::BTreeMap;

/// The message awaits an acknowledgement.
pub(super) const ACKNOWLEDGEMENT: u8 = 1;
/// The message awaits its payload.
pub(super) const PAYLOAD: u8 = 2;

/// One message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) due_ns: u64,
    pub(super) sent_ns: u64,
    /// What is outstanding; 0 if nothing is.
    pub(super) awaits: u8,
}

/// Memory per message in flight, in bytes.
pub(super) const ENTRY_BYTES: usize = size_of::<Entry>();

#[derive(Debug)]
pub(super) struct Flight {
    ring: Box<[Entry]>,
    /// The ring covers the sequences from `base` to `end`.
    base: u64,
    end: u64,
    left_behind: BTreeMap<u64, Entry>,
    open: usize,
}

impl Flight {
    /// Creates an empty flight of at most `bound` messages.
    pub(super) fn new(bound: usize) -> Self {
        let ring = vec![Entry::default(); bound.next_power_of_two()].into_boxed_slice();
        Self { ring, base: 0, end: 0, left_behind: BTreeMap::new(), open: 0 }
    }

    /// The number of messages in flight.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// The next message's sequence.
    pub(super) fn next_sequence(&self) -> u64 {
        self.end
    }

    /// Adds the next message. One that awaits nothing only takes up its sequence.
    pub(super) fn push(&mut self, entry: Entry) {
        if self.end - self.base == self.ring.len() as u64 {
            let oldest = self.ring[self.slot(self.base)];
            if oldest.awaits != 0 {
                self.left_behind.insert(self.base, oldest);
            }
            self.base += 1;
        }
        let slot = self.slot(self.end);
        self.ring[slot] = entry;
        self.end += 1;
        self.open += usize::from(entry.awaits != 0);
    }

    /// Handles the arrival of `what` for message `sequence`. Returns the message if it awaited that.
    pub(super) fn came(&mut self, sequence: u64, what: u8) -> Option<Entry> {
        let in_ring = (self.base..self.end).contains(&sequence);
        let slot = self.slot(sequence);
        let entry = if in_ring { &mut self.ring[slot] } else { self.left_behind.get_mut(&sequence)? };
        if entry.awaits & what == 0 {
            return None;
        }
        entry.awaits &= !what;
        let copy = *entry;
        if copy.awaits == 0 {
            self.open -= 1;
            if !in_ring {
                self.left_behind.remove(&sequence);
            }
        }
        Some(copy)
    }

    /// Removes the oldest message if it was sent at `limit_ns` or earlier. Its `awaits` is what never came.
    pub(super) fn expire(&mut self, limit_ns: u64) -> Option<Entry> {
        if let Some(oldest) = self.left_behind.first_entry() {
            if oldest.get().sent_ns > limit_ns {
                return None;
            }
            self.open -= 1;
            return Some(oldest.remove());
        }
        self.skip_closed();
        let slot = self.slot(self.base);
        if self.base == self.end || self.ring[slot].sent_ns > limit_ns {
            return None;
        }
        let entry = self.ring[slot];
        self.ring[slot].awaits = 0;
        self.base += 1;
        self.open -= 1;
        Some(entry)
    }

    /// Removes the oldest message, and returns its sequence, too.
    pub(super) fn pop(&mut self) -> Option<(u64, Entry)> {
        if let Some((sequence, entry)) = self.left_behind.pop_first() {
            self.open -= 1;
            return Some((sequence, entry));
        }
        self.skip_closed();
        let sequence = self.base;
        self.expire(u64::MAX).map(|entry| (sequence, entry))
    }

    /// When the oldest message in flight was sent.
    pub(super) fn oldest_sent_ns(&mut self) -> Option<u64> {
        if let Some((_, oldest)) = self.left_behind.first_key_value() {
            return Some(oldest.sent_ns);
        }
        self.skip_closed();
        (self.base < self.end).then(|| self.ring[self.slot(self.base)].sent_ns)
    }

    /// When the oldest message in flight was due, among those due at `from_ns` or later.
    ///
    /// Messages are sent in the order in which they are due, so this looks at the oldest ones only.
    pub(super) fn oldest_due_ns(&self, from_ns: u64) -> Option<u64> {
        let behind = self.left_behind.values().copied();
        let in_ring = (self.base..self.end).map(|sequence| self.ring[self.slot(sequence)]);
        let mut open = behind.chain(in_ring.filter(|entry| entry.awaits != 0));
        open.find(|entry| entry.due_ns >= from_ns).map(|entry| entry.due_ns)
    }

    fn skip_closed(&mut self) {
        while self.base < self.end && self.ring[self.slot(self.base)].awaits == 0 {
            self.base += 1;
        }
    }

    fn slot(&self, sequence: u64) -> usize {
        (sequence as usize) & (self.ring.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(sent_ns: u64) -> Entry {
        Entry { due_ns: sent_ns, sent_ns, awaits: ACKNOWLEDGEMENT | PAYLOAD }
    }

    #[test]
    fn a_message_is_closed_when_everything_came() {
        let mut flight = Flight::new(4);
        flight.push(entry(10));
        assert_eq!(flight.came(0, PAYLOAD).map(|entry| entry.awaits), Some(ACKNOWLEDGEMENT));
        assert_eq!(flight.came(0, PAYLOAD), None);
        assert_eq!(flight.open(), 1);
        assert!(flight.came(0, ACKNOWLEDGEMENT).is_some());
        assert_eq!((flight.open(), flight.oldest_sent_ns()), (0, None));
        assert_eq!(flight.came(1, PAYLOAD), None);
    }

    #[test]
    fn one_that_is_lost_does_not_hold_up_the_others() {
        let mut flight = Flight::new(4);
        flight.push(entry(0));
        for sequence in 1..100 {
            flight.push(entry(sequence));
            flight.came(sequence, PAYLOAD).unwrap();
            flight.came(sequence, ACKNOWLEDGEMENT).unwrap();
        }
        assert_eq!((flight.open(), flight.oldest_sent_ns()), (1, Some(0)));
        assert_eq!(flight.left_behind.len(), 1);
        flight.push(entry(100));
        assert_eq!(flight.pop().map(|(sequence, _)| sequence), Some(0));
        assert_eq!(flight.pop().map(|(sequence, _)| sequence), Some(100));
        assert_eq!((flight.pop(), flight.open()), (None, 0));
    }

    #[test]
    fn the_oldest_that_waits_is_known() {
        let mut flight = Flight::new(4);
        assert_eq!(flight.oldest_due_ns(0), None);
        (0..9).for_each(|sent| flight.push(entry(sent * 10)));
        assert_eq!(
            (flight.oldest_due_ns(0), flight.oldest_due_ns(15), flight.oldest_due_ns(81)),
            (Some(0), Some(20), None)
        );
        for sequence in [0, 2, 5] {
            flight.came(sequence, PAYLOAD | ACKNOWLEDGEMENT);
        }
        assert_eq!((flight.oldest_due_ns(0), flight.oldest_due_ns(41)), (Some(10), Some(60)));
    }

    #[test]
    fn one_that_was_left_behind_expires() {
        let mut flight = Flight::new(4);
        flight.push(entry(0));
        for sequence in 1..100 {
            flight.push(entry(sequence));
            flight.came(sequence, PAYLOAD).unwrap();
            flight.came(sequence, ACKNOWLEDGEMENT).unwrap();
        }
        assert!(flight.came(0, ACKNOWLEDGEMENT).is_some());
        assert_eq!(flight.expire(50).map(|entry| entry.awaits), Some(PAYLOAD));
        assert_eq!(flight.expire(50), None);
        assert_eq!(flight.open(), 0);
    }

    #[test]
    fn what_awaits_nothing_is_not_in_flight() {
        let mut flight = Flight::new(2);
        (0..9).for_each(|sent| flight.push(Entry { due_ns: sent, sent_ns: sent, awaits: 0 }));
        assert_eq!((flight.open(), flight.next_sequence(), flight.oldest_sent_ns()), (0, 9, None));
        assert_eq!(flight.expire(u64::MAX), None);
    }

    #[test]
    fn expires_in_order_of_sending() {
        let mut flight = Flight::new(8);
        (0..5).for_each(|sent| flight.push(entry(sent * 10)));
        let gone: Vec<u64> = std::iter::from_fn(|| flight.expire(25)).map(|entry| entry.sent_ns).collect();
        assert_eq!(gone, [0, 10, 20]);
        assert_eq!(flight.oldest_sent_ns(), Some(30));
        let left: Vec<u64> = std::iter::from_fn(|| flight.pop()).map(|(sequence, _)| sequence).collect();
        assert_eq!((left, flight.open()), (vec![3, 4], 0));
    }
}
