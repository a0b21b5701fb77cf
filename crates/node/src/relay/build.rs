//! Builds batches: on the event loop where that is quick.

use std::pin::Pin;
use std::sync::Arc;

use tailrace_env::workers::{Panicked, Workers};
use tailrace_records::BatchBuilder;

/// More than this is compressed on a worker, because it would block the event loop's other connections for
/// too long.
const COMPRESS_INLINE_BYTES: usize = 32 * 1024;

/// One batch, or several that are built together.
pub(super) trait Unbuilt: Send + 'static {
    /// Returns the maximum of bytes to compress.
    fn compressed_bytes(&self) -> usize;

    /// Reports whether even little data takes long.
    fn is_slow(&self) -> bool;
}

impl Unbuilt for BatchBuilder {
    fn compressed_bytes(&self) -> usize {
        if self.is_compressed() { self.bytes_estimate() } else { 0 }
    }

    fn is_slow(&self) -> bool {
        self.is_compressed_slowly()
    }
}

impl Unbuilt for Vec<BatchBuilder> {
    fn compressed_bytes(&self) -> usize {
        self.iter().map(Unbuilt::compressed_bytes).sum()
    }

    fn is_slow(&self) -> bool {
        self.iter().any(Unbuilt::is_slow)
    }
}

/// The result of starting a build.
pub(super) enum Building<T> {
    /// The result is ready.
    Done(T),
    /// A worker is building it.
    OnWorker(Pin<Box<dyn Future<Output = Result<T, Panicked>> + Send>>),
}

/// Has `finish` build a result. Not `async`, because the future of a connection's task would hold the
/// argument twice.
pub(super) fn build<B: Unbuilt, T: Send + 'static>(
    workers: &Arc<Workers>,
    unbuilt: B,
    finish: impl FnOnce(B) -> T + Send + 'static,
) -> Building<T> {
    if unbuilt.compressed_bytes() <= COMPRESS_INLINE_BYTES && !unbuilt.is_slow() {
        return Building::Done(finish(unbuilt));
    }
    let workers = Arc::clone(workers);
    Building::OnWorker(Box::pin(async move { workers.work(move || finish(unbuilt)).await }))
}

#[cfg(test)]
mod tests {
    use tailrace_records::{BatchOptions, Compression, CompressionLevels};
    use tailrace_types::TimestampMs;

    use super::*;

    fn builder(compression: Compression, zstd: i32, bytes: usize) -> BatchBuilder {
        let levels = CompressionLevels { zstd, ..CompressionLevels::default() };
        let mut builder = BatchBuilder::new(BatchOptions { compression, levels, ..BatchOptions::default() });
        builder.push(TimestampMs(1), None, Some(&vec![b'x'; bytes]), &[]).unwrap();
        builder
    }

    #[tokio::test]
    async fn what_takes_long_to_compress_is_built_on_a_worker() {
        tailrace_runtime::install();
        let workers = Arc::new(Workers::start().unwrap());
        for (compression, level, bytes, on_worker) in [
            (Compression::None, 19, 100_000, false),
            (Compression::Zstd, 3, 100, false),
            (Compression::Zstd, 3, 100_000, true),
            (Compression::Zstd, 19, 100, true),
            (Compression::Lz4, 19, 100, false),
        ] {
            let expected = builder(compression, level, bytes).build();
            let building = build(&workers, builder(compression, level, bytes), BatchBuilder::build);
            let is_on_worker = matches!(building, Building::OnWorker(_));
            assert_eq!(is_on_worker, on_worker, "{compression:?} {level} {bytes}");
            let built = match building {
                Building::Done(built) => Ok(built),
                Building::OnWorker(worker) => worker.await,
            };
            assert_eq!(built, Ok(expected));
        }
    }

    #[test]
    fn it_waits_for_no_thread_of_the_disk() {
        tailrace_runtime::install();
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).max_blocking_threads(1).enable_all().build().unwrap();
        let (end, is_ended) = std::sync::mpsc::channel::<()>();
        runtime.block_on(async move {
            let disk = tailrace_env::task::spawn_blocking(move || is_ended.recv());
            let workers = Arc::new(Workers::start().unwrap());
            let large = builder(Compression::Zstd, 3, 100_000);
            let Building::OnWorker(worker) = build(&workers, large, |builder| builder.len()) else {
                panic!("it is much")
            };
            assert_eq!(worker.await, Ok(1));
            assert!(!disk.is_finished());
            end.send(()).unwrap();
            disk.await.unwrap().unwrap();
        });
    }
}
