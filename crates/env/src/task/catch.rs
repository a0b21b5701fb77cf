//! A panic of a task is its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::join_error::JoinError;

pin_project! {
    /// A future whose panics are its outcome.
    pub(super) struct Caught<F> {
        #[pin]
        pub(super) work: F,
    }
}

impl<F: Future> Future for Caught<F> {
    type Output = Result<F::Output, JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let work = self.project().work;
        // What panicked is never polled again.
        match catch_unwind(AssertUnwindSafe(|| work.poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(panic) => Poll::Ready(Err(JoinError::panicked(panic))),
        }
    }
}
