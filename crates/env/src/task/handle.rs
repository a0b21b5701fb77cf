//! The handle that waits for the end of a task.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;

use super::catch::Caught;
use super::join_error::JoinError;
use crate::world::{Running, Task, Work};

/// A handle of a task, or of work that may block. Dropping it does not stop them.
pub struct JoinHandle<T> {
    outcome: oneshot::Receiver<Result<T, JoinError>>,
    /// `None` for work that may block, which cannot be stopped.
    running: Option<Box<dyn Running>>,
}

pub(super) fn spawn<T: Send + 'static>(
    start: impl FnOnce(Task) -> Box<dyn Running>,
    work: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    let (tell, outcome) = oneshot::channel();
    let work = Caught { work };
    let task = async move {
        // The handle may be gone.
        let _ = tell.send(work.await);
    };
    JoinHandle { outcome, running: Some(start(Box::pin(task))) }
}

pub(super) fn spawn_blocking<T: Send + 'static>(
    start: impl FnOnce(Work),
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let (tell, outcome) = oneshot::channel();
    start(Box::new(move || {
        let _ = tell.send(catch_unwind(AssertUnwindSafe(work)).map_err(JoinError::panicked));
    }));
    JoinHandle { outcome, running: None }
}

impl<T> JoinHandle<T> {
    /// Drops the task at its await point. Work that may block continues.
    pub fn abort(&self) {
        if let Some(running) = &self.running {
            running.abort();
        }
    }

    /// True once the task has ended.
    pub fn is_finished(&self) -> bool {
        self.running.as_ref().map_or(!self.outcome.is_empty(), |running| running.is_finished())
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = ready!(Pin::new(&mut self.outcome).poll(cx));
        Poll::Ready(outcome.unwrap_or_else(|_| Err(JoinError::dropped())))
    }
}

impl<T> std::fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JoinHandle")
    }
}
