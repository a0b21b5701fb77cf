//! Messages that were in flight when their connection broke. Systems that store messages may still deliver
//! them.
//!
//! They are errors unless they come before their timeout. Nothing is sent again. They do not count against
//! the bound in flight, since that would delay messages due on the new connection.

use std::collections::BTreeMap;

use super::flight::Entry;

/// Window of sequences in which duplicates and reorderings are recognised.
pub(super) const WINDOW: u64 = 1 << 16;

/// Most messages to remember per connection: as many as the window in which losses are recognised.
const ORPHANS_MAX: usize = WINDOW as usize;

#[derive(Debug)]
pub(super) struct Orphans {
    entries: BTreeMap<u64, Entry>,
    /// At most the bound in flight, so that they need no more than about twice the memory of the messages in
    /// flight.
    entries_max: usize,
    /// Messages below this sequence have timed out, and are remembered only in case they still come.
    open_from: u64,
    /// Messages that timed out and have not been received since.
    cut_off: u64,
}

impl Orphans {
    /// Creates it for a connection with at most this many messages in flight.
    pub(super) fn new(in_flight_max: usize) -> Self {
        let entries_max = ORPHANS_MAX.min(in_flight_max);
        Self { entries: BTreeMap::new(), entries_max, open_from: 0, cut_off: 0 }
    }

    /// Adds a message that awaits only its payload. Returns one that must be timed out to make room, if any.
    pub(super) fn add(&mut self, sequence: u64, entry: Entry) -> Option<Entry> {
        self.entries.insert(sequence, entry);
        if self.entries.len() <= self.entries_max {
            return None;
        }
        let (oldest, entry) = self.entries.pop_first()?;
        (oldest >= self.open_from).then(|| {
            self.cut_off += 1;
            entry
        })
    }

    /// Counts a message whose payload cannot come any more.
    pub(super) fn add_hopeless(&mut self) {
        self.cut_off += 1;
    }

    /// Handles a message that came. Returns it, and whether it came before its timeout.
    pub(super) fn came(&mut self, sequence: u64) -> Option<(Entry, bool)> {
        let entry = self.entries.remove(&sequence)?;
        let in_time = sequence >= self.open_from;
        self.cut_off -= u64::from(!in_time);
        Some((entry, in_time))
    }

    /// Times out the oldest message if it was sent at `limit_ns` or earlier.
    pub(super) fn expire(&mut self, limit_ns: u64) -> Option<Entry> {
        let (sequence, entry) = self.entries.range(self.open_from..).next()?;
        if entry.sent_ns > limit_ns {
            return None;
        }
        let entry = *entry;
        self.open_from = sequence + 1;
        self.cut_off += 1;
        Some(entry)
    }

    /// When the oldest outstanding message was sent.
    pub(super) fn oldest_sent_ns(&self) -> Option<u64> {
        self.entries.range(self.open_from..).next().map(|(_, entry)| entry.sent_ns)
    }

    /// When the oldest outstanding message was due, among those due at `from_ns` or later.
    pub(super) fn oldest_due_ns(&self, from_ns: u64) -> Option<u64> {
        let awaited = self.entries.range(self.open_from..).map(|(_, entry)| entry.due_ns);
        awaited.into_iter().find(|due_ns| *due_ns >= from_ns)
    }

    /// Messages that were cut off and did not come.
    pub(super) fn cut_off(&self) -> u64 {
        self.cut_off
    }
}

#[cfg(test)]
mod tests {
    use super::super::flight::PAYLOAD;
    use super::*;

    fn entry(sent_ns: u64) -> Entry {
        Entry { due_ns: sent_ns, sent_ns, awaits: PAYLOAD }
    }

    #[test]
    fn what_comes_late_is_no_loss() {
        let mut orphans = Orphans::new(10);
        for sequence in 0..4 {
            assert_eq!(orphans.add(sequence, entry(sequence * 10)), None);
        }
        assert_eq!(orphans.came(2), Some((entry(20), true)));
        assert_eq!(orphans.came(2), None);
        assert_eq!(
            (orphans.expire(10), orphans.expire(10), orphans.expire(10)),
            (Some(entry(0)), Some(entry(10)), None)
        );
        assert_eq!((orphans.cut_off(), orphans.oldest_sent_ns()), (2, Some(30)));
        assert_eq!(orphans.came(1), Some((entry(10), false)));
        orphans.add_hopeless();
        assert_eq!(orphans.cut_off(), 2);
        // Messages of the next break are outstanding again.
        assert_eq!(orphans.add(9, entry(90)), None);
        assert_eq!((orphans.expire(30), orphans.expire(30)), (Some(entry(30)), None));
        assert_eq!((orphans.cut_off(), orphans.oldest_sent_ns()), (3, Some(90)));
    }

    #[test]
    fn they_are_bounded() {
        for (in_flight_max, kept) in [(5, 5), (usize::MAX, ORPHANS_MAX)] {
            let mut orphans = Orphans::new(in_flight_max);
            let sent = kept as u64 + 10;
            let given_up = (0..sent).filter_map(|sequence| orphans.add(sequence, entry(sequence))).count();
            assert_eq!((given_up, orphans.entries.len(), orphans.cut_off()), (10, kept, 10));
        }
    }
}
