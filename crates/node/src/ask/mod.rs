//! Questions of one node to another that leads or coordinates something: one encoding, one way to put them, one table of timeouts.
//!
//! A question is a struct that says how it is answered ([`Question`]); the node that is asked runs that. Who is to be asked, the asker
//! finds out: the leader of a partition, a coordinator, the controller. A node that is not what it was taken for says so, in the answer.
//!
//! docs/cluster-protocol.md has the bytes: a version, then the question as JSON. Only a node of the cluster may ask.

mod change_known;
mod command;
mod leadership;
mod markers;
mod marks;
mod quorum;
mod share;
mod transactions;

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tailrace_types::{NodeId, PartitionId, TopicName, TopicPartition};

pub use self::change_known::{ChangeKnown, known_to_all};
pub(crate) use self::command::Execute;
pub use self::leadership::HandOver;
pub(crate) use self::markers::AppendMarkers;
pub use self::marks::HighWatermarkOf;
pub use self::quorum::{DescribeQuorum, Quorum, QuorumReplica};
pub(crate) use self::share::{
    ShareQuestion, ask_share_coordinator, ask_share_coordinators_elsewhere, forget_share_partition_elsewhere,
};
pub use self::transactions::{EnterTransaction, Entered, NotEntered, enter_transaction};
use crate::cluster::Links;
use crate::node::Node;
pub use tailrace_peers::{PeerError, RequestError, RequestKind};

/// Version of the encoding. It is raised when a question means something else than before; a new question needs no new one.
const VERSION: u8 = 1;

/// Bytes of a question.
const QUESTION_BYTES_MAX: usize = 16 << 20;

/// How long the other node may take: for a command, which the controller gives up before that, ...
const COMMAND_TIMEOUT: Duration = Duration::from_secs(25);

/// ... for a change of the metadata to arrive, for which a client waits; it is made all the same, ...
const CHANGE_TIMEOUT: Duration = Duration::from_secs(2);

/// ... for what waits for a commit, ...
const COMMIT_TIMEOUT: Duration = Duration::from_secs(30);

/// ... for a step of a coordinator, or a change of leadership, ...
const STEP_TIMEOUT: Duration = Duration::from_secs(10);

/// ... and for what it knows.
const LOOK_TIMEOUT: Duration = Duration::from_secs(5);

/// What one node asks another one.
pub trait Question: Serialize + Sized {
    /// What it is told.
    type Answer: Serialize + DeserializeOwned + Send + 'static;

    /// How long the other node may take.
    const TIMEOUT: Duration;

    /// As it travels.
    fn on_the_wire(self) -> AnyQuestion;

    /// What the node that is asked does. It is carried out whole, also if the asker is gone meanwhile.
    fn answer(self, node: &Arc<Node>) -> impl Future<Output = Self::Answer> + Send;
}

/// All there are.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnyQuestion {
    /// [`AppendMarkers`].
    AppendMarkers(AppendMarkers),
    /// [`ChangeKnown`].
    ChangeKnown(ChangeKnown),
    /// [`DescribeQuorum`].
    DescribeQuorum(DescribeQuorum),
    /// [`EnterTransaction`].
    EnterTransaction(EnterTransaction),
    /// [`Execute`].
    Execute(Box<Execute>),
    /// [`HandOver`].
    HandOver(HandOver),
    /// [`HighWatermarkOf`].
    HighWatermarkOf(HighWatermarkOf),
    /// Of coordinators of share groups.
    Share(ShareQuestion),
}

/// Asks `node`.
///
/// # Errors
/// [`PeerError`]: the node is not there or did not answer in time, so that nobody knows whether anything was done; or its answer cannot be
/// understood.
pub async fn ask<Q: Question>(links: &Links, node: NodeId, question: Q) -> Result<Q::Answer, PeerError> {
    let peers = links.peers().ok_or(PeerError::NotConnected(node))?;
    let body = encode(&question.on_the_wire());
    let answer = peers.request(node, RequestKind::Ask, body, Q::TIMEOUT).await?;
    decode(&answer).map_err(|reason| PeerError::Answer(RequestError::Failed(reason)))
}

/// Answers the node `from`.
pub(crate) async fn serve(
    node: &Arc<Node>,
    from: Option<NodeId>,
    body: &[u8],
) -> Result<Bytes, RequestError> {
    from.ok_or(RequestError::NotServed)?;
    if body.len() > QUESTION_BYTES_MAX {
        let reason = format!("a question of {} bytes, expected at most {QUESTION_BYTES_MAX}", body.len());
        return Err(RequestError::Failed(reason));
    }
    match decode(body).map_err(RequestError::Failed)? {
        AnyQuestion::AppendMarkers(question) => answer(node, question).await,
        AnyQuestion::ChangeKnown(question) => answer(node, question).await,
        AnyQuestion::DescribeQuorum(question) => answer(node, question).await,
        AnyQuestion::EnterTransaction(question) => answer(node, question).await,
        AnyQuestion::Execute(question) => answer(node, *question).await,
        AnyQuestion::HandOver(question) => answer(node, question).await,
        AnyQuestion::HighWatermarkOf(question) => answer(node, question).await,
        AnyQuestion::Share(question) => answer(node, question).await,
    }
}

async fn answer<Q: Question + Send + 'static>(node: &Arc<Node>, question: Q) -> Result<Bytes, RequestError> {
    let node = Arc::clone(node);
    let answered = tokio::spawn(async move { question.answer(&node).await }).await;
    answered.map(|answer| encode(&answer)).map_err(|error| RequestError::Failed(error.to_string()))
}

fn encode(message: &impl Serialize) -> Bytes {
    let mut body = BytesMut::new();
    body.put_u8(VERSION);
    // Texts, numbers and lists always serialize.
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

/// A partition as questions name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct NamedPartition(String, i32);

impl From<&TopicPartition> for NamedPartition {
    fn from(partition: &TopicPartition) -> Self {
        Self(partition.topic.to_string(), partition.partition.0)
    }
}

impl NamedPartition {
    /// `None` if no topic can be called so.
    fn partition(&self) -> Option<TopicPartition> {
        Some(TopicPartition::new(TopicName::new(&self.0).ok()?, PartitionId(self.1)))
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
