//! Chunks of snapshots, from a replica that has them to one that is too far behind.
//!
//! A request is the group (topic id, partition as 4 bytes little endian) and what the replicas say to each other; an answer is a
//! byte that is 1 if there is a chunk, and the chunk.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use tailrace_replication::raft::ChunkRequest;
use tailrace_types::{GroupId, PartitionId, TopicId};

use super::receiver::partition_of;
use crate::broker::Broker;
use crate::peers::RequestError;

/// How long a chunk may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

const GROUP_BYTES: usize = 16 + 4;
const THERE: u8 = 1;
const GONE: u8 = 0;

pub(super) fn encode_request(group: GroupId, request: &ChunkRequest) -> Bytes {
    let mut body = BytesMut::with_capacity(128);
    body.put_slice(&group.topic.0);
    body.put_i32_le(group.partition.0);
    request.encode(&mut body);
    body.freeze()
}

fn decode_request(mut body: Bytes) -> Option<(GroupId, ChunkRequest)> {
    if body.len() < GROUP_BYTES {
        return None;
    }
    let mut topic = [0; 16];
    body.copy_to_slice(&mut topic);
    let partition = PartitionId(body.get_i32_le());
    Some((GroupId { topic: TopicId(topic), partition }, ChunkRequest::decode(body).ok()?))
}

pub(super) fn decode_answer(mut answer: Bytes) -> Option<Bytes> {
    (answer.first() == Some(&THERE)).then(|| answer.split_off(1))
}

/// Longest time that the throttle holds up a chunk. Beyond it who waits would take it for lost.
const HELD_UP_MAX: Duration = Duration::from_secs(5);

/// What all chunks that leave this node spend together.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    /// When what was spent so far is paid for.
    paid: Mutex<Option<Instant>>,
}

impl Throttle {
    /// Spends `bytes` at `rate` bytes per second. How long to wait.
    fn spend(&self, bytes: usize, rate: u64, now: Instant) -> Duration {
        let cost = Duration::try_from_secs_f64(bytes as f64 / rate.max(1) as f64).unwrap_or(HELD_UP_MAX);
        let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        let until = paid.map_or(now, |paid| paid.max(now)) + cost.min(HELD_UP_MAX);
        *paid = Some(until.min(now + HELD_UP_MAX));
        (until - now).min(HELD_UP_MAX)
    }
}

/// The rate at which this node may send the partition's segments, if there is one.
fn throttle_of(broker: &Broker, group: GroupId) -> Option<u64> {
    let topic = broker.topics().by_id(group.topic.0)?;
    let own = format!("{}:{}", group.partition, broker.node());
    let replicas = &topic.config.leader_replication_throttled_replicas;
    let is_throttled = replicas.iter().any(|replica| replica == "*" || *replica == own);
    is_throttled.then(|| broker.config().leader_replication_throttled_rate)
}

/// Reads a chunk for another node.
pub(super) async fn serve(broker: &Arc<Broker>, body: Bytes) -> Result<Bytes, RequestError> {
    let (group, request) =
        decode_request(body).ok_or_else(|| RequestError::Failed("no request for a chunk".to_owned()))?;
    let gone = || Ok(Bytes::from_static(&[GONE]));
    let Some(partition) = partition_of(broker, group) else { return gone() };
    let reader = {
        let mut core = partition.core.lock().await;
        core.as_mut().and_then(|core| core.replica()?.chunk_reader(&request))
    };
    let Some(reader) = reader else { return gone() };
    match tokio::task::spawn_blocking(move || reader.read()).await {
        Ok(Ok(chunk)) => {
            if let Some(rate) = throttle_of(broker, group) {
                tokio::time::sleep(broker.copying.spend(chunk.len(), rate, Instant::now())).await;
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_wait_for_each_other_and_never_too_long() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        assert_eq!(throttle.spend(1000, 1000, now), Duration::from_secs(1));
        assert_eq!(throttle.spend(500, 1000, now), Duration::from_millis(1500));
        assert_eq!(throttle.spend(500, 1000, now + Duration::from_secs(9)), Duration::from_millis(500));
        assert_eq!(throttle.spend(1 << 20, 0, now), HELD_UP_MAX);
        assert_eq!(throttle.spend(1 << 20, u64::MAX, now + Duration::from_secs(60)), Duration::ZERO);
    }
}
