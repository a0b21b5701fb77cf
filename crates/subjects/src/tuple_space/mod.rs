//! The default matcher: lock-free hash tables by shape of pattern, with linearizable lookups and
//! constant-time snapshots.
//!
//! # Structure
//! A pattern's *shape* is its number of words, which of them are one-word wildcards, and whether a tail
//! wildcard ends it. Each shape has an open-addressed hash table of patterns (`table`). A lookup knows the
//! hash that its subject would have under each shape that fits (`words`), and probes one table per shape.
//! That is tuple space search (Srinivasan, Suri and Varghese, "Packet Classification using Tuple Space
//! Search", SIGCOMM 1999), applied to words. Some patterns have no shape, because `#` is in the middle or
//! there are more than 32 words. These, and patterns of shapes beyond [`SHAPES_MAX`], are kept in persistent
//! trees (`overflow`) that every lookup searches, too.
//!
//! A slot of a table points to a *leaf*: one immutable version of one pattern with all its subscribers, in
//! one allocation. A write makes a new leaf and puts it into the slot by compare-and-swap. Memory is
//! reclaimed by epochs (`crossbeam-epoch`).
//!
//! # Order
//! One clock orders everything (`clock`). It moves only when a thread looks at it after a write, or writes
//! after a look.
//! - **subscribe** and **unsubscribe** linearize when the clock is read for the stamp of their leaf. The leaf
//!   can be reached before, but no thread uses a leaf without a stamp: a thread that meets one gives it its
//!   stamp first (`Core::settle`).
//! - **matches** linearizes at its reading of the clock. It accepts a leaf only if its stamp shows that it
//!   existed at that time already, and the absence of one only if no removal since is on its way. Otherwise
//!   it looks at the clock again and starts over. Some write has succeeded then, so the matcher as a whole
//!   always makes progress. After sixteen attempts it reads as a snapshot, which cannot be disturbed. Each
//!   lookup of **`matches_many`** is an operation of its own.
//! - **`has_interest`** linearizes like `matches` if it finds nothing. Otherwise it linearizes at the reading
//!   of the slot of its hit, or at that leaf's stamp if that comes later.
//! - **snapshot** and **generation** linearize when they close the clock's time, or find it closed. A result
//!   that was computed at a time holds until the clock has moved, which is why one comparison validates a
//!   [`Cache`].
//! - **len** linearizes at a moment between two readings of its counters at which no write was in progress,
//!   or as a snapshot.
//!
//! # Invariants
//! 1. A slot that was taken never becomes empty. Hence one key has at most one leaf per table, and one table
//!    of a chain in which it may change.
//! 2. A stamp is drawn after its leaf can be reached, and decided once. Stamps along the versions of one
//!    pattern never decrease.
//! 3. A replaced leaf is retired after its successor has its stamp, so `Replaces` never points to freed
//!    memory. Only a writer retires a leaf, out of its only slot; moving a table retires none (`table` says
//!    why that slot is the only one).
//! 4. A removal leaves a mark with its stamp in its slot. When a table is moved, the newest such stamp is
//!    passed to its successor, and when a shape is retired, to the directory: every removal leaves a trace of
//!    its time.
//! 5. A live snapshot has registered before it looked at the clock. So a writer that drew its stamp and then
//!    sees no snapshot needs to keep nothing: later snapshots see the write itself.
//! 6. The work of one write is bounded by its run of slots, one chunk of `MIGRATION_SLOTS` slots, one copy
//!    of a path of subscribers, and, while snapshots live, their number times that of the pattern's versions
//!    that they see. No operation waits for another.
//!
//! # What a stalled thread can do
//! It cannot keep others from reading or writing. While it is stalled inside an operation, memory that was
//! retired since is not freed, since the thread may be reading it: the price of reads that write nothing.

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
/// Writes clone values, too. Values are dropped some time after their removal, in any thread of the process
/// that then uses any matcher, in the middle of that call. So a value's drop must not panic, nor wait for
/// anything that a caller may hold, such as a lock. A clone that panics within a write leaves nothing behind,
/// unless a snapshot is alive. Then the panic may come after the change, which stays without a handle and is
/// not counted.
pub struct TupleSpace<V: Clone + Send + Sync + 'static> {
    inner: Arc<Inner<V>>,
}

impl<V: Clone + Send + Sync + 'static> TupleSpace<V> {
    /// Creates an empty matcher with the default limits.
    #[must_use]
    pub fn new(dialect: Dialect) -> Self {
        Self::with_limits(dialect, Limits::default())
    }

    /// Creates an empty matcher. Limits are clamped to what is possible.
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
    /// [`SubscribeError`] if the pattern is of another dialect or beyond this matcher's limits, or if there
    /// are too many subscriptions. Nothing was added then.
    pub fn subscribe(&self, pattern: &Pattern, value: V) -> Result<Subscription, SubscribeError> {
        self.inner.subscribe(pattern, value)
    }

    /// Removes a subscription. Returns false if this matcher does not know it.
    pub fn unsubscribe(&self, subscription: Subscription) -> bool {
        self.inner.unsubscribe(subscription)
    }

    /// Clears `found`, and fills it with the values of all matching subscriptions, in no particular order.
    /// Allocates only to make `found` larger.
    ///
    /// # Errors
    /// [`TextError`] if the subject is malformed. `found` is empty then.
    #[inline]
    pub fn matches(&self, subject: &[u8], found: &mut Vec<V>) -> Result<(), TextError> {
        found.clear();
        let mut words = self.inner.no_words();
        self.inner.read(&mut words, subject)?;
        self.inner.matches(&words, found, &epoch::pin());
        Ok(())
    }

    /// Calls `f` with the value of each matching subscription, in no particular order, without cloning it.
    /// While `f` runs, memory that other threads retire is not freed, so `f` should not wait.
    ///
    /// # Errors
    /// [`TextError`] if the subject is malformed. `f` was not called then.
    pub fn for_each_match(&self, subject: &[u8], mut f: impl FnMut(&V)) -> Result<(), TextError> {
        let mut words = self.inner.no_words();
        self.inner.read(&mut words, subject)?;
        let guard = &epoch::pin();
        let mut found = Hits::new();
        self.inner.find_all(&words, &mut found, guard);
        found.for_each(|view| view.for_each(&mut f));
        Ok(())
    }

    /// Looks up many subjects, each one separately, with overlapping waits for memory. The results are in
    /// `batch`.
    pub fn matches_many<S: AsRef<[u8]>>(&self, subjects: &[S], batch: &mut Batch<V>) {
        self.inner.matches_many(subjects, batch);
    }

    /// Reports whether a subject has any subscribers. Stops at the first hit.
    ///
    /// # Errors
    /// [`TextError`] if the subject is malformed.
    pub fn has_interest(&self, subject: &[u8]) -> Result<bool, TextError> {
        let mut words = self.inner.no_words();
        self.inner.read(&mut words, subject)?;
        Ok(self.inner.interest(&words, &epoch::pin()))
    }

    /// The exact number of subscriptions at a moment within this call. Takes constant time if there is such a
    /// moment at which no write is in progress, and otherwise as long as counting a snapshot.
    /// [`TupleSpace::len_about`] is always fast.
    #[must_use]
    pub fn len(&self) -> usize {
        (0..4).find_map(|_| self.inner.counts.at_rest()).unwrap_or_else(|| self.snapshot().len())
    }

    /// Reports whether there are no subscriptions; see [`TupleSpace::len`].
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of subscriptions, give or take the writes in progress.
    #[must_use]
    pub fn len_about(&self) -> usize {
        self.inner.counts.about()
    }

    /// A number that changes whenever subscriptions change: what was computed after one call holds as long as
    /// later calls return the same number. Costs one load if nothing has changed since any thread's last
    /// call.
    #[inline]
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.inner.core.clock.look()
    }

    /// Returns all subscriptions at this moment, for as long as the snapshot is kept. Takes constant time,
    /// however many subscriptions there are, plus a step for each live snapshot. Writers go on, and keep for
    /// it what they replace.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot<V> {
        Snapshot::new(self.inner.clone())
    }

    /// The current number of shapes of pattern that have hash tables, at most [`SHAPES_MAX`].
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
