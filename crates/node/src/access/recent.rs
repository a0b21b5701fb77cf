//! Recent decisions of each thread, so that a repeated question costs a few comparisons.
//!
//! They hold for one state of the metadata, which has the rules and the bindings of topics. With any other
//! state, all of them are forgotten: a change of the metadata is rare beside requests, and to decide again
//! takes a third of a microsecond. The reason of a refusal is not kept, because refusals are few.
//!
//! A question has one place, chosen by its hash, and takes it from the question before. So a client that asks
//! for many names makes others decide again, and no more.

use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

use tailrace_env::random;
use tailrace_identity::acl::{Operation, Requester, ResourceKind};
use tailrace_metadata::MetadataImage;

/// Number of decisions that a thread keeps. With the longest names, they take 1 MiB.
const PLACES: usize = 2048;

/// The longest user and name together that are kept, in bytes.
const NAMES_BYTES_MAX: usize = 400;

thread_local! {
    static RECENT: RefCell<Recent<MetadataImage>> = RefCell::new(Recent::new());
}

/// What was asked.
#[derive(Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) who: Requester<'a>,
    pub(super) operation: Operation,
    pub(super) kind: ResourceKind,
    pub(super) name: &'a str,
}

/// A decision, with the question as it was asked.
struct Known {
    /// User and name, one after the other.
    names: Box<str>,
    user_bytes: usize,
    address: Option<IpAddr>,
    operation: Operation,
    kind: ResourceKind,
    allowed: bool,
}

struct Recent<I> {
    /// The metadata that the decisions hold for. A weak reference, so that old metadata are not kept in
    /// memory, and their address is not used again all the same.
    image: Weak<I>,
    /// Empty until the first decision.
    places: Vec<Option<Known>>,
    seed: u64,
}

/// Returns the decision, if this thread has made it by the same metadata.
#[inline]
pub(super) fn find(image: &Arc<MetadataImage>, question: &Question<'_>) -> Option<bool> {
    RECENT.with_borrow(|recent| recent.find(image, question))
}

/// Keeps a decision that was made by these metadata, or by later rules.
pub(super) fn keep(image: &Arc<MetadataImage>, question: &Question<'_>, allowed: bool) {
    RECENT.with_borrow_mut(|recent| recent.keep(image, question, allowed));
}

impl<I> Recent<I> {
    fn new() -> Self {
        Self { image: Weak::new(), places: Vec::new(), seed: random::u64() }
    }

    #[inline]
    fn is_of(&self, image: &Arc<I>) -> bool {
        std::ptr::eq(self.image.as_ptr(), Arc::as_ptr(image))
    }

    #[inline]
    fn find(&self, image: &Arc<I>, question: &Question<'_>) -> Option<bool> {
        if !self.is_of(image) {
            return None;
        }
        let known = self.places.get(question.place(self.seed))?.as_ref()?;
        known.answers(question).then_some(known.allowed)
    }

    fn keep(&mut self, image: &Arc<I>, question: &Question<'_>, allowed: bool) {
        let Question { who, operation, kind, name } = *question;
        if who.user.len() + name.len() > NAMES_BYTES_MAX {
            return;
        }
        if !self.is_of(image) {
            self.image = Arc::downgrade(image);
            self.places.clear();
            self.places.resize_with(PLACES, || None);
        }
        let place = question.place(self.seed);
        self.places[place] = Some(Known {
            names: [who.user, name].concat().into(),
            user_bytes: who.user.len(),
            address: who.address,
            operation,
            kind,
            allowed,
        });
    }
}

impl Known {
    #[inline]
    fn answers(&self, question: &Question<'_>) -> bool {
        let Question { who, operation, kind, name } = *question;
        let names = self.names.as_bytes();
        self.operation == operation
            && self.kind == kind
            && self.user_bytes == who.user.len()
            && names.len() == who.user.len() + name.len()
            && names[..self.user_bytes] == *who.user.as_bytes()
            && names[self.user_bytes..] == *name.as_bytes()
            && self.address == who.address
    }
}

impl Question<'_> {
    /// Returns the place of the question. The address is left out: most users have few.
    #[inline]
    fn place(&self, seed: u64) -> usize {
        let start = seed ^ ((self.operation as u64) << 8) ^ (self.kind as u64);
        let hash = mixed(mixed(start, self.who.user.as_bytes()), self.name.as_bytes());
        hash as usize % PLACES
    }
}

/// Mixes bytes into a number, eight at a time. It need not withstand chosen names: see the module.
#[inline]
fn mixed(mut hash: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        hash = folded(hash.rotate_left(5) ^ u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let last = u64::from_le_bytes(last) ^ ((bytes.len() as u64) << 56);
    folded(hash.rotate_left(5) ^ last)
}

/// Multiplies, so that each bit of the result depends on all bits.
#[inline]
fn folded(number: u64) -> u64 {
    const FACTOR: u128 = 0x9e37_79b9_7f4a_7c15;
    let wide = u128::from(number) * FACTOR;
    (wide as u64) ^ ((wide >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn question<'a>(user: &'a str, name: &'a str) -> Question<'a> {
        let who = Requester { user, address: None };
        Question { who, operation: Operation::Read, kind: ResourceKind::Topic, name }
    }

    /// In place of metadata.
    type Image = String;

    fn recent() -> Recent<Image> {
        tailrace_runtime::install();
        Recent::new()
    }

    #[test]
    fn only_the_same_question_by_the_same_metadata_has_the_answer() {
        let (mut recent, image) = (recent(), Arc::new(Image::default()));
        let asked = question("alice", "orders");
        assert_eq!(recent.find(&image, &asked), None);
        for allowed in [true, false] {
            recent.keep(&image, &asked, allowed);
            assert_eq!(recent.find(&image, &asked), Some(allowed));
        }
        let address = Some(IpAddr::from(Ipv4Addr::LOCALHOST));
        for other in [
            question("alice", "order"),
            question("bob", "orders"),
            question("aliceo", "rders"),
            question("", "aliceorders"),
            Question { operation: Operation::Write, ..asked },
            Question { kind: ResourceKind::Group, ..asked },
            Question { who: Requester { address, ..asked.who }, ..asked },
        ] {
            assert_eq!(recent.find(&image, &other), None);
            // Neither if it takes the same place.
            let known = recent.places[asked.place(recent.seed)].as_ref();
            assert!(!known.is_some_and(|known| known.answers(&other)));
        }
        let next = Arc::new(Image::clone(&image));
        assert_eq!(recent.find(&next, &asked), None);
        recent.keep(&next, &asked, true);
        assert_eq!((recent.find(&next, &asked), recent.find(&image, &asked)), (Some(true), None));
    }

    #[test]
    fn the_address_of_metadata_that_are_gone_is_not_taken_for_others() {
        let mut recent = recent();
        let asked = question("alice", "orders");
        for _ in 0..100 {
            let image = Arc::new(Image::default());
            assert_eq!(recent.find(&image, &asked), None);
            recent.keep(&image, &asked, true);
        }
    }

    #[test]
    fn a_thread_keeps_a_bounded_number_of_bounded_decisions() {
        let (mut recent, image) = (recent(), Arc::new(Image::default()));
        let names: Vec<String> = (0..4 * PLACES).map(|number| format!("topic-{number}")).collect();
        names.iter().for_each(|name| recent.keep(&image, &question("alice", name), true));
        let kept =
            names.iter().filter(|name| recent.find(&image, &question("alice", name)).is_some()).count();
        assert!(kept > PLACES / 2 && kept <= PLACES, "{kept}");
        assert_eq!(recent.places.len(), PLACES);
        let long = "x".repeat(NAMES_BYTES_MAX);
        recent.keep(&image, &question("a", &long), true);
        assert_eq!(recent.find(&image, &question("a", &long)), None);
    }
}
