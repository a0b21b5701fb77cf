//! The requests that wait for their answers: how many, how large, and which of them run.

use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use tailrace_env::sync::{Semaphore, SemaphorePermit};

/// Most requests that are carried out at a time. The others wait in the order in which they came.
pub(super) const RUNNING_MAX: usize = 64;

/// Places for requests.
pub(super) struct Queue {
    requests_max: usize,
    bytes_max: u64,
    taken: Mutex<Taken>,
    waiting: Gauge,
    running: Semaphore,
}

#[derive(Default)]
struct Taken {
    requests: usize,
    bytes: u64,
}

/// The place of one request. It is free again when this is dropped.
pub(super) struct Place {
    queue: Arc<Queue>,
    bytes: u64,
}

impl Queue {
    /// `waiting` shows the number of places that are taken.
    pub(super) fn new(requests_max: usize, bytes_max: u64, waiting: Gauge) -> Self {
        let (taken, running) = (Mutex::default(), Semaphore::new(RUNNING_MAX));
        Self { requests_max, bytes_max, taken, waiting, running }
    }

    /// Takes a place for a request of this size. `None` if there is none.
    pub(super) fn place(self: &Arc<Self>, bytes: u64) -> Option<Place> {
        let mut taken = self.taken.lock();
        let fits = taken.requests < self.requests_max && bytes <= self.bytes_max.saturating_sub(taken.bytes);
        fits.then(|| {
            taken.requests += 1;
            taken.bytes += bytes;
            self.waiting.inc();
            Place { queue: Arc::clone(self), bytes }
        })
    }

    /// The most requests of one connection: the others need places, too.
    pub(super) fn of_connection_max(&self) -> usize {
        self.requests_max.div_ceil(4)
    }

    /// Requests that wait or run.
    pub(super) fn requests(&self) -> usize {
        self.taken.lock().requests
    }

    /// Waits until a request may run. `None` if the server is ending.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.running.acquire().await.ok()
    }
}

impl Place {
    /// Takes so many bytes more. Returns whether there was room for them.
    pub(super) fn grow(&mut self, bytes: u64) -> bool {
        let mut taken = self.queue.taken.lock();
        let fits = bytes <= self.queue.bytes_max.saturating_sub(taken.bytes);
        if fits {
            taken.bytes += bytes;
            self.bytes += bytes;
        }
        fits
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.queue.taken.lock();
        taken.requests = taken.requests.saturating_sub(1);
        taken.bytes = taken.bytes.saturating_sub(self.bytes);
        self.queue.waiting.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_by_number_and_by_bytes_and_come_back() {
        let queue = Arc::new(Queue::new(2, 100, Gauge::default()));
        let (first, second) = (queue.place(10).unwrap(), queue.place(10).unwrap());
        assert!(queue.place(1).is_none(), "two requests are all");
        drop(second);
        assert!(queue.place(91).is_none(), "ten bytes are taken");
        let mut second = queue.place(80).unwrap();
        assert!(!second.grow(11), "ninety bytes are taken");
        assert!(second.grow(10));
        assert_eq!(queue.requests(), 2);
        drop((first, second));
        assert_eq!(queue.requests(), 0);
        assert!(queue.place(100).is_some());
    }
}
