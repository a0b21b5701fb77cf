//! Predicts whether a write would block. The kernel throttles writers when too many pages of the whole
//! machine are dirty.
//!
//! Throttling starts half-way between `nr_dirty_background_threshold` and `nr_dirty_threshold`. A watcher
//! compares the machine's dirty pages with a point somewhat below that. Beyond it, appends go to worker
//! threads, which may wait.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tailrace_env::time::Duration;
use tailrace_env::time::{self, MissedTicks};

/// How often to ask the kernel while data is being appended.
const INTERVAL: Duration = Duration::from_millis(100);

/// If fewer bytes than this were appended since the last check, the watcher skips one.
const QUIET_BYTES: u64 = 64 * 1024;

/// State of the machine's dirty pages.
#[derive(Debug, Default)]
pub(crate) struct DirtyPages {
    writes_may_block: AtomicBool,
    appended: AtomicU64,
}

impl DirtyPages {
    /// Reports whether a write might have to wait for the disk.
    pub(crate) fn writes_may_block(&self) -> bool {
        self.writes_may_block.load(Ordering::Relaxed)
    }

    /// Counts bytes handed to the page cache.
    pub(crate) fn appended(&self, bytes: u64) {
        self.appended.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the total of appended bytes.
    #[cfg(test)]
    pub(crate) fn appended_bytes(&self) -> u64 {
        self.appended.load(Ordering::Relaxed)
    }

    /// Watches until the task is dropped. If the kernel does not report dirty pages, writes are assumed to be
    /// fast.
    pub(crate) async fn watch(self: Arc<Self>) {
        let mut ticks = time::interval(INTERVAL);
        ticks.set_missed(MissedTicks::Delay);
        let mut seen = 0;
        loop {
            ticks.tick().await;
            let appended = self.appended.load(Ordering::Relaxed);
            if appended - seen < QUIET_BYTES && !self.writes_may_block() {
                continue;
            }
            seen = appended;
            // procfs never blocks on a disk.
            let Ok(vmstat) = fs::read_to_string("/proc/vmstat") else { return };
            self.writes_may_block.store(near_throttling(&vmstat), Ordering::Relaxed);
        }
    }
}

fn near_throttling(vmstat: &str) -> bool {
    let value = |name: &str| {
        let line = vmstat.lines().find(|line| line.split(' ').next() == Some(name))?;
        line.split(' ').nth(1)?.parse::<u64>().ok()
    };
    let (Some(dirty), Some(writeback)) = (value("nr_dirty"), value("nr_writeback")) else { return false };
    let (Some(background), Some(limit)) =
        (value("nr_dirty_background_threshold"), value("nr_dirty_threshold"))
    else {
        return false;
    };
    let throttled_from = u64::midpoint(background, limit);
    (dirty + writeback) * 10 >= throttled_from * 9
}

#[cfg(test)]
mod tests {
    use super::near_throttling;

    #[test]
    fn writes_are_deferred_shortly_before_the_kernel_would_slow_them() {
        let vmstat = |dirty| {
            format!(
                "nr_dirty {dirty}\nnr_writeback 100\nnr_dirty_threshold 3000\nnr_dirty_background_threshold 1000\n"
            )
        };
        assert!(!near_throttling(&vmstat(1600)));
        assert!(near_throttling(&vmstat(1700)));
        assert!(!near_throttling("nonsense"));
    }
}
