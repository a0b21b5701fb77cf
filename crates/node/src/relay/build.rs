//! Building batches: on the event loop where that is quick.

use tailrace_env::task::{self, JoinHandle};
use tailrace_records::BatchBuilder;

/// More than this is compressed on a worker thread: it takes longer than an event loop may be kept from its other
/// connections.
const COMPRESS_INLINE_BYTES: usize = 32 * 1024;

/// One batch, or several that are built together.
pub(super) trait Unbuilt: Send + 'static {
    /// Bytes that are to be compressed, at most.
    fn compressed_bytes(&self) -> usize;
}

impl Unbuilt for BatchBuilder {
    fn compressed_bytes(&self) -> usize {
        if self.is_compressed() { self.bytes_estimate() } else { 0 }
    }
}

impl Unbuilt for Vec<BatchBuilder> {
    fn compressed_bytes(&self) -> usize {
        self.iter().map(Unbuilt::compressed_bytes).sum()
    }
}

/// What is being made of it.
pub(super) enum Building<T> {
    /// It is there.
    Done(T),
    /// It is to be waited for.
    OnWorker(JoinHandle<T>),
}

/// Has `finish` make something of it. Not `async`: what a connection's task keeps room for would be held twice.
pub(super) fn build<B: Unbuilt, T: Send + 'static>(
    unbuilt: B,
    finish: impl FnOnce(B) -> T + Send + 'static,
) -> Building<T> {
    if unbuilt.compressed_bytes() <= COMPRESS_INLINE_BYTES {
        return Building::Done(finish(unbuilt));
    }
    Building::OnWorker(task::spawn_blocking(move || finish(unbuilt)))
}
