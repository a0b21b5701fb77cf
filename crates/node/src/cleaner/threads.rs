//! The cleaner's threads: as many as the settings ask for.

use std::sync::{Arc, Weak};
use tailrace_env::thread::{self, Thread};
use tailrace_env::time::{Duration, Instant};

use tailrace_config::BrokerConfig;
use tailrace_log::{HashSecret, KeyMap};
use tailrace_types::usize_of;

use super::pick::Candidate;
use super::round::{self, RoundError};
use super::{Cleaner, POLL_INTERVAL, Shared};
use crate::node::Node;

/// Maximum number of threads: the bound of `log.cleaner.threads`.
const THREADS_MAX: u32 = 64;
/// Minimum memory for keys of one thread, in bytes: Kafka's minimum.
const KEYS_BYTES_MIN: u64 = 1 << 20;

impl Cleaner {
    /// Starts the threads. They end with [`Cleaner::stop`], or when the node is gone.
    ///
    /// # Errors
    /// The operating system's error if it cannot create a thread.
    pub(crate) fn start(&self, node: &Arc<Node>) -> std::io::Result<()> {
        if !node.config().log_cleaner_enable {
            return Ok(());
        }
        let (shared, weak) = (Arc::clone(&self.shared), Arc::downgrade(node));
        let manager = thread::spawn("cleaner", move || manage(&shared, &weak))?;
        self.threads.lock().push(manager);
        Ok(())
    }
}

/// Keeps as many threads as the settings ask for, which may change.
fn manage(shared: &Arc<Shared>, node: &Weak<Node>) {
    let mut threads: Vec<Thread> = Vec::new();
    loop {
        let Some(alive) = node.upgrade() else { break };
        let wanted = alive.config().log_cleaner_threads.min(THREADS_MAX);
        drop(alive);
        threads.retain(|thread| !thread.is_finished());
        // A thread whose number is no longer wanted ends by itself.
        let running = u32::try_from(threads.len()).expect("no more run than THREADS_MAX");
        for number in running..wanted {
            let (shared, node) = (Arc::clone(shared), node.clone());
            match thread::spawn(format!("cleaner-{number}"), move || work(&shared, &node, number)) {
                Ok(thread) => threads.push(thread),
                Err(error) => tracing::error!(%error, "cannot start a cleaner thread"),
            }
        }
        if shared.stop.pause(POLL_INTERVAL) {
            break;
        }
    }
    for thread in threads {
        if thread.join().is_err() {
            tracing::error!("a cleaner thread panicked");
        }
    }
}

/// Runs one thread, which cleans one partition after the other.
fn work(shared: &Shared, node: &Weak<Node>, number: u32) {
    let mut idle_until = Instant::now();
    while let Some(node) = node.upgrade() {
        let config = node.config();
        if shared.stop.has_rung() || number >= config.log_cleaner_threads {
            return;
        }
        if Instant::now() >= idle_until {
            shared.finish_unfinished();
            match shared.take_candidate(&node) {
                Some(candidate) => {
                    shared.clean(&node, &candidate, &config);
                    continue;
                }
                None => {
                    idle_until =
                        Instant::now() + Duration::from_millis(config.log_cleaner_backoff_ms.min(1 << 40))
                }
            }
        }
        drop(node);
        if shared
            .stop
            .pause(POLL_INTERVAL.min(idle_until.duration_since(Instant::now())).max(Duration::from_millis(1)))
        {
            return;
        }
    }
}

/// Returns the memory of one thread for keys, in bytes.
fn key_bytes(config: &BrokerConfig) -> usize {
    let each = config.log_cleaner_dedupe_buffer_size / u64::from(config.log_cleaner_threads.max(1));
    usize_of(each.max(KEYS_BYTES_MIN))
}

impl Shared {
    fn clean(&self, node: &Arc<Node>, candidate: &Candidate, config: &BrokerConfig) {
        let started = Instant::now();
        let secret = HashSecret([tailrace_env::random::u64(), tailrace_env::random::u64()]);
        // Created for each round, so that it takes no memory between rounds, and its secret lasts for one.
        let mut map = KeyMap::new(key_bytes(config), config.log_cleaner_io_buffer_load_factor, secret);
        let result = round::run(self, node, candidate, &mut map);
        let which = candidate.which.clone();
        let partition = &candidate.handle.id;
        let mut state = self.state.lock();
        state.taken.retain(|taken| *taken != which);
        match result {
            Ok(stats) => {
                node.metrics.compaction.ran(started.elapsed(), &stats);
                tracing::debug!(%partition, ?stats, "compacted");
            }
            Err(RoundError::Stopped(reason)) => {
                tracing::debug!(%partition, reason, "compaction stopped");
                // Whatever overtook the round may take a moment longer.
                state.retry_at.insert(which, Instant::now() + POLL_INTERVAL);
            }
            Err(RoundError::Full(error)) => {
                node.metrics.compaction.failures.inc();
                tracing::warn!(%partition, %error, "compaction found no space");
                let pause = Duration::from_millis(config.log_cleaner_backoff_ms.clamp(1000, 1 << 40));
                state.retry_at.insert(which, Instant::now() + pause);
            }
            Err(RoundError::Failed(reason)) => {
                node.metrics.compaction.failures.inc();
                tracing::error!(%partition, reason, "the partition cannot be compacted and is skipped until the next start");
                state.uncleanable.insert(which, reason);
            }
        }
    }

    /// Retries to make exchanges durable that failed on a full disk.
    fn finish_unfinished(&self) {
        let unfinished = std::mem::take(&mut self.state.lock().unfinished);
        for (handle, trim) in unfinished {
            let result = trim.run();
            let full = result.as_ref().is_err_and(tailrace_log::LogError::is_no_space);
            round::finish(&handle, &trim, &result);
            if full {
                self.state.lock().unfinished.push((handle, trim));
            }
        }
    }
}
