//! Finding messages.

use std::ops::ControlFlow;

use super::subjects::SubjectId;
use super::{Contents, Filter, Found};

/// Up to this many messages of chosen subjects are counted one by one, instead of all rows being read.
const WALKED_MAX: u64 = 1_024;

/// A set of subjects, by their numbers.
struct Chosen {
    bits: Vec<u64>,
}

impl Chosen {
    fn new(numbers: usize) -> Self {
        Self { bits: vec![0; numbers.div_ceil(64)] }
    }

    fn add(&mut self, id: SubjectId) {
        self.bits[id.0 as usize / 64] |= 1 << (id.0 % 64);
    }

    fn all(&self) -> impl Iterator<Item = SubjectId> {
        let numbers = (0..).zip(&self.bits).filter(|(_, bits)| **bits != 0);
        let numbers = numbers.flat_map(|(at, bits)| {
            (0..64).filter(move |bit| bits & (1 << bit) != 0).map(move |bit| at * 64 + bit)
        });
        numbers.map(SubjectId)
    }

    fn has(&self, id: SubjectId) -> bool {
        self.bits.get(id.0 as usize / 64).is_some_and(|bits| bits & (1 << (id.0 % 64)) != 0)
    }
}

impl Contents {
    fn found(&self, seq: u64) -> Option<Found> {
        self.rows.get(seq).map(|row| Found { seq, bytes: row.bytes, time_ms: row.time_ms })
    }

    /// The message with this sequence.
    pub fn get(&self, seq: u64) -> Option<Found> {
        self.found(seq)
    }

    /// The subject of a message.
    pub fn subject_of(&self, seq: u64) -> Option<&[u8]> {
        self.rows.get(seq).map(|row| self.subjects.name(row.subject))
    }

    /// The sequence of the last message of a subject.
    pub fn last_of_subject(&self, subject: &[u8]) -> Option<u64> {
        self.subjects.find(subject).map(|id| self.subjects.entry(id).last)
    }

    /// The first message of a subject.
    pub fn first_of_subject(&self, subject: &[u8]) -> Option<Found> {
        self.subjects.find(subject).and_then(|id| self.found(self.subjects.entry(id).first))
    }

    /// How many messages a subject has.
    pub fn count_of_subject(&self, subject: &[u8]) -> u64 {
        self.subjects.find(subject).map_or(0, |id| self.subjects.entry(id).count.into())
    }

    /// The subjects that have messages and that `filter` matches.
    fn matching(&self, filter: &Filter) -> impl Iterator<Item = SubjectId> {
        let one = filter.literal().map(|subject| self.subjects.find(subject));
        let many =
            one.is_none().then(|| self.subjects.all().filter(|id| filter.matches(self.subjects.name(*id))));
        one.flatten().into_iter().chain(many.into_iter().flatten())
    }

    fn chosen(&self, filter: &Filter) -> Chosen {
        let mut chosen = Chosen::new(self.subjects.numbers());
        self.matching(filter).for_each(|id| chosen.add(id));
        chosen
    }

    /// The sequence of the last message that `filter` matches.
    pub fn last_matching(&self, filter: &Filter) -> Option<u64> {
        if filter.is_everything() {
            let mut last = None;
            self.rows.scan_subjects_back(self.last_seq + 1, |seq, _| {
                last = Some(seq);
                ControlFlow::Break(())
            });
            return last;
        }
        self.matching(filter).map(|id| self.subjects.entry(id).last).max()
    }

    /// The first message at or after `from` that one of `filters` matches. No filter matches everything.
    pub fn next_matching(&self, filters: &[Filter], from: u64) -> Option<Found> {
        self.next_matching_within(filters, from, usize::MAX).unwrap_or_default()
    }

    /// The same, but looks at `rows_max` messages at most.
    ///
    /// # Errors
    /// The sequence up to which there is none, if it has not looked at all.
    pub fn next_matching_within(
        &self,
        filters: &[Filter],
        from: u64,
        rows_max: usize,
    ) -> Result<Option<Found>, u64> {
        let from = from.max(self.first_seq);
        if filters.is_empty() || filters.iter().any(Filter::is_everything) {
            return Ok(self.rows.at_or_after(from).and_then(|(seq, _)| self.found(seq)));
        }
        let (mut found, mut left, mut through) = (None, rows_max, None);
        // Names are compared as they come: most searches end soon.
        self.rows.scan_subjects(from, |seq, id| {
            if left == 0 {
                through = Some(seq - 1);
                return ControlFlow::Break(());
            }
            left -= 1;
            let name = self.subjects.name(id);
            if filters.iter().any(|filter| filter.matches(name)) {
                found = Some(seq);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        through.map_or_else(|| Ok(found.and_then(|seq| self.found(seq))), Err)
    }

    /// How many messages at or after `from` one of `filters` matches. No filter matches everything.
    pub fn count_matching(&self, filters: &[Filter], from: u64) -> u64 {
        let is_whole = from <= self.first_seq;
        if filters.is_empty() || filters.iter().any(Filter::is_everything) {
            return if is_whole { self.messages } else { self.count_from(from, |_| true) };
        }
        let mut chosen = Chosen::new(self.subjects.numbers());
        let mut all = 0;
        for id in filters.iter().flat_map(|filter| self.matching(filter)) {
            if !chosen.has(id) {
                chosen.add(id);
                all += u64::from(self.subjects.entry(id).count);
            }
        }
        match all {
            all if is_whole => all,
            0..WALKED_MAX => chosen.all().map(|id| self.count_of(id, from)).sum(),
            _ => self.count_from(from, |id| chosen.has(id)),
        }
    }

    /// The sequence of a message by its place, counted from 0. Its predecessors are passed one by one.
    pub fn nth(&self, place: u64) -> Option<u64> {
        let (mut left, mut found) = (place, None);
        self.rows.scan_subjects(self.first_seq, |seq, _| {
            if left == 0 {
                found = Some(seq);
                return ControlFlow::Break(());
            }
            left -= 1;
            ControlFlow::Continue(())
        });
        found
    }

    /// How many messages at or after `from` a subject has. Its messages are counted one by one.
    fn count_of(&self, id: SubjectId, from: u64) -> u64 {
        let first = self.subjects.entry(id).first;
        let seqs = std::iter::successors(Some(first), |seq| self.next_of(id, *seq, self.rows.next(*seq)));
        seqs.filter(|seq| *seq >= from).count() as u64
    }

    fn count_from(&self, from: u64, counts: impl Fn(SubjectId) -> bool) -> u64 {
        let mut count = 0;
        self.rows.scan_subjects(from, |_, id| {
            count += u64::from(counts(id));
            ControlFlow::Continue(())
        });
        count
    }

    /// Shows the subjects that `filter` matches and the number of their messages to `see`, in no order.
    pub fn each_subject(&self, filter: &Filter, mut see: impl FnMut(&[u8], u64)) {
        for id in self.matching(filter) {
            see(self.subjects.name(id), self.subjects.entry(id).count.into());
        }
    }

    /// A page of the subjects that `filter` matches, by their names, each with the number of its messages.
    /// Returns how many there are in all, too.
    pub fn page_of_subjects(&self, filter: &Filter, offset: u64, limit: usize) -> (Vec<(Vec<u8>, u64)>, u64) {
        let mut ids: Vec<SubjectId> = self.matching(filter).collect();
        let total = ids.len();
        let begin = usize::try_from(offset).unwrap_or(usize::MAX).min(total);
        let end = begin.saturating_add(limit).min(total);
        // Only the page is sorted, after it is told apart from what is before and behind it.
        if begin > 0 && begin < total {
            ids.select_nth_unstable_by_key(begin, |id| self.subjects.name(*id));
        }
        let rest = &mut ids[begin..];
        if end - begin < rest.len() {
            rest.select_nth_unstable_by_key(end - begin, |id| self.subjects.name(*id));
        }
        let page = &mut rest[..end - begin];
        page.sort_unstable_by_key(|id| self.subjects.name(*id));
        let shown =
            |id: &SubjectId| (self.subjects.name(*id).to_vec(), self.subjects.entry(*id).count.into());
        (page.iter().map(shown).collect(), total as u64)
    }

    /// The first `limit` sequences without a message between the first and the last.
    pub fn holes(&self, limit: usize) -> Vec<u64> {
        let (mut holes, mut next) = (Vec::new(), self.first_seq);
        let mut note = |upto: u64, next: u64| {
            let room = (limit - holes.len()) as u64;
            holes.extend(next..upto.min(next.saturating_add(room)));
            holes.len() == limit
        };
        let mut is_full = limit == 0;
        self.rows.scan_subjects(self.first_seq, |seq, _| {
            is_full = is_full || note(seq, next);
            next = seq + 1;
            if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if !is_full {
            note(self.last_seq + 1, next);
        }
        holes
    }

    /// How many subjects one of `filters` matches. No filter matches everything.
    pub fn count_subjects(&self, filters: &[Filter]) -> u64 {
        if filters.is_empty() {
            return self.subjects.len() as u64;
        }
        let matches = |name: &[u8]| filters.iter().any(|filter| filter.matches(name));
        match filters {
            [one] => self.matching(one).count() as u64,
            _ => self.subjects.all().filter(|id| matches(self.subjects.name(*id))).count() as u64,
        }
    }

    /// The first message at or after `from`, and at or below `up_to`, that is the last one of a subject that
    /// one of `filters` matches. No filter matches everything.
    ///
    /// A subject whose last message is above `up_to` counts with the last one at or below it.
    pub fn next_last(&self, filters: &[Filter], from: u64, up_to: u64) -> Option<Found> {
        let mut found = None;
        self.rows.scan_subjects(from.max(self.first_seq), |seq, id| {
            if seq > up_to {
                return ControlFlow::Break(());
            }
            if self.is_last(seq, id, up_to) && self.matches_any(filters, id) {
                found = Some(seq);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        found.and_then(|seq| self.found(seq))
    }

    /// How many messages from `first` to `last` one of `filters` matches. No filter matches everything. No
    /// other messages are looked at.
    pub fn count_between(&self, filters: &[Filter], first: u64, last: u64) -> u64 {
        self.count_rows(first, last, |_, id| self.matches_any(filters, id))
    }

    /// The same of the messages that [`Contents::next_last`] finds.
    pub fn count_last_between(&self, filters: &[Filter], first: u64, last: u64, up_to: u64) -> u64 {
        self.count_rows(first, last.min(up_to), |seq, id| {
            self.is_last(seq, id, up_to) && self.matches_any(filters, id)
        })
    }

    fn count_rows(&self, first: u64, last: u64, counts: impl Fn(u64, SubjectId) -> bool) -> u64 {
        let mut count = 0;
        self.rows.scan_subjects(first.max(self.first_seq), |seq, id| {
            if seq > last {
                return ControlFlow::Break(());
            }
            count += u64::from(counts(seq, id));
            ControlFlow::Continue(())
        });
        count
    }

    fn matches_any(&self, filters: &[Filter], id: SubjectId) -> bool {
        let name = self.subjects.name(id);
        filters.is_empty() || filters.iter().any(|filter| filter.matches(name))
    }

    /// Reports whether a message is the last one of its subject that is at or below `up_to`.
    fn is_last(&self, seq: u64, id: SubjectId, up_to: u64) -> bool {
        let last = self.subjects.entry(id).last;
        last == seq || last > up_to && self.has_none_between(id, seq, up_to)
    }

    /// Reports whether the subject has no message above `seq` that is at or below `up_to`.
    fn has_none_between(&self, id: SubjectId, seq: u64, up_to: u64) -> bool {
        self.next_of(id, seq, self.rows.next(seq)).is_none_or(|next| next > up_to)
    }

    /// The messages that `filter` matches below `below`, without the `keep` newest that it matches at all.
    pub(super) fn matching_below(&self, filter: &Filter, below: u64, keep: u64) -> Vec<u64> {
        let chosen = self.chosen(filter);
        let all: u64 = self.matching(filter).map(|id| u64::from(self.subjects.entry(id).count)).sum();
        let mut left = all.saturating_sub(keep);
        let mut found = Vec::new();
        self.rows.scan_subjects(self.first_seq, |seq, id| {
            if seq >= below || left == 0 {
                return ControlFlow::Break(());
            }
            if chosen.has(id) {
                found.push(seq);
                left -= 1;
            }
            ControlFlow::Continue(())
        });
        found
    }

    /// The first sequence whose time is at or after `time_ms`.
    ///
    /// Times are taken to grow with sequences.
    pub fn first_at(&self, time_ms: i64) -> Option<u64> {
        let mut found = None;
        self.rows.scan(self.first_seq, |seq, row| {
            if row.time_ms >= time_ms {
                found = Some(seq);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        found
    }
}
