//! Confines a panic to its task.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::join_error::JoinError;

pin_project! {
    /// A future that returns its panic as an error.
    pub(super) struct Caught<F> {
        #[pin]
        pub(super) work: F,
    }
}

impl<F: Future> Future for Caught<F> {
    type Output = Result<F::Output, JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let work = self.project().work;
        // A future that panicked is never polled again.
        match catch_unwind(AssertUnwindSafe(|| work.poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(panic) => Poll::Ready(Err(JoinError::panicked(panic))),
        }
    }
}
