//! Handles known damage without reading everything: checks it again periodically, saves it, and gives records
//! up if an operator says so.
//!
//! It has a thread of its own, because a round of scrubbing may take days.

use std::sync::Arc;
use std::sync::Weak;
use tailrace_env::time::{Duration, Instant};

use tailrace_log::{Damage, DamagedRange, GivenUp, LogError, Patch};
use tailrace_types::Offset;

use super::Shared;
use crate::disk::NodeDisk;
use crate::node::Node;
use crate::partitions::PartitionHandle;

/// Interval between two checks for requests.
const REQUEST_INTERVAL: Duration = Duration::from_millis(200);

/// Interval between two checks of known damage: is it whole again, or not saved yet?
const RECHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Bytes of a segment that are copied at once.
const COPY_BYTES: usize = 4 << 20;

/// Runs until the scrubber stops, or the node is gone.
pub(super) fn run(shared: &Shared, node: &Weak<Node>) {
    let Some(alive) = node.upgrade() else { return };
    // Requests from before the start are over.
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

/// Reports what reads have found, which may be repaired before anyone asks. Costs one atomic read per
/// partition without damage.
fn tell_found(node: &Arc<Node>) {
    let topics = Arc::clone(&node.topics());
    for handle in topics.online().chain(std::iter::once(&node.controller.handle())) {
        for damage in handle.reader.log().take_found_damage() {
            tell_of(node, handle, &damage);
        }
    }
}

/// Counts and logs damage.
pub(super) fn tell_of(node: &Node, handle: &PartitionHandle, damage: &Damage) {
    node.metrics.repair.damages.inc();
    tracing::error!(
        partition = %handle.id, file = %damage.file.display(), position = damage.position, reason = %damage.reason,
        "found damage"
    );
}

/// Costs one atomic read per undamaged segment.
fn recheck(node: &Arc<Node>) {
    let topics = Arc::clone(&node.topics());
    for handle in topics.online().chain(std::iter::once(&node.controller.handle())) {
        let log = handle.reader.log();
        let whole = log.recheck_damage();
        if whole > 0 {
            tracing::info!(partition = %handle.id, ranges = whole, "damaged ranges are whole again, and are served");
        }
        log.damaged_indexes().into_iter().for_each(|base| build_again(node, handle, base));
        save(handle);
        // A read may have found the damage of a replica that sleeps.
        if handle.is_replica() && log.has_wrong() {
            node.stepper.schedule(handle);
        }
    }
}

/// Rebuilds an index after a read has met a damaged row. Does not wait for the scrubber, which may take days.
fn build_again(node: &Node, handle: &Arc<PartitionHandle>, base: Offset) {
    let result = handle.with_blocking(|core| core.repair_index(base)).unwrap_or(Ok(()));
    node.metrics.repair.damages.inc();
    match result {
        Ok(()) => tracing::warn!(partition = %handle.id, segment = %base, "rebuilt a damaged index"),
        Err(error) => {
            tracing::error!(partition = %handle.id, segment = %base, %error, "could not rebuild a damaged index");
        }
    }
}

fn save(handle: &PartitionHandle) {
    if let Err(error) = handle.reader.log().save_damage() {
        tracing::warn!(partition = %handle.id, %error, "could not save the list of damage");
    }
}

/// Returns the topic and partition that a request names. `None` if it names nothing.
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
                // Compaction is running, retention has removed it, or the segment has to be repaired first.
                Ok(false) => {
                    let partition = &handle.id;
                    tracing::warn!(%partition, damage = %range, "left as it is: its segment is being compacted or repaired; ask again");
                    break;
                }
                Err(error) => {
                    tracing::error!(partition = %handle.id, %error, "could not give up damaged records");
                    break;
                }
            }
        }
        save(handle);
    }
}

/// Returns the first range that no replica has any longer.
fn to_be_given_up(handle: &PartitionHandle) -> Option<DamagedRange> {
    let damaged = handle.reader.log().damaged();
    damaged.into_iter().find(|range| may_be_given_up(handle, range))
}

/// Reports whether a damaged range may be given up. With several replicas, the others may still have it.
fn may_be_given_up(handle: &PartitionHandle, range: &DamagedRange) -> bool {
    range.is_lost || !handle.is_replica()
}

/// Replaces the damage in one segment with batches without records. False if that is not possible now. The
/// partition is locked only at the start and at the end.
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
            tracing::error!(partition = %handle.id, %error, "could not give up damaged records");
            Ok(false)
        }
    }
}

/// Fills the patch. `None` if another replica may have some damaged range, which has to be repaired first.
fn fill(handle: &PartitionHandle, patch: &mut Patch<NodeDisk>) -> Result<Option<Vec<GivenUp>>, LogError> {
    let mut given_up = Vec::new();
    loop {
        while patch.copy_own(COPY_BYTES)? {}
        let Some(wanted) = patch.wanted_range() else { return Ok(Some(given_up)) };
        if !may_be_given_up(handle, &wanted) {
            let partition = &handle.id;
            tracing::warn!(%partition, damage = %wanted, "another replica may have the damaged records: they are not given up");
            return Ok(None);
        }
        given_up.extend(patch.give_up(wanted.end_offset)?);
    }
}

fn tell(handle: &PartitionHandle, given_up: &GivenUp) {
    let (from, to) = (given_up.range.base_offset.0, given_up.range.end_offset.0 - 1);
    let kept = given_up.kept.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    tracing::warn!(partition = %handle.id, from, to, kept, "gave up damaged records");
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
