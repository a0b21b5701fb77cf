//! The simulated world as those see it who act in it, and their tasks.

use std::cell::{RefCell, RefMut};
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::messages::{Call, Request, Response};
use super::tasks::{Owner, Turn, Work};
use super::world::World;

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

impl Sim {
    /// Asks somebody. `None` without an answer in time.
    pub(super) async fn ask(&self, from: u64, to: u64, request: Request, ms: u64) -> Option<Response> {
        self.ask_late(from, to, request, ms, 0).await
    }

    /// As `ask`; the request takes `late_ms` or longer.
    pub(super) async fn ask_late(
        &self,
        from: u64,
        to: u64,
        request: Request,
        ms: u64,
        late_ms: u64,
    ) -> Option<Response> {
        let number = {
            let mut world = self.world();
            world.calls_made += 1;
            let (now_ms, number) = (world.now_ms, world.calls_made);
            world.asked.insert(number, None);
            world.calls.send_late(now_ms, from, to, Call::Ask(number, request), late_ms);
            number
        };
        let answer = self.wait(ms, |world| world.asked.get_mut(&number)?.take()).await;
        self.world().asked.remove(&number);
        answer
    }
}
