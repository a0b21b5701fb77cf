//! One bound for the memory of all requests being read: `queued.max.request.bytes`, as in Kafka. What else is taken out of a bounded room,
//! in the order in which it was asked for, has a budget of its own.
//!
//! A frame is admitted as it arrives, in steps: what was only announced takes nothing from others. Steps are granted in the order in
//! which they were asked for, so that a large frame is not overtaken for ever. A connection whose next step is not granted stops
//! reading, which slows its sender through TCP. So that half-read frames never wait for each other, the first in the line may go beyond
//! the bound, one frame at a time: it is granted all that it needs.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use prometheus_client::metrics::gauge::Gauge;
use tailrace_types::i64_of;

/// Memory that comes and goes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held {
    /// Bytes that are held now.
    pub bytes: usize,
    /// The most that was held since this was asked last.
    pub most_bytes: usize,
    /// Much was freed since, whatever the numbers say.
    pub freed_much: bool,
}

/// Frames up to this size are read without asking the budget: a connection's read buffer holds as much anyway.
pub const SMALL_FRAME_BYTES: usize = 64 * 1024;

/// The process-wide budget. Cheap to clone through its `Arc`.
#[derive(Debug)]
pub struct RequestBudget {
    total: usize,
    state: Mutex<BudgetState>,
    /// Shows the bytes reserved now.
    gauge: Gauge,
}

#[derive(Debug, Default)]
struct BudgetState {
    used: usize,
    /// The most that was used since somebody asked.
    most: usize,
    /// One frame goes beyond the bound.
    has_guest: bool,
    /// Those who wait, first come first served. At most one per connection.
    line: VecDeque<(u64, Waker)>,
    next_number: u64,
}

/// A connection's access to the budget. Dropping it gives up its place in the line.
#[derive(Debug)]
pub struct Ticket {
    budget: Arc<RequestBudget>,
    /// Its place in the line, while it waits.
    number: Option<u64>,
}

/// A part of the budget; dropping it gives it back.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<RequestBudget>,
    bytes: usize,
    /// It goes beyond the bound.
    is_guest: bool,
}

impl RequestBudget {
    /// `total` bytes, shown by `gauge` as they are taken.
    pub fn new(total: usize, gauge: Gauge) -> Arc<Self> {
        Arc::new(Self { total, state: Mutex::default(), gauge })
    }

    /// A place in the line of those who wait for room.
    pub fn ticket(self: &Arc<Self>) -> Ticket {
        Ticket { budget: Arc::clone(self), number: None }
    }

    /// Takes `bytes` once it is their turn and there is room; more than the whole budget once nothing else is taken.
    pub async fn reserve(self: &Arc<Self>, bytes: usize) -> Reservation {
        let mut ticket = self.ticket();
        std::future::poll_fn(|cx| ticket.poll_reserve(bytes, cx)).await
    }

    /// Takes `bytes` without waiting, whatever is left.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Reservation {
        let mut state = self.lock();
        state.used += bytes;
        self.show(&mut state);
        Reservation { budget: Arc::clone(self), bytes, is_guest: false }
    }

    /// True if somebody waits.
    pub fn has_line(&self) -> bool {
        !self.lock().line.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, BudgetState> {
        // What is asserted under this lock is so before anything is changed: a poisoned one is still consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that are reserved.
    pub fn used(&self) -> usize {
        self.lock().used
    }

    /// The most bytes that were reserved since this was asked last.
    pub fn take_most(&self) -> usize {
        let mut state = self.lock();
        let used = state.used;
        std::mem::replace(&mut state.most, used)
    }

    fn show(&self, state: &mut BudgetState) {
        state.most = state.most.max(state.used);
        self.gauge.set(i64_of(state.used));
    }
}

impl BudgetState {
    /// What is used once a reservation of `before` bytes has `after`.
    ///
    /// # Panics
    /// If less than `before` is used.
    fn used_with(&self, before: usize, after: usize) -> usize {
        let others = self.used.checked_sub(before);
        others.expect("a reservation is a part of what is used") + after
    }

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
    pub fn is_waiting(&self) -> bool {
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
        self.budget.show(&mut state);
        Poll::Ready(Reservation { budget: Arc::clone(&self.budget), bytes, is_guest: false })
    }

    /// Raises `reservation` to `step` bytes of a frame that needs `whole`, or stands in line; the task is woken when it may be its turn.
    /// Where there is no room, the first in line gets all that it needs, once the one before that did has been answered.
    pub fn poll_grow(
        &mut self,
        reservation: &mut Reservation,
        step: usize,
        whole: usize,
        cx: &Context<'_>,
    ) -> Poll<()> {
        let mut state = self.budget.lock();
        // Whoever is beyond the bound already waits for nobody: others may wait for it.
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
            let mut state = self.budget.lock();
            state.line.retain(|(own, _)| *own != number);
            state.wake_first();
        }
    }
}

impl Reservation {
    /// Raises it to `bytes`, when it is its turn.
    pub async fn grow(&mut self, bytes: usize) {
        let mut ticket = self.budget.ticket();
        std::future::poll_fn(|cx| ticket.poll_grow(self, bytes, bytes, cx)).await;
    }

    /// How many bytes it holds.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What was reserved turned out to be so much. More is taken without waiting: it is there already.
    pub fn set(&mut self, bytes: usize) {
        let mut state = self.budget.lock();
        state.used = state.used_with(self.bytes, bytes);
        self.bytes = bytes;
        self.budget.show(&mut state);
        state.wake_first();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut state = self.budget.lock();
        let left = state.used.checked_sub(self.bytes);
        state.used = left.unwrap_or(0);
        state.has_guest &= !self.is_guest;
        self.budget.show(&mut state);
        // Also if the budget is wrong: others wait for it.
        state.wake_first();
        drop(state);
        // A panic while another one is under way would end the process.
        assert!(left.is_some() || std::thread::panicking(), "more is given back of a budget than was taken");
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
        budget.lock().used = 80;
        let given_back = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(reservation)));
        let reason = given_back.expect_err("less is used than was taken");
        let reason = reason.downcast_ref::<&str>();
        assert_eq!(reason, Some(&"more is given back of a budget than was taken"));
        assert!(taken(&mut waits, 30).is_some(), "the budget goes on");
    }

    #[test]
    #[should_panic(expected = "a reservation is a part of what is used")]
    fn a_reservation_is_not_changed_in_a_budget_that_is_wrong() {
        let budget = budget();
        let mut reservation = budget.take(90);
        // It is given back in the end, and then the panic is under way.
        budget.lock().used = 80;
        reservation.set(10);
    }

    #[test]
    #[should_panic(expected = "a step to 60 of 50 bytes")]
    fn a_step_beyond_the_frame_is_refused() {
        let budget = budget();
        grown(&mut budget.ticket(), &mut budget.take(10), 60, 50);
    }
}
