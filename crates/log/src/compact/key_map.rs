//! The last offset of every key in the part of a log that is to be cleaned.
//!
//! Open addressing over fixed slots of 24 bytes: 128 bits of the key's hash, and the offset. It begins small, doubles when
//! it gets full, and never takes more slots than its bound in bytes allows. While it doubles, the old slots are held
//! beside the new ones for a moment: half as much again, at most.

use tailrace_types::Offset;

use super::siphash::{HashSecret, hash};

/// Hash, and offset + 1; 0 is an empty slot.
type Slot = [u64; 3];

/// Bytes of memory that one slot takes.
const SLOT_BYTES: usize = size_of::<Slot>();
/// Slots at the beginning.
const SLOTS_FIRST: usize = 4096;
/// Share of the slots in use beyond which it doubles, as long as it may.
const LOAD_TO_GROW: f64 = 0.75;
/// Largest share in use at the bound. Beyond, a look for an absent key would visit hundreds of slots.
const LOAD_MAX: f64 = 0.95;

/// See the module.
pub struct KeyMap {
    slots: Vec<Slot>,
    used: usize,
    /// `used` at which it must grow, or is full.
    limit: usize,
    slots_max: usize,
    load_factor: f64,
    secret: HashSecret,
}

/// The hash of a key under a map's secret.
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
    /// (`log.cleaner.io.buffer.load.factor`; clamped to 0.95). `secret` is drawn at random by the caller.
    pub fn new(bytes_max: usize, load_factor: f64, secret: HashSecret) -> Self {
        let slots_max = (bytes_max / SLOT_BYTES).max(2);
        let load_factor = if load_factor.is_finite() { load_factor.clamp(0.01, LOAD_MAX) } else { LOAD_MAX };
        let mut map = Self { slots: Vec::new(), used: 0, limit: 0, slots_max, load_factor, secret };
        map.resize(SLOTS_FIRST.min(slots_max));
        map
    }

    /// Forgets all keys, and gives the memory back but for a beginning. The secret changes with `secret`.
    pub fn clear(&mut self, secret: HashSecret) {
        self.secret = secret;
        self.used = 0;
        self.slots = Vec::new();
        self.resize(SLOTS_FIRST.min(self.slots_max));
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
    pub fn keys_max(&self) -> usize {
        ((self.slots_max as f64 * self.load_factor) as usize).clamp(1, self.slots_max - 1)
    }

    /// Bytes that its slots take now.
    pub fn bytes(&self) -> usize {
        self.slots.len() * SLOT_BYTES
    }

    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> KeyHash {
        KeyHash(hash(self.secret, key))
    }

    /// Begins to fetch what [`KeyMap::put`] and [`KeyMap::last_offset`] will look at. Independent reads in a row overlap; one
    /// after the other each would wait for memory.
    #[inline]
    pub(crate) fn touch(&self, hashes: impl Iterator<Item = KeyHash>) {
        let sum = hashes.map(|hash| self.slots[self.home(hash)][2]).fold(0, u64::wrapping_add);
        std::hint::black_box(sum);
    }

    /// Takes note that the key's last record so far lies at `offset`. False if the key is new and the map full.
    #[inline]
    pub(crate) fn put(&mut self, hash: KeyHash, offset: Offset) -> bool {
        let at = self.find(hash);
        if self.slots[at][2] == 0 {
            if self.used >= self.limit {
                if !self.grow() {
                    return false;
                }
                return self.put(hash, offset);
            }
            self.used += 1;
        }
        self.slots[at] = [hash.0[0], hash.0[1], offset.0.cast_unsigned() + 1];
        true
    }

    /// Where the key's last record lies, if the map knows the key.
    #[inline]
    pub(crate) fn last_offset(&self, hash: KeyHash) -> Option<Offset> {
        let offset = self.slots[self.find(hash)][2];
        (offset != 0).then(|| Offset((offset - 1).cast_signed()))
    }

    /// The slot at which the search for a hash begins. Keeps the order of the hashes' upper bits, so that growing walks
    /// through memory.
    #[inline]
    fn home(&self, hash: KeyHash) -> usize {
        ((u128::from(hash.0[0]) * self.slots.len() as u128) >> 64) as usize
    }

    /// The slot of a hash, or the empty one where it belongs. There is always an empty one.
    #[inline]
    fn find(&self, hash: KeyHash) -> usize {
        let mut at = self.home(hash);
        loop {
            let slot = &self.slots[at];
            if slot[2] == 0 || (slot[0] == hash.0[0] && slot[1] == hash.0[1]) {
                return at;
            }
            at += 1;
            if at == self.slots.len() {
                at = 0;
            }
        }
    }

    fn grow(&mut self) -> bool {
        let slots = self.slots.len().saturating_mul(2).min(self.slots_max);
        if slots == self.slots.len() {
            return false;
        }
        self.resize(slots);
        true
    }

    fn resize(&mut self, slots: usize) {
        let old = std::mem::replace(&mut self.slots, vec![[0; 3]; slots]);
        for slot in old.into_iter().filter(|slot| slot[2] != 0) {
            let at = self.find(KeyHash([slot[0], slot[1]]));
            self.slots[at] = slot;
        }
        self.limit = if slots == self.slots_max {
            self.keys_max()
        } else {
            ((slots as f64 * LOAD_TO_GROW) as usize).clamp(1, slots - 1)
        };
    }
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
        map.clear(HashSecret([3, 4]));
        assert!(map.is_empty());
        assert_eq!(map.last_offset(map.hash(b"key 1")), None);
    }

    #[test]
    fn it_never_takes_more_than_its_bound() {
        for (slots, load) in
            [(1, 0.9), (2, 0.9), (3, 0.5), (100, 0.9), (5000, 0.9), (5000, 7.0), (64, f64::NAN)]
        {
            let mut map = map(slots * SLOT_BYTES, load);
            let mut held = 0;
            for number in 0..10_000i64 {
                let hash = map.hash(&number.to_le_bytes());
                if map.put(hash, Offset(number)) {
                    held += 1;
                }
            }
            assert_eq!(held, map.keys_max(), "{slots} slots, load {load}");
            assert!(map.bytes() <= slots.max(2) * SLOT_BYTES);
            // What it holds can still be replaced, and what it does not hold be looked for.
            let first = map.hash(&0i64.to_le_bytes());
            assert!(map.put(first, Offset(20_000)));
            assert_eq!(map.last_offset(first), Some(Offset(20_000)));
            assert_eq!(map.last_offset(map.hash(b"absent")), None);
        }
    }
}
