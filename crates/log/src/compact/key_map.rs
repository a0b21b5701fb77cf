//! The last offset of every key in the part of a log to be cleaned.
//!
//! Open addressing over slots of 16 bytes: 96 bits of the key's hash, and 32 bits of the offset, relative to
//! the first one. An offset that is 2^32 - 1 or more above the first one does not fit, like a new key in a
//! full map.
//!
//! # Memory
//! Address space for the whole bound is reserved at once, and memory is used for as many slots as are needed.
//! The map grows by a quarter, in place, so that two tables never coexist. Below the bound it takes 18.8 to
//! 23.5 bytes per key. The table grows when it is 85% full, or at the load factor if that is lower, and never
//! beyond the bound. Dropping the map returns all memory to the system.
//!
//! # Hash collisions
//! Two keys with the same 96 bits would count as one, and the last record of one of them would be lost. The
//! bits come from SipHash-2-4 with 128 bits of output. It is keyed, and each round draws a new secret. So no
//! one can search for such keys. With the MD5 that Kafka keeps of a key, anyone can.
//! Take `n` keys in the map and `m` others in the part of the log that was cleaned before. The probability
//! per round of a collision among the first, or between one of each, is below (n^2 / 2 + n m) / 2^96. That is
//! 6.4e-18 for a million keys and no others, 3.6e-16 for the 7.5 million keys of 128 MiB, and 1.0e-14 for
//! these with 100 million others.

use siphasher::sip128::SipHasher24;
use tailrace_types::Offset;

/// The secret of a map's hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashSecret(pub [u64; 2]);

/// 64 bits of the hash. Then 32 more, with the relative offset + 1 in the lower half, where 0 marks an empty
/// slot.
type Slot = [u64; 2];

const EMPTY: Slot = [0; 2];
/// The lower half, which holds the offset.
const OFFSET_BITS: u64 = 0xffff_ffff;
/// Memory per slot in bytes.
const SLOT_BYTES: usize = size_of::<Slot>();
/// Initial number of slots: 64 KiB.
const SLOTS_FIRST: usize = 4096;
/// The least address space to reserve, unless the initial slots are enough. glibc retains nothing of freed
/// allocations of 32 MiB and more, but may retain smaller ones.
const RESERVED_BYTES_MIN: usize = 32 << 20;
/// The share of used slots above which the map grows, if it may. A present key is then found in the fourth
/// probed slot on average. Four slots share a cache line.
const LOAD_TO_GROW: f64 = 0.85;
/// The largest share of used slots at the bound. Above it, the search for an absent key would visit hundreds
/// of slots.
const LOAD_MAX: f64 = 0.95;

impl HashSecret {
    /// Returns the hash of `bytes`, low half first.
    #[inline]
    fn hash(self, bytes: &[u8]) -> [u64; 2] {
        let [low, high] = self.0;
        let hash = SipHasher24::new_with_keys(low, high).hash(bytes);
        [hash.h1, hash.h2]
    }
}

/// The map of keys. See the module documentation.
pub struct KeyMap {
    /// Has capacity for `slots_max`.
    slots: Vec<Slot>,
    used: usize,
    /// The value of `used` at which the map must grow or is full.
    limit: usize,
    slots_max: usize,
    load_factor: f64,
    secret: HashSecret,
    /// The first offset stored.
    first: Option<Offset>,
}

/// The part of a key's hash that the map keeps: 96 bits. The lower half of the second word is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyHash([u64; 2]);

impl std::fmt::Debug for KeyMap {
    /// Leaves out the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyMap")
            .field("slots", &self.slots.len())
            .field("used", &self.used)
            .finish_non_exhaustive()
    }
}

impl KeyMap {
    /// Creates a map of at most `bytes_max` bytes (`log.cleaner.dedupe.buffer.size`), of which a share of
    /// `load_factor` may be used (`log.cleaner.io.buffer.load.factor`, clamped to 0.95). The caller draws
    /// `secret` at random. If the system refuses that much address space, the bound is halved until it
    /// succeeds.
    pub fn new(bytes_max: usize, load_factor: f64, secret: HashSecret) -> Self {
        let slots_max = (bytes_max / SLOT_BYTES).max(2);
        let load_factor = if load_factor.is_finite() { load_factor.clamp(0.01, LOAD_MAX) } else { LOAD_MAX };
        let mut map =
            Self { slots: Vec::new(), used: 0, limit: 0, slots_max, load_factor, secret, first: None };
        map.begin();
        map
    }

    /// Removes all keys, and frees the memory beyond the initial slots. Also changes the secret.
    pub fn clear(&mut self, secret: HashSecret) {
        self.secret = secret;
        self.used = 0;
        self.first = None;
        self.slots = Vec::new();
        self.begin();
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.used
    }

    /// True if there are no keys.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// The most keys that fit at the bound.
    pub(crate) fn keys_max(&self) -> usize {
        ((self.slots_max as f64 * self.load_factor) as usize).clamp(1, self.slots_max - 1)
    }

    /// Bytes that the slots take now.
    pub fn bytes(&self) -> usize {
        self.slots.len() * SLOT_BYTES
    }

    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> KeyHash {
        let [low, high] = self.secret.hash(key);
        KeyHash([low, high & !OFFSET_BITS])
    }

    /// Prefetches the slots that [`KeyMap::put`] and [`KeyMap::last_offset`] will probe. Independent reads in
    /// a row overlap. One after the other, each would wait for memory.
    #[inline]
    pub(crate) fn touch(&self, hashes: impl Iterator<Item = KeyHash>) {
        let sum = hashes.map(|hash| self.slots[self.home(hash.0[0])][1]).fold(0, u64::wrapping_add);
        std::hint::black_box(sum);
    }

    /// Records `offset` as that of the key's last record so far. Returns false, and records nothing, if the
    /// key is new and the map is full, or if the offset is before the first one or too far from it.
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

    /// Returns the offset of the key's last record, if the map has the key.
    #[inline]
    pub(crate) fn last_offset(&self, hash: KeyHash) -> Option<Offset> {
        let stored = self.slots[self.find(hash)][1] & OFFSET_BITS;
        let since_first = stored.checked_sub(1)?;
        self.first.map(|first| first.plus(since_first.cast_signed()))
    }

    /// Returns the slot where the search for a hash starts. Preserves the order of the hashes, and never
    /// decreases when slots are added.
    #[inline]
    fn home(&self, low: u64) -> usize {
        ((u128::from(low) * self.slots.len() as u128) >> 64) as usize
    }

    /// Returns the slot of a hash, or the empty slot where it belongs. There is always an empty one.
    #[inline]
    fn find(&self, hash: KeyHash) -> usize {
        self.search(hash.0[0], |[low, rest]| low == hash.0[0] && rest & !OFFSET_BITS == hash.0[1])
    }

    /// Returns the first slot from the home of `low` on that is empty or satisfies `is_it`.
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

    /// Adds slots and moves every entry to its new place. Goes from right to left, by runs of adjacent used
    /// slots. No home of a run's entries is before the run, neither in the old nor in the new table. So an
    /// entry taken out of a run goes to where the run was, or to its right, where all entries are already in
    /// their new places. Entries that wrap around to the left extend the run there, which comes last.
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

/// Returns the stored form of an offset: relative to the first one, + 1. `None` if it does not fit.
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
            // Present keys can still be replaced, and absent ones searched.
            let first = map.hash(&0i64.to_le_bytes());
            assert!(map.put(first, Offset(20_000)));
            assert_eq!(map.last_offset(first), Some(Offset(20_000)));
            assert_eq!(map.last_offset(map.hash(b"absent")), None);
        }
    }

    /// Random operations compared with a plain map, at bounds from two slots to more than needed. Includes
    /// hashes that often have the last slot as their home, so that the table wraps around.
    #[test]
    fn it_agrees_with_a_plain_map_at_every_bound() {
        let mut state = 0;
        let mut random = |below: u64| {
            state += 1;
            HashSecret([11, 12]).hash(&u64::to_le_bytes(state))[0] % below
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
                    // Before the first one, near it, and around the last one that fits.
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
