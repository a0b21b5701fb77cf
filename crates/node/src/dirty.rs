//! Would a write block? The kernel slows writers down when too many pages of the whole machine are dirty.
//!
//! It begins half-way between `nr_dirty_background_threshold` and `nr_dirty_threshold`. A watcher compares the
//! machine's dirty pages with a point somewhat below that; beyond it, appends go to worker threads, which may wait.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tailrace_env::time::Duration;
use tailrace_env::time::{self, MissedTicks};

/// How often the kernel is asked while something is being written.
const INTERVAL: Duration = Duration::from_millis(100);

/// Appended bytes between two looks below which there is no reason to look.
const QUIET_BYTES: u64 = 64 * 1024;

/// What is known about dirty pages.
#[derive(Debug, Default)]
pub(crate) struct DirtyPages {
    writes_may_block: AtomicBool,
    appended: AtomicU64,
}

impl DirtyPages {
    /// True if a write might have to wait for the disk.
    pub(crate) fn writes_may_block(&self) -> bool {
        self.writes_may_block.load(Ordering::Relaxed)
    }

    /// Takes note of bytes handed to the page cache.
    pub(crate) fn appended(&self, bytes: u64) {
        self.appended.fetch_add(bytes, Ordering::Relaxed);
    }

    /// All that was noted.
    #[cfg(test)]
    pub(crate) fn appended_bytes(&self) -> u64 {
        self.appended.load(Ordering::Relaxed)
    }

    /// Watches until the task is dropped. Where the kernel does not tell, writes are taken to be quick.
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
