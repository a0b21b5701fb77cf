//! What would be threads and tasks of a server, and clients: polled in turn, one after the other, once in each millisecond.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

pub(super) type Work = Pin<Box<dyn Future<Output = ()>>>;

/// Whose a task is: it ends with the process that it belongs to, and stands still while that is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Client,
    Node { node: u64, life: u64 },
}

/// What a task may do now.
pub(super) enum Turn {
    Runs,
    Waits,
    IsGone,
}

/// An answer that is due. Whoever drops the other end will not give it.
pub(super) struct Pending<T>(Rc<RefCell<Option<T>>>);

/// The other end.
pub(super) struct Promise<T>(Rc<RefCell<Option<T>>>);

pub(super) fn promise<T>() -> (Promise<T>, Pending<T>) {
    let cell = Rc::new(RefCell::new(None));
    (Promise(Rc::clone(&cell)), Pending(cell))
}

impl<T> Promise<T> {
    pub(super) fn keep(self, value: T) {
        *self.0.borrow_mut() = Some(value);
    }
}

impl<T> Pending<T> {
    /// `None` if the promise was broken.
    pub(super) async fn get(self) -> Option<T> {
        let look = |_: &mut Context<'_>| match self.0.borrow_mut().take() {
            Some(value) => Poll::Ready(Some(value)),
            None if Rc::strong_count(&self.0) == 1 => Poll::Ready(None),
            None => Poll::Pending,
        };
        poll_fn(look).await
    }
}
