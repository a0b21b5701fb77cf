//! One bound for the memory of all requests being read: `queued.max.request.bytes`, as in Kafka.
//!
//! A frame is admitted whole or not at all, so that two half-read frames never wait for each other. A connection that
//! is not admitted stops reading, which slows its sender through TCP.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Frames up to this size are read without asking the budget: a connection's read buffer holds as much anyway.
pub(crate) const SMALL_FRAME_BYTES: usize = 64 * 1024;

/// The process-wide budget. Cheap to clone through its `Arc`.
#[derive(Debug)]
pub(crate) struct RequestBudget {
    total: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: usize,
    waiting: VecDeque<Waker>,
}

/// A part of the budget; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<RequestBudget>,
    bytes: usize,
}

impl RequestBudget {
    pub(crate) fn new(total: usize) -> Arc<Self> {
        Arc::new(Self { total, state: Mutex::default() })
    }

    /// Reserves `bytes`, or registers the task to be woken when memory was given back. A frame larger than the whole
    /// budget is admitted when nothing else is, so that no setting can lock a client out for good.
    pub(crate) fn poll_reserve(self: &Arc<Self>, bytes: usize, cx: &Context<'_>) -> Poll<Reservation> {
        let mut state = self.lock();
        if state.used + bytes <= self.total || state.used == 0 {
            state.used += bytes;
            return Poll::Ready(Reservation { budget: Arc::clone(self), bytes });
        }
        if !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            state.waiting.push_back(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Bytes reserved now.
    pub(crate) fn used(&self) -> usize {
        self.lock().used
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under this lock can panic half-way, so a poisoned one is still consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let waiting = {
            let mut state = self.budget.lock();
            state.used -= self.bytes;
            std::mem::take(&mut state.waiting)
        };
        // All of them: the first in line may need more than was freed, or be gone.
        waiting.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_waits_until_memory_is_given_back() {
        let budget = RequestBudget::new(100);
        let cx = Context::from_waker(Waker::noop());
        let Poll::Ready(first) = budget.poll_reserve(80, &cx) else { panic!("the budget is empty") };
        assert!(budget.poll_reserve(30, &cx).is_pending());
        assert!(budget.poll_reserve(20, &cx).is_ready());
        drop(first);
        assert!(budget.poll_reserve(90, &cx).is_ready());
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_frame_beyond_the_budget_is_admitted_alone() {
        let budget = RequestBudget::new(100);
        let cx = Context::from_waker(Waker::noop());
        let Poll::Ready(small) = budget.poll_reserve(1, &cx) else { panic!("the budget is empty") };
        assert!(budget.poll_reserve(1000, &cx).is_pending());
        drop(small);
        assert!(budget.poll_reserve(1000, &cx).is_ready());
    }
}
