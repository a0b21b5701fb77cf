//! One bound for the memory of all requests being read: `queued.max.request.bytes`, as in Kafka.
//!
//! A frame is admitted whole or not at all, so that two half-read frames never wait for each other, and in the order of
//! arrival, so that a large one is not overtaken for ever. A connection that is not admitted stops reading, which slows
//! its sender through TCP.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use prometheus_client::metrics::gauge::Gauge;

/// Frames up to this size are read without asking the budget: a connection's read buffer holds as much anyway.
pub(crate) const SMALL_FRAME_BYTES: usize = 64 * 1024;

/// The process-wide budget. Cheap to clone through its `Arc`.
#[derive(Debug)]
pub(crate) struct RequestBudget {
    total: usize,
    state: Mutex<State>,
    /// Shows the bytes reserved now.
    gauge: Gauge,
}

#[derive(Debug, Default)]
struct State {
    used: usize,
    /// Those who wait, first come first served. At most one per connection.
    line: VecDeque<(u64, Waker)>,
    next_number: u64,
}

/// A connection's access to the budget. Dropping it gives up its place in the line.
#[derive(Debug)]
pub(crate) struct Ticket {
    budget: Arc<RequestBudget>,
    /// Its place in the line, while it waits.
    number: Option<u64>,
}

/// A part of the budget; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<RequestBudget>,
    bytes: usize,
}

impl RequestBudget {
    pub(crate) fn new(total: usize, gauge: Gauge) -> Arc<Self> {
        Arc::new(Self { total, state: Mutex::default(), gauge })
    }

    pub(crate) fn ticket(self: &Arc<Self>) -> Ticket {
        Ticket { budget: Arc::clone(self), number: None }
    }

    /// Takes `bytes` without waiting, whatever is left.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Reservation {
        let mut state = self.lock();
        state.used += bytes;
        self.show(&state);
        Reservation { budget: Arc::clone(self), bytes }
    }

    /// True if somebody waits.
    pub(crate) fn has_line(&self) -> bool {
        !self.lock().line.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under this lock can panic half-way, so a poisoned one is still consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, state: &State) {
        self.gauge.set(i64::try_from(state.used).unwrap_or(i64::MAX));
    }
}

impl State {
    /// The first in line looks again whether there is room for it.
    fn wake_first(&self) {
        if let Some((_, waker)) = self.line.front() {
            waker.wake_by_ref();
        }
    }

    fn stand_in_line(&mut self, number: Option<u64>, waker: &Waker) -> u64 {
        if let Some(place) = self.line.iter_mut().find(|(own, _)| Some(*own) == number) {
            place.1.clone_from(waker);
            return place.0;
        }
        let number = self.next_number;
        self.next_number += 1;
        self.line.push_back((number, waker.clone()));
        number
    }
}

impl Ticket {
    /// True while it stands in the line.
    pub(crate) fn is_waiting(&self) -> bool {
        self.number.is_some()
    }

    /// Reserves `bytes`, or stands in line; the task is woken when it may be its turn. A frame larger than the whole
    /// budget is admitted when nothing else is, so that no setting can lock a client out for good.
    pub(crate) fn poll_reserve(&mut self, bytes: usize, cx: &Context<'_>) -> Poll<Reservation> {
        let mut state = self.budget.lock();
        let is_first = match state.line.front() {
            Some((first, _)) => Some(*first) == self.number,
            None => true,
        };
        if !is_first || (state.used + bytes > self.budget.total && state.used != 0) {
            self.number = Some(state.stand_in_line(self.number, cx.waker()));
            return Poll::Pending;
        }
        state.used += bytes;
        if self.number.take().is_some() {
            state.line.pop_front();
        }
        // There may be room for the next one too.
        state.wake_first();
        self.budget.show(&state);
        Poll::Ready(Reservation { budget: Arc::clone(&self.budget), bytes })
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let mut state = self.budget.lock();
            state.line.retain(|(own, _)| *own != number);
            state.wake_first();
        }
    }
}

impl Reservation {
    /// What was reserved turned out to be so much. More is taken without waiting: it is there already.
    pub(crate) fn set(&mut self, bytes: usize) {
        let mut state = self.budget.lock();
        state.used = state.used - self.bytes + bytes;
        self.bytes = bytes;
        self.budget.show(&state);
        state.wake_first();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut state = self.budget.lock();
        state.used -= self.bytes;
        self.budget.show(&state);
        state.wake_first();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget() -> Arc<RequestBudget> {
        RequestBudget::new(100, Gauge::default())
    }

    fn taken(ticket: &mut Ticket, bytes: usize) -> Option<Reservation> {
        match ticket.poll_reserve(bytes, &Context::from_waker(Waker::noop())) {
            Poll::Ready(reservation) => Some(reservation),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_frame_waits_until_memory_is_given_back() {
        let budget = budget();
        let (mut a, mut b) = (budget.ticket(), budget.ticket());
        let first = taken(&mut a, 80).expect("the budget is empty");
        assert!(taken(&mut b, 30).is_none());
        assert!(b.is_waiting());
        drop(first);
        assert!(taken(&mut b, 30).is_some());
        assert_eq!(budget.gauge.get(), 0);
    }

    #[test]
    fn a_large_frame_is_not_overtaken_by_small_ones() {
        let budget = budget();
        let (mut small, mut large, mut other) = (budget.ticket(), budget.ticket(), budget.ticket());
        let first = taken(&mut small, 20).expect("the budget is empty");
        assert!(taken(&mut large, 90).is_none());
        assert!(taken(&mut other, 10).is_none(), "the large one came first");
        drop(first);
        assert!(taken(&mut other, 10).is_none());
        let second = taken(&mut large, 90).expect("its turn");
        assert!(taken(&mut other, 10).is_some());
        drop(second);
    }

    #[test]
    fn who_gives_up_does_not_hold_up_the_line() {
        let budget = budget();
        let (mut a, mut large, mut other) = (budget.ticket(), budget.ticket(), budget.ticket());
        let first = taken(&mut a, 20).expect("the budget is empty");
        assert!(taken(&mut large, 90).is_none());
        assert!(taken(&mut other, 10).is_none());
        drop(large);
        assert!(taken(&mut other, 10).is_some());
        drop(first);
    }

    #[test]
    fn a_frame_beyond_the_budget_is_admitted_alone() {
        let budget = budget();
        let (mut a, mut b) = (budget.ticket(), budget.ticket());
        let small = taken(&mut a, 1).expect("the budget is empty");
        assert!(taken(&mut b, 1000).is_none());
        drop(small);
        assert!(taken(&mut b, 1000).is_some());
    }
}
