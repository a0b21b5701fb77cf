//! Who waits for the end of a task.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;

use super::catch::Caught;
use crate::world::{Running, Task, Work};

/// A task, or work that may block. It goes on when this is dropped.
pub struct JoinHandle<T> {
    outcome: oneshot::Receiver<Result<T, JoinError>>,
    /// `None` for work that may block, which cannot be stopped.
    running: Option<Box<dyn Running>>,
}

type Panic = Box<dyn Any + Send>;

pub(super) fn spawn<T: Send + 'static>(
    start: impl FnOnce(Task) -> Box<dyn Running>,
    work: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    let (tell, outcome) = oneshot::channel();
    let work = caught(work);
    let task = async move {
        // Nobody may be waiting.
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

/// `work`, whose panics are its outcome.
pub(super) async fn caught<T>(work: impl Future<Output = T>) -> Result<T, JoinError> {
    Caught(Box::pin(work)).await.map_err(JoinError::panicked)
}

impl<T> JoinHandle<T> {
    /// Drops the task where it waits. Work that may block goes on.
    pub fn abort(&self) {
        if let Some(running) = &self.running {
            running.abort();
        }
    }

    /// True once it has ended.
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

/// A task that gave no result: it panicked, or it was dropped, by an abort or with its world.
pub struct JoinError(Option<Mutex<Panic>>);

impl JoinError {
    pub(super) fn dropped() -> Self {
        Self(None)
    }

    fn panicked(panic: Panic) -> Self {
        Self(Some(Mutex::new(panic)))
    }

    /// True if it panicked.
    pub fn is_panic(&self) -> bool {
        self.0.is_some()
    }

    /// What it panicked with.
    ///
    /// # Errors
    /// The error itself, if it was dropped.
    pub(crate) fn try_into_panic(self) -> Result<Box<dyn Any + Send>, Self> {
        match self.0 {
            Some(panic) => Ok(panic.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)),
            None => Err(self),
        }
    }

    fn text(&self) -> &'static str {
        if self.is_panic() { "a task panicked" } else { "a task was dropped before its end" }
    }
}

impl std::fmt::Display for JoinError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text())
    }
}

impl std::fmt::Debug for JoinError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "JoinError({})", self.text())
    }
}

impl std::error::Error for JoinError {}
