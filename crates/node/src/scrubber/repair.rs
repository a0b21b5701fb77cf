//! What becomes of known damage without reading everything: it is looked at again now and then, written down, and given up where an
//! operator says so.
//!
//! A thread of its own, since a round of scrubbing may take days.

use std::sync::Arc;
use std::sync::Weak;
use tailrace_env::time::{Duration, Instant};

use tailrace_log::{Damage, DamagedRange, GivenUp, LogError, Patch};
use tailrace_types::Offset;

use super::Shared;
use crate::disk::NodeDisk;
use crate::node::Node;
use crate::partitions::PartitionHandle;

/// Time between two looks whether something was asked for.
const REQUEST_INTERVAL: Duration = Duration::from_millis(200);

/// Time between two looks at what is known to be damaged: whole again, or not yet written down?
const RECHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Bytes of a segment that are copied at once.
const COPY_BYTES: usize = 4 << 20;

/// Runs until the scrubber stops, or the node is gone.
pub(super) fn run(shared: &Shared, node: &Weak<Node>) {
    let Some(alive) = node.upgrade() else { return };
    // What was asked for before the start is over.
    let mut known = alive.config().tailrace_repair_request.clone();
    drop(alive);
    let (mut rechecked, mut forgotten) = (Instant::now(), Instant::now());
    while let Some(node) = node.upgrade() {
        if shared.stop.has_rung() {
            return;
        }
        let asked = node.config().tailrace_repair_request.clone();
        if asked != known {
            give_up_all(&node, &asked);
            known = asked;
        }
        if rechecked.elapsed() >= RECHECK_INTERVAL {
            rechecked = Instant::now();
            recheck(&node);
        }
        let after = u64::try_from(node.config().tailrace_read_verify_after_ms).ok().filter(|ms| *ms > 0);
        if after.is_some_and(|ms| forgotten.elapsed() >= Duration::from_millis(ms)) {
            forgotten = Instant::now();
            node.topics().online().for_each(|handle| handle.reader.log().forget_unread());
        }
        tell_found(&node);
        drop(node);
        shared.stop.pause(REQUEST_INTERVAL);
    }
}

/// Tells what reads have found, which may be mended before anybody asks. Costs one atomic read for each partition where there is nothing.
fn tell_found(node: &Arc<Node>) {
    let topics = Arc::clone(&node.topics());
    for handle in topics.online().chain(std::iter::once(&node.controller.handle())) {
        for damage in handle.reader.log().take_found_damage() {
            tell_of(node, handle, &damage);
        }
    }
}

/// Counts damage, and says where it is.
pub(super) fn tell_of(node: &Node, handle: &PartitionHandle, damage: &Damage) {
    node.metrics.repair.damages.inc();
    tracing::error!(
        partition = %handle.id, file = %damage.file.display(), position = damage.position, reason = %damage.reason,
        "damage was found"
    );
}

/// Costs one atomic read for each segment where nothing is damaged.
fn recheck(node: &Arc<Node>) {
    let topics = Arc::clone(&node.topics());
    for handle in topics.online().chain(std::iter::once(&node.controller.handle())) {
        let log = handle.reader.log();
        let whole = log.recheck_damage();
        if whole > 0 {
            tracing::info!(partition = %handle.id, ranges = whole, "what was damaged is whole again, and is served");
        }
        log.damaged_indexes().into_iter().for_each(|base| build_again(node, handle, base));
        save(handle);
        // A read may have found the damage of a replica that sleeps.
        if handle.is_replica() && log.has_wrong() {
            node.stepper.schedule(handle);
        }
    }
}

/// A read has met a damaged row. It does not wait for the scrubber, which may take days.
fn build_again(node: &Node, handle: &Arc<PartitionHandle>, base: Offset) {
    let result = handle.with_blocking(|core| core.repair_index(base)).unwrap_or(Ok(()));
    node.metrics.repair.damages.inc();
    match result {
        Ok(()) => tracing::warn!(partition = %handle.id, segment = %base, "a damaged index was built again"),
        Err(error) => {
            tracing::error!(partition = %handle.id, segment = %base, %error, "a damaged index could not be built again");
        }
    }
}

fn save(handle: &PartitionHandle) {
    if let Err(error) = handle.reader.log().save_damage() {
        tracing::warn!(partition = %handle.id, %error, "what is damaged could not be written down");
    }
}

/// The topic and the partition that a request names. `None` for one that names nothing.
fn target(request: &str) -> Option<(&str, Option<i32>)> {
    let (_, rest) = request.split_once(':')?;
    match rest.split_once(':') {
        Some((topic, partition)) => Some((topic, Some(partition.parse().ok()?))),
        None => Some((rest, None)),
    }
}

fn give_up_all(node: &Arc<Node>, request: &str) {
    let Some((topic, partition)) = target(request) else { return };
    let topics = Arc::clone(&node.topics());
    let is_meant = |handle: &&Arc<PartitionHandle>| {
        handle.id.topic.as_str() == topic
            && partition.is_none_or(|partition| handle.id.partition.0 == partition)
    };
    for handle in topics.online().filter(is_meant) {
        while let Some(range) = to_be_given_up(handle) {
            match give_up(handle, &range) {
                Ok(true) => handle.reader.log().forget_lost(&range),
                // Compaction is under way, retention has taken it, or the segment has to be mended first.
                Ok(false) => {
                    let partition = &handle.id;
                    tracing::warn!(%partition, damage = %range, "left as it is: its segment is being compacted or mended; ask again");
                    break;
                }
                Err(error) => {
                    tracing::error!(partition = %handle.id, %error, "what is damaged could not be given up");
                    break;
                }
            }
        }
        save(handle);
    }
}

/// The first range that no replica has any more.
fn to_be_given_up(handle: &PartitionHandle) -> Option<DamagedRange> {
    let damaged = handle.reader.log().damaged();
    damaged.into_iter().find(|range| may_be_given_up(handle, range))
}

/// What is wrong on one of several replicas the others may have.
fn may_be_given_up(handle: &PartitionHandle, range: &DamagedRange) -> bool {
    range.is_lost || !handle.is_replica()
}

/// Puts batches without records in the place of what is damaged in one segment. False if that is not possible now. The partition is held
/// only at the beginning and at the end.
fn give_up(handle: &Arc<PartitionHandle>, range: &DamagedRange) -> Result<bool, LogError> {
    let begun = handle.with_blocking(|core| match core.halted() {
        None => core.begin_patch(range.base_offset),
        Some(_) => Ok(None),
    });
    let Some(mut patch) = begun.transpose()?.flatten() else { return Ok(false) };
    let given_up = match fill(handle, &mut patch) {
        Ok(Some(given_up)) => given_up,
        not_filled => {
            patch.discard();
            return not_filled.map(|_| false);
        }
    };
    let rewritten = patch.finish()?;
    let Some(installed) = handle.with_blocking(|core| core.install_compacted(rewritten)) else {
        return Ok(false);
    };
    match installed {
        Ok(Ok(trim)) => {
            let result = trim.run();
            handle.with_blocking(|core| core.finish_trim(&trim, &result));
            given_up.iter().for_each(|given_up| tell(handle, given_up));
            result.map(|()| true)
        }
        Ok(Err(discarded)) => {
            discarded.run();
            Ok(false)
        }
        Err(error) => {
            tracing::error!(partition = %handle.id, %error, "what is damaged could not be given up");
            Ok(false)
        }
    }
}

/// `None` if something is wrong here that another replica may have: that has to be mended first.
fn fill(handle: &PartitionHandle, patch: &mut Patch<NodeDisk>) -> Result<Option<Vec<GivenUp>>, LogError> {
    let mut given_up = Vec::new();
    loop {
        while patch.copy_own(COPY_BYTES)? {}
        let Some(wanted) = patch.wanted_range() else { return Ok(Some(given_up)) };
        if !may_be_given_up(handle, &wanted) {
            let partition = &handle.id;
            tracing::warn!(%partition, damage = %wanted, "another replica may have what is damaged here: it is not given up");
            return Ok(None);
        }
        given_up.extend(patch.give_up(wanted.end_offset)?);
    }
}

fn tell(handle: &PartitionHandle, given_up: &GivenUp) {
    let (from, to) = (given_up.range.base_offset.0, given_up.range.end_offset.0 - 1);
    let kept = given_up.kept.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    tracing::warn!(partition = %handle.id, from, to, kept, "damaged records are given up");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_a_topic_or_one_of_its_partitions() {
        assert_eq!(target("17:orders"), Some(("orders", None)));
        assert_eq!(target("17:orders:3"), Some(("orders", Some(3))));
        assert_eq!((target("17"), target(""), target("17:orders:x")), (None, None, None));
    }
}
