//! A stream as one of its consumers sees it.

use tailrace_jetstream::consumer::{Candidate, Found, StreamView};
use tailrace_jetstream::contents::{Contents, Filter};

use super::pulls::Pulls;

/// Messages of a stream that one search looks at. The next one goes on behind them.
const ROWS_MAX: usize = 65_536;

/// Bytes that JetStream counts for a message besides its texts.
const AROUND: u32 = 30;

/// What a consumer remembers of its looks into the stream.
#[derive(Default)]
pub(super) struct Sight {
    /// Matching messages up to `counted_through`.
    appended: u64,
    counted_through: u64,
    /// No message between these matches: a search goes on behind them.
    barren: Option<(u64, u64)>,
}

/// The stream through the filters of a consumer.
pub(super) struct View<'a> {
    pub(super) contents: &'a Contents,
    pub(super) filters: &'a [Filter],
    pub(super) sight: &'a mut Sight,
    pub(super) pulls: &'a Pulls,
}

impl View<'_> {
    fn candidate(&self, found: tailrace_jetstream::contents::Found) -> Candidate {
        let subject_len = self
            .contents
            .subject_of(found.seq)
            .map_or(0, |subject| u32::try_from(subject.len()).unwrap_or(0));
        Candidate {
            seq: found.seq,
            timestamp_ns: found.time_ms.saturating_mul(1_000_000),
            subject_len,
            // The table does not tell headers from the payload.
            header_len: 0,
            payload_len: found.bytes.saturating_sub(AROUND + subject_len),
        }
    }
}

impl StreamView for View<'_> {
    fn next(&mut self, from: u64, cut: Option<u64>) -> Found {
        let last = self.contents.summary().last_seq;
        if let Some(cut) = cut {
            let found = self.contents.next_last(self.filters, from, cut);
            return found
                .map_or(Found::Nothing { through: cut }, |found| Found::Message(self.candidate(found)));
        }
        let start = match self.sight.barren {
            Some((first, through)) if (first..=through.saturating_add(1)).contains(&from) => through + 1,
            _ => from,
        };
        match self.contents.next_matching_within(self.filters, start, ROWS_MAX) {
            Ok(Some(found)) => Found::Message(self.candidate(found)),
            Ok(None) => Found::Nothing { through: last },
            Err(through) => {
                self.sight.barren = Some((from, through));
                Found::Later
            }
        }
    }

    fn get(&mut self, seq: u64) -> Found {
        self.contents
            .get(seq)
            .map_or(Found::Nothing { through: seq }, |found| Found::Message(self.candidate(found)))
    }

    fn appended(&mut self) -> u64 {
        let last = self.contents.summary().last_seq;
        if self.sight.counted_through < last {
            self.sight.appended += self.contents.count_matching(self.filters, self.sight.counted_through + 1);
            self.sight.counted_through = last;
        }
        self.sight.appended
    }

    fn count(&mut self, first: u64, last: u64, cut: Option<u64>) -> u64 {
        if first > last {
            return 0;
        }
        match cut {
            Some(cut) => self.contents.count_last_between(self.filters, first, last, cut),
            None if last >= self.contents.summary().last_seq => {
                self.contents.count_matching(self.filters, first)
            }
            // There may be very many of these ranges: what is behind one is not looked at.
            None => self.contents.count_between(self.filters, first, last),
        }
    }

    fn last_seq(&mut self) -> u64 {
        self.contents.summary().last_seq
    }

    fn is_interested(&mut self, inbox: &str) -> bool {
        self.pulls.is_wanted(inbox)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use tailrace_jetstream::contents::{Limits, Message};

    use super::super::super::select::filters;
    use super::*;

    /// Whole streams are counted by their subjects, parts of them by their messages.
    #[test]
    fn a_part_is_counted_as_its_messages_are_found_one_by_one() {
        let mut contents = Contents::new(Limits::default(), 1);
        for seq in 1..=40 {
            let subject = [&b"a.1"[..], b"a.2", b"b.1"][seq as usize * 7 % 3];
            let message = Message { seq, subject, bytes: 40, time_ms: 0, rollup: None };
            contents.append(&message, &mut |_| {});
        }
        let pulls = Pulls::new(&Arc::new(AtomicUsize::new(0)));
        for names in [&[][..], &["a.*".to_owned()], &["a.1".to_owned(), "b.>".to_owned()]] {
            let filters = filters(names).unwrap();
            let mut sight = Sight::default();
            let mut view = View { contents: &contents, filters: &filters, sight: &mut sight, pulls: &pulls };
            for (first, last) in [(1, 40), (1, 39), (7, 7), (8, 21), (30, u64::MAX), (41, 50), (5, 4)] {
                for cut in [None, Some(12), Some(40)] {
                    let (mut count, mut from) = (0, first);
                    while let Found::Message(found) = view.next(from, cut)
                        && found.seq <= last
                    {
                        (count, from) = (count + 1, found.seq + 1);
                    }
                    assert_eq!(view.count(first, last, cut), count, "{names:?} {first}..={last} {cut:?}");
                }
            }
        }
    }

    #[test]
    fn a_search_looks_at_a_bounded_number_of_messages_and_the_next_one_goes_on_behind_them() {
        let mut contents = Contents::new(Limits::default(), 1);
        let last = 2 * ROWS_MAX as u64 + 10;
        for seq in 1..=last {
            let subject = if seq == last { &b"b"[..] } else { b"a" };
            contents.append(&Message { seq, subject, bytes: 40, time_ms: 0, rollup: None }, &mut |_| {});
        }
        let filters = filters(&["b".to_owned()]).unwrap();
        let (mut sight, pulls) = (Sight::default(), Pulls::new(&Arc::new(AtomicUsize::new(0))));
        let mut view = View { contents: &contents, filters: &filters, sight: &mut sight, pulls: &pulls };
        for searched in [ROWS_MAX as u64, 2 * ROWS_MAX as u64] {
            assert!(matches!(view.next(1, None), Found::Later));
            assert_eq!(view.sight.barren, Some((1, searched)));
        }
        let Found::Message(found) = view.next(1, None) else { panic!("it is found") };
        assert_eq!((found.seq, found.payload_len), (last, 40 - AROUND - 1));
    }
}
