//! A disk that records writes and syncs in order, and injects faults on request.

use std::collections::HashSet;
use std::fmt::Debug;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tailrace_server::NodeDisk;

use super::watched::{DiskWatcher, WatchedDisk};

/// What happened. Events are recorded in order.
#[derive(Clone, Debug)]
pub enum Event {
    /// A batch was written to a `.log`, and the call has returned.
    Wrote { path: PathBuf, offsets: std::ops::Range<i64> },
    /// The sync of this file or folder is about to be called.
    SyncBegan { path: PathBuf, number: u64 },
    /// The sync returned without an error.
    SyncEnded { path: PathBuf, number: u64 },
    /// A client was told that these offsets are safe, or has seen them.
    Told { folder: String, offsets: std::ops::Range<i64> },
}

/// A fault to inject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Does not call the sync, but reports success.
    Swallow,
    /// Fails the operation with this error of the operating system.
    Error(i32),
    /// Writes the bytes to the file, but reports a full disk.
    Torn,
}

/// The operation that a fault hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    Write,
    Sync,
    Preallocate,
}

#[derive(Debug)]
struct Rule {
    on: On,
    /// The rule applies to paths that contain `part` and end with `suffix`.
    part: String,
    suffix: String,
    times: usize,
    fault: Fault,
}

#[derive(Debug, Default)]
struct State {
    events: Vec<Event>,
    rules: Vec<Rule>,
    syncs: u64,
    /// Syncs that wait until their entry is removed: those of `.log` files whose path contains an entry, and
    /// those of files whose path ends with one.
    held: HashSet<String>,
    /// Extra time that each sync of a `.log` takes.
    delay: Duration,
}

/// A disk watcher that records events and injects faults.
#[derive(Debug, Default)]
pub struct Tap {
    state: Mutex<State>,
    changed: Condvar,
}

impl Tap {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    pub fn disk(self: &Arc<Self>) -> NodeDisk {
        NodeDisk::new(WatchedDisk::new(Arc::clone(self) as _))
    }

    /// Makes the next `times` operations fail on files whose path contains `part` and ends with `suffix`.
    pub fn fail(&self, on: On, part: &str, suffix: &str, times: usize, fault: Fault) {
        let (part, suffix) = (part.to_owned(), suffix.to_owned());
        self.state.lock().rules.push(Rule { on, part, suffix, times, fault });
    }

    /// Stops injecting faults from now on.
    pub fn heal(&self) {
        self.state.lock().rules.clear();
    }

    /// Reports whether every fault requested with [`Tap::fail`] has happened.
    pub fn is_spent(&self) -> bool {
        self.state.lock().rules.iter().all(|rule| rule.times == 0)
    }

    /// Makes syncs wait for [`Tap::release`]: those of `.log` files whose path contains `part`, and those of
    /// files whose path ends with it.
    pub fn hold(&self, part: &str) {
        self.state.lock().held.insert(part.to_owned());
    }

    pub fn release(&self, part: &str) {
        self.state.lock().held.remove(part);
        self.changed.notify_all();
    }

    pub fn delay_syncs(&self, delay: Duration) {
        self.state.lock().delay = delay;
    }

    /// Records that a client was told, or shown, that `offsets` of the partition in this folder are safe.
    pub fn told(&self, folder: &str, offsets: std::ops::Range<i64>) {
        self.state.lock().events.push(Event::Told { folder: folder.to_owned(), offsets });
    }

    pub fn events(&self) -> Vec<Event> {
        self.state.lock().events.clone()
    }

    /// Returns how many syncs have ended so far of files whose path contains `part` and ends with `suffix`.
    pub fn syncs(&self, part: &str, suffix: &str) -> usize {
        let matches = |path: &Path| holds(path, part, suffix);
        self.state
            .lock()
            .events
            .iter()
            .filter(|e| matches!(e, Event::SyncEnded { path, .. } if matches(path)))
            .count()
    }

    fn fault(&self, on: On, path: &Path) -> Option<Fault> {
        let mut state = self.state.lock();
        let rule = state
            .rules
            .iter_mut()
            .find(|rule| rule.on == on && rule.times > 0 && holds(path, &rule.part, &rule.suffix))?;
        rule.times -= 1;
        Some(rule.fault)
    }

    fn wait_while_held(&self, path: &Path) {
        let text = path.display().to_string();
        let is_log = text.ends_with(".log");
        let mut state = self.state.lock();
        while state.held.iter().any(|part| text.ends_with(part) || (is_log && text.contains(part.as_str()))) {
            self.changed.wait(&mut state);
        }
        let delay = if is_log { state.delay } else { Duration::ZERO };
        drop(state);
        // Slow down the sync, as a slow disk would.
        std::thread::sleep(delay);
    }
}

fn holds(path: &Path, part: &str, suffix: &str) -> bool {
    let text = path.display().to_string();
    text.contains(part) && text.ends_with(suffix)
}

fn refused(fault: Fault) -> io::Result<()> {
    match fault {
        Fault::Swallow => Ok(()),
        Fault::Error(code) => Err(io::Error::from_raw_os_error(code)),
        Fault::Torn => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
    }
}

/// Returns the offsets of the batch in `bufs`. Its 16-byte prefix, which starts with the base offset,
/// precedes the received bytes.
fn offsets(bufs: &[IoSlice<'_>]) -> Option<std::ops::Range<i64>> {
    let bytes: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).take(27).collect();
    let base = i64::from_be_bytes(*bytes.first_chunk()?);
    let delta = i32::from_be_bytes(*bytes.get(23..27)?.first_chunk()?);
    Some(base..base + i64::from(delta) + 1)
}

impl DiskWatcher for Tap {
    fn write(
        &self,
        path: &Path,
        _position: u64,
        bufs: &[IoSlice<'_>],
        write: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        match self.fault(On::Write, path) {
            Some(Fault::Torn) => {
                // All bytes reach the file, and yet the call fails.
                write()?;
                return refused(Fault::Torn);
            }
            Some(fault) => return refused(fault),
            None => write()?,
        }
        if path.extension().is_some_and(|e| e == "log")
            && let Some(offsets) = offsets(bufs)
        {
            self.state.lock().events.push(Event::Wrote { path: path.to_owned(), offsets });
        }
        Ok(())
    }

    fn sync(&self, path: &Path, sync: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        let number = {
            let mut state = self.state.lock();
            state.syncs += 1;
            state.syncs
        };
        self.state.lock().events.push(Event::SyncBegan { path: path.to_owned(), number });
        self.wait_while_held(path);
        if let Some(fault) = self.fault(On::Sync, path) {
            return refused(fault);
        }
        sync()?;
        self.state.lock().events.push(Event::SyncEnded { path: path.to_owned(), number });
        Ok(())
    }

    fn before_preallocate(&self, path: &Path, _bytes: u64) -> io::Result<()> {
        self.fault(On::Preallocate, path).map_or(Ok(()), refused)
    }
}

/// Returns the promises that were made too early. For each batch that a client was told of, a sync of its
/// segment file must have begun after the write returned and ended before the client was told. The same holds
/// for the segment's folder.
pub fn broken_promises(events: &[Event]) -> Vec<String> {
    let mut broken = Vec::new();
    for (told_at, event) in events.iter().enumerate() {
        let Event::Told { folder, offsets: told } = event else { continue };
        let before = &events[..told_at];
        let mut covered = told.start;
        for (wrote_at, event) in before.iter().enumerate() {
            let Event::Wrote { path, offsets } = event else { continue };
            let parent = path.parent().unwrap_or(path);
            if !parent.ends_with(folder) || offsets.end <= told.start || offsets.start >= told.end {
                continue;
            }
            covered = covered.max(offsets.end);
            for what in [path.as_path(), parent] {
                // A sync of the folder counts from the moment the file was in it.
                let since = if what == parent { first_write(before, path) } else { wrote_at };
                if !synced_between(before, since, what) {
                    broken.push(format!("{folder} {offsets:?}: {} was not synced in time", what.display()));
                }
            }
        }
        if covered < told.end {
            broken.push(format!("{folder} {told:?}: nobody wrote {covered}..{}", told.end));
        }
    }
    broken
}

fn first_write(events: &[Event], wanted: &Path) -> usize {
    let writes = |event: &Event| matches!(event, Event::Wrote { path, .. } if path == wanted);
    events.iter().position(writes).unwrap_or(0)
}

fn synced_between(events: &[Event], since: usize, wanted: &Path) -> bool {
    let mut begun = HashSet::new();
    for event in &events[since..] {
        match event {
            Event::SyncBegan { path, number } if path == wanted => {
                begun.insert(*number);
            }
            Event::SyncEnded { path, number } if path == wanted && begun.contains(number) => return true,
            _ => {}
        }
    }
    false
}
