//! The machine that the generator runs on, as far as Linux reports it.

use std::fs;

use serde::{Deserialize, Serialize};

/// Facts about a machine for judging a latency.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Release of the kernel.
    pub kernel: String,
    /// Model of the processor.
    pub processor: String,
    /// Processors that this process may use.
    pub processors: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
}

impl Machine {
    /// Reads the facts. Those that are unavailable are empty or 0.
    pub(crate) fn look() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let after_colon = |text: &str, key: &str| {
            let line = text.lines().find(|line| line.starts_with(key))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory = after_colon(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
        let kilobytes: u64 = memory.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0);
        Self {
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            processor: after_colon(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            memory_bytes: kilobytes * 1024,
        }
    }
}
