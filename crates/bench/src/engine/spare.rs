//! Recorders that are used again, so that a thread that measures does not wait for fresh memory.

use std::sync::{Mutex, PoisonError};

use crate::recorder::Recorder;

#[derive(Debug, Default)]
pub(super) struct Spare {
    recorders: Mutex<Vec<Recorder>>,
}

impl Spare {
    /// An empty recorder; its memory has been touched before if there was one to spare.
    pub(super) fn take(&self) -> Recorder {
        self.recorders.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Gives one back. It is cleared here, on the caller's time.
    pub(super) fn put(&self, mut recorder: Recorder) {
        recorder.clear();
        self.recorders.lock().unwrap_or_else(PoisonError::into_inner).push(recorder);
    }
}
