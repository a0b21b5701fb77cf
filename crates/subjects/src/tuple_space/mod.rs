//! The default matcher: lock-free hash tables by shape of pattern, with linearizable lookups and constant-time snapshots.
//!
//! # Structure
//! A pattern's *shape* is its number of words, which of them are one-word wildcards, and whether a tail wildcard ends it. Each shape has an
//! open-addressed hash table of patterns (`table`); a lookup knows the hash that its subject would have under
//! each shape that fits (`words`), and probes one table per shape. That is tuple space search (Srinivasan, Suri and Varghese, "Packet Classification
//! using Tuple Space Search", SIGCOMM 1999), applied to words. Patterns that have no shape, because `#` stands in the middle or there
//! are more than 32 words, and those of shapes beyond [`SHAPES_MAX`], live in persistent trees (`overflow`) that every lookup searches too.
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
mod by_shape;
mod cache;
mod clock;
mod conflict;
mod core;
mod counts;
mod directory;
mod epoch;
mod inner;
mod leaf;
mod lookup;
mod matching;
#[cfg(test)]
mod models;
mod overflow;
mod published;
mod registry;
mod release;
mod shape;
mod slot;
mod snapshot;
mod subscribers;
mod sync;
mod table;
mod tree;
mod trie;
mod words;
mod writing;

use std::sync::Arc;

pub use batch::Batch;
pub use cache::Cache;
pub use directory::SHAPES_MAX;
pub use snapshot::Snapshot;
pub use writing::Subscription;

use self::inner::Inner;
use self::matching::Hits;
use crate::{Dialect, Limits, Matcher, Pattern, SubscribeError, TextError};

/// The default matcher. See the module's documentation.
///
/// Values are cloned by writes too, and dropped some time after their removal, in whichever thread of the process then uses
/// any matcher, in the middle of that call. So a value's drop must not panic, nor wait for what a caller may hold, such as a lock.
/// A clone that panics within a write leaves nothing behind, unless a snapshot is alive: then it may come after the change, which
/// stays without a handle and is not counted.
pub struct TupleSpace<V: Clone + Send + Sync + 'static> {
    inner: Arc<Inner<V>>,
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
        Self { inner: Arc::new(Inner::new(dialect, limits)) }
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
        let mut found = Hits::new();
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
