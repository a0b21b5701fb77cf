//! One round of compaction of one partition: planned under its lock, run without.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tailrace_env::panics;
use tailrace_log::{CompactionStats, KeyMap, LogError, Trim};
use tailrace_replication::AppendError;

use super::Shared;
use super::pace::Throttle;
use super::pick::Candidate;
use crate::disk::NodeDisk;
use crate::node::Node;
use crate::partitions::PartitionHandle;

/// Why a round did not complete.
#[derive(Debug)]
pub(super) enum RoundError {
    /// The round is no longer wanted, or was overtaken. Not a failure.
    Stopped(&'static str),
    /// The disk is full. A later attempt may work.
    Full(String),
    /// A later attempt would fail, too.
    Failed(String),
}

impl From<LogError> for RoundError {
    fn from(error: LogError) -> Self {
        match error {
            LogError::CompactionStopped { reason } => Self::Stopped(reason),
            // The index will soon be rebuilt, or already is.
            LogError::Damaged { file, .. }
                if file.extension().is_some_and(|extension| extension == "index") =>
            {
                Self::Stopped("an index is damaged")
            }
            error if error.is_no_space() => Self::Full(error.to_string()),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<AppendError> for RoundError {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Full => Self::Full(error.to_string()),
            AppendError::Log(error) => error.into(),
            // The reason is reported elsewhere.
            AppendError::Halted { .. } => Self::Stopped("the partition accepts no writes"),
            error => Self::Failed(error.to_string()),
        }
    }
}

const GONE: RoundError = RoundError::Stopped("the partition is closed");

/// Cleans `candidate`. A broken invariant costs this partition its compaction, not the process.
pub(super) fn run(
    shared: &Shared,
    node: &Arc<Node>,
    candidate: &Candidate,
    map: &mut KeyMap,
) -> Result<CompactionStats, RoundError> {
    let work = AssertUnwindSafe(|| clean(shared, node, candidate, map));
    let ended = catch_unwind(work).unwrap_or_else(|panic| {
        let reason = panics::reason_of(&*panic);
        Err(RoundError::Failed(format!("a bug in the server, compaction panicked: {reason}")))
    });
    match ended {
        Err(RoundError::Failed(_)) if is_damaged(&candidate.handle) => {
            Err(RoundError::Stopped("a segment is damaged"))
        }
        ended => ended,
    }
}

/// Reports whether the partition is damaged, in which case reads fail until it is repaired.
fn is_damaged(handle: &PartitionHandle) -> bool {
    handle.reader.log().has_wrong()
}

fn clean(
    shared: &Shared,
    node: &Arc<Node>,
    candidate: &Candidate,
    map: &mut KeyMap,
) -> Result<CompactionStats, RoundError> {
    let handle = &candidate.handle;
    let mut pace = Throttle { shared, node, handle };
    let now = node.now();
    let begun = handle.with_blocking(|core| core.begin_compaction(&candidate.policy, now)).ok_or(GONE)??;
    let mut round = begun.ok_or(RoundError::Stopped("there is nothing to do"))?;
    round.index(map, &mut pace)?;
    while let Some(rewritten) = round.rewrite_next(map, &mut pace)? {
        let installed = handle.with_blocking(|core| core.install_compacted(rewritten)).ok_or(GONE)??;
        let trim = match installed {
            Ok(trim) => trim,
            Err(discarded) => {
                discarded.run();
                return Err(RoundError::Stopped("a segment was removed in the meantime"));
            }
        };
        let result = trim.run();
        finish(handle, &trim, &result);
        if let Err(error) = result {
            if error.is_no_space() {
                shared.state.lock().unfinished.push((Arc::clone(handle), trim));
            }
            return Err(error.into());
        }
    }
    Ok(round.stats())
}

/// Records whether an exchange of segments became durable.
pub(super) fn finish(handle: &Arc<PartitionHandle>, trim: &Trim<NodeDisk>, result: &Result<(), LogError>) {
    handle.with_blocking(|core| core.finish_trim(trim, result));
}
