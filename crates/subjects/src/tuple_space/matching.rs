//! Everything that matches one subject, as of one moment within the call.

use super::conflict::Conflict;
use super::epoch::Guard;
use super::inner::Inner;
use super::snapshot;
use super::subscribers::View;
use super::words::Words;

/// Attempts of a lookup before it registers as a snapshot, which cannot be disturbed.
const ATTEMPTS: usize = 16;

impl<V: Clone + Send + Sync + 'static> Inner<V> {
    /// Collects the subscribers, as of one moment within this call.
    pub(super) fn find_all<'g>(&self, words: &Words<'_>, found: &mut Hits<'g, V>, guard: &'g Guard) {
        let attempt = |time, found: &mut Hits<'g, V>| {
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
    pub(super) fn matches(&self, words: &Words<'_>, found: &mut Vec<V>, guard: &Guard) {
        let start = found.len();
        if self.append(words, self.core.clock.certain(), found, guard).is_err() {
            found.truncate(start);
            self.matches_again(words, found, guard);
        }
    }

    #[inline]
    pub(super) fn append(
        &self,
        words: &Words<'_>,
        time: u64,
        found: &mut Vec<V>,
        guard: &Guard,
    ) -> Result<(), Conflict> {
        let push = |view: View<'_, V>| {
            view.for_each(|value| found.push(value.clone()));
            true
        };
        self.lookup(words, time, push, guard)
    }

    /// Looks up again after a conflict: closes the clock's time and looks at that. This fails only if a write
    /// to what matches comes between. If it keeps failing, it reads as a snapshot. Returns the time.
    #[cold]
    pub(super) fn matches_again(&self, words: &Words<'_>, found: &mut Vec<V>, guard: &Guard) -> u64 {
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
}

/// The hits of a lookup. The first few need no allocation.
pub(super) struct Hits<'g, V> {
    first: [View<'g, V>; 8],
    len: usize,
    rest: Vec<View<'g, V>>,
}

impl<'g, V: Clone> Hits<'g, V> {
    pub(super) fn new() -> Self {
        Self { first: [View::None; 8], len: 0, rest: Vec::new() }
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.rest.clear();
    }

    pub(super) fn push(&mut self, view: View<'g, V>) {
        match self.first.get_mut(self.len) {
            Some(place) => {
                *place = view;
                self.len += 1;
            }
            None => self.rest.push(view),
        }
    }

    pub(super) fn for_each(&self, f: impl FnMut(View<'g, V>)) {
        self.first[..self.len].iter().chain(&self.rest).copied().for_each(f);
    }
}
