//! The handshakes that are under way, of all listeners. There are only so many: when one more begins, the
//! oldest ends. So strangers who begin handshakes and leave them cost bounded memory, and hold nobody up who
//! goes on: a handshake takes milliseconds, and it takes very many others in that time to end it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tailrace_env::sync::Notify;

/// Most handshakes that are under way. Each takes some 30 KiB, and what its client has sent (`bounded`).
pub(crate) const HANDSHAKES_MAX: usize = 1024;

#[derive(Default)]
struct Table {
    next: u64,
    /// By age.
    all: BTreeMap<u64, Arc<Notify>>,
}

/// The handshakes.
#[derive(Default)]
pub(crate) struct UnderWay(Mutex<Table>);

/// A handshake that is under way. Dropping it ends that.
pub(crate) struct Place<'a> {
    of: &'a UnderWay,
    number: u64,
    ends: Arc<Notify>,
}

impl UnderWay {
    /// Begins a handshake. Ends the oldest if there are too many.
    pub(crate) fn begin(&self) -> Place<'_> {
        let ends = Arc::new(Notify::new());
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if table.all.len() >= HANDSHAKES_MAX
            && let Some((_, oldest)) = table.all.pop_first()
        {
            oldest.notify_one();
        }
        let number = table.next;
        table.next += 1;
        table.all.insert(number, Arc::clone(&ends));
        drop(table);
        Place { of: self, number, ends }
    }
}

impl Place<'_> {
    /// Waits until this is the oldest one, and there are too many.
    pub(crate) async fn is_taken(&self) {
        self.ends.notified().await;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut table = self.of.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.all.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn is_taken(place: &Place<'_>) -> bool {
        pin!(place.is_taken()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn one_too_many_ends_the_oldest_and_no_other() {
        let under_way = UnderWay::default();
        let mut all: Vec<_> = (0..HANDSHAKES_MAX).map(|_| under_way.begin()).collect();
        assert!(!is_taken(&all[0]));
        // One that has ended makes room.
        drop(all.swap_remove(7));
        all.push(under_way.begin());
        assert!(!is_taken(&all[0]));
        all.push(under_way.begin());
        assert!(is_taken(&all[0]));
        assert!(!is_taken(&all[1]));
        drop(all);
        assert!(under_way.0.lock().unwrap().all.is_empty());
    }
}
