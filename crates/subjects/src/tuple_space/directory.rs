//! The existing shapes, and which of them a subject of a given number of words must be looked up in.
//! Immutable: a change makes a new one.

use std::sync::Arc;

use super::clock::Time;
use super::core::Core;
use super::epoch::Guard;
use super::shape::Shape;
use super::words::{SHAPE_WORDS_MAX, ShapeKey, Words};
use crate::Dialect;

/// Most shapes that have tables. Each one that fits a subject costs its lookup one probe. Patterns of further
/// shapes are kept in the overflow. Models have fewer, so that they get there.
pub const SHAPES_MAX: usize = if cfg!(shuttle) { 16 } else { 256 };

pub(crate) struct Directory<V: Clone + Send + 'static> {
    shapes: Vec<Arc<Shape<V>>>,
    /// Their keys, in the same order: every write looks one up.
    keys: Vec<ShapeKey>,
    /// By number of words: the shapes that fit, as positions in `shapes`. The last element is for all larger
    /// numbers.
    plans: Vec<Box<[Entry<V>]>>,
    /// The newest removal among shapes that were retired.
    dropped: Time,
}

/// A shape that a lookup must probe.
pub(crate) struct Entry<V: Clone + Send + 'static> {
    pub(crate) key: ShapeKey,
    /// Whether the first word is a wildcard.
    pub(crate) starts_wild: bool,
    pub(crate) shape: Arc<Shape<V>>,
}

impl<V: Clone + Send + 'static> Entry<V> {
    /// The hash of a subject under this shape, which must be in the plan for its number of words.
    #[inline]
    pub(crate) fn hash(&self, core: &Core, words: &Words<'_>) -> u64 {
        #[expect(unsafe_code, reason = "saves two checks for each shape of each lookup")]
        // SAFETY: a plan holds only shapes that fit.
        core.hasher.finish(unsafe { words.sum(self.key) })
    }
}

impl<V: Clone + Send + 'static> Directory<V> {
    pub(crate) fn empty() -> Self {
        Self { shapes: Vec::new(), keys: Vec::new(), plans: Vec::new(), dropped: 0 }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.shapes.len() >= SHAPES_MAX
    }

    pub(crate) fn dropped(&self) -> Time {
        self.dropped
    }

    pub(crate) fn shapes(&self) -> &[Arc<Shape<V>>] {
        &self.shapes
    }

    pub(crate) fn get(&self, key: ShapeKey) -> Option<&Shape<V>> {
        let index = self.keys.iter().position(|own| *own == key)?;
        Some(&self.shapes[index])
    }

    /// The shapes that fit a subject of this many words.
    #[inline]
    pub(crate) fn plan(&self, words: usize) -> &[Entry<V>] {
        match self.plans.get(words) {
            Some(plan) => plan,
            None => self.plans.last().map_or(&[], |plan| plan),
        }
    }

    /// This directory with one more shape.
    pub(crate) fn with(&self, dialect: Dialect, key: ShapeKey) -> Self {
        let mut shapes = self.shapes.clone();
        shapes.push(Arc::new(Shape::new(key)));
        Self::of(dialect, shapes, self.dropped)
    }

    /// This directory without its retired shapes.
    pub(crate) fn without_retired(&self, dialect: Dialect, guard: &Guard) -> Self {
        let (gone, left): (Vec<_>, Vec<_>) =
            self.shapes.iter().cloned().partition(|shape| shape.is_retired(guard));
        let dropped = gone.iter().map(|shape| shape.dropped(guard)).fold(self.dropped, Time::max);
        Self::of(dialect, left, dropped)
    }

    fn of(dialect: Dialect, shapes: Vec<Arc<Shape<V>>>, dropped: Time) -> Self {
        // A subject of more words than any shape's prefix fits the same shapes as one with a word more.
        let longest = shapes.iter().map(|shape| usize::from(shape.key.prefix)).max().unwrap_or(0);
        debug_assert!(longest <= SHAPE_WORDS_MAX);
        let plan = |words: usize| {
            let fitting = shapes.iter().filter(|shape| shape.key.fits(dialect, words));
            let entry = |shape: &Arc<Shape<V>>| Entry {
                key: shape.key,
                starts_wild: shape.key.starts_wild(),
                shape: shape.clone(),
            };
            fitting.map(entry).collect()
        };
        let plans = (0..longest + 2).map(plan).collect();
        let keys = shapes.iter().map(|shape| shape.key).collect();
        Self { shapes, keys, plans, dropped }
    }
}
