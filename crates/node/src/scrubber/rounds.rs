//! A round: reads everything once, and records what is damaged.

use std::sync::{Arc, Weak};
use tailrace_env::thread;
use tailrace_env::time::Instant;

use tailrace_log::{Damage, LogError, ScrubTarget, Scrubbed};

use super::due::{Clock, Due};
use super::pace::Limited;
use super::{DamageFound, FOUND_MAX, NotRead, POLL_INTERVAL, Progress, Scrubber, Shared, repair};
use crate::disk::NodeDisk;
use crate::node::Node;
use crate::partitions::PartitionHandle;

/// What a thread does for as long as the server runs.
type Work = fn(&Shared, &Weak<Node>);

impl Scrubber {
    /// Starts its threads. They end with [`Scrubber::stop`], or when the node is gone.
    ///
    /// # Errors
    /// The operating system's error if it cannot create a thread.
    pub(crate) fn start(&self, node: &Arc<Node>) -> std::io::Result<()> {
        for (name, work) in [("scrubber", run as Work), ("repair", repair::run)] {
            let (shared, node) = (Arc::clone(&self.shared), Arc::downgrade(node));
            let thread = thread::spawn(name, move || work(&shared, &node))?;
            self.threads.lock().push(thread);
        }
        Ok(())
    }
}

fn run(shared: &Shared, node: &Weak<Node>) {
    let Some(alive) = node.upgrade() else { return };
    // Requests from before the start are over.
    let request = alive.config().tailrace_scrub_request.clone();
    drop(alive);
    let mut clock = Clock { since: Instant::now(), any_yet: false, request, interrupted: false };
    while let Some(node) = node.upgrade() {
        if shared.stop.has_rung() {
            return;
        }
        let config = node.config();
        let (interval, rate) = (config.tailrace_scrub_interval_ms, config.tailrace_scrub_bytes_per_second);
        if let Some(due) = clock.due(interval, rate, &config.tailrace_scrub_request, Instant::now()) {
            let is_whole = round(shared, &node, &due, &clock.request);
            clock.ended(&due, is_whole);
        }
        drop((node, config));
        shared.stop.pause(POLL_INTERVAL);
    }
}

/// Reads everything once, unless there is a new request meanwhile: `asked` is the last one. True if it
/// completed.
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
        let mut state = shared.state.lock();
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
        shared.state.lock().progress.partitions_done += 1;
    }
    let mut state = shared.state.lock();
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

/// Lists partitions of this node that are offline, with the reason.
fn offline(node: &Node, wanted: Option<&str>) -> Vec<(String, String)> {
    let topics = Arc::clone(&node.topics());
    let wanted =
        topics.iter().filter(|topic| wanted.is_none_or(|wanted| topic.image.name.as_str() == wanted));
    let mut found = Vec::new();
    for topic in wanted {
        found.extend(topic.offline().map(|(id, offline)| (id.to_string(), offline.reason.to_string())));
    }
    found
}

fn not_read(shared: &Shared, partition: String, reason: String) {
    let mut state = shared.state.lock();
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
    // Ranges that this copy never had are not read, but are still damaged.
    for range in log.damaged().iter().filter(|range| range.is_lost) {
        remember(shared, handle, &range.damage);
    }
    for target in log.scrub_targets() {
        let before = shared.state.lock().progress.bytes_done;
        let scrubbed = log.scrub(&target, pace);
        if handle.is_over() {
            return Ok(());
        }
        match scrubbed? {
            Scrubbed::Sound | Scrubbed::Gone => {}
            Scrubbed::Damaged { log, index } => {
                log.iter().chain(&index).for_each(|damage| note(shared, node, handle, damage));
                if index.is_some() {
                    rebuild(handle, &target)?;
                }
                // A replica starts the repair with its next tick. This step tells a sleeping replica that it
                // must wake.
                if !log.is_empty() && handle.is_replica() {
                    node.stepper.schedule(handle);
                }
            }
        }
        // While reading, only the bytes that were actually read were counted.
        shared.state.lock().progress.bytes_done = before + target.bytes();
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

fn rebuild(handle: &Arc<PartitionHandle>, target: &ScrubTarget<NodeDisk>) -> Result<(), LogError> {
    handle.with_blocking(|core| core.repair_index(target.base_offset())).unwrap_or(Ok(()))
}

fn note(shared: &Shared, node: &Node, handle: &PartitionHandle, damage: &Damage) {
    repair::tell_of(node, handle, damage);
    remember(shared, handle, damage);
}

fn remember(shared: &Shared, handle: &PartitionHandle, damage: &Damage) {
    let mut state = shared.state.lock();
    state.progress.found_total += 1;
    if state.progress.found.len() < FOUND_MAX {
        state.progress.found.push(DamageFound {
            partition: handle.id.to_string(),
            file: damage.file.display().to_string(),
            position: damage.position,
            reason: damage.reason.clone(),
        });
    }
}

#[cfg(test)]
mod tests {
    use tailrace_metadata::{Command, CreateTopic, Requester, TopicRef};
    use tailrace_records::{BatchBuilder, BatchOptions, Validated};
    use tailrace_types::TopicId;

    use super::*;
    use crate::caller::Caller;
    use crate::partitions::append;
    use crate::taps::WantedBy;
    use crate::testing::start_in;

    /// A round of the scrubber may have started with the topic.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_topic_that_is_deleted_meanwhile_is_not_damaged() {
        let folder = tempfile::TempDir::new().unwrap();
        let running = start_in(&folder, &[]).await;
        let (node, id) = (running.node(), TopicId([1; 16]));
        let configs = vec![("internal.segment.bytes".to_owned(), Some("1".to_owned()))];
        let create = CreateTopic::with_defaults("t", id, node.now(), Requester::Client);
        let create = Command::CreateTopic(CreateTopic { configs, ..create });
        node.controller.execute(Caller::internal(), create, node.now()).await.unwrap();
        let topic = node.topics().by_name("t").unwrap();
        for value in ["one", "two", "three"] {
            let mut builder = BatchBuilder::new(BatchOptions::default());
            builder.push(node.now(), None, Some(value.as_bytes()), &[]).unwrap();
            let (header, bytes) = builder.build_with_header();
            let (handle, batch) = (topic.here(0).unwrap(), Validated { header, bytes });
            append(node, Caller::internal(), handle, batch, node.now(), WantedBy::NOBODY).await.unwrap();
        }
        drop(topic);
        running.stop().await;

        // Its segments are not open yet.
        let running = start_in(&folder, &[]).await;
        let node = running.node();
        let handle = Arc::clone(node.topics().by_name("t").unwrap().here(0).unwrap());
        let targets = handle.reader.log().scrub_targets();
        assert!(targets.len() >= 3);
        let delete = Command::DeleteTopic { topic: TopicRef::Id(id), by: Requester::Client };
        node.controller.execute(Caller::internal(), delete, node.now()).await.unwrap();
        let shared = Shared::default();
        let node = Arc::clone(node);
        let found = tailrace_env::task::spawn_blocking(move || {
            scrub(&shared, &node, &handle, &mut Limited::new(&shared, &node, None, "")).unwrap();
            std::mem::take(&mut shared.state.lock().progress.found)
        });
        let found = found.await.unwrap();
        assert!(found.is_empty(), "{found:?}");
        running.stop().await;
    }
}
