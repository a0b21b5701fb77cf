//! The topic of the audit log: stores the events that wait (`audit_queue`), on whichever node leads the
//! partition. Who may read it: `identity::acl`.
//!
//! It has one partition, so that all events of a cluster have an order. An event is in the topic at least
//! once: if it is unknown whether a batch is stored, it is stored again.

use std::sync::Arc;

use tailrace_config::BrokerConfig;
use tailrace_env::sync::oneshot;
use tailrace_env::time::{Duration, Instant, sleep, timeout};
use tailrace_identity::acl::AUDIT_TOPIC;
use tailrace_metadata::{Command, ControlErrorKind, CreateTopic, Requester};
use tailrace_records::{BatchBuilder, BatchOptions};
use tailrace_types::{PartitionId, TimestampMs, TopicId};

use super::audit_queue::Waiting;
use crate::caller::Caller;
use crate::controller::CommandError;
use crate::node::Node;
use crate::partitions::Topic;
use crate::relay::{self, Batch, Stored, Told};

/// Pause between two attempts to store a batch.
const PAUSE: Duration = Duration::from_secs(1);

/// Time for which a batch is tried. Then its events are lost to the topic.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time for which the topic is not created because fewer nodes are there than it is to have replicas: those
/// of a new cluster come one after the other.
const WAIT_FOR_NODES: Duration = Duration::from_secs(30);

/// Time for which a stopping node tries to store what waits.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// Segments are a tenth of what is kept, within these bounds, because whole segments are deleted.
const SEGMENT_BYTES: (u64, u64) = (1 << 20, 100 << 20);

/// Maximum size of a batch in the topic. The largest event has a few hundred KiB.
const BATCH_BYTES_MAX: u32 = 1 << 20;

/// Stores the events of the audit log in its topic, if the settings say so. Never ends then.
pub(crate) async fn fill_audit_topic(node: Arc<Node>) {
    let Some(queue) = node.access.audit.queue() else { return };
    loop {
        let batch = queue.take().await;
        let result = match store(&node, &batch).await {
            Ok(()) => "written",
            Err(reason) => {
                let events = batch.len();
                tracing::error!(reason, events, "events of the audit log did not get into its topic");
                "lost"
            }
        };
        queue.ended(result);
    }
}

/// Waits until what waits is stored, for a limited time.
pub(crate) async fn flush_audit_topic(node: &Node) {
    if let Some(queue) = node.access.audit.queue() {
        // What is left may be stored later, and is counted at the end.
        let _ = timeout(LAST_PATIENCE, queue.drained()).await;
    }
}

/// Like [`flush_audit_topic`], and later events are lost to the topic.
pub(crate) async fn finish_audit_topic(node: &Node) {
    flush_audit_topic(node).await;
    if let Some(queue) = node.access.audit.queue() {
        queue.close();
    }
}

/// Stores a batch. Tries again until it succeeds or the time is over.
async fn store(node: &Arc<Node>, events: &[Waiting]) -> Result<(), String> {
    let began = Instant::now();
    let mut is_told = false;
    loop {
        let is_patient = began.elapsed() < WAIT_FOR_NODES;
        let Err(reason) = attempt(node, events, is_patient).await else { return Ok(()) };
        if began.elapsed() >= PATIENCE {
            return Err(reason);
        }
        if !std::mem::replace(&mut is_told, true) {
            tracing::warn!(reason, "the topic of the audit log takes no events at the moment");
        }
        sleep(PAUSE).await;
    }
}

async fn attempt(node: &Arc<Node>, events: &[Waiting], waits_for_nodes: bool) -> Result<(), String> {
    let topic = match node.topics().by_name(AUDIT_TOPIC) {
        Some(topic) => topic,
        None if waits_for_nodes && lacks_nodes(node) => {
            return Err("it is not created yet, because too few nodes are there for its replicas".to_owned());
        }
        None => created(node).await?,
    };
    let (sender, told) = oneshot::channel();
    let waiter = move || -> Told {
        Box::new(move |stored| {
            // Nobody waits for it when the node stops.
            let _ = sender.send(stored);
        })
    };
    let (partition, now) = (PartitionId(0), node.now());
    let batch = Batch { topic: &topic, partition, builder: built(events, now)?, now };
    let stored = relay::store(node, Caller::internal(), batch, waiter).await;
    match stored.map_err(|error| error.to_string())? {
        Stored::Here(stored) => match stored.committing() {
            Some(committing) => committing.committed().await.map_err(|error| error.to_string()),
            None => Ok(()),
        },
        Stored::UnderWay(_) => match told.await {
            Ok(stored) => stored.map(|_| ()).map_err(|error| error.to_string()),
            Err(_) => Err("the node stops".to_owned()),
        },
    }
}

fn built(events: &[Waiting], now: TimestampMs) -> Result<BatchBuilder, String> {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    for Waiting { principal, json } in events {
        let pushed = builder.push(now, Some(principal.as_bytes()), Some(json.as_bytes()), &[]);
        pushed.map_err(|error| error.to_string())?;
    }
    Ok(builder)
}

fn lacks_nodes(node: &Node) -> bool {
    let wanted = node.config().tailrace_audit_log_topic_replication_factor;
    !node.is_alone() && node.image().internal_replication_factor(AUDIT_TOPIC) < wanted
}

/// Creates the topic, unless another node has.
async fn created(node: &Arc<Node>) -> Result<Arc<Topic>, String> {
    let create = CreateTopic {
        name: AUDIT_TOPIC.to_owned(),
        id: TopicId::from_random(tailrace_env::random::bytes16()),
        partitions: 1,
        replication_factor: node.image().internal_replication_factor(AUDIT_TOPIC),
        assignment: None,
        configs: settings(&node.config())
            .into_iter()
            .map(|(key, value)| (key.to_owned(), Some(value)))
            .collect(),
        now: node.now(),
        by: Requester::Broker,
    };
    match node.execute(Caller::internal(), Command::CreateTopic(create)).await {
        Ok(_) => {}
        Err(CommandError::Refused(error)) if error.kind() == ControlErrorKind::TopicExists => {}
        Err(error) => return Err(error.to_string()),
    }
    // Metadata of another node's command may still be on their way.
    node.topics().by_name(AUDIT_TOPIC).ok_or_else(|| "it is being created".to_owned())
}

fn settings(config: &BrokerConfig) -> Vec<(&'static str, String)> {
    let bytes = config.tailrace_audit_log_topic_retention_bytes;
    let (least, most) = SEGMENT_BYTES;
    vec![
        ("cleanup.policy", "delete".to_owned()),
        ("max.message.bytes", BATCH_BYTES_MAX.to_string()),
        ("retention.bytes", bytes.to_string()),
        ("retention.ms", config.tailrace_audit_log_topic_retention_ms.to_string()),
        ("segment.bytes", (bytes / 10).clamp(least, most).to_string()),
    ]
}
