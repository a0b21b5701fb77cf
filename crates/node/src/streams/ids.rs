//! The ids (`Nats-Msg-Id`) of the messages of a stream that came within its window.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hasher as _};

/// A number that stands for an id. Two ids have the same one by chance only: it is keyed, so nobody can look
/// for such ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct IdHash(u128);

/// The key of a node.
#[derive(Clone, Copy)]
pub(super) struct IdKey([u8; 16]);

impl IdKey {
    pub(super) fn random() -> Self {
        Self(tailrace_env::random::bytes16())
    }

    /// `None` for an empty id, which is none.
    pub(super) fn hash(&self, id: &[u8]) -> Option<IdHash> {
        let half = |side: u8| {
            let mut hasher = DefaultHasher::new();
            hasher.write(&self.0);
            hasher.write_u8(side);
            hasher.write(id);
            u128::from(hasher.finish())
        };
        (!id.is_empty()).then(|| IdHash(half(0) << 64 | half(1)))
    }
}

/// Where and when a message with an id was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    seq: u64,
    time_ms: i64,
}

/// The ids of committed messages, oldest first. About 100 bytes for each.
#[derive(Default)]
pub(super) struct Ids {
    places: HashMap<IdHash, Place>,
    order: VecDeque<(IdHash, Place)>,
}

impl Ids {
    /// Takes the id of a message. If there are more than `most` then, the oldest one goes.
    pub(super) fn enter(&mut self, hash: IdHash, seq: u64, time_ms: i64, most: usize) {
        let place = Place { seq, time_ms };
        self.places.insert(hash, place);
        self.order.push_back((hash, place));
        while self.order.len() > most {
            self.forget_first();
        }
    }

    /// Forgets those that are no younger than `time_ms`.
    pub(super) fn expire(&mut self, time_ms: i64) {
        while self.order.front().is_some_and(|(_, place)| place.time_ms <= time_ms) {
            self.forget_first();
        }
        if self.order.capacity() > 1024 && self.order.len() < self.order.capacity() / 4 {
            self.order.shrink_to(self.order.len() * 2);
            self.places.shrink_to(self.order.len() * 2);
        }
    }

    fn forget_first(&mut self) {
        let Some((hash, place)) = self.order.pop_front() else { return };
        // It may have come again since.
        if self.places.get(&hash) == Some(&place) {
            self.places.remove(&hash);
        }
    }

    /// The sequence of the message with this id, if it is younger than `time_ms`.
    pub(super) fn find(&self, hash: IdHash, time_ms: i64) -> Option<u64> {
        self.places.get(&hash).filter(|place| place.time_ms > time_ms).map(|place| place.seq)
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.order.capacity() * size_of::<(IdHash, Place)>()
            + self.places.capacity() * (size_of::<(IdHash, Place)>() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_known_until_its_window_has_passed() {
        let key = IdKey::random();
        let hash = |id: &str| key.hash(id.as_bytes()).unwrap();
        assert_eq!(key.hash(b""), None);
        let mut ids = Ids::default();
        ids.enter(hash("a"), 1, 100, 10);
        ids.enter(hash("b"), 2, 110, 10);
        assert_eq!((ids.find(hash("a"), 99), ids.find(hash("a"), 100)), (Some(1), None));
        // The same id after its window.
        ids.enter(hash("a"), 7, 300, 10);
        ids.expire(110);
        assert_eq!((ids.find(hash("a"), 110), ids.find(hash("b"), 0), ids.len()), (Some(7), None, 1));
        assert_ne!(key.hash(b"a"), IdKey::random().hash(b"a"));
    }

    #[test]
    fn the_oldest_ids_give_way_to_others_beyond_the_bound() {
        let key = IdKey::random();
        let mut ids = Ids::default();
        for number in 0..10_u64 {
            ids.enter(key.hash(&number.to_be_bytes()).unwrap(), number + 1, 5, 3);
        }
        let known = (0..10_u64).filter(|n| ids.find(key.hash(&n.to_be_bytes()).unwrap(), 0).is_some());
        assert_eq!((known.collect::<Vec<_>>(), ids.len()), (vec![7, 8, 9], 3));
    }
}
