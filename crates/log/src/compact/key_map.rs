//! The last offset of every key in the part of a log that is to be cleaned.
//!
//! Open addressing over slots of 16 bytes: 96 bits of the key's hash, and 32 of the offset, counted from the first one. An
//! offset that is too far from it, 2^32 - 1 or more, finds no place, as a new key finds none when the map is full.
//!
//! # Memory
//! Address space for the whole bound is reserved at once, and memory is taken for as many slots as are needed. The map
//! grows by a quarter, in place, so that never two tables are held: 18.8 to 23.5 bytes a key below the bound, where the
//! table is 85% full before it grows (or as full as the load factor allows, if that is less), and never more than the
//! bound. Dropped, it gives all of it back to the system.
//!
//! # Two keys with the same 96 bits
//! would be taken for one, and the last record of one of them be lost. The bits are those of a keyed hash whose secret is
//! drawn for each round, so that nobody can look for such keys. Of `n` keys in the map and `m` others in the part of the log
//! that was cleaned before, any two of the first or one of each are such with a probability below (n^2 / 2 + n m) / 2^96 a
//! round: 6.4e-18 for a million keys and no others, 3.6e-16 for the 7.5 million of 128 MiB, 1.0e-14 for these beside 100
//! million others.

use tailrace_types::Offset;

use super::siphash::{HashSecret, hash};

/// 64 bits of the hash; 32 more, and in the lower half the offset from the first one, + 1. There, 0 is an empty slot.
type Slot = [u64; 2];

const EMPTY: Slot = [0; 2];
/// The lower half, with the offset.
const OFFSET_BITS: u64 = 0xffff_ffff;
/// Bytes of memory that one slot takes.
const SLOT_BYTES: usize = size_of::<Slot>();
/// Slots at the beginning: 64 KiB.
const SLOTS_FIRST: usize = 4096;
/// Address space that is reserved at least, unless the slots at the beginning are all: glibc keeps nothing of allocations
/// of 32 MiB and more when they are freed, of smaller ones it may.
const RESERVED_BYTES_MIN: usize = 32 << 20;
/// Share of the slots in use beyond which it grows, as long as it may. A present key is then found in the fourth slot that
/// is looked at, on average; four share a cache line.
const LOAD_TO_GROW: f64 = 0.85;
/// Largest share in use at the bound. Beyond, a look for an absent key would visit hundreds of slots.
const LOAD_MAX: f64 = 0.95;

/// See the module.
pub struct KeyMap {
    /// With capacity for `slots_max`.
    slots: Vec<Slot>,
    used: usize,
    /// `used` at which it must grow, or is full.
    limit: usize,
    slots_max: usize,
    load_factor: f64,
    secret: HashSecret,
    /// The first offset that was noted.
    first: Option<Offset>,
}

/// The part of a key's hash under a map's secret that the map keeps: 96 bits, the lower half of the second word is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyHash([u64; 2]);

impl std::fmt::Debug for KeyMap {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyMap")
            .field("slots", &self.slots.len())
            .field("used", &self.used)
            .finish_non_exhaustive()
    }
}

impl KeyMap {
    /// A map of at most `bytes_max` bytes (`log.cleaner.dedupe.buffer.size`), `load_factor` of which may be used
    /// (`log.cleaner.io.buffer.load.factor`; clamped to 0.95). `secret` is drawn at random by the caller. If the system
    /// refuses so much address space, the bound is halved until it does not.
    pub fn new(bytes_max: usize, load_factor: f64, secret: HashSecret) -> Self {
        let slots_max = (bytes_max / SLOT_BYTES).max(2);
        let load_factor = if load_factor.is_finite() { load_factor.clamp(0.01, LOAD_MAX) } else { LOAD_MAX };
        let mut map =
            Self { slots: Vec::new(), used: 0, limit: 0, slots_max, load_factor, secret, first: None };
        map.begin();
        map
    }

    /// Forgets all keys, and gives the memory back but for a beginning. The secret changes with `secret`.
    pub fn clear(&mut self, secret: HashSecret) {
        self.secret = secret;
        self.used = 0;
        self.first = None;
        self.slots = Vec::new();
        self.begin();
    }

    /// Keys held.
    pub fn len(&self) -> usize {
        self.used
    }

    /// True if it holds none.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Keys that it can hold at its bound.
    pub(crate) fn keys_max(&self) -> usize {
        ((self.slots_max as f64 * self.load_factor) as usize).clamp(1, self.slots_max - 1)
    }

    /// Bytes that its slots take now.
    pub fn bytes(&self) -> usize {
        self.slots.len() * SLOT_BYTES
    }

    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> KeyHash {
        let [low, high] = hash(self.secret, key);
        KeyHash([low, high & !OFFSET_BITS])
    }

    /// Begins to fetch what [`KeyMap::put`] and [`KeyMap::last_offset`] will look at. Independent reads in a row overlap; one
    /// after the other each would wait for memory.
    #[inline]
    pub(crate) fn touch(&self, hashes: impl Iterator<Item = KeyHash>) {
        let sum = hashes.map(|hash| self.slots[self.home(hash.0[0])][1]).fold(0, u64::wrapping_add);
        std::hint::black_box(sum);
    }

    /// Takes note that the key's last record so far lies at `offset`. False, and nothing noted, if the key is new and the
    /// map full, or the offset before the first one or too far from it.
    #[inline]
    pub(crate) fn put(&mut self, hash: KeyHash, offset: Offset) -> bool {
        let first = *self.first.get_or_insert(offset);
        let Some(stored) = stored_offset(first, offset) else { return false };
        let mut at = self.find(hash);
        if is_empty(self.slots[at]) {
            if self.used >= self.limit {
                if !self.grow() {
                    return false;
                }
                at = self.find(hash);
            }
            self.used += 1;
        }
        self.slots[at] = [hash.0[0], hash.0[1] | u64::from(stored)];
        true
    }

    /// Where the key's last record lies, if the map knows the key.
    #[inline]
    pub(crate) fn last_offset(&self, hash: KeyHash) -> Option<Offset> {
        let stored = self.slots[self.find(hash)][1] & OFFSET_BITS;
        let since_first = stored.checked_sub(1)?;
        self.first.map(|first| first.plus(since_first.cast_signed()))
    }

    /// The slot at which the search for a hash begins. Keeps the order of the hashes, and never decreases when slots are
    /// added.
    #[inline]
    fn home(&self, low: u64) -> usize {
        ((u128::from(low) * self.slots.len() as u128) >> 64) as usize
    }

    /// The slot of a hash, or the empty one where it belongs. There is always an empty one.
    #[inline]
    fn find(&self, hash: KeyHash) -> usize {
        self.search(hash.0[0], |[low, rest]| low == hash.0[0] && rest & !OFFSET_BITS == hash.0[1])
    }

    /// The first slot from the home of `low` on that is empty or `is_it`.
    #[inline]
    fn search(&self, low: u64, is_it: impl Fn(Slot) -> bool) -> usize {
        let mut at = self.home(low);
        loop {
            let slot = self.slots[at];
            if is_empty(slot) || is_it(slot) {
                return at;
            }
            at += 1;
            if at == self.slots.len() {
                at = 0;
            }
        }
    }

    fn begin(&mut self) {
        if self.slots_max > SLOTS_FIRST {
            let mut reserved = self.slots_max.max(RESERVED_BYTES_MIN / SLOT_BYTES);
            while reserved > SLOTS_FIRST && self.slots.try_reserve_exact(reserved).is_err() {
                reserved /= 2;
            }
            self.slots_max = self.slots_max.min(reserved);
        }
        self.set_slots(SLOTS_FIRST.min(self.slots_max));
    }

    fn set_slots(&mut self, slots: usize) {
        self.slots.resize(slots, EMPTY);
        self.limit = if slots == self.slots_max {
            self.keys_max()
        } else {
            ((slots as f64 * LOAD_TO_GROW.min(self.load_factor)) as usize).clamp(1, slots - 1)
        };
    }

    /// Adds slots, and moves what is held to where it is now looked for. From the right, run by run of neighbours in use: no
    /// home in a run lies before it, before and after, so that what is taken out of a run goes where the run was, or to
    /// the right, where all is in its new place. What wraps around to the left lengthens the run there, which is the last.
    fn grow(&mut self) -> bool {
        let before = self.slots.len();
        let slots = before.saturating_add(before / 4).min(self.slots_max);
        if slots == before {
            return false;
        }
        self.set_slots(slots);
        let mut run = Vec::new();
        for at in (0..before).rev() {
            let slot = std::mem::replace(&mut self.slots[at], EMPTY);
            if !is_empty(slot) {
                run.push(slot);
            }
            if is_empty(slot) || at == 0 {
                for slot in run.drain(..) {
                    let at = self.search(slot[0], |_| false);
                    self.slots[at] = slot;
                }
            }
        }
        true
    }
}

#[inline]
fn is_empty(slot: Slot) -> bool {
    slot[1] & OFFSET_BITS == 0
}

/// How an offset is kept: from the first one, + 1. `None` if it does not fit.
#[inline]
fn stored_offset(first: Offset, offset: Offset) -> Option<u32> {
    u32::try_from(offset.0.checked_sub(first.0)?).ok()?.checked_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn map(bytes: usize, load_factor: f64) -> KeyMap {
        KeyMap::new(bytes, load_factor, HashSecret([1, 2]))
    }

    #[test]
    fn it_tells_the_last_offset_of_each_key_while_it_grows() {
        let mut map = map(64 << 20, 0.9);
        let mut model = HashMap::new();
        for offset in 0..200_000i64 {
            let key = format!("key {}", offset * 7919 % 60_000);
            let hash = map.hash(key.as_bytes());
            assert!(map.put(hash, Offset(offset)));
            model.insert(key, offset);
        }
        assert_eq!(map.len(), model.len());
        for (key, offset) in &model {
            assert_eq!(map.last_offset(map.hash(key.as_bytes())), Some(Offset(*offset)));
        }
        assert_eq!(map.last_offset(map.hash(b"another")), None);
        assert!(map.bytes() <= 64 << 20);
        assert!(map.bytes() <= 60_000 * 24, "{} bytes", map.bytes());
        map.clear(HashSecret([3, 4]));
        assert!(map.is_empty());
        assert_eq!(map.bytes(), SLOTS_FIRST * SLOT_BYTES);
        assert_eq!(map.last_offset(map.hash(b"key 1")), None);
    }

    #[test]
    fn it_never_takes_more_than_its_bound() {
        for (slots, load, keys) in [
            (1, 0.9, 1),
            (2, 0.9, 1),
            (3, 0.5, 1),
            (100, 0.9, 90),
            (5000, 0.9, 4500),
            (5000, 0.3, 1500),
            (5000, 7.0, 4750),
            (64, f64::NAN, 60),
        ] {
            let mut map = map(slots * SLOT_BYTES, load);
            let mut held = 0;
            for number in 0..10_000i64 {
                let hash = map.hash(&number.to_le_bytes());
                if map.put(hash, Offset(number)) {
                    held += 1;
                }
            }
            assert_eq!((held, map.keys_max()), (keys, keys), "{slots} slots, load {load}");
            assert!(map.bytes() <= slots.max(2) * SLOT_BYTES);
            // What it holds can still be replaced, and what it does not hold be looked for.
            let first = map.hash(&0i64.to_le_bytes());
            assert!(map.put(first, Offset(20_000)));
            assert_eq!(map.last_offset(first), Some(Offset(20_000)));
            assert_eq!(map.last_offset(map.hash(b"absent")), None);
        }
    }

    /// Random operations against a plain map, at bounds from two slots to more than are needed, also with
    /// hashes of which many have the last slot as their home, so that the table wraps around.
    #[test]
    fn it_agrees_with_a_plain_map_at_every_bound() {
        let mut state = 0;
        let mut random = |below: u64| {
            state += 1;
            hash(HashSecret([11, 12]), &u64::to_le_bytes(state))[0] % below
        };
        for (slots, keys, load) in [
            (2, 3, 0.9),
            (7, 9, 0.95),
            (4096, 6000, 0.95),
            (4100, 6000, 0.9),
            (12_000, 15_000, 0.95),
            (30_000, 10_000, 0.5),
        ] {
            for crowded in [false, true] {
                let mut map = map(slots * SLOT_BYTES, load);
                let mut model: HashMap<u64, i64> = HashMap::new();
                let (mut first, mut refused) = (None, 0);
                for _ in 0..3 * keys {
                    let key = random(keys);
                    let mut hash = map.hash(&key.to_le_bytes());
                    if crowded && key % 64 == 0 {
                        // At the right end of the table, whatever its size.
                        hash.0[0] |= !0 << 20;
                    }
                    let first = *first.get_or_insert_with(|| random(1 << 40) as i64);
                    // Before the first, near, and about the last one that fits.
                    let offset = match (model.is_empty(), random(20)) {
                        (true, _) => first,
                        (_, 0) => first - 1 - random(10) as i64,
                        (_, 1) => first + i64::from(u32::MAX) - 3 + random(6) as i64,
                        _ => first + random(1 << 32) as i64,
                    };
                    let fits = (0..i64::from(u32::MAX)).contains(&(offset - first));
                    let has_place = model.contains_key(&key) || model.len() < map.keys_max();
                    assert_eq!(map.put(hash, Offset(offset)), fits && has_place);
                    if fits && has_place {
                        model.insert(key, offset);
                    } else {
                        refused += 1;
                    }
                    assert_eq!(map.last_offset(hash).map(|offset| offset.0), model.get(&key).copied());
                }
                assert!(refused > 0);
                assert_eq!(map.len(), model.len());
                assert!(map.bytes() <= slots * SLOT_BYTES);
                for key in 0..keys {
                    let mut hash = map.hash(&key.to_le_bytes());
                    if crowded && key % 64 == 0 {
                        hash.0[0] |= !0 << 20;
                    }
                    assert_eq!(map.last_offset(hash).map(|offset| offset.0), model.get(&key).copied());
                }
            }
        }
    }

    #[test]
    fn an_offset_too_far_from_the_first_is_refused_and_changes_nothing() {
        let mut map = map(1 << 20, 0.9);
        let (a, b) = (map.hash(b"a"), map.hash(b"b"));
        let last = 77 + i64::from(u32::MAX) - 1;
        assert!(map.put(a, Offset(77)));
        for refused in [last + 1, i64::MAX, 76, 0] {
            assert!(!map.put(a, Offset(refused)), "{refused}");
            assert!(!map.put(b, Offset(refused)), "{refused}");
        }
        assert_eq!((map.last_offset(a), map.last_offset(b), map.len()), (Some(Offset(77)), None, 1));
        assert!(map.put(b, Offset(last)));
        assert_eq!(map.last_offset(b), Some(Offset(last)));
        map.clear(HashSecret([1, 2]));
        assert!(map.put(a, Offset(last + 1)));
        assert_eq!(map.last_offset(a), Some(Offset(last + 1)));
    }

    #[test]
    fn only_bits_that_are_kept_tell_keys_apart() {
        let mut map = map(1 << 20, 0.9);
        for number in 0..1000u64 {
            let hash = map.hash(&number.to_le_bytes());
            assert_eq!(hash.0[1] & OFFSET_BITS, 0);
            assert!(map.put(hash, Offset(5)));
            let others = [[hash.0[0] ^ 1, hash.0[1]], [hash.0[0], hash.0[1] ^ (1 << 32)]];
            for other in others {
                assert_eq!(map.last_offset(KeyHash(other)), None);
            }
        }
    }

    #[test]
    fn a_bound_that_the_system_refuses_is_lowered() {
        let mut map = map(usize::MAX, 0.9);
        assert!(map.slots_max < usize::MAX / SLOT_BYTES);
        for number in 0..10_000i64 {
            let hash = map.hash(&number.to_le_bytes());
            assert!(map.put(hash, Offset(number)));
            assert_eq!(map.last_offset(hash), Some(Offset(number)));
        }
        assert!(map.bytes() < 1 << 20);
    }
}
