//! Recorders to reuse, so that a measuring thread does not wait for fresh memory.

use parking_lot::Mutex;

use crate::recorder::Recorder;

#[derive(Debug, Default)]
pub(super) struct Spare {
    recorders: Mutex<Vec<Recorder>>,
}

impl Spare {
    /// Returns an empty recorder. If a spare one exists, its memory has been touched before.
    pub(super) fn take(&self) -> Recorder {
        self.recorders.lock().pop().unwrap_or_default()
    }

    /// Returns a recorder to the pool. It is cleared here, on the caller's time.
    pub(super) fn put(&self, mut recorder: Recorder) {
        recorder.clear();
        self.recorders.lock().push(recorder);
    }
}
