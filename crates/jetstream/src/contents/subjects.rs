//! The table of a stream's subjects: their names, first and last messages, and counts.

use std::hash::{BuildHasher, RandomState};

/// The number of a subject within its stream. It is used again once the subject has no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SubjectId(pub(super) u32);

impl SubjectId {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// A subject's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) count: u32,
}

/// Where a name is, in [`Subjects::names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Name {
    start: u64,
    len: u16,
}

/// An [`Entry`] and a [`Name`] in 24 bytes. Numbers of more than 32 bits have their upper 16 apart.
#[derive(Clone, Copy)]
struct Packed {
    first: u32,
    last: u32,
    count: u32,
    name_start: u32,
    first_upper: u16,
    last_upper: u16,
    name_start_upper: u16,
    name_len: u16,
}

fn halves(number: u64) -> (u32, u16) {
    let upper = u16::try_from(number >> 32).unwrap_or_else(|_| panic!("{number} is below 2^48"));
    (number as u32, upper)
}

fn whole(lower: u32, upper: u16) -> u64 {
    u64::from(upper) << 32 | u64::from(lower)
}

impl Packed {
    fn new(name: Name) -> Self {
        let (name_start, name_start_upper) = halves(name.start);
        let name_len = name.len;
        Self {
            first: 0,
            last: 0,
            count: 0,
            name_start,
            first_upper: 0,
            last_upper: 0,
            name_start_upper,
            name_len,
        }
    }

    fn entry(&self) -> Entry {
        let (first, last) = (whole(self.first, self.first_upper), whole(self.last, self.last_upper));
        Entry { first, last, count: self.count }
    }

    fn name(&self) -> Name {
        Name { start: whole(self.name_start, self.name_start_upper), len: self.name_len }
    }

    fn set(&mut self, entry: Entry) {
        (self.first, self.first_upper) = halves(entry.first);
        (self.last, self.last_upper) = halves(entry.last);
        self.count = entry.count;
    }

    fn set_name_start(&mut self, start: u64) {
        (self.name_start, self.name_start_upper) = halves(start);
    }
}

/// Makes room for `more` items. Large vectors grow by an eighth: to double them would waste memory.
fn reserve<T>(vector: &mut Vec<T>, more: usize) {
    if vector.capacity() - vector.len() < more {
        vector.reserve_exact(more.max(vector.len() / 8).max(16));
    }
}

/// A free slot of the index.
const EMPTY: u32 = u32::MAX;
const SLOTS_MIN: usize = 16;

/// All subjects that have a message.
///
/// A subject takes 24 bytes, 5 to 10 in the index, and its name; up to an eighth more while they grow.
pub(super) struct Subjects {
    names: Vec<u8>,
    /// Bytes of `names` that no subject has any more.
    names_unused: usize,
    entries: Vec<Packed>,
    /// Numbers that can be used again.
    free: Vec<u32>,
    /// Numbers, in an order that follows from the hashes of their names. Open addressing, linear probing.
    slots: Vec<u32>,
    /// Clients choose names, so the hash has a random key.
    hasher: RandomState,
}

impl Default for Subjects {
    fn default() -> Self {
        Self {
            names: Vec::new(),
            names_unused: 0,
            entries: Vec::new(),
            free: Vec::new(),
            slots: vec![EMPTY; SLOTS_MIN],
            hasher: RandomState::new(),
        }
    }
}

impl Subjects {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(super) fn entry(&self, id: SubjectId) -> Entry {
        self.entries[id.index()].entry()
    }

    pub(super) fn set(&mut self, id: SubjectId, entry: Entry) {
        self.entries[id.index()].set(entry);
    }

    pub(super) fn name(&self, id: SubjectId) -> &[u8] {
        let Name { start, len } = self.entries[id.index()].name();
        let start = start as usize;
        &self.names[start..start + usize::from(len)]
    }

    fn home(&self, name: &[u8]) -> usize {
        // The number of slots is a power of two.
        self.hasher.hash_one(name) as usize & (self.slots.len() - 1)
    }

    /// The slot of `name`, or the free one where it belongs.
    fn slot(&self, name: &[u8]) -> usize {
        let mut at = self.home(name);
        while self.slots[at] != EMPTY && self.name(SubjectId(self.slots[at])) != name {
            at = (at + 1) & (self.slots.len() - 1);
        }
        at
    }

    pub(super) fn find(&self, name: &[u8]) -> Option<SubjectId> {
        let id = self.slots[self.slot(name)];
        (id != EMPTY).then_some(SubjectId(id))
    }

    /// Returns the number of `name`. A new one has no messages yet.
    pub(super) fn find_or_add(&mut self, name: &[u8]) -> SubjectId {
        let slot = self.slot(name);
        if self.slots[slot] != EMPTY {
            return SubjectId(self.slots[slot]);
        }
        let len = u16::try_from(name.len()).unwrap_or_else(|_| panic!("a subject has less than 64 KiB"));
        let place = Name { start: self.names.len() as u64, len };
        reserve(&mut self.names, name.len());
        self.names.extend_from_slice(name);
        let entry = Packed::new(place);
        let id = match self.free.pop() {
            Some(id) => {
                self.entries[id as usize] = entry;
                id
            }
            None => {
                reserve(&mut self.entries, 1);
                self.entries.push(entry);
                u32::try_from(self.entries.len() - 1).unwrap_or(EMPTY)
            }
        };
        assert!(id != EMPTY, "a stream has fewer than 2^32 subjects");
        self.slots[slot] = id;
        if self.len() * 5 > self.slots.len() * 4 {
            self.rehash(self.slots.len() * 2);
        }
        SubjectId(id)
    }

    /// Forgets a subject that has no message.
    pub(super) fn remove(&mut self, id: SubjectId) {
        let mut hole = self.slot(self.name(id));
        assert!(self.slots[hole] == id.0, "a subject is found by its name");
        self.slots[hole] = EMPTY;
        // Those behind it that a search would no longer find move up.
        let mask = self.slots.len() - 1;
        let mut at = (hole + 1) & mask;
        while self.slots[at] != EMPTY {
            let home = self.home(self.name(SubjectId(self.slots[at])));
            // The distance from home to the hole is shorter than to where it is.
            if (hole.wrapping_sub(home) & mask) < (at.wrapping_sub(home) & mask) {
                self.slots[hole] = self.slots[at];
                self.slots[at] = EMPTY;
                hole = at;
            }
            at = (at + 1) & mask;
        }
        self.names_unused += usize::from(self.entries[id.index()].name_len);
        self.entries[id.index()] = Packed::new(Name::default());
        self.free.push(id.0);
        if self.names_unused > 4096 && self.names_unused * 2 > self.names.len() {
            self.pack_names();
        }
        if self.slots.len() > SLOTS_MIN && self.len() * 5 < self.slots.len() {
            self.rehash(self.slots.len() / 2);
        }
    }

    fn rehash(&mut self, slots: usize) {
        let old = std::mem::replace(&mut self.slots, vec![EMPTY; slots]);
        for id in old.into_iter().filter(|id| *id != EMPTY) {
            let slot = self.slot(self.name(SubjectId(id)));
            self.slots[slot] = id;
        }
    }

    /// Copies the names that are in use.
    fn pack_names(&mut self) {
        let mut names = Vec::with_capacity(self.names.len() - self.names_unused);
        for entry in self.entries.iter_mut().filter(|entry| entry.count > 0) {
            let Name { start, len } = entry.name();
            entry.set_name_start(names.len() as u64);
            names.extend_from_slice(&self.names[start as usize..start as usize + usize::from(len)]);
        }
        (self.names, self.names_unused) = (names, 0);
    }

    /// All that have a message, in the order of their numbers: mostly that of their names in memory.
    pub(super) fn all(&self) -> impl Iterator<Item = SubjectId> + '_ {
        let used = self.entries.iter().zip(0..).filter(|(entry, _)| entry.count > 0);
        used.map(|(_, number)| SubjectId(number))
    }

    /// One more than the highest number that was ever given.
    pub(super) fn numbers(&self) -> usize {
        self.entries.len()
    }

    /// Memory in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.names.capacity()
            + self.entries.capacity() * size_of::<Packed>()
            + (self.free.capacity() + self.slots.capacity()) * 4
    }
}
