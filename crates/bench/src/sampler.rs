//! Resources used by server and generator during a run: processor time, memory, context switches, reads and
//! writes.
//!
//! Samples are taken from /proc once per second. A server counts with its descendants and its process group:
//! Kafka's and RabbitMQ's programs are scripts that start the server. The generator counts alone. Otherwise
//! it would include the servers that it starts.

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::report::{ResourceSample, Resources};

const INTERVAL: Duration = Duration::from_secs(1);

/// The last sample of a run is omitted if it comes sooner than this after the one before: rates over less
/// time say little.
const LAST_INTERVAL_MIN: Duration = Duration::from_millis(500);

/// A thread that samples until it is stopped.
#[derive(Debug)]
pub(crate) struct Sampler {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Resources>>,
}

impl Sampler {
    /// Samples this process and, if there is one, the server's process with its children. A server that is
    /// restarted becomes another process.
    pub(crate) fn start(server: Option<Arc<AtomicU32>>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let body = move || sample(server.as_deref(), &flag);
        Self { stop, thread: thread::Builder::new().name("sampler".to_owned()).spawn(body).ok() }
    }

    /// Takes a last sample, ends the thread, and returns all samples.
    pub(crate) fn finish(mut self) -> Resources {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

fn sample(server: Option<&AtomicU32>, stop: &AtomicBool) -> Resources {
    let mut resources = Resources::default();
    let mut generator = Watch::alone(std::process::id());
    let pid = || server.map(|pid| pid.load(Ordering::Relaxed));
    let mut server = pid().map(Watch::with_children);
    let begun = Instant::now();
    let mut taken: Option<Duration> = None;
    loop {
        // However late this thread wakes up, a run has a first and a last sample.
        let stopped = taken.is_some() && stop.load(Ordering::Relaxed);
        let now = begun.elapsed();
        let due =
            taken.map_or(Duration::ZERO, |taken| taken + if stopped { LAST_INTERVAL_MIN } else { INTERVAL });
        let few = resources.generator.len() < 2;
        if now >= due || (stopped && few) {
            resources.generator.push(generator.sample(now));
            if let (Some(server), Some(pid)) = (&mut server, pid()) {
                server.follow(pid);
            }
            resources.server.extend(server.as_mut().map(|server| server.sample(now)));
            // Exactly on the second, whenever the thread wakes up.
            taken = Some(if stopped { now } else { due });
        }
        if stopped {
            return resources;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// A process, or a tree of processes, and the resources used so far.
#[derive(Debug)]
struct Watch {
    root: u32,
    children: bool,
    /// Members of the tree with their start times. A child whose parent has ended still belongs to it.
    members: HashMap<u32, u64>,
    /// The last values of the members' threads.
    switches: HashMap<(u32, u32), (u64, u64)>,
    before: Counters,
    used: Counters,
    voluntary_switches: u64,
    involuntary_switches: u64,
}

/// Sums over the processes of a tree, including those that have ended and were waited for by another member.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counters {
    ticks: u64,
    read_bytes: u64,
    written_bytes: u64,
    disk_read_bytes: u64,
    disk_written_bytes: u64,
}

impl Counters {
    fn add(&mut self, other: Self) {
        self.ticks += other.ticks;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.disk_read_bytes += other.disk_read_bytes;
        self.disk_written_bytes += other.disk_written_bytes;
    }

    /// The increase since `before`. Sums decrease when a process ends that no member of the tree waits for.
    fn since(self, before: Self) -> Self {
        Self {
            ticks: self.ticks.saturating_sub(before.ticks),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
            disk_read_bytes: self.disk_read_bytes.saturating_sub(before.disk_read_bytes),
            disk_written_bytes: self.disk_written_bytes.saturating_sub(before.disk_written_bytes),
        }
    }
}

impl Watch {
    fn alone(root: u32) -> Self {
        Self {
            root,
            children: false,
            members: HashMap::new(),
            switches: HashMap::new(),
            before: Counters::default(),
            used: Counters::default(),
            voluntary_switches: 0,
            involuntary_switches: 0,
        }
    }

    fn with_children(root: u32) -> Self {
        Self { children: true, ..Self::alone(root) }
    }

    /// Continues with another process, whose counters start at 0.
    fn follow(&mut self, root: u32) {
        if root != self.root {
            self.root = root;
            self.before = Counters::default();
            (self.members, self.switches) = (HashMap::new(), HashMap::new());
        }
    }

    fn sample(&mut self, at: Duration) -> ResourceSample {
        let pids: Vec<u32> = if self.children {
            self.members = family(self.root, &self.members, &processes());
            self.members.keys().copied().collect()
        } else {
            vec![self.root]
        };
        let (mut now, mut resident_bytes, mut switches) = (Counters::default(), 0, HashMap::new());
        for pid in pids {
            let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
            now.add(counters(&read("stat"), &read("io"), self.children));
            resident_bytes += value(&read("status"), "VmRSS") * 1024;
            self.count_switches(pid, &mut switches);
        }
        self.switches = switches;
        self.used.add(now.since(self.before));
        self.before = now;
        ResourceSample {
            second: at.as_secs_f64(),
            cpu_seconds: self.used.ticks as f64 / rustix::param::clock_ticks_per_second().max(1) as f64,
            resident_bytes,
            voluntary_switches: self.voluntary_switches,
            involuntary_switches: self.involuntary_switches,
            read_bytes: self.used.read_bytes,
            written_bytes: self.used.written_bytes,
            disk_read_bytes: self.used.disk_read_bytes,
            disk_written_bytes: self.used.disk_written_bytes,
        }
    }

    /// Linux counts switches per thread, and forgets those of threads that have ended.
    fn count_switches(&mut self, pid: u32, now: &mut HashMap<(u32, u32), (u64, u64)>) {
        for thread in numbers(&format!("/proc/{pid}/task")) {
            let status = fs::read_to_string(format!("/proc/{pid}/task/{thread}/status")).unwrap_or_default();
            let found =
                (value(&status, "voluntary_ctxt_switches"), value(&status, "nonvoluntary_ctxt_switches"));
            let before = self.switches.get(&(pid, thread)).copied().unwrap_or_default();
            self.voluntary_switches += found.0.saturating_sub(before.0);
            self.involuntary_switches += found.1.saturating_sub(before.1);
            now.insert((pid, thread), found);
        }
    }
}

/// Data for finding the members of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kin {
    parent: u32,
    group: u32,
    /// Start time in clock ticks since boot. Distinguishes processes that reuse an id.
    started: u64,
}

/// All processes except this one, which starts servers and is not part of them.
fn processes() -> HashMap<u32, Kin> {
    let own = std::process::id();
    let others = numbers("/proc").into_iter().filter(|pid| *pid != own);
    others
        .filter_map(|pid| Some((pid, kin(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?)))
        .collect()
}

fn kin(stat: &str) -> Option<Kin> {
    let fields = fields(stat);
    let number = |place: usize| fields.get(place)?.parse().ok();
    Some(Kin { parent: number(1)?, group: number(2)?, started: fields.get(19)?.parse().ok()? })
}

/// The root, its process group, all their descendants, and those of `before` that still run.
fn family(root: u32, before: &HashMap<u32, u64>, all: &HashMap<u32, Kin>) -> HashMap<u32, u64> {
    let mut found: HashMap<u32, u64> = all
        .iter()
        .filter(|(pid, kin)| **pid == root || kin.group == root || before.get(*pid) == Some(&kin.started))
        .map(|(pid, kin)| (*pid, kin.started))
        .collect();
    loop {
        let more: Vec<(u32, u64)> = all
            .iter()
            .filter(|(pid, kin)| !found.contains_key(*pid) && found.contains_key(&kin.parent))
            .map(|(pid, kin)| (*pid, kin.started))
            .collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

fn counters(stat: &str, io: &str, with_waited_for: bool) -> Counters {
    // User and kernel time, and those of children that ended and were waited for.
    let times = if with_waited_for { 4 } else { 2 };
    let ticks = fields(stat).iter().skip(11).take(times).map(|field| field.parse().unwrap_or(0)).sum();
    Counters {
        ticks,
        read_bytes: value(io, "rchar"),
        written_bytes: value(io, "wchar"),
        disk_read_bytes: value(io, "read_bytes"),
        disk_written_bytes: value(io, "write_bytes"),
    }
}

/// Fields of /proc/PID/stat after the name, which is in parentheses and may contain anything.
fn fields(stat: &str) -> Vec<&str> {
    stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect()
}

/// The number after `KEY:`, or 0.
fn value(text: &str, key: &str) -> u64 {
    let found = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    found.and_then(|value| value.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Entries of a folder whose names are numbers.
fn numbers(folder: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command};

    use rustix::process::{Pid, Signal, kill_process_group};

    use super::*;

    #[test]
    fn counters_are_found() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 300 200 40 5 0 0 1 0 99 0";
        let io = "rchar: 10\nwchar: 20\nread_bytes: 30\nwrite_bytes: 40\n";
        let found = counters(stat, io, false);
        assert_eq!((found.ticks, found.read_bytes, found.disk_written_bytes), (500, 10, 40));
        assert_eq!(counters(stat, io, true).ticks, 545);
        assert_eq!(kin(stat), Some(Kin { parent: 1, group: 2, started: 99 }));
        assert_eq!((counters("", "", true), kin("")), (Counters::default(), None));
        let status =
            "Name:\tx\nVmRSS:\t  12 kB\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t6\n";
        assert_eq!((value(status, "VmRSS"), value(status, "nonvoluntary_ctxt_switches")), (12, 6));
    }

    #[test]
    fn a_family_is_a_tree_a_group_and_orphans() {
        let kin = |parent, group, started| Kin { parent, group, started };
        let all = HashMap::from([
            (10, kin(1, 10, 5)),
            (11, kin(10, 10, 6)),
            (12, kin(11, 12, 7)), // a grandchild with a group of its own
            (13, kin(1, 10, 8)),  // in the group, but its parent has ended
            (14, kin(1, 14, 9)),  // an orphan seen before
            (15, kin(1, 15, 99)), // another process that reuses the id of one seen before
            (20, kin(1, 20, 4)),
        ]);
        let before = HashMap::from([(14, 9), (15, 10)]);
        let mut found: Vec<u32> = family(10, &before, &all).into_keys().collect();
        found.sort_unstable();
        assert_eq!(found, [10, 11, 12, 13, 14]);
    }

    /// A process group that ends with the test.
    struct Group(Child);

    impl Drop for Group {
        fn drop(&mut self) {
            let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
            let _ = self.0.wait();
        }
    }

    fn shell(script: &str) -> Group {
        Group(Command::new("sh").args(["-c", script]).process_group(0).spawn().unwrap())
    }

    /// Samples until the condition holds.
    fn sample_until(watch: &mut Watch, condition: impl Fn(&ResourceSample) -> bool) -> ResourceSample {
        let begun = Instant::now();
        loop {
            let sample = watch.sample(begun.elapsed());
            if condition(&sample) {
                return sample;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "{sample:?}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn children_count_for_a_server() {
        let group = shell("(while :; do :; done) & wait");
        let (mut all, mut alone) = (Watch::with_children(group.0.id()), Watch::alone(group.0.id()));
        let sample = sample_until(&mut all, |sample| sample.cpu_seconds >= 0.3);
        let root = alone.sample(Duration::ZERO);
        assert!(root.cpu_seconds < 0.1, "{root:?}");
        assert!(sample.resident_bytes > root.resident_bytes, "{sample:?} {root:?}");
    }

    #[test]
    fn children_that_ended_still_count() {
        // The child works, ends, and is waited for; then its parent sleeps.
        let group =
            shell("sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done'; read forever < /dev/zero");
        let mut watch = Watch::with_children(group.0.id());
        let pid = group.0.id();
        let most = sample_until(&mut watch, |sample| sample.cpu_seconds >= 0.05).cpu_seconds;
        let begun = Instant::now();
        while family(pid, &HashMap::new(), &processes()).len() > 1 {
            assert!(begun.elapsed() < Duration::from_secs(30));
            thread::sleep(Duration::from_millis(10));
        }
        assert!(watch.sample(Duration::ZERO).cpu_seconds >= most);
    }

    #[test]
    fn a_server_that_is_started_again_counts_with_both_its_lives() {
        let busy = "while :; do :; done";
        let first = shell(busy);
        let mut watch = Watch::with_children(first.0.id());
        let before = sample_until(&mut watch, |sample| sample.cpu_seconds >= 0.2).cpu_seconds;
        drop(first);
        let second = shell(busy);
        watch.follow(second.0.id());
        let after = sample_until(&mut watch, |sample| sample.cpu_seconds >= before + 0.1);
        assert!(after.cpu_seconds < before + 10.0 && after.resident_bytes > 0, "{after:?}");
    }

    #[test]
    fn this_process_is_sampled() {
        // Threads count: each waits at least once.
        let sampler = Sampler::start(None);
        for _ in 0..3 {
            // The wait that is counted.
            thread::spawn(|| thread::sleep(Duration::from_millis(1))).join().unwrap();
        }
        let resources = sampler.finish();
        assert!(resources.generator.len() >= 2 && resources.server.is_empty(), "{resources:?}");
        let last = resources.generator.last().unwrap();
        assert!(last.resident_bytes > 0 && last.voluntary_switches > 0, "{last:?}");
    }

    #[test]
    fn a_run_that_ends_before_its_sampler_begins_has_two_samples() {
        let resources = sample(None, &AtomicBool::new(true));
        assert_eq!((resources.generator.len(), resources.server.len()), (2, 0), "{resources:?}");
    }
}
