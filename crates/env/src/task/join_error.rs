//! The error of a task that gave no result.

use std::any::Any;

use parking_lot::Mutex;

type Panic = Box<dyn Any + Send>;

/// The error of a task that gave no result. The task panicked, or it was dropped by an abort or together with
/// its world.
pub struct JoinError(Option<Mutex<Panic>>);

impl JoinError {
    pub(super) fn dropped() -> Self {
        Self(None)
    }

    pub(super) fn panicked(panic: Panic) -> Self {
        Self(Some(Mutex::new(panic)))
    }

    /// True if the task panicked.
    pub fn is_panic(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the payload of the panic.
    ///
    /// # Errors
    /// The error itself if the task was dropped.
    pub(crate) fn try_into_panic(self) -> Result<Box<dyn Any + Send>, Self> {
        match self.0 {
            Some(panic) => Ok(panic.into_inner()),
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
