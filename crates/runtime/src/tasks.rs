//! The only place that chooses what connections run on, so that another runtime can be tried and measured.

use tailrace_config::BrokerConfig;

use crate::memory;
use crate::world::TURNS_BETWEEN_EVENTS;

/// Builds tokio's multi-threaded runtime with `tailrace.worker.threads` event loops and `tailrace.io.threads`
/// threads for work that may block. Also tells the system's allocator, once for the whole process, to keep
/// buffers that are reused (`memory`).
///
/// # Errors
/// The operating system's error if it cannot create threads.
pub fn build_runtime(config: &BrokerConfig) -> std::io::Result<tokio::runtime::Runtime> {
    crate::install();
    memory::keep_buffers();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let threads = usize::try_from(config.tailrace_worker_threads).unwrap_or(0);
    if threads > 0 {
        builder.worker_threads(threads);
    }
    builder
        .max_blocking_threads(usize::try_from(config.tailrace_io_threads).unwrap_or(1))
        .event_interval(TURNS_BETWEEN_EVENTS)
        .thread_name("tailrace")
        .enable_all()
        .build()
}
