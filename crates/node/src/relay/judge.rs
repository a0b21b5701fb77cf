//! The leader's side of messages that are judged.

use std::sync::Arc;
use tailrace_env::task;
use tailrace_env::time::{Duration, Instant};

use bytes::Bytes;
use tailrace_peers::RequestError;
use tailrace_types::RaftGroup;

use super::judge_wire::{self, JudgeAnswer};
use crate::caller::Caller;
use crate::node::Node;
use crate::partitions::WaitOutcome;
use crate::streams::{NotPublished, PublishRequest, publish_here};

/// How long a request waits for the table of its stream before its sender has to ask again.
const TABLE_TIMEOUT: Duration = Duration::from_secs(4);

/// Answers another node. Work that was started completes, even if the asker goes away.
pub(crate) async fn serve(node: &Arc<Node>, _: &Caller, body: Bytes) -> Result<Bytes, RequestError> {
    let failed = |reason: String| RequestError::Failed(reason);
    let (group, request) =
        judge_wire::decode_request(body).ok_or_else(|| failed("the request is malformed".to_owned()))?;
    let work = judge_here(Arc::clone(node), group, request);
    let answer = task::spawn(work).await.map_err(|error| failed(error.to_string()))?;
    Ok(answer.encode())
}

/// Judges messages, appends those that pass, and waits until all is committed that the judgements rest on.
pub(super) async fn judge_here(here: Arc<Node>, group: RaftGroup, request: PublishRequest) -> JudgeAnswer {
    let again = |reason: &str| JudgeAnswer::Again(reason.to_owned());
    let Some(topic) = here.topics().by_id(group.topic.0) else {
        return again("the node does not know the topic");
    };
    let Ok(handle) = topic.led(group.partition.0).map(Arc::clone) else {
        return again("another node leads the partition");
    };
    if let Some(large) = request.batches.iter().find(|batch| batch.len() > topic.batch_bytes_max()) {
        return JudgeAnswer::Refused(format!(
            "a batch of {} bytes, above max.message.bytes of the topic ({})",
            large.len(),
            topic.batch_bytes_max()
        ));
    }
    let deadline = Instant::now() + TABLE_TIMEOUT;
    let outcome = match publish_here(&here, &topic, &handle, request, deadline).await {
        Ok(outcome) => outcome,
        Err(NotPublished::Again(reason)) => return JudgeAnswer::Again(reason),
        Err(NotPublished::Refused(reason)) => return JudgeAnswer::Refused(reason),
        // Another leader may find out.
        Err(NotPublished::Unknown(reason)) if handle.leads().is_none() => return JudgeAnswer::Again(reason),
        Err(NotPublished::Unknown(reason)) => return JudgeAnswer::Unknown(reason),
    };
    if let Some(committed) = outcome.awaited.and_then(|awaited| handle.wait_committed(awaited)) {
        match committed.await {
            Ok(WaitOutcome::Committed) => {}
            Ok(WaitOutcome::Deposed) => return again("the partition has a new leader"),
            Ok(WaitOutcome::Halted) | Err(_) => {
                return again("the partition stopped before the records were committed");
            }
        }
    }
    JudgeAnswer::Judged { stored: outcome.stored, published: outcome.published }
}
