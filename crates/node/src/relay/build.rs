//! Building batches: on the event loop where that is quick.

use tailrace_env::task::{self, JoinError};
use tailrace_records::BatchBuilder;

/// More than this is compressed on a worker thread: it takes longer than an event loop may be kept from its other connections.
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

/// What `finish` makes of it.
///
/// # Errors
/// It panicked on a worker.
pub(super) async fn build<B: Unbuilt, T: Send + 'static>(
    unbuilt: B,
    finish: impl FnOnce(B) -> T + Send + 'static,
) -> Result<T, JoinError> {
    if unbuilt.compressed_bytes() <= COMPRESS_INLINE_BYTES {
        return Ok(finish(unbuilt));
    }
    task::spawn_blocking(move || finish(unbuilt)).await
}
