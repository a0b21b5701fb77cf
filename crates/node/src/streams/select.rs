//! Which messages a question means, by the table alone.

use tailrace_jetstream::contents::{Contents, Filter, Found};
use tailrace_subjects::{Dialect, Limits, Pattern};

use super::failure::StreamFailure;
use super::types::{
    DELETED_MAX, From, MESSAGES_BYTES_MAX, MESSAGES_MAX, PurgeTerms, ReadBounds, Select, StateTerms,
    StreamState, UpTo,
};
use tailrace_jetstream::limits::SUBJECTS_PAGE;

/// Most patterns of one question.
const FILTERS_MAX: usize = 1_024;

/// Most bytes of the names on one page of subjects, which is shorter for that, but has at least one.
const SUBJECTS_BYTES_MAX: usize = 8 << 20;

/// The sequences of an answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Selected {
    pub(super) sequences: Vec<u64>,
    pub(super) pending: u64,
    pub(super) next: Option<u64>,
    pub(super) upto: u64,
}

fn filter(text: &str) -> Result<Filter, StreamFailure> {
    let limits = Limits { any_bytes: true, ..Limits::widest() };
    let pattern = Pattern::parse(Dialect::Nats, if text.is_empty() { ">" } else { text }, &limits);
    pattern.map(|pattern| Filter::new(&pattern)).map_err(|_| StreamFailure::Subject(text.to_owned()))
}

/// The patterns of a question.
pub(super) fn filters(texts: &[String]) -> Result<Vec<Filter>, StreamFailure> {
    if texts.len() > FILTERS_MAX {
        return Err(StreamFailure::Subject(format!("{} patterns", texts.len())));
    }
    texts.iter().map(|text| filter(text)).collect()
}

/// Tells what is in the stream.
pub(super) fn state(contents: &Contents, terms: &StateTerms) -> Result<StreamState, StreamFailure> {
    let summary = contents.summary();
    let mut state = StreamState {
        messages: summary.messages,
        bytes: summary.bytes,
        first_seq: if summary.last_seq == 0 { 0 } else { summary.first_seq },
        first_time_ms: summary.first_time_ms,
        last_seq: summary.last_seq,
        last_time_ms: summary.last_time_ms,
        subjects: summary.subjects,
        deleted: summary.deleted,
        ..StreamState::default()
    };
    if let Some(page) = &terms.subjects {
        let (listed, total) = contents.page_of_subjects(&filter(&page.filter)?, page.offset, SUBJECTS_PAGE);
        let mut bytes = 0;
        let fits = |(name, _): &&(Vec<u8>, u64)| {
            bytes += name.len();
            bytes <= SUBJECTS_BYTES_MAX
        };
        let count = listed.iter().take_while(fits).count().max(1);
        let text = |(name, count): (Vec<u8>, u64)| (String::from_utf8_lossy(&name).into_owned(), count);
        state.listed = listed.into_iter().take(count).map(text).collect();
        state.listed_total = total;
    }
    if terms.deleted {
        state.deleted_sequences = contents.holes(DELETED_MAX);
    }
    Ok(state)
}

/// Selects messages.
pub(super) fn select(
    contents: &Contents,
    what: &Select,
    bounds: ReadBounds,
) -> Result<Selected, StreamFailure> {
    let last = contents.summary().last_seq;
    let one = |found: Option<u64>| {
        let sequence = found.ok_or(StreamFailure::NoMessage)?;
        Ok(Selected { sequences: vec![sequence], upto: last, ..Selected::default() })
    };
    match what {
        Select::At(sequence) => one(contents.get(*sequence).map(|found| found.seq)),
        Select::Last(text) => one(contents.last_matching(&filter(text)?)),
        Select::Next { filter: text, from } => next(contents, &filter(text)?, *from, bounds),
        Select::LastOfEach { filters: texts, from, upto, subjects_max } => {
            let upto = upto.map_or(last, |upto| end(contents, upto, last));
            let each = Each { filters: filters(texts)?, from: *from, upto, subjects_max: *subjects_max };
            last_of_each(contents, &each, bounds)
        }
    }
}

/// What a purge removes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Purging {
    /// Everything below this sequence goes. 0 if nothing does.
    pub(super) below: u64,
    pub(super) messages: u64,
}

/// Finds out what a purge removes.
pub(super) fn purging(contents: &Contents, terms: PurgeTerms) -> Purging {
    let upto = terms.upto.min(contents.summary().last_seq);
    let all = contents.summary().messages - contents.count_matching(&[], upto + 1);
    let messages = all.saturating_sub(terms.keep);
    let first_kept = if messages < all { contents.nth(messages) } else { Some(upto + 1) };
    match first_kept {
        Some(below) if upto > 0 && terms.keep < all.max(1) => Purging { below, messages },
        _ => Purging::default(),
    }
}

fn end(contents: &Contents, upto: UpTo, last: u64) -> u64 {
    match upto {
        UpTo::Sequence(sequence) => sequence.min(last),
        UpTo::TimeMs(time) => contents.first_at(time).map_or(last, |first| first - 1),
    }
}

/// Takes messages until the answer is full.
struct Taking {
    bounds: ReadBounds,
    bytes: u64,
    sequences: Vec<u64>,
}

impl Taking {
    fn new(bounds: ReadBounds) -> Self {
        let (messages, bytes) =
            (bounds.messages.clamp(1, MESSAGES_MAX), bounds.bytes.min(MESSAGES_BYTES_MAX));
        Self { bounds: ReadBounds { messages, bytes }, bytes: 0, sequences: Vec::new() }
    }

    /// Takes a message. False if there is no room for it.
    fn take(&mut self, found: &Found) -> bool {
        let bytes = self.bytes + u64::from(found.bytes);
        let is_full = self.sequences.len() as u64 >= self.bounds.messages
            || !self.sequences.is_empty() && bytes > self.bounds.bytes;
        if !is_full {
            self.bytes = bytes;
            self.sequences.push(found.seq);
        }
        !is_full
    }
}

fn next(
    contents: &Contents,
    filter: &Filter,
    from: From,
    bounds: ReadBounds,
) -> Result<Selected, StreamFailure> {
    let from = match from {
        From::Sequence(sequence) => sequence.max(1),
        From::TimeMs(time) => contents.first_at(time).ok_or(StreamFailure::NoMessage)?,
    };
    let filters = std::slice::from_ref(filter);
    let mut taking = Taking::new(bounds);
    let (mut at, mut next) = (from, None);
    while let Some(found) = contents.next_matching(filters, at) {
        if !taking.take(&found) {
            next = Some(found.seq);
            break;
        }
        at = found.seq + 1;
    }
    if taking.sequences.is_empty() {
        return Err(StreamFailure::NoMessage);
    }
    let pending = next.map_or(0, |next| contents.count_matching(filters, next));
    Ok(Selected { sequences: taking.sequences, pending, next, upto: contents.summary().last_seq })
}

struct Each {
    filters: Vec<Filter>,
    from: u64,
    upto: u64,
    subjects_max: Option<u64>,
}

fn last_of_each(contents: &Contents, each: &Each, bounds: ReadBounds) -> Result<Selected, StreamFailure> {
    let mut taking = Taking::new(bounds);
    let (mut at, mut next, mut subjects) = (each.from, None, 0);
    while let Some(found) = contents.next_last(&each.filters, at, each.upto) {
        if next.is_none() && !taking.take(&found) {
            next = Some(found.seq);
        }
        (at, subjects) = (found.seq + 1, subjects + 1);
    }
    if each.subjects_max.is_some_and(|most| subjects > most) {
        return Err(StreamFailure::TooManySubjects(subjects));
    }
    if taking.sequences.is_empty() {
        return Err(StreamFailure::NoMessage);
    }
    let pending = subjects - taking.sequences.len() as u64;
    Ok(Selected { sequences: taking.sequences, pending, next, upto: each.upto })
}

#[cfg(test)]
mod tests {
    use tailrace_jetstream::contents::{Limits as Keeps, Message};

    use super::*;

    const ALL: ReadBounds = ReadBounds { messages: u64::MAX, bytes: u64::MAX };

    /// Messages 1 to 6 of 100 bytes and times 10 to 60: a.1, a.2, a.1, b, a.2, and one that is gone.
    fn contents() -> Contents {
        let mut contents = Contents::new(Keeps::default(), 1);
        for (seq, subject) in (1..).zip(["a.1", "a.2", "a.1", "b", "a.2", "gone"]) {
            let time_ms = i64::try_from(seq).unwrap() * 10;
            let message = Message { seq, subject: subject.as_bytes(), bytes: 100, time_ms, rollup: None };
            contents.append(&message, &mut |_| ());
        }
        contents.delete(6, &mut |_| ());
        contents
    }

    fn selected(
        what: &Select,
        bounds: ReadBounds,
    ) -> Result<(Vec<u64>, u64, Option<u64>, u64), StreamFailure> {
        let Selected { sequences, pending, next, upto } = select(&contents(), what, bounds)?;
        Ok((sequences, pending, next, upto))
    }

    fn from(filter: &str, from: From) -> Select {
        Select::Next { filter: filter.to_owned(), from }
    }

    #[test]
    fn single_messages_are_found_or_not() {
        let last = |text: &str| Select::Last(text.to_owned());
        assert_eq!(selected(&Select::At(3), ALL), Ok((vec![3], 0, None, 6)));
        assert_eq!(selected(&last("a.*"), ALL), Ok((vec![5], 0, None, 6)));
        assert_eq!(selected(&last("a.1"), ALL), Ok((vec![3], 0, None, 6)));
        for none in [Select::At(0), Select::At(6), Select::At(7), last("gone"), last("c.>")] {
            assert_eq!(selected(&none, ALL), Err(StreamFailure::NoMessage), "{none:?}");
        }
        assert_eq!(selected(&last("a..b"), ALL), Err(StreamFailure::Subject("a..b".to_owned())));
    }

    #[test]
    fn a_batch_ends_at_its_bounds_and_tells_what_is_left() {
        let bounds = |messages, bytes| ReadBounds { messages, bytes };
        let all = from("", From::Sequence(0));
        assert_eq!(selected(&all, ALL), Ok((vec![1, 2, 3, 4, 5], 0, None, 6)));
        assert_eq!(selected(&all, bounds(2, 1000)), Ok((vec![1, 2], 3, Some(3), 6)));
        assert_eq!(selected(&all, bounds(9, 299)), Ok((vec![1, 2], 3, Some(3), 6)));
        assert_eq!(selected(&all, bounds(9, 300)), Ok((vec![1, 2, 3], 2, Some(4), 6)));
        // The first one comes whatever the bounds are.
        assert_eq!(selected(&all, bounds(0, 0)), Ok((vec![1], 4, Some(2), 6)));
        assert_eq!(
            selected(&from("a.*", From::Sequence(2)), bounds(2, 900)),
            Ok((vec![2, 3], 1, Some(5), 6))
        );
        assert_eq!(selected(&from("a.*", From::TimeMs(21)), ALL), Ok((vec![3, 5], 0, None, 6)));
        assert_eq!(selected(&from("", From::TimeMs(51)), ALL), Err(StreamFailure::NoMessage));
        assert_eq!(selected(&from("c", From::Sequence(1)), ALL), Err(StreamFailure::NoMessage));
    }

    #[test]
    fn the_last_of_each_subject_as_of_a_point() {
        let each = |from, upto, subjects_max| Select::LastOfEach {
            filters: vec!["a.*".to_owned(), "b".to_owned()],
            from,
            upto,
            subjects_max,
        };
        assert_eq!(selected(&each(0, None, Some(3)), ALL), Ok((vec![3, 4, 5], 0, None, 6)));
        assert_eq!(selected(&each(0, None, Some(2)), ALL), Err(StreamFailure::TooManySubjects(3)));
        let two = ReadBounds { messages: 2, bytes: 1000 };
        assert_eq!(selected(&each(0, None, None), two), Ok((vec![3, 4], 1, Some(5), 6)));
        assert_eq!(selected(&each(5, None, None), two), Ok((vec![5], 0, None, 6)));
        assert_eq!(selected(&each(0, Some(UpTo::Sequence(4)), None), ALL), Ok((vec![2, 3, 4], 0, None, 4)));
        assert_eq!(selected(&each(0, Some(UpTo::TimeMs(30)), None), ALL), Ok((vec![1, 2], 0, None, 2)));
        assert_eq!(selected(&each(0, Some(UpTo::Sequence(99)), None), ALL), Ok((vec![3, 4, 5], 0, None, 6)));
        assert_eq!(selected(&each(6, None, None), ALL), Err(StreamFailure::NoMessage));
    }

    #[test]
    fn a_purge_ends_at_a_sequence_and_keeps_the_last_ones_before_it() {
        let purged = |upto, keep| {
            let Purging { below, messages } = purging(&contents(), PurgeTerms { upto, keep });
            (below, messages)
        };
        // The last sequence has no message, and goes with the others.
        assert_eq!(purged(6, 0), (7, 5));
        assert_eq!(purged(99, 0), (7, 5), "it does not reach beyond the end");
        assert_eq!(purged(3, 0), (4, 3));
        assert_eq!(purged(6, 2), (4, 3));
        assert_eq!(purged(3, 2), (2, 1), "what came later is not counted");
        assert_eq!((purged(0, 0), purged(6, 5), purged(6, u64::MAX)), ((0, 0), (0, 0), (0, 0)));
        let empty = Contents::new(Keeps::default(), 1);
        assert_eq!(purging(&empty, PurgeTerms { upto: 5, keep: 0 }), Purging::default());
    }

    #[test]
    fn the_state_lists_what_is_asked_for() {
        let page = SubjectsPage { filter: "a.>".to_owned(), offset: 1 };
        let terms = StateTerms { subjects: Some(page), deleted: true };
        let state = state(&contents(), &terms).unwrap();
        assert_eq!((state.messages, state.bytes, state.first_seq, state.last_seq), (5, 500, 1, 6));
        assert_eq!((state.first_time_ms, state.last_time_ms), (Some(10), Some(60)));
        assert_eq!((state.subjects, state.deleted, state.deleted_sequences), (3, 1, vec![6]));
        assert_eq!((state.listed, state.listed_total), (vec![("a.2".to_owned(), 2)], 2));
        let none = super::state(&Contents::new(Keeps::default(), 1), &StateTerms::default()).unwrap();
        assert_eq!(none, StreamState::default());
    }

    #[test]
    fn a_page_of_very_long_subjects_is_shorter() {
        let mut contents = Contents::new(Keeps::default(), 1);
        for seq in 1..=200 {
            let subject = format!("{seq:050000}");
            let message = Message { seq, subject: subject.as_bytes(), bytes: 1, time_ms: 1, rollup: None };
            contents.append(&message, &mut |_| ());
        }
        let page = |offset| {
            let terms = StateTerms {
                subjects: Some(SubjectsPage { filter: ">".to_owned(), offset }),
                deleted: false,
            };
            let state = state(&contents, &terms).unwrap();
            (state.listed.len(), state.listed_total)
        };
        assert_eq!((page(0), page(167), page(200)), ((167, 200), (33, 200), (0, 200)));
    }

    use super::super::types::SubjectsPage;
}
