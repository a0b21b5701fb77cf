//! The leader's side: appends what other nodes relay, and answers once it is committed.

use std::sync::Arc;
use tailrace_env::task;

use bytes::Bytes;
use tailrace_records::{BatchHeader, Validated};
use tailrace_replication::{AppendError, Appended};
use tailrace_types::RaftGroup;

use super::wire::{self, StoreAnswer};
use crate::caller::Caller;
use crate::node::Node;
use crate::partitions::{AppendFailure, PartitionHandle, Topic, WaitOutcome, append};
use tailrace_peers::RequestError;

/// Answers another node. Work that was started completes, even if the asker goes away.
pub(crate) async fn serve(node: &Arc<Node>, caller: &Caller, body: Bytes) -> Result<Bytes, RequestError> {
    let failed = |reason: String| RequestError::Failed(reason);
    let (group, batches) =
        wire::decode_request(body).ok_or_else(|| failed("the request is malformed".to_owned()))?;
    let work = store_here(Arc::clone(node), caller.clone(), group, batches);
    let answer = task::spawn(work).await.map_err(|error| failed(error.to_string()))?;
    Ok(answer.encode())
}

/// Appends the batches, one after the other, and waits until they are committed.
pub(super) async fn store_here(
    here: Arc<Node>,
    caller: Caller,
    group: RaftGroup,
    batches: Vec<Bytes>,
) -> StoreAnswer {
    let Some(topic) = here.topics().by_id(group.topic.0) else {
        return StoreAnswer::Again("the node does not know the topic".to_owned());
    };
    let Ok(handle) = topic.led(group.partition.0).map(Arc::clone) else {
        return StoreAnswer::Again("another node leads the partition".to_owned());
    };
    let (appended, ended) = append_all(&here, &caller, &topic, &handle, batches).await;
    let mut stored = Vec::with_capacity(appended.len());
    for appended in &appended {
        if let Err(reason) = committed(&handle, appended).await {
            return StoreAnswer::Again(reason.to_owned());
        }
        stored.push(appended.base_offset);
    }
    match ended {
        None => StoreAnswer::Stored(stored),
        Some(Ended::Again(reason)) => StoreAnswer::Again(reason),
        Some(Ended::Refused(reason)) => StoreAnswer::Refused { stored, reason },
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Again(String),
    Refused(String),
}

impl Ended {
    fn by(failure: &AppendFailure) -> Self {
        let again = |reason: &str| Self::Again(reason.to_owned());
        match failure {
            AppendFailure::NotLeader => again("another node leads the partition"),
            AppendFailure::TooFewReplicas => again("too few replicas keep up"),
            AppendFailure::Gone => again("the partition is closed here"),
            AppendFailure::Refused(error) => match error {
                // This replica accepts no more, and opening it finds what reached its disk. Another one is
                // about to lead.
                AppendError::Log(_) | AppendError::Halted { .. } => Self::Again(error.to_string()),
                AppendError::Producer(_) | AppendError::Full => Self::Refused(error.to_string()),
            },
        }
    }
}

async fn append_all(
    here: &Arc<Node>,
    caller: &Caller,
    topic: &Topic,
    handle: &Arc<PartitionHandle>,
    batches: Vec<Bytes>,
) -> (Vec<Appended>, Option<Ended>) {
    let mut all = Vec::with_capacity(batches.len());
    for bytes in batches {
        let header = match judged(topic, &bytes) {
            Ok(header) => header,
            Err(reason) => return (all, Some(Ended::Refused(reason))),
        };
        let wanted = here.taps.wanted(topic, here.relay.known_to);
        let done = append(here, caller, handle, Validated { header, bytes }, here.now(), wanted).await;
        match done {
            Ok(appended) => all.push(appended),
            Err(failure) => return (all, Some(Ended::by(&failure))),
        }
    }
    (all, None)
}

/// Checks a batch. A node of this cluster built it, so only what could harm the log is checked, not its
/// records.
fn judged(topic: &Topic, bytes: &Bytes) -> Result<BatchHeader, String> {
    let header = tailrace_records::check(bytes).map_err(|error| error.to_string())?;
    let attributes = header.attributes;
    if attributes.is_control() || attributes.is_transactional() || header.producer_id.get() < 0 {
        return Err("not a batch of an idempotent producer".to_owned());
    }
    let counted = header.record_count > 0 && header.last_offset_delta == header.record_count - 1;
    if header.total_bytes() != bytes.len() || !counted {
        return Err(format!("a batch of {} bytes with {} records", bytes.len(), header.record_count));
    }
    if bytes.len() > topic.batch_bytes_max() {
        return Err(format!(
            "a batch of {} bytes, above max.message.bytes of the topic ({})",
            bytes.len(),
            topic.batch_bytes_max()
        ));
    }
    Ok(header)
}

async fn committed(handle: &PartitionHandle, appended: &Appended) -> Result<(), &'static str> {
    let Some(committed) = handle.wait_committed(appended) else { return Ok(()) };
    match committed.await {
        Ok(WaitOutcome::Committed) => Ok(()),
        Ok(WaitOutcome::Deposed) => Err("the partition has a new leader"),
        Ok(WaitOutcome::Halted) | Err(_) => Err("the partition stopped before the records were committed"),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use tailrace_log::LogError;

    use super::*;
    use crate::relay::NotStored;

    /// The batch was written, but its index was not: the next start finds the batch.
    #[test]
    fn a_batch_whose_write_failed_is_not_refused_for_certain() {
        let failed = || {
            let error = LogError::io("write", Path::new("0.index"), io::ErrorKind::Other.into());
            AppendFailure::Refused(AppendError::Log(error))
        };
        assert!(matches!(Ended::by(&failed()), Ended::Again(_)));
        assert!(matches!(NotStored::from(failed()), NotStored::LogFailed(_)));
        let full = || AppendFailure::Refused(AppendError::Full);
        assert!(matches!(Ended::by(&full()), Ended::Refused(_)));
        assert!(matches!(NotStored::from(full()), NotStored::Refused(_)));
    }
}
