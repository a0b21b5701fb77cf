//! The scrubber: a thread that reads everything that lies on the disk, at a bounded rate, to find what is not as it was written before it
//! is needed.
//!
//! It takes no lock of a partition while it reads. An index that is damaged is built again, and so are small files; a damaged batch
//! is out of service from then on, and mended by its replica, if it is one of several.

mod pace;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;
use tailrace_log::{Damage, LogError, ScrubTarget, Scrubbed};

use crate::broker::Broker;
use crate::disk::ServerDisk;
use crate::partitions::PartitionHandle;
use pace::Limited;

/// How often the thread looks whether there is something to do, at least.
const LOOK: Duration = Duration::from_millis(200);

/// Time between two looks at what is known to be damaged: whole again, or not yet written down?
const RECHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Damages of a round that are remembered for those who ask.
const FOUND_MAX: usize = 100;

/// The scrubber of one server.
#[derive(Debug, Default)]
pub(crate) struct Scrubber {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
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
    /// What was found in this round, at most [`FOUND_MAX`].
    pub(crate) found: Vec<Found>,
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
    /// Starts the thread. It ends with [`Scrubber::stop`], or when the broker is gone.
    ///
    /// # Errors
    /// The operating system's, if it gives no thread.
    pub(crate) fn start(&self, broker: &Arc<Broker>) -> std::io::Result<()> {
        let (shared, broker) = (Arc::clone(&self.shared), Arc::downgrade(broker));
        let thread = std::thread::Builder::new().name("scrubber".to_owned());
        let thread = thread.spawn(move || run(&shared, &broker))?;
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(())
    }

    /// Ends the thread, after one more read at most. Blocks.
    pub(crate) fn stop(&self) {
        self.shared.lock().stopping = true;
        self.shared.wake.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the scrubber panicked");
        }
    }

    /// How far it is.
    pub(crate) fn progress(&self) -> Progress {
        self.shared.lock().progress.clone()
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
}

/// A round that is due.
#[derive(Debug, PartialEq, Eq)]
struct Due {
    request: String,
    /// Only this one.
    topic: Option<String>,
}

impl Clock {
    fn due(&mut self, interval_ms: i64, bytes_per_second: u64, request: &str, now: Instant) -> Option<Due> {
        if request != self.request {
            self.request = request.to_owned();
            if !request.is_empty() {
                let topic = request.split_once(':').map(|(_, topic)| topic.to_owned());
                return Some(Due { request: self.request.clone(), topic });
            }
        }
        let interval = Duration::from_millis(u64::try_from(interval_ms).ok().filter(|ms| *ms > 0)?);
        let wait = if self.any_yet { interval } else { interval / 10 };
        if bytes_per_second == 0 || now.saturating_duration_since(self.since) < wait {
            return None;
        }
        (self.since, self.any_yet) = (now, true);
        Some(Due { request: String::new(), topic: None })
    }
}

fn run(shared: &Shared, broker: &Weak<Broker>) {
    let Some(alive) = broker.upgrade() else { return };
    // What was asked for before the start is over.
    let request = alive.config().tailrace_scrub_request.clone();
    drop(alive);
    let mut clock = Clock { since: Instant::now(), any_yet: false, request };
    let mut rechecked = Instant::now();
    while let Some(broker) = broker.upgrade() {
        if shared.is_stopping() {
            return;
        }
        let config = broker.config();
        let (interval, rate) = (config.tailrace_scrub_interval_ms, config.tailrace_scrub_bytes_per_second);
        if let Some(due) = clock.due(interval, rate, &config.tailrace_scrub_request, Instant::now()) {
            round(shared, &broker, due);
        }
        if rechecked.elapsed() >= RECHECK_INTERVAL {
            rechecked = Instant::now();
            recheck(&broker);
        }
        drop((broker, config));
        shared.wait(LOOK);
    }
}

/// Looks again at what is damaged, and writes down what has changed. Costs one atomic read per partition where nothing is.
fn recheck(broker: &Arc<Broker>) {
    let topics = Arc::clone(&broker.topics());
    for handle in topics.online().chain(std::iter::once(broker.controller.handle())) {
        let log = handle.reader.log();
        let whole = log.recheck_damage();
        if whole > 0 {
            tracing::info!(partition = %handle.id, ranges = whole, "what was damaged is whole again, and is served");
        }
        if let Err(error) = log.save_damage() {
            tracing::warn!(partition = %handle.id, %error, "what is damaged could not be written down");
        }
    }
}

/// Reads everything once.
fn round(shared: &Shared, broker: &Arc<Broker>, due: Due) {
    let topics = Arc::clone(&broker.topics());
    let wanted = |handle: &&Arc<PartitionHandle>| {
        due.topic.as_deref().is_none_or(|topic| handle.id.topic.as_str() == topic)
    };
    let all = topics.online().chain(std::iter::once(broker.controller.handle()));
    let handles: Vec<_> = all.filter(wanted).cloned().collect();
    let bytes = handles.iter().map(|handle| handle.reader.log().size_bytes()).sum();
    {
        let mut state = shared.lock();
        let rounds = state.progress.rounds;
        let partitions = handles.len();
        state.progress = Progress {
            running: true,
            request: due.request,
            rounds,
            partitions,
            bytes,
            ..Progress::default()
        };
    }
    let mut pace = Limited::new(shared, broker);
    let mut ended = true;
    for handle in &handles {
        match scrub(shared, broker, handle, &mut pace) {
            Ok(()) => {}
            Err(LogError::CompactionStopped { .. }) => {
                ended = false;
                break;
            }
            Err(error) => tracing::warn!(partition = %handle.id, %error, "scrubbing ended early"),
        }
        shared.lock().progress.partitions_done += 1;
    }
    let mut state = shared.lock();
    state.progress.running = false;
    if ended {
        state.progress.rounds += 1;
        broker.metrics.repair.rounds.inc();
        let (bytes, found) = (state.progress.bytes_done, state.progress.found.len());
        tracing::info!(partitions = handles.len(), bytes, found, "scrubbed");
    }
}

fn scrub(
    shared: &Shared,
    broker: &Arc<Broker>,
    handle: &Arc<PartitionHandle>,
    pace: &mut Limited<'_>,
) -> Result<(), LogError> {
    let log = handle.reader.log();
    for target in log.scrub_targets() {
        match log.scrub(&target, pace)? {
            Scrubbed::Sound | Scrubbed::Gone => {}
            Scrubbed::Damaged { log, index } => {
                log.iter().chain(&index).for_each(|damage| note(shared, broker, handle, damage));
                if index.is_some() {
                    rebuild(handle, &target)?;
                }
                // A replica begins to mend it with its next tick. One that sleeps finds out with this step that it must not.
                if !log.is_empty() && handle.is_replica() {
                    broker.stepper.schedule(handle);
                }
            }
        }
        shared.lock().progress.bytes_done += target.bytes();
    }
    let mut core = handle.core.blocking_lock();
    let Some(core) = core.as_mut().filter(|core| core.halted().is_none()) else { return Ok(()) };
    for damage in core.scrub_files()? {
        note(shared, broker, handle, &damage);
    }
    Ok(())
}

fn rebuild(handle: &PartitionHandle, target: &ScrubTarget<ServerDisk>) -> Result<(), LogError> {
    let mut core = handle.core.blocking_lock();
    core.as_mut().map_or(Ok(()), |core| core.repair_index(target.base_offset()))
}

fn note(shared: &Shared, broker: &Broker, handle: &PartitionHandle, damage: &Damage) {
    broker.metrics.repair.damages.inc();
    tracing::error!(
        partition = %handle.id, file = %damage.file.display(), position = damage.position, reason = %damage.reason,
        "damage was found"
    );
    let mut state = shared.lock();
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
        Clock { since: Instant::now(), any_yet: false, request: "before".to_owned() }
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
    fn a_request_is_carried_out_once_also_when_rounds_are_off() {
        let (mut clock, now) = (clock(), Instant::now());
        let mut due = |request| clock.due(0, 0, request, now);
        assert_eq!(due("before"), None);
        assert_eq!(due("1"), Some(Due { request: "1".to_owned(), topic: None }));
        assert_eq!(due("1"), None);
        let one = Some("orders".to_owned());
        assert_eq!(due("2:orders"), Some(Due { request: "2:orders".to_owned(), topic: one }));
        assert_eq!(due(""), None);
    }
}
