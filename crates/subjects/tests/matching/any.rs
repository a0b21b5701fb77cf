//! Any matcher behind one object-safe trait, so that a test is written once.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up fails")]

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tailrace_subjects::{Dialect, Matcher, Pattern, SubscribeError, TextError};

/// A matcher whose handles are numbers.
pub(crate) trait AnyMatcher: Send + Sync {
    fn name(&self) -> &'static str;
    fn dialect(&self) -> Dialect;
    fn subscribe(&self, pattern: &Pattern, value: usize) -> Result<usize, SubscribeError>;
    fn unsubscribe(&self, handle: usize) -> bool;
    /// The values found, sorted.
    fn find(&self, subject: &[u8]) -> Result<Vec<usize>, TextError>;
    fn len(&self) -> usize;
}

struct Wrapped<M: Matcher<usize>> {
    matcher: M,
    handles: Mutex<HashMap<usize, M::Subscription>>,
    next: AtomicUsize,
}

/// Wraps a matcher in that trait.
pub(crate) fn any<M: Matcher<usize> + 'static>(matcher: M) -> Box<dyn AnyMatcher> {
    Box::new(Wrapped { matcher, handles: Mutex::new(HashMap::new()), next: AtomicUsize::new(1) })
}

impl<M: Matcher<usize>> AnyMatcher for Wrapped<M> {
    fn name(&self) -> &'static str {
        self.matcher.name()
    }

    fn dialect(&self) -> Dialect {
        self.matcher.dialect()
    }

    fn subscribe(&self, pattern: &Pattern, value: usize) -> Result<usize, SubscribeError> {
        let subscription = self.matcher.subscribe(pattern, value)?;
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        self.handles.lock().unwrap().insert(handle, subscription);
        Ok(handle)
    }

    fn unsubscribe(&self, handle: usize) -> bool {
        let subscription = self.handles.lock().unwrap().remove(&handle);
        subscription.is_some_and(|subscription| self.matcher.unsubscribe(subscription))
    }

    fn find(&self, subject: &[u8]) -> Result<Vec<usize>, TextError> {
        // Old content of the buffer must never show up in a result.
        let mut found = vec![usize::MAX];
        let outcome = self.matcher.matches(subject, &mut found);
        assert!(outcome.is_ok() || found.is_empty(), "{}: values beside an error", self.name());
        found.sort_unstable();
        outcome.map(|()| found)
    }

    fn len(&self) -> usize {
        let len = self.matcher.len();
        assert_eq!(self.matcher.is_empty(), len == 0, "{}", self.name());
        len
    }
}
