//! The subjects that a connection may publish to in its current turn.
//!
//! A turn lasts a millisecond at most, and begins after its bytes were read. So a message that was sent after
//! a change of the rules was acknowledged is never decided by the rules before. Within the turn, a decision
//! that was made costs a comparison of the subject, without a lock.

use crate::auth::decisions::REMEMBERED_BYTES_MAX;

/// Number of subjects. With the longest ones they take less than 3 KiB.
const PLACES: usize = 16;

/// A decision about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Refused,
    /// Allowed, and the next one with this subject has to be decided again.
    Once,
    /// Allowed, like all with this subject in this turn.
    ForTheTurn,
}

/// The subjects. Empty until the first decision.
#[derive(Debug, Default)]
pub(crate) struct TurnSubjects {
    turn: u64,
    /// The last one that was allowed in this turn, if it is short: publishers repeat themselves.
    latest: Option<Ends>,
    places: Vec<Place>,
}

/// An allowed subject, and the turn in which it was.
#[derive(Clone, Debug, Default)]
struct Place {
    turn: u64,
    ends: Ends,
    subject: Vec<u8>,
}

/// The length of a subject, and its first and last bytes: up to 16 bytes, they are the whole subject. Most
/// subjects of a hot publisher are that short, and calling memcmp for them took longer than the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ends {
    length: usize,
    first: u64,
    last: u64,
}

impl Ends {
    #[inline]
    fn of(subject: &[u8]) -> Self {
        let length = subject.len();
        match (subject.first_chunk(), subject.last_chunk()) {
            (Some(first), Some(last)) => {
                Self { length, first: u64::from_le_bytes(*first), last: u64::from_le_bytes(*last) }
            }
            _ => {
                let all = Self::of_short(subject);
                Self { length, first: all, last: all }
            }
        }
    }

    /// All bytes of fewer than eight. Together with their number they are the subject.
    #[inline]
    fn of_short(subject: &[u8]) -> u64 {
        match (subject.first_chunk(), subject.last_chunk()) {
            (Some(first), Some(last)) => {
                u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32
            }
            _ => subject.iter().fold(0, |number, byte| (number << 8) | u64::from(*byte)),
        }
    }

    /// Reports whether they are the whole subject.
    #[inline]
    fn are_all(self) -> bool {
        self.length <= 16
    }

    /// The place of the subject. The last bytes differ most often.
    #[inline]
    fn place(self) -> usize {
        let mixed = (self.last ^ self.length as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 60) as usize % PLACES
    }
}

impl TurnSubjects {
    /// Begins a turn: all decisions are made again.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.turn += 1;
        self.latest = None;
    }

    /// Returns the decision of this turn, or decides.
    #[inline]
    pub(crate) fn allows(&mut self, subject: &[u8], decide: impl FnOnce() -> Decision) -> bool {
        let ends = Ends::of(subject);
        if self.latest == Some(ends) {
            return true;
        }
        if let Some(place) = self.places.get(ends.place())
            && place.turn == self.turn
            && place.ends == ends
            && (ends.are_all() || place.subject == subject)
        {
            self.latest = ends.are_all().then_some(ends);
            return true;
        }
        let decision = decide();
        if decision == Decision::ForTheTurn && subject.len() <= REMEMBERED_BYTES_MAX {
            self.keep(ends, subject);
        }
        decision != Decision::Refused
    }

    #[cold]
    fn keep(&mut self, ends: Ends, subject: &[u8]) {
        self.places.resize(PLACES, Place::default());
        let place = &mut self.places[ends.place()];
        (place.turn, place.ends) = (self.turn, ends);
        self.latest = ends.are_all().then_some(ends);
        if place.subject != subject {
            place.subject.clear();
            place.subject.extend_from_slice(subject);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::Decision::{ForTheTurn, Once, Refused};
    use super::*;

    #[test]
    fn what_is_allowed_holds_for_the_turn_and_a_refusal_for_one_message() {
        let (mut subjects, asked) = (TurnSubjects::default(), Cell::new(0));
        let allows = |subjects: &mut TurnSubjects, subject: &[u8], answer: Decision| {
            subjects.allows(subject, || {
                asked.set(asked.get() + 1);
                answer
            })
        };
        subjects.begin();
        for _ in 0..3 {
            assert!(allows(&mut subjects, b"orders.a", ForTheTurn));
        }
        assert_eq!(asked.get(), 1);
        assert!(!allows(&mut subjects, b"orders.b", Refused) && allows(&mut subjects, b"orders.b", Once));
        assert!(!allows(&mut subjects, b"orders.b", Refused), "the other one was for one message, too");
        assert_eq!(asked.get(), 4);
        subjects.begin();
        assert!(!allows(&mut subjects, b"orders.a", Refused), "another turn");
        assert_eq!(asked.get(), 5);
    }

    #[test]
    fn a_subject_is_not_taken_for_one_that_differs_in_any_byte() {
        for length in 1..40 {
            let subject = vec![b'a'; length];
            for changed in 0..length {
                let mut other = subject.clone();
                other[changed] = b'b';
                let mut subjects = TurnSubjects::default();
                subjects.begin();
                assert!(subjects.allows(&subject, || ForTheTurn));
                assert!(!subjects.allows(&other, || Refused), "{length}, {changed}, just before");
                // As if both had the same place.
                let of_subject = subjects.places[Ends::of(&subject).place()].clone();
                subjects.places[Ends::of(&other).place()] = of_subject;
                assert!(!subjects.allows(&other, || Refused), "{length}, {changed}");
            }
            let mut subjects = TurnSubjects::default();
            subjects.begin();
            assert!(
                subjects.allows(&subject, || ForTheTurn)
                    && !subjects.allows(&[&subject, &b"a"[..]].concat(), || Refused)
            );
        }
    }

    #[test]
    fn many_and_long_subjects_take_bounded_memory() {
        let mut subjects = TurnSubjects::default();
        subjects.begin();
        for number in 0..1000 {
            let subject = format!("orders.{number}");
            assert!(subjects.allows(subject.as_bytes(), || ForTheTurn));
            assert!(subjects.allows(subject.as_bytes(), || panic!("it was just decided")));
        }
        let long = vec![b'x'; REMEMBERED_BYTES_MAX + 1];
        assert!(subjects.allows(&long, || ForTheTurn) && !subjects.allows(&long, || Refused));
        let kept: usize = subjects.places.iter().map(|place| place.subject.capacity()).sum();
        assert!(subjects.places.len() == PLACES && kept <= PLACES * REMEMBERED_BYTES_MAX);
    }
}
