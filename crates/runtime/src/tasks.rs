//! The one place that decides what connections run on, so that another runtime can be tried and measured.

use std::future::Future;
use std::pin::Pin;

use tailrace_config::BrokerConfig;

use crate::memory;

/// A task as tokio is to be given it where tasks come and go all the time: its content in a piece of memory of its own.
///
/// tokio aligns its own piece to a cache line or two, and what glibc before 2.38 frees of aligned pieces leaves holes into which no
/// further one fits (its bug 14581). Small ones cost little. A server whose requests held 35 MiB took 220 MiB without this.
pub fn task<T>(work: impl Future<Output = T> + Send + 'static) -> Pin<Box<dyn Future<Output = T> + Send>> {
    Box::pin(work)
}

/// tokio's multi-thread runtime with `tailrace.worker.threads` event loops and `tailrace.io.threads` threads for work
/// that may block. For the whole process, and once for all: the system's allocator is told to keep buffers that are used again and
/// again (`memory`).
///
/// # Errors
/// The operating system's, if it gives no threads.
pub fn build_runtime(config: &BrokerConfig) -> std::io::Result<tokio::runtime::Runtime> {
    memory::keep_buffers();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let threads = usize::try_from(config.tailrace_worker_threads).unwrap_or(0);
    if threads > 0 {
        builder.worker_threads(threads);
    }
    builder
        .max_blocking_threads(usize::try_from(config.tailrace_io_threads).unwrap_or(1))
        .thread_name("tailrace")
        .enable_all()
        .build()
}

/// Ends when the server is stopping, also if that was before `receiver` subscribed.
pub async fn stopped(receiver: &mut tokio::sync::watch::Receiver<bool>) {
    // An error means that the server is gone.
    let _ = receiver.wait_for(|stopping| *stopping).await;
}
