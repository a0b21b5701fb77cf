//! Describes the machine and the software of a run.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::sample::Setting;
use xtask::run::root;

pub(super) fn setting(data: &Path, peer: String, rounds: u32, quick: bool) -> Setting {
    Setting {
        date: printed("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
        commit: commit(),
        machine: machine(data),
        kernel: read("/proc/sys/kernel/osrelease"),
        peer,
        rounds,
        quick,
    }
}

/// The commit, with a mark if the working tree differs from it.
fn commit() -> String {
    let commit = printed("git", &["rev-parse", "--short", "HEAD"]);
    let changed =
        printed("git", &["status", "--porcelain", "--untracked-files=no", "--", "crates", "Cargo.lock"]);
    if changed.is_empty() { commit } else { format!("{commit} with changes") }
}

fn machine(data: &Path) -> String {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let count = cpus.lines().filter(|line| line.starts_with("processor")).count();
    let model = field(&cpus, "model name").unwrap_or("unknown CPU");
    let kibibytes = field(&memory, "MemTotal").and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    let memory = kibibytes.map_or(0.0, |size| size / f64::from(1 << 20));
    format!("{count} CPUs {model}, {memory:.0} GiB, {}", file_system(&mounts, data))
}

/// The memory that a program can use without making the machine swap, in bytes. 0 if the kernel does not
/// report it.
pub(super) fn available_bytes() -> u64 {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = field(&memory, "MemAvailable").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Allocates memory, touches every page and frees it, so that the next run finds free pages that the host has
/// already backed. On a virtual machine, the first touch of a page costs several times the write itself.
/// Without this, the second system of a round would pay for both (measured: 0.5 against 2.8 CPU seconds per
/// million records).
pub(super) fn warm_free_memory(bytes: u64) {
    const PAGE: usize = 4096;
    let wanted = bytes.min(available_bytes() / 2);
    let mut memory = vec![0_u8; usize::try_from(wanted).unwrap_or(0)];
    for page in memory.iter_mut().step_by(PAGE) {
        *page = 1;
    }
    std::hint::black_box(&memory);
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim())
}

/// The type of the file system that contains `path`: that of the longest mount point above it.
fn file_system(mounts: &str, path: &Path) -> String {
    let split = |line: &str| {
        let mut words = line.split(' ').skip(1).map(str::to_owned);
        Some((words.next()?, words.next()?))
    };
    let above = mounts.lines().filter_map(split).filter(|(point, _)| path.starts_with(point));
    above
        .max_by_key(|(point, _)| point.len())
        .map_or_else(|| "unknown file system".to_owned(), |(_, kind)| kind)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

pub(super) fn printed(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(root()).output();
    output.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_mount_holds_the_file() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n";
        assert_eq!(file_system(mounts, Path::new("/tmp/peers")), "tmpfs");
        assert_eq!(file_system(mounts, Path::new("/home")), "ext4");
    }

    #[test]
    fn fields_are_read() {
        assert_eq!(field("model name\t: Some CPU\n", "model name"), Some("Some CPU"));
        assert_eq!(field("", "model name"), None);
    }
}
