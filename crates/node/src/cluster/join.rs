//! How a node becomes a member of a cluster: it founds one, or asks another node to let it in.

use std::sync::Arc;
use tailrace_env::task;
use tailrace_env::time::{Duration, Instant};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tailrace_metadata::{Command, ControlError, ControlErrorKind, RegisterNode};
use tailrace_types::{NodeId, ReplicaId};

use super::errors::JoinError;
use crate::caller::Caller;
use crate::controller::CommandError;
use crate::deadlines::{JOIN_TIMEOUT, NUMBER_IN_USE_MARGIN};
use crate::node::Node;
use crate::retry::Pauses;
use tailrace_peers::{PeerError, Peers, Refusal, RequestError, RequestKind};

/// Pause between two rounds through the seeds.
const ROUNDS: Pauses = Pauses::steady(Duration::from_millis(500));

/// Delay before asking the other members what the controller was asked.
const MEMBERS: Pauses = Pauses::steady(Duration::from_secs(1));

/// Rounds between two log lines.
const LOG_EVERY: u32 = 20;

/// Who a node is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Status {
    /// Its id.
    pub(crate) node: i32,
    /// Its cluster. `None` if it does not belong to one yet.
    pub(crate) cluster_id: Option<String>,
    /// Where other nodes reach it.
    #[serde(default)]
    pub(crate) address: Option<String>,
}

/// What a node has to know once it was let in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Admission {
    /// The cluster.
    pub(crate) cluster_id: String,
    /// The node's replica of the metadata log.
    pub(crate) replica: u64,
    /// The founding members of the metadata log.
    pub(crate) founders: Vec<u64>,
    /// The addresses of the nodes, by id.
    pub(crate) nodes: Vec<(i32, String)>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum JoinAnswer {
    Admitted(Admission),
    Refused(String),
    /// No node can decide at the moment.
    Later(String),
    /// Another folder uses the id, and its node is not known to be gone.
    InUse {
        reason: String,
        session_ms: u64,
    },
}

/// How a node with an empty data folder starts.
pub(crate) enum Beginning {
    /// It founds a cluster.
    Founds,
    /// A cluster let it in.
    Joins(Admission),
}

/// Asks the seeds until one of them lets this node in, or until it is clear that this node has to found the
/// cluster. That is so if it is the first of the seeds, and all others report that they belong to no cluster.
///
/// # Errors
/// [`JoinError`]: a cluster refuses this node.
pub(crate) async fn begin(
    peers: &Peers,
    seeds: &[String],
    registration: &RegisterNode,
) -> Result<Beginning, JoinError> {
    let (mut patience, mut rounds) = (Patience::default(), ROUNDS.without_end());
    for round in 0_u32.. {
        let mut without_cluster = 0;
        let mut itself_at = None;
        let mut trouble = None;
        let mut in_use = false;
        for (number, seed) in seeds.iter().enumerate() {
            match ask(peers, seed, registration, None).await {
                Asked::Itself => itself_at = Some(number),
                Asked::WithoutCluster => without_cluster += 1,
                Asked::Admitted(admission) => return Ok(Beginning::Joins(admission)),
                Asked::Refused(reason) => return Err(JoinError { seed: seed.clone(), reason }),
                Asked::InUse { reason, session } => {
                    in_use = true;
                    if patience.is_over(registration.node, session) {
                        return Err(JoinError { seed: seed.clone(), reason });
                    }
                }
                Asked::Later(reason) => trouble = Some(format!("{seed}: {reason}")),
            }
        }
        let others = seeds.len() - usize::from(itself_at.is_some());
        if (itself_at == Some(0) || others == 0) && without_cluster == others {
            return Ok(Beginning::Founds);
        }
        if !in_use {
            patience.begin_again();
        }
        if round % LOG_EVERY == 0 && !in_use {
            let trouble = trouble.unwrap_or_else(|| "no seed belongs to a cluster yet".to_owned());
            tracing::info!(?seeds, %trouble, "waiting to join a cluster");
        }
        rounds.pause().await;
    }
    unreachable!("the rounds do not end")
}

/// Asks the other nodes until one of them gives this one, a member of the cluster `cluster_id`, another
/// replica of the metadata log.
///
/// # Errors
/// [`JoinError`]: the cluster no longer knows this node, or another node has its id.
pub(crate) async fn renew(
    peers: &Peers,
    addresses: &[String],
    cluster_id: &str,
    registration: &RegisterNode,
) -> Result<Admission, JoinError> {
    let (mut patience, mut rounds) = (Patience::default(), ROUNDS.without_end());
    for round in 0_u32.. {
        let mut in_use = false;
        let mut trouble = "no other node answers".to_owned();
        for address in addresses {
            match ask(peers, address, registration, Some(cluster_id)).await {
                Asked::Admitted(admission) if registration.replica != Some(ReplicaId(admission.replica)) => {
                    return Ok(admission);
                }
                Asked::Admitted(_) => trouble = format!("{address}: its build cannot give a second replica"),
                Asked::Refused(reason) => return Err(JoinError { seed: address.clone(), reason }),
                Asked::InUse { reason, session } => {
                    in_use = true;
                    if patience.is_over(registration.node, session) {
                        return Err(JoinError { seed: address.clone(), reason });
                    }
                }
                Asked::Later(reason) => trouble = format!("{address}: {reason}"),
                Asked::Itself | Asked::WithoutCluster => {}
            }
        }
        if !in_use {
            patience.begin_again();
            if round % LOG_EVERY == 0 {
                tracing::warn!(?addresses, %trouble, "waiting for another replica of the metadata log");
            }
        }
        rounds.pause().await;
    }
    unreachable!("the rounds do not end")
}

enum Asked {
    Itself,
    WithoutCluster,
    Admitted(Admission),
    Refused(String),
    Later(String),
    InUse { reason: String, session: Duration },
}

/// Patience while the id of this node is in use. It may have lost its disk a moment ago, and the cluster may
/// not know yet that it was gone.
#[derive(Default)]
struct Patience {
    since: Option<Instant>,
    said: bool,
}

impl Patience {
    /// Restarts the wait after a round in which no node could decide. A new leader of the controllers gives
    /// every node a full session.
    fn begin_again(&mut self) {
        self.since = None;
    }

    /// Reports whether the previous holder of the id would be fenced by now if it were gone.
    fn is_over(&mut self, node: NodeId, session: Duration) -> bool {
        let wait = session + NUMBER_IN_USE_MARGIN;
        if !std::mem::replace(&mut self.said, true) {
            tracing::warn!(
                %node, wait_s = wait.as_secs(),
                "the cluster knows this node's id, but not yet that its previous holder is gone: waiting"
            );
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        since.elapsed() > wait
    }
}

/// `cluster_id`: the cluster that this node is a member of.
async fn ask(peers: &Peers, seed: &str, registration: &RegisterNode, cluster_id: Option<&str>) -> Asked {
    let status = match peers.ask(seed, RequestKind::Status, Bytes::new(), JOIN_TIMEOUT).await {
        Err(PeerError::Refused { refusal: Refusal::Itself, .. }) => return Asked::Itself,
        // At an address where a member looks for the others, something else may run by now.
        Err(PeerError::Refused { refusal, .. }) if cluster_id.is_none() => {
            return Asked::Refused(refusal.to_string());
        }
        Err(error) => return Asked::Later(error.to_string()),
        Ok((_, body)) => serde_json::from_slice::<Status>(&body),
    };
    match status {
        Ok(Status { cluster_id: None, .. }) => return Asked::WithoutCluster,
        Ok(Status { cluster_id: Some(found), .. })
            if cluster_id.is_some_and(|expected| expected != found) =>
        {
            return Asked::Later(format!("it belongs to cluster {found}"));
        }
        Ok(_) => {}
        Err(error) => return Asked::Later(error.to_string()),
    }
    let body = encode(registration);
    match peers.ask(seed, RequestKind::Join, body, JOIN_TIMEOUT).await {
        Err(error) => Asked::Later(error.to_string()),
        Ok((_, body)) => match serde_json::from_slice(&body) {
            Ok(JoinAnswer::Admitted(admission)) => Asked::Admitted(admission),
            Ok(JoinAnswer::Refused(reason)) => Asked::Refused(reason),
            Ok(JoinAnswer::Later(reason)) => Asked::Later(reason),
            Ok(JoinAnswer::InUse { reason, session_ms }) => {
                Asked::InUse { reason, session: Duration::from_millis(session_ms) }
            }
            Err(error) => Asked::Later(error.to_string()),
        },
    }
}

/// Asks the other members, one after the other, to register this node, until one of them reports that the
/// cluster refuses it. A node that was removed is not told who the controller is, but each of the others
/// knows.
pub(super) async fn refused_by_members(here: &Node, registration: &RegisterNode) -> ControlError {
    let body = encode(registration);
    let mut rounds = MEMBERS.without_end();
    loop {
        rounds.pause().await;
        let Some(peers) = here.links.peers() else { continue };
        for node in here.image().nodes().map(|node| node.registration.node) {
            if node == registration.node || !peers.is_up(node) {
                continue;
            }
            let asked = peers.request(node, RequestKind::Join, body.clone(), JOIN_TIMEOUT).await;
            if let Ok(Ok(JoinAnswer::Refused(message) | JoinAnswer::InUse { reason: message, .. })) =
                asked.map(|answer| serde_json::from_slice(&answer))
            {
                return ControlError::Remote { kind: ControlErrorKind::Unknown, message };
            }
        }
    }
}

/// Encodes who this node is. `own` is the status at its start.
pub(super) fn status(node: Option<&Node>, own: Option<Status>) -> Bytes {
    let running = node.map(|node| node.cluster_id.clone());
    encode(&own.map(|own| Status { cluster_id: running.or(own.cluster_id), ..own }))
}

/// Lets another node in, or answers why not.
pub(super) async fn admit(here: &Arc<Node>, caller: &Caller, body: &[u8]) -> Result<Bytes, RequestError> {
    let registration: RegisterNode =
        serde_json::from_slice(body).map_err(|error| RequestError::Failed(error.to_string()))?;
    if let Some(from) = caller.node().filter(|from| *from != registration.node) {
        let node = registration.node;
        return Err(RequestError::Failed(format!("node {from} asks for node {node}")));
    }
    if here.image().founder().is_none() {
        return Ok(encode(&JoinAnswer::Later("the cluster is being founded".to_owned())));
    }
    let node = registration.node;
    let command = Command::RegisterNode(registration);
    let (work, by, now) = (Arc::clone(here), caller.clone(), here.now());
    let registered = task::spawn(async move { work.controller.execute(&by, command, now).await });
    let answer = match registered.await {
        Ok(Ok(image)) => match admission(&image, node) {
            Some(admission) => {
                tracing::info!(%caller, %node, "a node joined the cluster");
                JoinAnswer::Admitted(admission)
            }
            None => JoinAnswer::Later("the cluster is being founded".to_owned()),
        },
        Ok(Err(CommandError::Refused(error))) if error.kind() == ControlErrorKind::NodeIdInUse => {
            let session_ms = here.config().broker_session_timeout_ms;
            JoinAnswer::InUse { reason: error.to_string(), session_ms }
        }
        Ok(Err(CommandError::Refused(error))) => JoinAnswer::Refused(error.to_string()),
        Ok(Err(error)) => JoinAnswer::Later(error.to_string()),
        Err(error) => JoinAnswer::Later(error.to_string()),
    };
    Ok(encode(&answer))
}

fn admission(image: &tailrace_metadata::MetadataImage, node: NodeId) -> Option<Admission> {
    let registration = &image.node(node)?.registration;
    Some(Admission {
        cluster_id: image.cluster_id()?.to_owned(),
        replica: registration.replica.0,
        founders: vec![ReplicaId::new(image.founder()?, 1).0],
        nodes: image
            .nodes()
            .map(|node| (node.registration.node.get(), node.registration.cluster.clone()))
            .collect(),
    })
}

pub(super) fn encode(message: &impl Serialize) -> Bytes {
    // Strings, numbers and lists always serialize.
    serde_json::to_vec(message).expect("answers serialize").into()
}
