//! Messages of the server itself, to any number of subscribers.

use std::ops::ControlFlow;

use tailrace_env::aside::TURN;
use tailrace_env::task;
use tailrace_env::time::Instant;
use tailrace_nats_wire::Message;

use crate::burst::Burst;
use crate::fan_out::Turn;
use crate::front::NatsFront;
use crate::router::Router;
use crate::spread::Spread;

/// Publishes messages of the server itself. Topics do not capture them. They are written when this is
/// dropped, or at the next rest.
pub(crate) struct Speaker<'a> {
    front: &'a NatsFront,
    burst: Burst,
    /// Whether it slows down for readers that are behind.
    is_patient: bool,
}

impl<'a> Speaker<'a> {
    pub(crate) fn new(front: &'a NatsFront) -> Self {
        Self::of(front, false)
    }

    /// Slows down for readers that are behind, as publishers do.
    pub(crate) fn patient(front: &'a NatsFront) -> Self {
        Self::of(front, true)
    }

    fn of(front: &'a NatsFront, is_patient: bool) -> Self {
        Self { front, burst: Burst::default(), is_patient }
    }

    /// Publishes a message in the account of this router, and in those to which it crosses. Other tasks get
    /// turns meanwhile. Returns the number of receivers.
    pub(crate) async fn say(&mut self, router: &Router, message: &Message<'_>) -> usize {
        let begun = router.begin_own(&mut self.burst, message);
        let receivers = match Spread::of(begun, &mut self.burst) {
            ControlFlow::Break(receivers) => receivers,
            ControlFlow::Continue(spread) => self.spread(spread, router, message).await,
        };
        if self.burst.is_due() {
            self.rest().await;
        }
        receivers
    }

    async fn spread(&mut self, mut spread: Spread, router: &Router, message: &Message<'_>) -> usize {
        loop {
            let until = self.burst.read_at + TURN;
            let turn = Turn { burst: &mut self.burst, origin: None, message, here: None, until };
            if let Some(receivers) = spread.go_on(router, turn, &mut |_, _| {}) {
                return receivers;
            }
            self.rest().await;
        }
    }

    /// Sends what was said, and lets other tasks have a turn.
    pub(crate) async fn rest(&mut self) {
        let metrics = self.front.metrics();
        self.burst.finish(metrics);
        if let Some(crowded) = self.burst.take_crowded().filter(|_| self.is_patient) {
            crowded.wait(metrics).await;
        }
        task::yield_now().await;
        self.burst.begin(Instant::now());
    }
}

impl Drop for Speaker<'_> {
    fn drop(&mut self) {
        self.burst.finish(self.front.metrics());
    }
}
