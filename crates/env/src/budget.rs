//! One bound for the memory of all requests being read: `queued.max.request.bytes`, as in Kafka. Other
//! consumers of bounded memory, served in order of arrival, have budgets of their own.
//!
//! A frame is admitted in steps as it arrives, so a frame that was only announced takes nothing from others.
//! Steps are granted in the order of the requests for them, so that small frames cannot overtake a large one
//! for ever. A connection whose next step is not granted stops reading, and TCP slows its sender down. To
//! keep half-read frames from waiting for each other, the first in the queue may exceed the bound, one frame
//! at a time: it is granted all that it needs.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use tailrace_types::i64_of;

/// How much memory something holds, sampled.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held {
    /// Bytes that are held now.
    pub bytes: usize,
    /// The most bytes held since the previous sample.
    pub most_bytes: usize,
    /// True if much was freed since the previous sample, even if the numbers do not show it.
    pub freed_much: bool,
}

/// Frames up to this size are read without a reservation: a connection's read buffer holds this much anyway.
pub const SMALL_FRAME_BYTES: usize = 64 * 1024;

/// A budget of memory, shared through an `Arc`.
#[derive(Debug)]
pub struct RequestBudget {
    total: usize,
    /// All assertions under this lock come before any change, so a panic leaves it consistent.
    state: Mutex<BudgetState>,
    /// Shows the bytes reserved now.
    gauge: Gauge,
}

#[derive(Debug, Default)]
struct BudgetState {
    used: usize,
    /// The largest `used` since it was last asked for.
    most: usize,
    /// True while one frame exceeds the bound.
    has_guest: bool,
    /// Waiting tickets in order of arrival. At most one per connection.
    line: VecDeque<(u64, Waker)>,
    next_number: u64,
}

/// A connection's access to the budget. Dropping it leaves the queue.
#[derive(Debug)]
pub struct Ticket {
    budget: Arc<RequestBudget>,
    /// Its place in the queue while it waits.
    number: Option<u64>,
}

/// A reserved part of the budget. Dropping it releases the bytes.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<RequestBudget>,
    bytes: usize,
    /// True if it exceeds the bound.
    is_guest: bool,
}

impl RequestBudget {
    /// Creates a budget of `total` bytes. `gauge` shows the bytes taken.
    pub fn new(total: usize, gauge: Gauge) -> Arc<Self> {
        Arc::new(Self { total, state: Mutex::default(), gauge })
    }

    /// Returns a ticket, which can queue for room.
    pub fn ticket(self: &Arc<Self>) -> Ticket {
        Ticket { budget: Arc::clone(self), number: None }
    }

    /// Reserves `bytes` once they are first in the queue and there is room. A reservation larger than the
    /// whole budget is granted once nothing else is reserved.
    pub async fn reserve(self: &Arc<Self>, bytes: usize) -> Reservation {
        let mut ticket = self.ticket();
        std::future::poll_fn(|cx| ticket.poll_reserve(bytes, cx)).await
    }

    /// Reserves `bytes` without waiting, even beyond the budget.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Reservation {
        let mut state = self.state.lock();
        state.used += bytes;
        self.show(&mut state);
        Reservation { budget: Arc::clone(self), bytes, is_guest: false }
    }

    /// True if a ticket waits.
    pub fn has_line(&self) -> bool {
        !self.state.lock().line.is_empty()
    }

    /// Bytes reserved now.
    pub fn used(&self) -> usize {
        self.state.lock().used
    }

    /// Returns the most bytes that were reserved since the previous call.
    pub fn take_most(&self) -> usize {
        let mut state = self.state.lock();
        let used = state.used;
        std::mem::replace(&mut state.most, used)
    }

    fn show(&self, state: &mut BudgetState) {
        state.most = state.most.max(state.used);
        self.gauge.set(i64_of(state.used));
    }
}

impl BudgetState {
    /// Returns what is used once a reservation of `before` bytes has changed to `after` bytes.
    ///
    /// # Panics
    /// If less than `before` is used.
    fn used_with(&self, before: usize, after: usize) -> usize {
        let others = self.used.checked_sub(before);
        others.expect("a reservation is part of what is used") + after
    }

    /// Wakes the first in the queue, so that it checks again whether there is room for it.
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
    /// True while it is in the queue.
    pub fn is_waiting(&self) -> bool {
        self.number.is_some()
    }

    /// Reserves `bytes`, or queues. The task is woken when its turn may have come. A frame larger than the
    /// whole budget is admitted when nothing else is reserved, so that no setting can lock out a client for
    /// good.
    pub(crate) fn poll_reserve(&mut self, bytes: usize, cx: &Context<'_>) -> Poll<Reservation> {
        let mut state = self.budget.state.lock();
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
        self.budget.show(&mut state);
        Poll::Ready(Reservation { budget: Arc::clone(&self.budget), bytes, is_guest: false })
    }

    /// Raises `reservation` to `step` bytes of a frame that needs `whole`, or queues. The task is woken when
    /// its turn may have come. If there is no room, the first in the queue gets all that it needs, once the
    /// previous frame beyond the bound has been answered.
    pub fn poll_grow(
        &mut self,
        reservation: &mut Reservation,
        step: usize,
        whole: usize,
        cx: &Context<'_>,
    ) -> Poll<()> {
        let mut state = self.budget.state.lock();
        // A frame already beyond the bound does not queue: others may be waiting for it.
        let is_first = reservation.is_guest
            || match state.line.front() {
                Some((first, _)) => Some(*first) == self.number,
                None => true,
            };
        assert!(
            reservation.bytes <= step && step <= whole,
            "a step to {step} of {whole} bytes, with {} reserved",
            reservation.bytes
        );
        let has_room = state.used_with(reservation.bytes, step) <= self.budget.total;
        if !is_first || (!has_room && state.has_guest && !reservation.is_guest) {
            self.number = Some(state.stand_in_line(self.number, cx.waker()));
            return Poll::Pending;
        }
        let bytes = if has_room { step } else { whole };
        state.used = state.used_with(reservation.bytes, bytes);
        state.has_guest |= !has_room;
        reservation.is_guest |= !has_room;
        reservation.bytes = bytes;
        if self.number.take().is_some() {
            state.line.pop_front();
        }
        // There may be room for the next one too.
        state.wake_first();
        self.budget.show(&mut state);
        Poll::Ready(())
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let mut state = self.budget.state.lock();
            state.line.retain(|(own, _)| *own != number);
            state.wake_first();
        }
    }
}

impl Reservation {
    /// Raises the reservation to `bytes`. Waits for its turn.
    pub async fn grow(&mut self, bytes: usize) {
        let mut ticket = self.budget.ticket();
        std::future::poll_fn(|cx| ticket.poll_grow(self, bytes, bytes, cx)).await;
    }

    /// Bytes reserved.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sets the reservation to the size that turned out to be needed. More is taken without waiting, since
    /// the memory is already in use.
    pub fn set(&mut self, bytes: usize) {
        let mut state = self.budget.state.lock();
        state.used = state.used_with(self.bytes, bytes);
        self.bytes = bytes;
        self.budget.show(&mut state);
        state.wake_first();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut state = self.budget.state.lock();
        let left = state.used.checked_sub(self.bytes);
        state.used = left.unwrap_or(0);
        state.has_guest &= !self.is_guest;
        self.budget.show(&mut state);
        // Wakes the next one even if the count is wrong: others wait for this budget.
        state.wake_first();
        drop(state);
        // A panic during another panic would end the process.
        assert!(
            left.is_some() || std::thread::panicking(),
            "more bytes were released to a budget than were taken from it"
        );
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

    fn grown(ticket: &mut Ticket, reservation: &mut Reservation, step: usize, whole: usize) -> bool {
        ticket.poll_grow(reservation, step, whole, &Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn of_half_read_frames_one_at_a_time_goes_beyond_the_bound() {
        let budget = budget();
        let mut tickets = [0; 3].map(|_| budget.ticket());
        let mut held = [0; 3].map(|_| budget.take(0));
        for number in 0..2 {
            assert!(grown(&mut tickets[number], &mut held[number], 50, 90));
        }
        assert!(grown(&mut tickets[0], &mut held[0], 70, 90), "it gets all that it needs");
        assert_eq!((held[0].bytes(), budget.gauge.get()), (90, 140));
        assert!(!grown(&mut tickets[1], &mut held[1], 70, 90), "there is one beyond the bound");
        assert!(!grown(&mut tickets[2], &mut held[2], 10, 10), "and no room");
        let [first, mut second, mut third] = held;
        drop(first);
        assert!(!grown(&mut tickets[2], &mut third, 10, 10), "it is not first");
        assert!(grown(&mut tickets[1], &mut second, 70, 90));
        assert_eq!(second.bytes(), 70, "there is room for its step");
        assert!(grown(&mut tickets[2], &mut third, 10, 10));
        drop((second, third));
        assert_eq!(budget.gauge.get(), 0);
        assert!(!budget.has_line());
    }

    #[test]
    fn who_is_beyond_the_bound_waits_for_nobody() {
        let budget = budget();
        let (mut first, mut second) = (budget.ticket(), budget.ticket());
        let (mut a, mut b) = (budget.take(0), budget.take(50));
        assert!(grown(&mut first, &mut a, 60, 60));
        assert!(!grown(&mut second, &mut b, 60, 60));
        assert!(grown(&mut first, &mut a, 80, 80));
        drop(a);
        assert!(grown(&mut second, &mut b, 60, 60));
        assert!(!budget.has_line());
    }

    #[test]
    fn who_was_beyond_the_bound_makes_way_for_the_next() {
        let budget = budget();
        let (mut first, mut second) = (budget.ticket(), budget.ticket());
        let (mut a, mut b) = (budget.take(100), budget.take(0));
        assert!(grown(&mut first, &mut a, 200, 300));
        assert!(!grown(&mut second, &mut b, 200, 300));
        drop(a);
        assert!(grown(&mut second, &mut b, 200, 300));
        assert_eq!(b.bytes(), 300);
        drop(b);
        assert!(grown(&mut first, &mut budget.take(0), 200, 300));
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

    #[test]
    fn a_count_that_is_wrong_is_a_panic_and_holds_nobody_up() {
        let budget = budget();
        let mut waits = budget.ticket();
        let reservation = budget.take(90);
        assert!(taken(&mut waits, 30).is_none());
        budget.state.lock().used = 80;
        let given_back = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(reservation)));
        let reason = given_back.expect_err("less is used than was taken");
        let reason = reason.downcast_ref::<&str>();
        assert_eq!(reason, Some(&"more bytes were released to a budget than were taken from it"));
        assert!(taken(&mut waits, 30).is_some(), "the budget goes on");
    }

    #[test]
    #[should_panic(expected = "a reservation is part of what is used")]
    fn a_reservation_is_not_changed_in_a_budget_that_is_wrong() {
        let budget = budget();
        let mut reservation = budget.take(90);
        // Dropping the reservation releases it, during that panic.
        budget.state.lock().used = 80;
        reservation.set(10);
    }

    #[test]
    #[should_panic(expected = "a step to 60 of 50 bytes")]
    fn a_step_beyond_the_frame_is_refused() {
        let budget = budget();
        grown(&mut budget.ticket(), &mut budget.take(10), 60, 50);
    }
}
