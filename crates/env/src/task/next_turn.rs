//! How a task that is polled by hand lets others have their turn.

use std::task::Context;

use crate::world::{Task, current};

/// The next turn of a task that has more to do than a turn allows, where it cannot wait for [`super::yield_now`].
///
/// A task that wakes itself keeps its event loop's own queue from getting empty. The loop then looks seldom at the
/// sockets, and at tasks that other threads have woken.
#[derive(Default)]
pub struct NextTurn(Option<Task>);

impl NextTurn {
    /// Has the task polled again once the others that are ready have had their turn.
    ///
    /// # Panics
    /// If there is no world.
    pub fn ask(&mut self, cx: &mut Context<'_>) {
        let mut turn = current().yield_now();
        if turn.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        // It is kept: a world may forget whoever does not wait any more.
        self.0 = Some(turn);
    }
}

impl std::fmt::Debug for NextTurn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NextTurn")
    }
}
