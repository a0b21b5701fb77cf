//! Yielding for tasks that are polled by hand.

use std::task::Context;

use crate::world::{Task, current};

/// The next turn of a hand-polled task that has more work than one turn allows and cannot await
/// [`super::yield_now`].
///
/// A task that wakes itself keeps its event loop's local queue from becoming empty. The loop then rarely
/// polls its sockets and the tasks that other threads have woken.
#[derive(Default)]
pub struct NextTurn(Option<Task>);

impl NextTurn {
    /// Schedules the task to be polled again after the other ready tasks have had their turn.
    ///
    /// # Panics
    /// If there is no world.
    pub fn ask(&mut self, cx: &mut Context<'_>) {
        let mut turn = current().yield_now();
        if turn.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        // Kept alive: a world may forget a future that was dropped.
        self.0 = Some(turn);
    }
}

impl std::fmt::Debug for NextTurn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NextTurn")
    }
}
