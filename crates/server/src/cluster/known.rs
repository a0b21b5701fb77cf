//! Waits until a change of the metadata is known to all nodes, and new partitions have leaders: a client may put its next
//! request to any of them.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tailrace_metadata::MetadataRecord;
use tailrace_types::{NodeId, Offset, TopicId};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::leaders::leader_of;
use crate::broker::Broker;
use crate::controller::Executed;
use crate::peers::RequestKind;

/// How long a client waits for nodes that do not follow. What it asked for is done all the same.
const PATIENCE: Duration = Duration::from_secs(2);

/// Time between two looks for the leaders of new partitions.
const LOOK: Duration = Duration::from_millis(5);

/// Topics that one request asks about; more have their leaders a little later.
const TOPICS_MAX: usize = 1000;

/// A change of the metadata.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Change {
    /// One past its last record.
    end: i64,
    /// Ids of topics that got partitions.
    topics: Vec<String>,
}

/// Waits until all nodes that are there know of what was done here or by the controller, at most for [`PATIENCE`].
pub(crate) async fn known_to_all(broker: &Arc<Broker>, executed: &Executed) {
    let Some(peers) = broker.links.peers() else { return };
    if executed.records.is_empty() {
        return;
    }
    let deadline = Instant::now() + PATIENCE;
    let change = Arc::new(Change::of(executed));
    let body = super::forward::encode(&*change);
    let nodes = executed.image.nodes().filter(|node| !node.fenced).map(|node| node.registration.node);
    let others: Vec<NodeId> = nodes.filter(|node| *node != broker.node() && peers.is_up(*node)).collect();
    let mut waiting = JoinSet::new();
    for node in others {
        let (broker, body) = (Arc::clone(broker), body.clone());
        waiting.spawn(async move {
            let Some(peers) = broker.links.peers() else { return };
            // A node that does not answer must not keep the client.
            let _ = peers.request(node, RequestKind::Known, body, PATIENCE).await;
        });
    }
    known_here(broker, &change, deadline).await;
    let all = async { while waiting.join_next().await.is_some() {} };
    let _ = timeout_at(deadline, all).await;
}

/// Waits on behalf of another node until the change is known here.
pub(super) async fn serve(broker: &Arc<Broker>, body: &[u8]) -> Result<(), String> {
    let change: Change = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    known_here(broker, &change, Instant::now() + PATIENCE).await;
    Ok(())
}

async fn known_here(broker: &Arc<Broker>, change: &Change, deadline: Instant) {
    if timeout_at(deadline, broker.controller.applied_upto(Offset(change.end))).await.is_err() {
        return;
    }
    for id in change.topics.iter().take(TOPICS_MAX).filter_map(|text| TopicId::parse(text)) {
        while Instant::now() < deadline && !has_leaders(broker, id) {
            sleep(LOOK).await;
        }
    }
}

/// True also of a topic that is gone again.
fn has_leaders(broker: &Broker, id: TopicId) -> bool {
    let Some(topic) = broker.topics().by_id(id.0) else { return true };
    let count = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
    (0..count).all(|partition| leader_of(broker, &topic, partition).is_some())
}

impl Change {
    fn of(executed: &Executed) -> Self {
        let topics = executed.records.iter().filter_map(|record| match record {
            MetadataRecord::TopicCreated { id, .. } | MetadataRecord::PartitionsAdded { id, .. } => {
                Some(id.to_string())
            }
            _ => None,
        });
        Self { end: executed.end.get(), topics: topics.collect() }
    }
}
