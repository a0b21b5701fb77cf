//! The shapes of the patterns to which one connection is subscribed.
//!
//! Looking up a published subject takes a step for each shape of any client, so the number of shapes per
//! connection is limited. Patterns without wildcards and with few words share common shapes, and are not
//! counted.

use std::collections::HashSet;
use std::sync::Arc;

use tailrace_subjects::Pattern;
use tailrace_types::take_off;

/// Words that one step compares. A longer pattern counts as several steps.
const WORDS_OF_STEP: usize = 32;

/// Shapes in use.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    known: HashSet<Arc<[u8]>>,
    steps: usize,
}

/// A subscription's reference to its shape, to be passed to [`Shapes::release`]. `None` if it is not counted.
pub(super) type Held = Option<Arc<[u8]>>;

/// The limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Shapes {
    /// Takes the shape of a new subscription.
    pub(super) fn take(&mut self, pattern: &Pattern, steps_max: usize) -> Result<Held, Full> {
        let text = pattern.as_bytes();
        let wild = text.iter().any(|byte| matches!(byte, b'*' | b'>'));
        if !wild && text.len() < 2 * WORDS_OF_STEP {
            return Ok(None);
        }
        let shape = pattern.shape();
        let steps = steps(&shape);
        if steps == 1 && shape.iter().all(|byte| *byte == b'.') {
            return Ok(None);
        }
        if let Some(known) = self.known.get(&*shape) {
            return Ok(Some(Arc::clone(known)));
        }
        if self.steps + steps > steps_max {
            return Err(Full);
        }
        let shape: Arc<[u8]> = shape.into();
        self.known.insert(Arc::clone(&shape));
        self.steps += steps;
        Ok(Some(shape))
    }

    /// Releases the shape of a subscription that was removed or could not be created.
    pub(super) fn release(&mut self, held: Held) {
        let Some(shape) = held else { return };
        // The table's reference and this one.
        if Arc::strong_count(&shape) == 2 {
            self.known.remove(&shape);
            take_off(&mut self.steps, steps(&shape), "steps of shapes");
        }
    }
}

fn steps(shape: &[u8]) -> usize {
    let words = 1 + shape.iter().filter(|byte| **byte == b'.').count();
    words.div_ceil(WORDS_OF_STEP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tailrace_subjects::{Dialect, Limits};

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(Dialect::Nats, text, &Limits::default()).unwrap()
    }

    #[test]
    fn a_shape_counts_once_while_it_is_used() {
        let mut shapes = Shapes::default();
        let first = shapes.take(&pattern("a.*"), 2).unwrap();
        let second = shapes.take(&pattern("b.*"), 2).unwrap();
        let other = shapes.take(&pattern("a.>"), 2).unwrap();
        assert!(first.is_some() && other.is_some());
        assert_eq!(shapes.take(&pattern("*.a"), 2), Err(Full));
        assert!(shapes.take(&pattern("c.*"), 2).is_ok());
        shapes.release(first);
        assert_eq!(shapes.take(&pattern("*.a"), 2), Err(Full));
        shapes.release(second);
        let last = shapes.take(&pattern("*.a"), 2).unwrap();
        shapes.release(last);
        shapes.release(other);
        assert_eq!((shapes.known.len(), shapes.steps), (0, 0));
    }

    #[test]
    fn what_all_share_is_not_counted_and_long_patterns_count_more() {
        let mut shapes = Shapes::default();
        let words = |count: usize| vec!["abc"; count].join(".");
        for free in ["a".to_owned(), "a.b.c".to_owned(), words(32), "a*b".to_owned()] {
            assert_eq!(shapes.take(&pattern(&free), 0), Ok(None), "{free}");
        }
        assert_eq!(shapes.take(&pattern(&words(33)), 1), Err(Full));
        let held = shapes.take(&pattern(&words(33)), 2).unwrap();
        assert_eq!(shapes.steps, 2);
        shapes.release(held);
        assert_eq!(shapes.steps, 0);
    }
}
