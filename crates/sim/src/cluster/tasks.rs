//! What would be threads and tasks of a server, and clients: polled in turn, one after the other, once in each millisecond.

use std::cell::{RefCell, RefMut};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::World;

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

#[derive(Default)]
pub(super) struct Tasks(Vec<(Owner, Work)>);

impl Tasks {
    pub(super) fn poll(&mut self, sim: &Sim) {
        let mut context = Context::from_waker(Waker::noop());
        self.0.extend(std::mem::take(&mut sim.world().spawned));
        self.0.retain_mut(|(owner, work)| {
            let turn = sim.world().turn(*owner);
            match turn {
                Turn::Runs => work.as_mut().poll(&mut context).is_pending(),
                Turn::Waits => true,
                Turn::IsGone => false,
            }
        });
    }
}

/// The simulated world, for those who act in it. Never held across a point where others act.
#[derive(Clone)]
pub(super) struct Sim(Rc<RefCell<World>>);

impl Sim {
    pub(super) fn new(world: World) -> Self {
        Self(Rc::new(RefCell::new(world)))
    }

    pub(super) fn world(&self) -> RefMut<'_, World> {
        self.0.borrow_mut()
    }

    pub(super) fn spawn(&self, owner: Owner, work: impl Future<Output = ()> + 'static) {
        self.world().spawned.push((owner, Box::pin(work)));
    }

    pub(super) async fn sleep(&self, ms: u64) {
        let until = self.world().now_ms + ms;
        poll_fn(|_| if self.world().now_ms >= until { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// Looks once in each millisecond until there is something, for `ms` at most.
    pub(super) async fn wait<T>(&self, ms: u64, mut look: impl FnMut(&mut World) -> Option<T>) -> Option<T> {
        let until = self.world().now_ms + ms;
        let look = |_: &mut Context<'_>| {
            let mut world = self.world();
            match look(&mut world) {
                Some(found) => Poll::Ready(Some(found)),
                None if world.now_ms >= until => Poll::Ready(None),
                None => Poll::Pending,
            }
        };
        poll_fn(look).await
    }
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
