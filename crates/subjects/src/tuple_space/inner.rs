//! State that readers, writers and snapshots of one matcher share.

use super::conflict::is_late;
use super::core::{Core, LeafLocation};
use super::counts::Counts;
use super::directory::Directory;
use super::epoch::{self, Guard};
use super::leaf::{Held, LeafRef, Meta};
use super::published::{OverflowRoot, Published};
use super::words::Words;
use crate::{Dialect, Limits, TextError};

/// One matcher. It lives as long as any snapshot of it.
pub(crate) struct Inner<V: Clone + Send + Sync + 'static> {
    pub(super) core: Core,
    pub(super) directory: Published<Directory<V>>,
    pub(super) overflow: OverflowRoot<V>,
    pub(super) counts: Counts,
}

impl<V: Clone + Send + Sync + 'static> Inner<V> {
    /// Creates an empty matcher.
    pub(super) fn new(dialect: Dialect, limits: Limits) -> Self {
        Self {
            core: Core::new(dialect, limits),
            directory: Published::new(Directory::empty()),
            overflow: OverflowRoot::new(),
            counts: Counts::new(limits.subscriptions_max),
        }
    }

    #[inline]
    pub(super) fn no_words<'a>(&self) -> Words<'a> {
        Words::none(self.core.dialect)
    }

    #[inline]
    pub(super) fn read<'a>(&self, words: &mut Words<'a>, subject: &'a [u8]) -> Result<(), TextError> {
        words.read(&self.core.hasher, self.core.scanner, subject, &self.core.limits)
    }

    #[inline]
    pub(crate) fn directory<'g>(&self, guard: &'g Guard) -> &'g Directory<V> {
        self.directory.get(guard)
    }

    pub(super) fn overflow_root<'g>(&self, guard: &'g Guard) -> Option<LeafRef<'g, V>> {
        self.overflow.get(guard)
    }

    /// Reports whether it is certain that no pattern was in the overflow at this time.
    #[inline]
    pub(super) fn overflow_is_empty(&self, time: u64, guard: &Guard) -> bool {
        let Some(root) = self.overflow_root(guard) else { return true };
        let late = is_late(self.core.settle(root, LeafLocation::Overflow), time);
        !late && matches!(root.held(), Held::Overflow(overflow) if overflow.is_empty())
    }

    pub(super) fn tidy_if_due(&self, guard: &Guard) {
        if self.core.is_untidy() {
            self.tidy(guard);
        }
    }

    /// Drops the histories that no live snapshot needs any more.
    #[cold]
    pub(super) fn tidy(&self, guard: &Guard) {
        self.core.tidy(|place| match place {
            LeafLocation::Table(key, hash) => {
                let shape = self.directory(guard).get(key);
                shape.is_none_or(|shape| shape.trim(&self.core, hash, guard))
            }
            LeafLocation::Overflow => loop {
                let Some(root) = self.overflow_root(guard) else { break true };
                self.core.settle(root, place);
                let had_history = matches!(root.meta(), Meta::Kept(_));
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

impl<V: Clone + Send + Sync + 'static> Drop for Inner<V> {
    fn drop(&mut self) {
        let guard = &epoch::pin();
        for shape in self.directory(guard).shapes() {
            shape.clear(&self.core, guard);
        }
    }
}
