//! Chunks of snapshots, from a replica that has them to one that is too far behind.
//!
//! A request is the group (topic id, partition as 4 bytes little endian) and what the replicas say to each other; an answer is a
//! byte that is 1 if there is a chunk, and the chunk.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use tailrace_replication::raft::ChunkRequest;
use tailrace_types::{PartitionId, RaftGroup, TopicId};

use super::receiver::partition_of;
use crate::node::Node;
use tailrace_peers::RequestError;

/// How long a chunk may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

const GROUP_BYTES: usize = 16 + 4;
const THERE: u8 = 1;
const GONE: u8 = 0;

pub(super) fn encode_request(group: RaftGroup, request: &ChunkRequest) -> Bytes {
    let mut body = BytesMut::with_capacity(128);
    body.put_slice(&group.topic.0);
    body.put_i32_le(group.partition.0);
    request.encode(&mut body);
    body.freeze()
}

fn decode_request(mut body: Bytes) -> Option<(RaftGroup, ChunkRequest)> {
    if body.len() < GROUP_BYTES {
        return None;
    }
    let mut topic = [0; 16];
    body.copy_to_slice(&mut topic);
    let partition = PartitionId(body.get_i32_le());
    Some((RaftGroup { topic: TopicId(topic), partition }, ChunkRequest::decode(body).ok()?))
}

pub(super) fn decode_answer(mut answer: Bytes) -> Option<Bytes> {
    (answer.first() == Some(&THERE)).then(|| answer.split_off(1))
}

/// Reads a chunk for another node.
pub(super) async fn serve(node: &Arc<Node>, body: Bytes) -> Result<Bytes, RequestError> {
    let (group, request) =
        decode_request(body).ok_or_else(|| RequestError::Failed("no request for a chunk".to_owned()))?;
    let gone = || Ok(Bytes::from_static(&[GONE]));
    let Some(partition) = partition_of(node, group) else { return gone() };
    let reader = partition.with(|core| {
        let replica = core.replica()?;
        let is_new = replica.members().learners.contains(&request.from());
        Some((replica.chunk_reader(&request)?, is_new && partition.sends_slowly()))
    });
    let Some((reader, is_slow)) = reader.await.flatten() else { return gone() };
    if is_slow {
        let pass = node.links.outbound().admit(request.bytes_max());
        pass.ok_or_else(|| RequestError::Failed("too much is throttled already".to_owned()))?.wait().await;
    }
    match tokio::task::spawn_blocking(move || reader.read()).await {
        Ok(Ok(chunk)) => {
            let mut answer = BytesMut::with_capacity(1 + chunk.len());
            answer.put_u8(THERE);
            answer.put_slice(&chunk);
            Ok(answer.freeze())
        }
        Ok(Err(error)) => {
            tracing::warn!(partition = %partition.id, %error, "a chunk of a snapshot could not be read");
            gone()
        }
        Err(error) => Err(RequestError::Failed(error.to_string())),
    }
}
