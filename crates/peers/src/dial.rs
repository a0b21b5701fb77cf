//! A connection to another node, up to the end of the handshake.

use std::io;
use std::sync::Arc;
use tailrace_env::time;

use bytes::Bytes;
use tailrace_types::NodeId;

use super::error::PeerError;
use super::handshake::{Greeting, GreetingError, Purpose};
use super::shared::Shared;
use super::stream::{self, Halves};
use super::types::PeerIdentity;

/// Connects to `address` and does the handshake. Limited by
/// [`PeerOptions::handshake_timeout`](super::PeerOptions).
pub(super) async fn dial(
    shared: &Arc<Shared>,
    address: &str,
    purpose: Purpose,
    expected: Option<NodeId>,
) -> Result<(PeerIdentity, Halves), PeerError> {
    let timeout = shared.options.handshake_timeout;
    let failed = |error| PeerError::Connect { address: address.to_owned(), error };
    let stream = stream::connect(address, timeout).await.map_err(failed)?;
    let greeted = async {
        let mut halves = match &shared.tls {
            None => Halves::plain(stream),
            Some(tls) => tls
                .connect(stream::host(address), stream)
                .await
                .map(Halves::tls)
                .map_err(|error| PeerError::Tls { address: address.to_owned(), error })?,
        };
        let identity = greet(shared, address, purpose, expected, &mut halves).await?;
        Ok((identity, halves))
    };
    let late = || PeerError::NoPeer {
        address: address.to_owned(),
        reason: format!("it did not answer the handshake within {timeout:?}"),
    };
    let outcome: Result<_, PeerError> = time::timeout(timeout, greeted).await.unwrap_or_else(|_| Err(late()));
    outcome.inspect_err(|error| {
        // A refusal was counted where it was found or received.
        if !matches!(error, PeerError::Refused { .. }) {
            shared.metrics.refused("this_node", error.reason());
        }
    })
}

async fn greet(
    shared: &Arc<Shared>,
    address: &str,
    purpose: Purpose,
    expected: Option<NodeId>,
    halves: &mut Halves,
) -> Result<PeerIdentity, PeerError> {
    let no_peer = |reason: String| PeerError::NoPeer { address: address.to_owned(), reason };
    let own = shared.identity.load_full();
    let call: Bytes = Greeting::call(&own, purpose, expected).encode();
    // A node that refuses may have closed already, but its answer can still be read.
    let sent = halves.send_now(&call).await;
    let answer = match Greeting::read(&mut halves.reader).await {
        Ok(answer) => answer,
        Err(GreetingError::Ended) => {
            let tls = if shared.tls.is_some() { "" } else { " (it may demand TLS)" };
            return Err(no_peer(format!("it closed the connection within the handshake{tls}")));
        }
        // This is how TLS reports that the other end rejects this node's certificate.
        Err(GreetingError::Socket(error)) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(PeerError::Tls { address: address.to_owned(), error });
        }
        Err(error) => return Err(no_peer(error.to_string())),
    };
    let level = answer.judge_answer(&own, purpose, expected);
    let level = level.map_err(|refusal| {
        let by = if answer.is_refusal() { "peer" } else { "this_node" };
        shared.metrics.refused(by, refusal.reason());
        PeerError::Refused { address: address.to_owned(), refusal }
    })?;
    sent.map_err(|error| no_peer(error.to_string()))?;
    Ok(answer.identity(level))
}
