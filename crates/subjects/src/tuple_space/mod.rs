//! The default matcher: lock-free hash tables by shape of pattern, with linearizable lookups and constant-time snapshots.
//!
//! # Structure
//! A pattern's *shape* is its number of words, which of them are one-word wildcards, and whether a tail wildcard ends it. Each shape has an
//! open-addressed hash table of patterns (`table`); a lookup knows the hash that its subject would have under
//! each shape that fits (`words`), and probes one table per shape. That is tuple space search (Srinivasan, Suri and Varghese, "Packet Classification
//! using Tuple Space Search", SIGCOMM 1999), applied to words. Patterns that have no shape, because `#` stands in the middle or there
//! are more than 32 words, and those of shapes beyond [`SHAPES_MAX`], live in a persistent trie (`trie`) that every lookup searches too.
//!
//! A slot of a table points to a *leaf*: one immutable version of one pattern with all its subscribers, in one allocation. A
//! write makes a new leaf and puts it into the slot by compare-and-swap. Memory is reclaimed by epochs (`crossbeam-epoch`).
//!
//! # Order
//! One clock orders everything (`clock`). It moves only when somebody looks at it after a write, or writes after a look.
//! - **subscribe** and **unsubscribe** linearize when the clock is read for the stamp that their leaf gets. The leaf can be reached
//!   before, but nobody uses a leaf without a stamp: whoever meets one gives it its stamp first (`Core::settle`).
//! - **matches** linearizes at its reading of the clock. It takes a leaf only if its stamp shows that it was there at that
//!   time already, and what it does not find only if no removal since is on its way; otherwise it looks at the clock again and starts over.
//!   Some write has succeeded then, so the matcher as a whole always makes progress; after sixteen attempts it reads as a snapshot, which
//!   cannot be disturbed. Each lookup of **`matches_many`** is an operation of its own.
//! - **`has_interest`** linearizes like `matches` if it finds nothing, and else at the reading of the slot of its hit, or at that leaf's stamp if that
//!   comes later.
//! - **snapshot** and **generation** linearize when they close the clock's time, or find it closed. A result that was computed at a time
//!   holds until the clock has moved, which is why one comparison validates a [`Cache`].
//! - **len** linearizes at a moment between two readings of its counters at which no write was under way; or as a snapshot.
//!
//! # Invariants
//! 1. A slot that was taken never becomes empty. Hence one key has at most one leaf per table, and one table of a chain in which it may
//!    change.
//! 2. A stamp is drawn after its leaf can be reached, and decided once. Stamps along the versions of one pattern never fall.
//! 3. A replaced leaf is retired after its successor has its stamp; so `Replaces` never points to freed memory. Only a writer retires a
//!    leaf, out of its only slot; moving a table retires none (`table` says why that slot is the only one).
//! 4. A removal leaves a mark with its stamp in its slot. When a table is moved, the newest such stamp stays with its successor, and
//!    with the directory when a shape is retired: nothing disappears without a trace of when.
//! 5. A live snapshot has registered before it looked at the clock. So a writer who drew its stamp and then sees no snapshot needs to keep
//!    nothing: later snapshots see the write itself.
//! 6. The work of one write is bounded by its run of slots, one chunk of [`MIGRATION_SLOTS`] slots, one copy of a path of
//!    subscribers, and, while snapshots live, their number times that of the pattern's versions that they see; nothing waits for anybody.
//!
//! # What a stalled thread can do
//! It cannot keep others from reading or writing. While it is stalled inside an operation, memory that was retired since is not freed, since the
//! thread may be reading it: the price of reads that write nothing.

mod batch;
mod cache;
mod clock;
mod core;
mod counts;
mod directory;
mod epoch;
mod leaf;
mod lookup;
#[cfg(test)]
mod models;
mod published;
mod registry;
mod release;
mod shape;
mod slot;
mod snapshot;
mod sync;
mod table;
mod tree;
mod trie;
mod words;

use std::sync::Arc;

pub use batch::Batch;
pub use cache::Cache;
pub use directory::SHAPES_MAX;
pub use snapshot::Snapshot;
pub use table::MIGRATION_SLOTS;

use self::core::{Core, Place};
use self::counts::{Counts, Outcome};
use self::directory::Directory;
use self::epoch::Guard;
use self::leaf::{LeafRef, SubscriberId, View};
use self::published::{Published, TrieRoot};
use self::shape::NotHere;
use self::words::{Measured, ShapeKey, Words};
use crate::{Dialect, Limits, Matcher, Pattern, SubscribeError, TextError};

/// How often a lookup looks anew before it registers as a snapshot, which cannot be disturbed.
const ATTEMPTS: usize = 16;

/// The default matcher. See the module's documentation.
///
/// Values are cloned by writes too, and dropped some time after their removal, in whichever thread of the process then uses
/// any matcher, in the middle of that call. So a value's drop must not panic, nor wait for what a caller may hold, such as a lock.
/// A clone that panics within a write leaves nothing behind, unless a snapshot is alive: then it may come after the change, which
/// stays without a handle and is not counted.
pub struct TupleSpace<V: Clone + Send + Sync + 'static> {
    inner: Arc<Inner<V>>,
}

/// A subscription's place in its matcher: pass it to [`TupleSpace::unsubscribe`] of the same matcher. Dropping it leaves the
/// subscription in place.
#[derive(Debug)]
#[must_use = "without it the subscription cannot be removed"]
pub struct Subscription {
    place: SubscriptionPlace,
    id: SubscriberId,
}

impl Subscription {
    /// Keeps the subscription for as long as the matcher lives.
    pub fn forget(self) {}
}

#[derive(Debug)]
enum SubscriptionPlace {
    Table(ShapeKey, u64),
    Trie(Box<[u8]>, u64),
}

pub(crate) struct Inner<V: Clone + Send + Sync + 'static> {
    core: Core,
    directory: Published<Directory<V>>,
    trie: TrieRoot<V>,
    counts: Counts,
}

impl<V: Clone + Send + Sync + 'static> TupleSpace<V> {
    /// An empty matcher with the default limits.
    #[must_use]
    pub fn new(dialect: Dialect) -> Self {
        Self::with_limits(dialect, Limits::default())
    }

    /// An empty matcher. Limits beyond what is possible are cut to that.
    #[must_use]
    pub fn with_limits(dialect: Dialect, limits: Limits) -> Self {
        let inner = Inner {
            core: Core::new(dialect, limits),
            directory: Published::new(Directory::empty()),
            trie: TrieRoot::new(),
            counts: Counts::new(limits.subscriptions_max),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The dialect of its patterns and subjects.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.inner.core.dialect
    }

    /// Its limits.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.inner.core.limits
    }

    /// Adds a subscription.
    ///
    /// # Errors
    /// [`SubscribeError`] if the pattern is of another dialect or beyond this matcher's limits, or if there are too many subscriptions;
    /// nothing was added then.
    pub fn subscribe(&self, pattern: &Pattern, value: V) -> Result<Subscription, SubscribeError> {
        self.inner.subscribe(pattern, value)
    }

    /// Removes a subscription. False if this matcher does not know it.
    pub fn unsubscribe(&self, subscription: Subscription) -> bool {
        self.inner.unsubscribe(subscription)
    }

    /// Puts the values of all matching subscriptions into `found`, in no particular order, after clearing it. Allocates only
    /// to make `found` larger.
    ///
    /// # Errors
    /// [`TextError`] if the subject is malformed; `found` is empty then.
    #[inline]
    pub fn matches(&self, subject: &[u8], found: &mut Vec<V>) -> Result<(), TextError> {
        found.clear();
        let mut words = self.inner.no_words();
        self.inner.read(&mut words, subject)?;
        self.inner.matches(&words, found, &epoch::pin());
        Ok(())
    }

    /// Calls `f` with the value of each matching subscription, in no particular order, without cloning it. While `f` runs, memory that
    /// others retire is not freed: it should not wait.
    ///
    /// # Errors
    /// [`TextError`] if the subject is malformed; `f` was not called then.
    pub fn for_each_match(&self, subject: &[u8], mut f: impl FnMut(&V)) -> Result<(), TextError> {
        let mut words = self.inner.no_words();
        self.inner.read(&mut words, subject)?;
        let guard = &epoch::pin();
        let mut found = Found::new();
        self.inner.find_all(&words, &mut found, guard);
        found.for_each(|view| view.for_each(&mut f));
        Ok(())
    }

    /// Looks up many subjects, each for itself, with their waits for memory overlapping. The results are in `batch`.
    pub fn matches_many<S: AsRef<[u8]>>(&self, subjects: &[S], batch: &mut Batch<V>) {
        self.inner.matches_many(subjects, batch);
    }

    /// Whether anybody is subscribed to this subject; stops at the first hit.
    ///
    /// # Errors
    /// [`TextError`] if the subject is malformed.
    pub fn has_interest(&self, subject: &[u8]) -> Result<bool, TextError> {
        let mut words = self.inner.no_words();
        self.inner.read(&mut words, subject)?;
        Ok(self.inner.interest(&words, &epoch::pin()))
    }

    /// The number of subscriptions, exactly, at a moment within this call. Takes constant time if there is such a moment at which no
    /// write is under way, and otherwise as long as counting a snapshot; [`TupleSpace::len_about`] is always fast.
    #[must_use]
    pub fn len(&self) -> usize {
        (0..4).find_map(|_| self.inner.counts.at_rest()).unwrap_or_else(|| self.snapshot().len())
    }

    /// Whether there is no subscription; see [`TupleSpace::len`].
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of subscriptions, give or take the writes that are under way.
    #[must_use]
    pub fn len_about(&self) -> usize {
        self.inner.counts.about()
    }

    /// A number that changes whenever subscriptions change: what was computed after one call holds as long as later calls give the
    /// same. One load if nothing has changed since the last call by anybody.
    #[inline]
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.inner.core.clock.look()
    }

    /// Who is subscribed to what at this moment, for as long as it is kept. Takes constant time, however many
    /// subscriptions there are, and a step for each snapshot that is alive; writers go on, and keep for it what they replace.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot<V> {
        Snapshot::new(self.inner.clone())
    }

    /// The number of shapes of pattern that have hash tables now, at most [`SHAPES_MAX`].
    #[must_use]
    pub fn shapes(&self) -> usize {
        self.inner.directory(&epoch::pin()).shapes().len()
    }
}

impl<V: Clone + Send + Sync + 'static> Inner<V> {
    #[inline]
    fn no_words<'a>(&self) -> Words<'a> {
        Words::none(self.core.dialect)
    }

    #[inline]
    fn read<'a>(&self, words: &mut Words<'a>, subject: &'a [u8]) -> Result<(), TextError> {
        words.read(&self.core.hasher, self.core.scanner, subject, &self.core.limits)
    }

    /// Collects who is subscribed, as of one moment within this call.
    fn find_all<'g>(&self, words: &Words<'_>, found: &mut Found<'g, V>, guard: &'g Guard) {
        let attempt = |time, found: &mut Found<'g, V>| {
            found.clear();
            let push = |view| {
                found.push(view);
                true
            };
            self.lookup(words, time, push, guard).is_ok()
        };
        if attempt(self.core.clock.certain(), found)
            || (0..ATTEMPTS).any(|_| attempt(self.core.clock.look(), found))
        {
            return;
        }
        found.clear();
        // The guard keeps what is found here beyond the end of the view.
        let view = snapshot::View::new(self);
        self.lookup_at(words, view.time(), |view| found.push(view), guard);
    }

    /// Appends the values of all that match, as of one moment within this call.
    #[inline]
    fn matches(&self, words: &Words<'_>, found: &mut Vec<V>, guard: &Guard) {
        let start = found.len();
        if self.append(words, self.core.clock.certain(), found, guard).is_err() {
            found.truncate(start);
            self.matches_again(words, found, guard);
        }
    }

    #[inline]
    fn append(
        &self,
        words: &Words<'_>,
        time: u64,
        found: &mut Vec<V>,
        guard: &Guard,
    ) -> Result<(), lookup::Conflict> {
        let push = |view: View<'_, V>| {
            view.for_each(|value| found.push(value.clone()));
            true
        };
        self.lookup(words, time, push, guard)
    }

    /// After a conflict: closes the clock's time and looks at that, which fails only if a write to what matches comes between; if
    /// that goes on, as a snapshot. Returns the time.
    #[cold]
    fn matches_again(&self, words: &Words<'_>, found: &mut Vec<V>, guard: &Guard) -> u64 {
        let start = found.len();
        for _ in 0..ATTEMPTS {
            let time = self.core.clock.look();
            if self.append(words, time, found, guard).is_ok() {
                return time;
            }
            found.truncate(start);
        }
        let view = snapshot::View::new(self);
        let push = |view: View<'_, V>| view.for_each(|value| found.push(value.clone()));
        self.lookup_at(words, view.time(), push, guard);
        view.time()
    }

    fn subscribe(&self, pattern: &Pattern, value: V) -> Result<Subscription, SubscribeError> {
        let Core { dialect, limits, .. } = &self.core;
        if pattern.dialect() != *dialect {
            return Err(SubscribeError::WrongDialect { pattern: pattern.dialect(), matcher: *dialect });
        }
        let text = pattern.as_bytes();
        let measured = self.core.hasher.pattern(*dialect, text);
        if text.len() > limits.bytes_max || measured.words > limits.words_max {
            crate::subject::check_text(*dialect, text, limits)?;
        }
        if !self.counts.reserve() {
            return Err(SubscribeError::TooManySubscriptions { subscriptions_max: limits.subscriptions_max });
        }
        let place = Reserved(&self.counts);
        let guard = &epoch::pin();
        let subscription = self.counts.write(|| {
            let added = self.add(text, &measured, &value, guard);
            let outcome = if added.is_some() { Outcome::Added } else { Outcome::Failed };
            (added, outcome)
        });
        let words_max = limits.trie_words_max;
        let subscription = subscription.ok_or(SubscribeError::TooManyShapes { words_max })?;
        std::mem::forget(place);
        self.tidy_if_due(guard);
        Ok(subscription)
    }

    /// `None` if the pattern's shape has no table, and the trie no room for it.
    fn add(&self, text: &[u8], measured: &Measured, value: &V, guard: &Guard) -> Option<Subscription> {
        let hash = measured.hash;
        while let Some(key) = measured.key {
            let Some(shape) = self.shape(key, guard) else { break };
            match shape.add(&self.core, hash, text, value, guard) {
                Ok(id) => return Some(Subscription { place: SubscriptionPlace::Table(key, hash), id }),
                Err(NotHere::Collision) => break,
                Err(NotHere::Retired) => self.purge(guard),
            }
        }
        let Core { dialect, limits, .. } = &self.core;
        let with = |trie: &trie::Trie<V>| trie.with(*dialect, text, value.clone(), limits.trie_words_max);
        let id = self.trie.update(&self.core, with, guard)?;
        Some(Subscription { place: SubscriptionPlace::Trie(text.into(), self.core.hasher.text(text)), id })
    }

    /// The shape with this key, made if there is room for it.
    fn shape<'g>(&self, key: ShapeKey, guard: &'g Guard) -> Option<&'g shape::Shape<V>> {
        loop {
            let directory = self.directory(guard);
            if let Some(shape) = directory.get(key) {
                return Some(shape);
            }
            if directory.is_full() {
                directory.shapes().iter().find(|shape| shape.try_retire(&self.core, guard))?;
                self.purge(guard);
            } else {
                let with = |directory: &Directory<V>| {
                    let room = !directory.is_full() && directory.get(key).is_none();
                    room.then(|| directory.with(self.core.dialect, key))
                };
                self.directory.update(with, guard);
            }
        }
    }

    /// Takes retired shapes out of the directory.
    fn purge(&self, guard: &Guard) {
        let without = |directory: &Directory<V>| {
            let any = directory.shapes().iter().any(|shape| shape.is_retired(guard));
            any.then(|| directory.without_retired(self.core.dialect, guard))
        };
        self.directory.update(without, guard);
    }

    fn unsubscribe(&self, subscription: Subscription) -> bool {
        let guard = &epoch::pin();
        let Subscription { place, id } = subscription;
        let removed = self.counts.write(|| {
            let removed = match place {
                SubscriptionPlace::Table(key, hash) => {
                    let shape = self.directory(guard).get(key);
                    shape.is_some_and(|shape| shape.remove(&self.core, hash, id, guard))
                }
                // The keys of the hash are this matcher's own: so it knows its subscriptions from others'.
                SubscriptionPlace::Trie(text, hash) if hash != self.core.hasher.text(&text) => false,
                SubscriptionPlace::Trie(text, _) => {
                    let dialect = self.core.dialect;
                    let without = |trie: &trie::Trie<V>| Some((trie.without(dialect, &text, id)?, id));
                    self.trie.update(&self.core, without, guard).is_some()
                }
            };
            (removed, if removed { Outcome::Removed } else { Outcome::Failed })
        });
        if removed {
            self.counts.release();
        }
        self.tidy_if_due(guard);
        removed
    }

    fn trie_root<'g>(&self, guard: &'g Guard) -> Option<LeafRef<'g, V>> {
        self.trie.get(guard)
    }

    /// Whether it is certain that no pattern was in the trie at this time.
    #[inline]
    fn trie_is_empty(&self, time: u64, guard: &Guard) -> bool {
        let Some(root) = self.trie_root(guard) else { return true };
        let late = lookup::is_late(self.core.settle(root, Place::Trie), time);
        !late && matches!(root.view(), View::Trie(trie) if trie.is_empty())
    }

    fn tidy_if_due(&self, guard: &Guard) {
        if self.core.is_untidy() {
            self.tidy(guard);
        }
    }

    /// Drops the histories that no live snapshot needs any more.
    #[cold]
    fn tidy(&self, guard: &Guard) {
        self.core.tidy(|place| match place {
            Place::Table(key, hash) => {
                let shape = self.directory(guard).get(key);
                shape.is_none_or(|shape| shape.trim(&self.core, hash, guard))
            }
            Place::Trie => loop {
                let Some(root) = self.trie_root(guard) else { break true };
                self.core.settle(root, place);
                let had_history = matches!(root.meta(), leaf::Meta::Kept(_));
                if !self.core.trim(root, guard) {
                    break false;
                }
                if !had_history {
                    break true;
                }
            },
        });
    }
}

/// A place for a subscription that goes back if a value's clone panics.
struct Reserved<'a>(&'a Counts);

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// What a lookup has found, of which the first hits need no allocation.
struct Found<'g, V> {
    first: [View<'g, V>; 8],
    len: usize,
    rest: Vec<View<'g, V>>,
}

impl<'g, V: Clone> Found<'g, V> {
    fn new() -> Self {
        Self { first: [View::None; 8], len: 0, rest: Vec::new() }
    }

    fn clear(&mut self) {
        self.len = 0;
        self.rest.clear();
    }

    fn push(&mut self, view: View<'g, V>) {
        match self.first.get_mut(self.len) {
            Some(place) => {
                *place = view;
                self.len += 1;
            }
            None => self.rest.push(view),
        }
    }

    fn for_each(&self, f: impl FnMut(View<'g, V>)) {
        self.first[..self.len].iter().chain(&self.rest).copied().for_each(f);
    }
}

impl<V: Clone + Send + Sync + 'static> Drop for Inner<V> {
    fn drop(&mut self) {
        let guard = &epoch::pin();
        for shape in self.directory(guard).shapes() {
            shape.clear(&self.core, guard);
        }
    }
}

impl<V: Clone + Send + Sync + 'static> Matcher<V> for TupleSpace<V> {
    type Subscription = Subscription;

    fn name(&self) -> &'static str {
        "tuple space"
    }

    fn dialect(&self) -> Dialect {
        self.dialect()
    }

    fn subscribe(&self, pattern: &Pattern, value: V) -> Result<Subscription, SubscribeError> {
        self.subscribe(pattern, value)
    }

    fn unsubscribe(&self, subscription: Subscription) -> bool {
        self.unsubscribe(subscription)
    }

    fn matches(&self, subject: &[u8], found: &mut Vec<V>) -> Result<(), TextError> {
        self.matches(subject, found)
    }

    fn len(&self) -> usize {
        self.len()
    }
}
