//! The CS-trie: a lock-free trie of words with constant-time snapshots.
//!
//! Sources: Tyler Treat, "Fast Topic Matching" (2016), section "CS-trie", for the shape: a trie of words
//! built like a Ctrie. And Aleksandar Prokopec, Nathan Bronson, Phil Bagwell, Martin Odersky, "Concurrent
//! Tries with Efficient Non-Blocking Snapshots" (PPoPP 2012), for what makes it correct, which the essay
//! leaves out: generations, GCAS and snapshots.
//!
//! **Shape.** There is an I-node at the start of every word of every pattern. It points to immutable
//! branches: a place for each wildcard and 16 for words, by hash. Words with the same four bits of hash share
//! an I-node one level down, as in a Ctrie, so that a change copies at most 19 slots, however many words
//! there are. A branch holds the subscriptions that end with its word and the I-node of the next word. As in
//! a Ctrie, a word without siblings is as high up as it can be: the rest of a pattern that shares no further
//! word with others is one node.
//!
//! **Invariants.**
//! - Only I-nodes and the root change, each by one compare-and-swap; everything else is immutable.
//! - A committed write had its I-node's generation equal to the root's when it was committed. So nothing
//!   below a root that was replaced changes any more: it is a snapshot.
//! - A writer changes only I-nodes of its root's generation. Older ones are renewed on its way, one per word.
//! - An I-node that became a tomb never changes again. A thread that removes the last branch leaves a tomb
//!   and removes it from the parent in a separate step. A tomb that still exists is equivalent to what the
//!   parent will hold without it.
//!
//! **Linearization points.** `subscribe` and `unsubscribe`: the commit of their GCAS. `snapshot`: the change
//! of the root. `matches`: a moment between its two rounds (see the module `search`). If that fails
//! [`OPTIMISTIC_TRIES`] times, the lookup takes a snapshot and reads that, so that it ends after a bounded
//! number of tries. If every lookup took one, each write would have to renew its whole path; the second round
//! costs only a few loads from the cache. `len` is a separate counter: it may count a subscription just
//! before it is found and just after it is gone.
//!
//! **Limits.** Subscriptions to one pattern are kept in one list, which is copied on every change. Every
//! lookup follows wildcards at every level, whether or not they lead anywhere.

mod bytes;
mod checked;
mod entries;
mod few;
mod indirection;
mod key;
mod node;
mod search;
mod write;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_epoch::pin;
use tailrace_subjects::{Dialect, Limits, Matcher, Pattern, SubscribeError, TextError};

use self::checked::Checked;
use self::indirection::{Indirection, Root};
use self::key::{Keys, WordHasher};
use self::node::{Branches, Kind, Main};
use self::search::Search;
use self::write::Try;
use super::{ClassicSubscription, Entry, Rules};

/// How often a lookup tries without a snapshot. A try fails if a node on its path changed meanwhile. For that
/// to happen even twice takes two writers at the same words within a microsecond.
const OPTIMISTIC_TRIES: usize = 8;

/// A lock-free, linearizable trie of words with constant-time snapshots.
pub struct CsTrie<V: 'static> {
    rules: Rules,
    core: Arc<Core<V>>,
}

struct Core<V: 'static> {
    trie: Indirection<Main<V>>,
    hasher: WordHasher,
    live: AtomicUsize,
}

impl<V> CsTrie<V> {
    /// Creates an empty trie with the default limits.
    #[must_use]
    pub fn new(dialect: Dialect) -> Self {
        Self::with_limits(dialect, Limits::default())
    }

    /// Creates an empty trie.
    #[must_use]
    pub fn with_limits(dialect: Dialect, limits: Limits) -> Self {
        let top = Main::new(Kind::Branches(Branches::empty()));
        let core =
            Core { trie: Indirection::new(top), hasher: WordHasher::new(dialect), live: AtomicUsize::new(0) };
        Self { rules: Rules { dialect, limits }, core: Arc::new(core) }
    }

    /// Returns all subscriptions at this moment, permanently. Takes constant time. Each later write copies
    /// what it changes, once per node.
    #[must_use]
    pub fn snapshot(&self) -> CsSnapshot<V> {
        let root = self.core.trie.freeze(&pin());
        CsSnapshot { rules: self.rules, core: Arc::clone(&self.core), root: Some(root) }
    }

    /// Counts one more subscription, if there is room.
    fn reserve(&self) -> bool {
        let more = |live| (live < self.rules.limits.subscriptions_max).then_some(live + 1);
        self.core.live.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }
}

impl<V: Clone + Send + Sync + 'static> Matcher<V> for CsTrie<V> {
    type Subscription = ClassicSubscription;

    fn name(&self) -> &'static str {
        "CS-trie"
    }

    fn dialect(&self) -> Dialect {
        self.rules.dialect
    }

    fn subscribe(&self, pattern: &Pattern, value: V) -> Result<ClassicSubscription, SubscribeError> {
        self.rules.check(pattern, 0)?;
        if !self.reserve() {
            let subscriptions_max = self.rules.limits.subscriptions_max;
            return Err(SubscribeError::TooManySubscriptions { subscriptions_max });
        }
        let subscription = ClassicSubscription::new(pattern);
        let entry = Entry { id: subscription.id, value };
        let keys = Keys::new(&self.core.hasher, pattern);
        while !Try::new(&self.core.trie, &keys, &pin()).insert(&entry) {}
        Ok(subscription)
    }

    fn unsubscribe(&self, subscription: ClassicSubscription) -> bool {
        if subscription.pattern.dialect() != self.rules.dialect {
            return false;
        }
        let keys = Keys::new(&self.core.hasher, &subscription.pattern);
        let removed = loop {
            let guard = &pin();
            let mut attempt = Try::new(&self.core.trie, &keys, guard);
            if let Some(removed) = attempt.remove(subscription.id) {
                if removed && attempt.is_outdated() {
                    while !Try::new(&self.core.trie, &keys, guard).sweep() {}
                }
                break removed;
            }
        };
        if removed {
            self.core.live.fetch_sub(1, Ordering::Relaxed);
        }
        removed
    }

    fn matches(&self, subject: &[u8], found: &mut Vec<V>) -> Result<(), TextError> {
        found.clear();
        let mut checked = Checked::none(self.rules.dialect);
        checked.read(&self.rules.limits, subject)?;
        let subject = &checked;
        for _ in 0..OPTIMISTIC_TRIES {
            let guard = &pin();
            if Search::new(&self.core.trie, &self.core.hasher, guard).living(subject, found) {
                return Ok(());
            }
            found.clear();
        }
        self.snapshot().find(subject, found);
        Ok(())
    }

    fn len(&self) -> usize {
        self.core.live.load(Ordering::Relaxed)
    }
}

/// All subscriptions of a [`CsTrie`] at one moment.
pub struct CsSnapshot<V: 'static> {
    rules: Rules,
    core: Arc<Core<V>>,
    /// Always present, until the drop takes it.
    root: Option<Arc<Root<Main<V>>>>,
}

impl<V: Clone> CsSnapshot<V> {
    /// Same as [`Matcher::matches`], at the moment of the snapshot.
    ///
    /// # Errors
    /// [`TextError`] if the subject is malformed. `found` is empty then.
    pub fn matches(&self, subject: &[u8], found: &mut Vec<V>) -> Result<(), TextError> {
        found.clear();
        let mut checked = Checked::none(self.rules.dialect);
        checked.read(&self.rules.limits, subject)?;
        self.find(&checked, found);
        Ok(())
    }

    fn find(&self, subject: &Checked<'_>, found: &mut Vec<V>) {
        let guard = &pin();
        if let Some(root) = &self.root {
            Search::new(&self.core.trie, &self.core.hasher, guard).frozen(root, subject, found);
        }
    }
}

impl<V> CsSnapshot<V> {
    /// Calls `visit` for the value of every subscription, in no particular order.
    pub fn for_each(&self, visit: impl FnMut(&V)) {
        if let Some(root) = &self.root {
            search::for_each(&self.core.trie, &root.top, &pin(), visit);
        }
    }

    /// Counts the subscriptions one by one.
    #[must_use]
    pub fn len(&self) -> usize {
        let mut len = 0;
        self.for_each(|_| len += 1);
        len
    }

    /// Reports whether there are no subscriptions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<V> Drop for CsSnapshot<V> {
    fn drop(&mut self) {
        if let Some(root) = self.root.take() {
            Indirection::release_root(root, &pin());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscribe(trie: &CsTrie<usize>, text: &str) -> ClassicSubscription {
        let pattern = Pattern::parse(Dialect::Amqp, text, &Limits::default());
        trie.subscribe(&pattern.expect("valid"), 1).expect("room")
    }

    fn is_bare(trie: &CsTrie<usize>) -> bool {
        let guard = &pin();
        let root = trie.core.trie.root(guard);
        trie.core.trie.committed(&root.top, guard).branches().is_some_and(|top| top.slots().is_empty())
    }

    #[test]
    fn no_node_is_left_when_all_subscriptions_are_gone() {
        let trie = CsTrie::new(Dialect::Amqp);
        let rounds = if cfg!(miri) { 3 } else { 300 };
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let trie = &trie;
                scope.spawn(move || {
                    for round in 0..rounds {
                        let texts = (0..20).map(|word| format!("a.*.{}.b.{word}", (thread + word) % 5));
                        let handles: Vec<_> = texts.map(|text| subscribe(trie, &text)).collect();
                        let snapshot = (round % 4 == 0).then(|| trie.snapshot());
                        assert!(handles.into_iter().all(|handle| trie.unsubscribe(handle)));
                        drop(snapshot);
                    }
                });
            }
        });
        assert!(is_bare(&trie), "tombs or empty nodes are left");
    }
}
