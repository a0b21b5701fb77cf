//! The live snapshots: writers keep an old version only if one of these needs it.
#![expect(unsafe_code, reason = "a list that only grows is shared by raw pointers")]

use std::ptr;

use super::clock::{Clock, Time};
use super::sync::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// A seat's time until its snapshot has looked at the clock: it needs everything.
const PENDING: Time = Time::MAX;
/// The time of a free seat.
const FREE: Time = 0;

/// The live snapshots.
pub(crate) struct Registry {
    active: AtomicUsize,
    /// Seats are taken and left, never removed: there are as many as snapshots were ever alive at the same
    /// time.
    seats: AtomicPtr<Seat>,
}

/// The place of one snapshot.
pub(crate) struct Seat {
    time: AtomicU64,
    next: *mut Seat,
}

impl Registry {
    pub(crate) fn new() -> Self {
        Self { active: AtomicUsize::new(0), seats: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Registers a snapshot and returns its time. From before its look at the clock until
    /// [`Registry::leave`], writers keep for it what they replace. Costs one step per live snapshot.
    pub(crate) fn enter(&self, clock: &Clock) -> (*const Seat, Time) {
        self.active.fetch_add(1, Ordering::SeqCst);
        let seat = self.take_seat();
        let time = clock.look();
        // SAFETY: seats live as long as the registry.
        unsafe { (*seat).time.store(time, Ordering::SeqCst) };
        (seat, time)
    }

    fn take_seat(&self) -> *const Seat {
        let mut seat = self.seats.load(Ordering::Acquire);
        // SAFETY: seats live as long as the registry, and `next` does not change after publication.
        while let Some(here) = unsafe { seat.as_ref() } {
            if here.time.load(Ordering::Relaxed) == FREE
                && here.time.compare_exchange(FREE, PENDING, Ordering::SeqCst, Ordering::Relaxed).is_ok()
            {
                return seat;
            }
            seat = here.next;
        }
        let new = Box::into_raw(Box::new(Seat { time: AtomicU64::new(PENDING), next: ptr::null_mut() }));
        let mut head = self.seats.load(Ordering::Acquire);
        loop {
            // SAFETY: no other thread has the new seat yet.
            unsafe { (*new).next = head };
            match self.seats.compare_exchange(head, new, Ordering::SeqCst, Ordering::Acquire) {
                Ok(_) => return new,
                Err(newer) => head = newer,
            }
        }
    }

    /// Ends a snapshot.
    ///
    /// # Safety
    /// The seat came from [`Registry::enter`] of this registry and is left once.
    pub(crate) unsafe fn leave(&self, seat: *const Seat) {
        // SAFETY: as the caller promises; seats live as long as the registry.
        unsafe { (*seat).time.store(FREE, Ordering::SeqCst) };
        self.active.fetch_sub(1, Ordering::SeqCst);
    }

    /// Reports whether no snapshot is alive. One that is entered later sees every write whose stamp was drawn
    /// before this call.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.active.load(Ordering::SeqCst) == 0
    }

    /// Reports whether a live snapshot has a time in `from..to`, so that it sees a version that started at
    /// `from` and ended at `to`.
    pub(crate) fn needs(&self, from: Time, to: Time) -> bool {
        if self.is_idle() {
            return false;
        }
        let mut seat = self.seats.load(Ordering::SeqCst);
        // SAFETY: as in `take_seat`.
        while let Some(here) = unsafe { seat.as_ref() } {
            let time = here.time.load(Ordering::SeqCst);
            if time == PENDING || (time != FREE && (from..to).contains(&time)) {
                return true;
            }
            seat = here.next;
        }
        false
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let mut seat = self.seats.load(Ordering::Relaxed);
        while !seat.is_null() {
            // SAFETY: every seat came from a box, and no other thread has the registry any more.
            seat = unsafe { Box::from_raw(seat) }.next;
        }
    }
}
