//! Questions from one node to another that leads or coordinates something. There is one encoding and one way
//! to send them.
//!
//! A question is a struct ([`Question`]). `answers` has what the asked node does, and `serve` dispatches to
//! it. The asker finds out which node to ask: the leader of a partition, a coordinator, the controller. A
//! node that is not in that role says so in its answer.
//!
//! docs/cluster-protocol.md describes the bytes: a version, then the question as JSON. Only nodes of the
//! cluster may ask.

mod answers;
mod change_known;
mod command;
mod epoch;
mod leadership;
mod markers;
mod marks;
mod named;
mod quorum;
mod serve;
mod share;
mod stream;
mod stream_consumers;
mod transactions;

use tailrace_env::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tailrace_types::NodeId;

pub use self::answers::{enter_transaction, known_to_all};
pub use self::change_known::ChangeKnown;
pub(crate) use self::command::{Execute, ExecuteFor, Outcome};
pub(crate) use self::epoch::EpochOf;
pub use self::leadership::HandOver;
pub(crate) use self::markers::{AppendMarkers, Over};
pub use self::marks::HighWatermarkOf;
pub use self::quorum::{DescribeQuorum, Quorum, QuorumReplica};
pub(crate) use self::serve::{only_nodes, serve};
pub(crate) use self::share::{ShareAnswers, ShareQuestion};
pub(crate) use self::stream::{StreamAnswer, StreamAsk, StreamQuestion};
pub(crate) use self::stream_consumers::{ConsumersAnswers, ConsumersQuestion};
pub use self::transactions::{EnterTransaction, Entered, NotEntered};
use crate::caller::Caller;
use crate::cluster::Links;
use crate::deadlines::{
    CHANGE_KNOWN_TIMEOUT, LOOK_TIMEOUT, MARKERS_TIMEOUT, PASSED_COMMAND_TIMEOUT, STEP_TIMEOUT,
};
pub use tailrace_peers::{PeerError, RequestError, RequestKind};

/// Version of the encoding. It is raised when the meaning of an existing question changes. A new question
/// does not need a new version.
const VERSION: u8 = 1;

/// A question from one node to another.
pub trait Question: Serialize + Sized {
    /// The answer to it.
    type Answer: Serialize + DeserializeOwned + Send + 'static;

    /// How long the other node may take. Use a constant of `deadlines`.
    const TIMEOUT: Duration;

    /// Wraps the question for the wire.
    fn on_the_wire(self) -> AnyQuestion;
}

/// All questions.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnyQuestion {
    /// Append the markers of a transaction.
    AppendMarkers(AppendMarkers),
    /// [`ChangeKnown`].
    ChangeKnown(ChangeKnown),
    /// [`DescribeQuorum`].
    DescribeQuorum(DescribeQuorum),
    /// [`EnterTransaction`].
    EnterTransaction(EnterTransaction),
    /// The metadata-log epoch of a replica.
    EpochOf(EpochOf),
    /// A command for the controller.
    Execute(Box<Execute>),
    /// The same for a client, whose rights are asked again. From level 2 of the protocol on.
    ExecuteFor(Box<ExecuteFor>),
    /// [`HandOver`].
    HandOver(HandOver),
    /// [`HighWatermarkOf`].
    HighWatermarkOf(HighWatermarkOf),
    /// A question to a share coordinator.
    Share(ShareQuestion),
    /// A question to the leader of a stream. From level 2 of the protocol on.
    Stream(Box<StreamQuestion>),
    /// A question to the coordinator of a stream's durable consumers. From level 2 of the protocol on.
    StreamConsumers(Box<ConsumersQuestion>),
}

impl Question for ChangeKnown {
    type Answer = ();

    const TIMEOUT: Duration = CHANGE_KNOWN_TIMEOUT;

    fn on_the_wire(self) -> AnyQuestion {
        AnyQuestion::ChangeKnown(self)
    }
}

impl Question for Execute {
    type Answer = Outcome;

    const TIMEOUT: Duration = PASSED_COMMAND_TIMEOUT;

    fn on_the_wire(self) -> AnyQuestion {
        AnyQuestion::Execute(Box::new(self))
    }
}

impl Question for ExecuteFor {
    type Answer = Outcome;

    const TIMEOUT: Duration = PASSED_COMMAND_TIMEOUT;

    fn on_the_wire(self) -> AnyQuestion {
        AnyQuestion::ExecuteFor(Box::new(self))
    }
}

impl Question for HandOver {
    /// False if the node does not lead the partition, or the target replica does not exist or has not caught
    /// up.
    type Answer = bool;

    const TIMEOUT: Duration = STEP_TIMEOUT;

    fn on_the_wire(self) -> AnyQuestion {
        AnyQuestion::HandOver(self)
    }
}

impl Question for AppendMarkers {
    type Answer = Over;

    const TIMEOUT: Duration = MARKERS_TIMEOUT;

    fn on_the_wire(self) -> AnyQuestion {
        AnyQuestion::AppendMarkers(self)
    }
}

impl Question for HighWatermarkOf {
    /// `None` if the node does not lead the partition.
    type Answer = Option<i64>;

    const TIMEOUT: Duration = LOOK_TIMEOUT;

    fn on_the_wire(self) -> AnyQuestion {
        AnyQuestion::HighWatermarkOf(self)
    }
}

impl Question for EpochOf {
    /// `None` if the node does not have this replica, or it has stopped.
    type Answer = Option<i32>;

    const TIMEOUT: Duration = LOOK_TIMEOUT;

    fn on_the_wire(self) -> AnyQuestion {
        AnyQuestion::EpochOf(self)
    }
}

impl Question for DescribeQuorum {
    /// `None` if the node does not lead the metadata log.
    type Answer = Option<Quorum>;

    const TIMEOUT: Duration = LOOK_TIMEOUT;

    fn on_the_wire(self) -> AnyQuestion {
        AnyQuestion::DescribeQuorum(self)
    }
}

impl Question for ShareQuestion {
    type Answer = ShareAnswers;

    const TIMEOUT: Duration = STEP_TIMEOUT;

    fn on_the_wire(self) -> AnyQuestion {
        AnyQuestion::Share(self)
    }
}

impl Question for StreamQuestion {
    type Answer = StreamAnswer;

    const TIMEOUT: Duration = LOOK_TIMEOUT;

    fn on_the_wire(self) -> AnyQuestion {
        AnyQuestion::Stream(Box::new(self))
    }
}

impl Question for ConsumersQuestion {
    type Answer = ConsumersAnswers;

    const TIMEOUT: Duration = STEP_TIMEOUT;

    fn on_the_wire(self) -> AnyQuestion {
        AnyQuestion::StreamConsumers(Box::new(self))
    }
}

impl Question for EnterTransaction {
    type Answer = Result<Entered, NotEntered>;

    const TIMEOUT: Duration = STEP_TIMEOUT;

    fn on_the_wire(self) -> AnyQuestion {
        AnyQuestion::EnterTransaction(self)
    }
}

/// Asks `node`. The question does not carry the caller: the other node sees this node as the asker.
///
/// # Errors
/// [`PeerError`]: the node is down or did not answer in time, so it is unknown whether it did anything, or
/// its answer cannot be decoded.
pub(crate) async fn ask<Q: Question>(
    links: &Links,
    caller: &Caller,
    node: NodeId,
    question: Q,
) -> Result<Q::Answer, PeerError> {
    let answered = put(links, node, question).await;
    answered.inspect_err(|error| tracing::debug!(%caller, %node, %error, "a question has no answer"))
}

async fn put<Q: Question>(links: &Links, node: NodeId, question: Q) -> Result<Q::Answer, PeerError> {
    let peers = links.peers().ok_or(PeerError::NotConnected(node))?;
    let body = encode(&question.on_the_wire());
    let answer = peers.request(node, RequestKind::Ask, body, Q::TIMEOUT).await?;
    decode(&answer).map_err(|reason| PeerError::Answer(RequestError::Failed(reason)))
}

fn encode(message: &impl Serialize) -> Bytes {
    let mut body = BytesMut::new();
    body.put_u8(VERSION);
    // Strings, numbers and lists always serialize.
    body.extend_from_slice(&serde_json::to_vec(message).expect("questions and answers serialize"));
    body.freeze()
}

fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    match body.split_first() {
        Some((&VERSION, message)) => serde_json::from_slice(message).map_err(|error| error.to_string()),
        Some((version, _)) => Err(format!("version {version} of a question, this node knows {VERSION}")),
        None => Err("an empty question".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_arrives_as_it_was_and_what_is_none_is_refused() {
        let question = DescribeQuorum {};
        let body = encode(&question.on_the_wire());
        assert_eq!(&*body, b"\x01{\"describe-quorum\":{}}");
        assert!(matches!(decode(&body), Ok(AnyQuestion::DescribeQuorum(_))));
        for (wrong, reason) in [
            (&b""[..], "empty"),
            (b"\x02{\"describe-quorum\":{}}", "version 2"),
            (b"\x01{\"make-coffee\":{}}", "unknown variant"),
            (b"\x01", "EOF"),
        ] {
            let error = decode::<AnyQuestion>(wrong).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
