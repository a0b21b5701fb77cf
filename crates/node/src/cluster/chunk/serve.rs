//! Answers with chunks of what this node's replicas have.

use std::sync::Arc;
use tailrace_env::task;

use bytes::{BufMut as _, Bytes, BytesMut};

use super::{GONE, THERE, decode_request};
use crate::caller::Caller;
use crate::node::Node;
use tailrace_peers::RequestError;

/// Reads a chunk for another node.
pub(in crate::cluster) async fn serve(
    node: &Arc<Node>,
    caller: &Caller,
    body: Bytes,
) -> Result<Bytes, RequestError> {
    let (group, request) =
        decode_request(body).ok_or_else(|| RequestError::Failed("not a request for a chunk".to_owned()))?;
    let gone = || Ok(Bytes::from_static(&[GONE]));
    let Some(partition) = node.partition_of(group) else { return gone() };
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
    match task::spawn_blocking(move || reader.read()).await {
        Ok(Ok(chunk)) => {
            let mut answer = BytesMut::with_capacity(1 + chunk.len());
            answer.put_u8(THERE);
            answer.put_slice(&chunk);
            Ok(answer.freeze())
        }
        Ok(Err(error)) => {
            tracing::warn!(%caller, partition = %partition.id, %error, "could not read a chunk of a snapshot");
            gone()
        }
        Err(error) => Err(RequestError::Failed(error.to_string())),
    }
}
