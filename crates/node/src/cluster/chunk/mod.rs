//! Chunks of snapshots, from a replica that has them to one that is too far behind.
//!
//! A request is the group (topic id, partition as 4 bytes little endian) and the message from replica to
//! replica. An answer is a byte that is 1 if there is a chunk, then the chunk.

mod serve;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use tailrace_replication::raft::ChunkRequest;
use tailrace_types::{PartitionId, RaftGroup, TopicId};

pub(super) use self::serve::serve;

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
