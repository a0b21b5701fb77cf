//! The scrubber: a thread that reads everything that lies on the disk, at a bounded rate, to find what is not as it was written before it
//! is needed.
//!
//! It takes no lock of a partition while it reads. An index that is damaged is built again, and so are small files; a damaged batch
//! is out of service from then on, and mended by its replica, if it is one of several.

mod pace;
mod repair;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;
use tailrace_log::{Damage, LogError, ScrubTarget, Scrubbed};

use crate::node::Node;
use crate::partitions::{PartitionHandle, PartitionSlot};
use pace::Limited;
use tailrace_runtime::disk::ServerDisk;

/// How often the thread looks whether there is something to do, at least.
const LOOK: Duration = Duration::from_millis(200);

/// Damages of a round that are remembered for those who ask.
const FOUND_MAX: usize = 100;

/// What a thread does for as long as the server runs.
type Work = fn(&Shared, &Weak<Node>);

/// The scrubber of one server.
#[derive(Debug, Default)]
pub(crate) struct Scrubber {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    stopping: bool,
    progress: Progress,
}

/// How far the present round is, or how the last one ended.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Progress {
    /// A round is under way.
    pub(crate) running: bool,
    /// What asked for it: the value of `tailrace.scrub.request`; empty if it was time.
    pub(crate) request: String,
    /// Rounds that have ended since the start.
    pub(crate) rounds: u64,
    pub(crate) partitions: usize,
    pub(crate) partitions_done: usize,
    /// Bytes of segments.
    pub(crate) bytes: u64,
    pub(crate) bytes_done: u64,
    /// What it may read; 0: as much as the disk gives.
    pub(crate) bytes_per_second: u64,
    /// Since it began; how long it took, once it has ended.
    pub(crate) elapsed_ms: u64,
    /// It has ended, and everything was read.
    pub(crate) complete: bool,
    /// What was found in this round, at most [`FOUND_MAX`].
    pub(crate) found: Vec<Found>,
    /// How much was found, also beyond that.
    pub(crate) found_total: usize,
    /// Partitions that could not be read, or not to their end; at most [`FOUND_MAX`].
    pub(crate) not_read: Vec<NotRead>,
    #[serde(skip)]
    began: Option<Instant>,
}

/// A partition that a round knows nothing of.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct NotRead {
    pub(crate) partition: String,
    pub(crate) reason: String,
}

impl Progress {
    fn elapsed_until_now(&self) -> u64 {
        self.began.map_or(0, |began| u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX))
    }
}

/// Damage that was found.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Found {
    pub(crate) partition: String,
    pub(crate) file: String,
    pub(crate) position: u64,
    pub(crate) reason: String,
}

impl Scrubber {
    /// Starts its threads. They end with [`Scrubber::stop`], or when the node is gone.
    ///
    /// # Errors
    /// The operating system's, if it gives no thread.
    pub(crate) fn start(&self, node: &Arc<Node>) -> std::io::Result<()> {
        for (name, work) in [("scrubber", run as Work), ("repair", repair::run)] {
            let (shared, node) = (Arc::clone(&self.shared), Arc::downgrade(node));
            let thread = std::thread::Builder::new().name(name.to_owned());
            let thread = thread.spawn(move || work(&shared, &node))?;
            self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        Ok(())
    }

    /// Ends the threads, after one more read at most. Blocks.
    pub(crate) fn stop(&self) {
        self.shared.lock().stopping = true;
        self.shared.wake.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("the scrubber panicked");
            }
        }
    }

    /// How far it is.
    pub(crate) fn progress(&self) -> Progress {
        let mut progress = self.shared.lock().progress.clone();
        if progress.running {
            progress.elapsed_ms = progress.elapsed_until_now();
        }
        progress
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every critical section leaves the state consistent even if it were to panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopping(&self) -> bool {
        self.lock().stopping
    }

    /// Waits, but not beyond the end of the server.
    fn wait(&self, duration: Duration) {
        let state = self.lock();
        if !state.stopping {
            drop(self.wake.wait_timeout(state, duration));
        }
    }
}

/// When rounds begin.
struct Clock {
    /// The beginning of the last round, or of the wait for the first.
    since: Instant,
    any_yet: bool,
    /// What was asked for last.
    request: String,
    /// A round of its own time made way for one that was asked for, and is to be done after it.
    interrupted: bool,
}

/// A round that is due.
#[derive(Debug, PartialEq, Eq)]
struct Due {
    request: String,
    /// Only this one.
    topic: Option<String>,
    /// Instead of what is set, for this round alone.
    bytes_per_second: Option<u64>,
}

impl Due {
    /// Reads `WORD[@BYTES PER SECOND][:TOPIC]`, where the word is one that was not used before.
    fn requested(request: &str) -> Self {
        let (word, topic) = match request.split_once(':') {
            Some((word, topic)) => (word, Some(topic.to_owned())),
            None => (request, None),
        };
        let bytes_per_second = word.split_once('@').and_then(|(_, rate)| rate.parse().ok());
        Self { request: request.to_owned(), topic, bytes_per_second }
    }
}

impl Clock {
    fn due(&mut self, interval_ms: i64, bytes_per_second: u64, request: &str, now: Instant) -> Option<Due> {
        if request != self.request {
            self.request = request.to_owned();
            if !request.is_empty() {
                return Some(Due::requested(request));
            }
        }
        let interval = Duration::from_millis(u64::try_from(interval_ms).ok().filter(|ms| *ms > 0)?);
        let wait = if self.any_yet { interval } else { interval / 10 };
        let is_time = self.interrupted || now.saturating_duration_since(self.since) >= wait;
        if bytes_per_second == 0 || !is_time {
            return None;
        }
        (self.since, self.any_yet, self.interrupted) = (now, true, false);
        Some(Due { request: String::new(), topic: None, bytes_per_second: None })
    }

    /// Remembers how a round ended. One that was asked for and read everything stands for one that made way for it.
    fn ended(&mut self, due: &Due, is_whole: bool) {
        match due.request.is_empty() {
            true => self.interrupted = !is_whole,
            false => self.interrupted &= !(is_whole && due.topic.is_none()),
        }
    }
}

fn run(shared: &Shared, node: &Weak<Node>) {
    let Some(alive) = node.upgrade() else { return };
    // What was asked for before the start is over.
    let request = alive.config().tailrace_scrub_request.clone();
    drop(alive);
    let mut clock = Clock { since: Instant::now(), any_yet: false, request, interrupted: false };
    while let Some(node) = node.upgrade() {
        if shared.is_stopping() {
            return;
        }
        let config = node.config();
        let (interval, rate) = (config.tailrace_scrub_interval_ms, config.tailrace_scrub_bytes_per_second);
        if let Some(due) = clock.due(interval, rate, &config.tailrace_scrub_request, Instant::now()) {
            let is_whole = round(shared, &node, &due, &clock.request);
            clock.ended(&due, is_whole);
        }
        drop((node, config));
        shared.wait(LOOK);
    }
}

/// Reads everything once, unless something else is asked for meanwhile: `asked` is what was asked for last. True if it came to its end.
fn round(shared: &Shared, node: &Arc<Node>, due: &Due, asked: &str) -> bool {
    let topics = Arc::clone(&node.topics());
    let wanted = |handle: &&Arc<PartitionHandle>| {
        due.topic.as_deref().is_none_or(|topic| handle.id.topic.as_str() == topic)
    };
    let metadata = node.controller.handle();
    let all = topics.online().chain(std::iter::once(&metadata));
    let handles: Vec<_> = all.filter(wanted).cloned().collect();
    let bytes = handles.iter().map(|handle| handle.reader.log().size_bytes()).sum();
    let mut pace = Limited::new(shared, node, due.bytes_per_second, asked);
    {
        let mut state = shared.lock();
        let rounds = state.progress.rounds;
        let partitions = handles.len();
        state.progress = Progress {
            running: true,
            request: due.request.clone(),
            rounds,
            partitions,
            bytes,
            bytes_per_second: pace.rate(),
            began: Some(Instant::now()),
            ..Progress::default()
        };
    }
    for (id, reason) in offline(node, due.topic.as_deref()) {
        not_read(shared, id, reason);
    }
    let mut ended = true;
    for handle in &handles {
        match scrub(shared, node, handle, &mut pace) {
            Ok(()) => {}
            Err(LogError::CompactionStopped { .. }) => {
                ended = false;
                break;
            }
            Err(error) => {
                tracing::warn!(partition = %handle.id, %error, "scrubbing ended early");
                not_read(shared, handle.id.to_string(), error.to_string());
            }
        }
        shared.lock().progress.partitions_done += 1;
    }
    let mut state = shared.lock();
    let progress = &mut state.progress;
    (progress.running, progress.elapsed_ms) = (false, progress.elapsed_until_now());
    if ended {
        progress.complete = progress.not_read.is_empty();
        progress.rounds += 1;
        node.metrics.repair.rounds.inc();
        let (bytes, found, not_read) = (progress.bytes_done, progress.found_total, progress.not_read.len());
        tracing::info!(partitions = handles.len(), bytes, found, not_read, "scrubbed");
    }
    ended
}

/// Partitions of this node that are not in service, and why.
fn offline(node: &Node, wanted: Option<&str>) -> Vec<(String, String)> {
    let topics = Arc::clone(&node.topics());
    let wanted =
        topics.iter().filter(|topic| wanted.is_none_or(|wanted| topic.image.name.as_str() == wanted));
    let mut found = Vec::new();
    for topic in wanted {
        for (slot, id) in topic.partitions.iter().zip(topic.image.topic_partitions()) {
            if let PartitionSlot::Offline(offline) = slot {
                found.push((id.to_string(), offline.reason.to_string()));
            }
        }
    }
    found
}

fn not_read(shared: &Shared, partition: String, reason: String) {
    let mut state = shared.lock();
    if state.progress.not_read.len() < FOUND_MAX {
        state.progress.not_read.push(NotRead { partition, reason });
    }
}

fn scrub(
    shared: &Shared,
    node: &Arc<Node>,
    handle: &Arc<PartitionHandle>,
    pace: &mut Limited<'_>,
) -> Result<(), LogError> {
    let log = handle.reader.log();
    // What this copy never had is not looked for, and is damaged still.
    for range in log.damaged().iter().filter(|range| range.is_lost) {
        remember(shared, handle, &range.damage);
    }
    for target in log.scrub_targets() {
        let before = shared.lock().progress.bytes_done;
        match log.scrub(&target, pace)? {
            Scrubbed::Sound | Scrubbed::Gone => {}
            Scrubbed::Damaged { log, index } => {
                log.iter().chain(&index).for_each(|damage| note(shared, node, handle, damage));
                if index.is_some() {
                    rebuild(handle, &target)?;
                }
                // A replica begins to mend it with its next tick. One that sleeps finds out with this step that it must not.
                if !log.is_empty() && handle.is_replica() {
                    node.stepper.schedule(handle);
                }
            }
        }
        // What was read of it has been counted on the way, as far as it went.
        shared.lock().progress.bytes_done = before + target.bytes();
    }
    let scrubbed = handle.with_blocking(|core| match core.halted() {
        None => core.scrub_files(),
        Some(_) => Ok(Vec::new()),
    });
    for damage in scrubbed.unwrap_or_else(|| Ok(Vec::new()))? {
        note(shared, node, handle, &damage);
    }
    Ok(())
}

fn rebuild(handle: &Arc<PartitionHandle>, target: &ScrubTarget<ServerDisk>) -> Result<(), LogError> {
    handle.with_blocking(|core| core.repair_index(target.base_offset())).unwrap_or(Ok(()))
}

fn note(shared: &Shared, node: &Node, handle: &PartitionHandle, damage: &Damage) {
    node.metrics.repair.damages.inc();
    tracing::error!(
        partition = %handle.id, file = %damage.file.display(), position = damage.position, reason = %damage.reason,
        "damage was found"
    );
    remember(shared, handle, damage);
}

fn remember(shared: &Shared, handle: &PartitionHandle, damage: &Damage) {
    let mut state = shared.lock();
    state.progress.found_total += 1;
    if state.progress.found.len() < FOUND_MAX {
        state.progress.found.push(Found {
            partition: handle.id.to_string(),
            file: damage.file.display().to_string(),
            position: damage.position,
            reason: damage.reason.clone(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: i64 = 86_400_000;

    fn clock() -> Clock {
        Clock { since: Instant::now(), any_yet: false, request: "before".to_owned(), interrupted: false }
    }

    #[test]
    fn rounds_come_when_it_is_time_and_not_when_they_are_off() {
        let mut clock = clock();
        let day = Duration::from_secs(86_400);
        let begin = clock.since;
        let mut at = |tenths: u32, interval, rate| {
            clock.due(interval, rate, "before", begin + day * tenths / 10).is_some()
        };
        assert!(!at(0, DAY_MS, 1));
        assert!(!at(100, 0, 1) && !at(100, -1, 1) && !at(100, DAY_MS, 0));
        assert!(at(1, DAY_MS, 1), "the first round begins after a tenth");
        assert!(!at(10, DAY_MS, 1));
        assert!(at(11, DAY_MS, 1));
    }

    #[test]
    fn a_round_that_made_way_for_a_request_is_done_after_it() {
        let mut clock = clock();
        let now = clock.since + Duration::from_secs(86_400);
        let own = clock.due(DAY_MS, 1, "before", now).expect("it is time");
        clock.ended(&own, false);
        let asked = clock.due(DAY_MS, 1, "1:orders", now).expect("it was asked for");
        assert_eq!(asked.topic.as_deref(), Some("orders"));
        clock.ended(&asked, true);
        assert_eq!(clock.due(DAY_MS, 1, "1:orders", now), Some(own), "of the others nothing is known");
        clock.ended(&Due::requested(""), false);
        let asked = clock.due(DAY_MS, 1, "2", now).expect("it was asked for");
        clock.ended(&asked, true);
        assert_eq!(clock.due(DAY_MS, 1, "2", now), None, "everything was read");
    }

    #[test]
    fn a_request_is_carried_out_once_also_when_rounds_are_off() {
        let (mut clock, now) = (clock(), Instant::now());
        let mut due = |request| clock.due(0, 0, request, now);
        assert_eq!(due("before"), None);
        let asked = |request: &str, topic: Option<&str>, bytes_per_second| {
            let topic = topic.map(str::to_owned);
            Some(Due { request: request.to_owned(), topic, bytes_per_second })
        };
        assert_eq!(due("1"), asked("1", None, None));
        assert_eq!(due("1"), None);
        assert_eq!(due("2:orders"), asked("2:orders", Some("orders"), None));
        assert_eq!(due("3@64"), asked("3@64", None, Some(64)));
        assert_eq!(due("4@0:orders"), asked("4@0:orders", Some("orders"), Some(0)));
        // What is no rate sets none.
        assert_eq!(due("5@fast"), asked("5@fast", None, None));
        assert_eq!(due(""), None);
    }
}
