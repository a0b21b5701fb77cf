//! Requests of the Kafka protocol from node to node: answered by the same handlers as a client's.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tailrace_kafka_wire::{
    ApiKey, LENGTH_PREFIX_BYTES, Reader, Request, RequestHeader, decode_response, request_frame,
};
use tailrace_types::NodeId;

use crate::broker::Broker;
use crate::kafka::{ClientSession, Decided, RequestFrame, decide};
use crate::outbox::ReplyPart;
use crate::peers::{PeerError, RequestError, RequestKind};

/// What nodes call themselves.
const CLIENT_ID: &str = "tailrace-node";

/// The requests that nodes have for each other.
const SERVED: [ApiKey; 5] = [
    ApiKey::WriteTxnMarkers,
    ApiKey::AddPartitionsToTxn,
    ApiKey::ElectLeaders,
    ApiKey::DescribeQuorum,
    ApiKey::ListOffsets,
];

/// Puts a request to another node.
///
/// # Errors
/// [`PeerError`]; also if the answer cannot be understood.
pub(crate) async fn ask<R: Request>(
    broker: &Broker,
    node: NodeId,
    (request, version): (&R, i16),
    timeout: Duration,
) -> Result<R::Response, PeerError> {
    let peers = broker.links.peers().ok_or(PeerError::NotConnected(node))?;
    let failed = |reason: String| PeerError::Answer(RequestError::Failed(reason));
    let frame =
        request_frame(0, Some(CLIENT_ID), version, request).map_err(|error| failed(error.to_string()))?;
    let mut bytes = frame.into_bytes().map_err(|_| failed("the request is not in memory".to_owned()))?;
    let body = bytes.split_off(LENGTH_PREFIX_BYTES);
    let answer = peers.request(node, RequestKind::Kafka, body, timeout).await?;
    let (_, response) = decode_response::<R>(answer, version).map_err(|error| failed(error.to_string()))?;
    Ok(response)
}

/// Answers a request of the node `from`.
pub(super) async fn serve(
    broker: &Arc<Broker>,
    from: Option<NodeId>,
    body: Bytes,
) -> Result<Bytes, RequestError> {
    let from = from.ok_or(RequestError::NotServed)?;
    let failed = |reason: String| RequestError::Failed(reason);
    let header = RequestHeader::decode(&mut Reader::new(body.clone()));
    let header = header.map_err(|error| failed(error.to_string()))?;
    if !SERVED.contains(&header.api_key) {
        return Err(RequestError::NotServed);
    }
    let session = Arc::new(ClientSession::of_node(from));
    let frame = RequestFrame { body, reservation: None };
    let closed = |_| failed("the request makes no sense".to_owned());
    let parts = match decide(Arc::clone(broker), session, frame).await.map_err(closed)? {
        Decided::NoReply => return Err(failed("the request has no answer".to_owned())),
        Decided::Reply(parts) => parts,
        Decided::Later(parts) => parts.await.map_err(closed)?,
    };
    let mut answer = BytesMut::new();
    for part in parts {
        match part {
            ReplyPart::Bytes(bytes) => answer.extend_from_slice(&bytes),
            ReplyPart::Room(_) => {}
            ReplyPart::File(_) => return Err(RequestError::NotServed),
        }
    }
    if answer.len() < LENGTH_PREFIX_BYTES {
        return Err(failed("the answer is empty".to_owned()));
    }
    Ok(answer.split_off(LENGTH_PREFIX_BYTES).freeze())
}
