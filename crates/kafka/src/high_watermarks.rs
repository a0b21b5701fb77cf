//! High watermarks of partitions, also of those that other nodes lead. Share group coordinators need them for
//! partitions on all nodes.

use tailrace_kafka_wire::ErrorCode;
use tailrace_types::Offset;

use crate::errors::absent_code;
use tailrace_node::ask::HighWatermarkOf;
use tailrace_node::cluster::leaders::leader_of;
use tailrace_node::partitions::{NotHere, Topic};
use tailrace_node::{Caller, Node};

/// Returns the high watermark, from the partition's leader.
///
/// # Errors
/// If the partition does not exist, or no leader answers at the moment.
pub(crate) async fn high_watermark(
    node: &Node,
    caller: &Caller,
    topic: &Topic,
    index: i32,
) -> Result<Offset, ErrorCode> {
    match topic.led(index) {
        Ok(handle) => Ok(handle.reader.high_watermark().offset()),
        Err(NotHere::Elsewhere) => at_leader(node, caller, topic, index).await,
        Err(absent @ (NotHere::NoSuchPartition | NotHere::Offline(_))) => Err(absent_code(absent)),
    }
}

async fn at_leader(here: &Node, caller: &Caller, topic: &Topic, index: i32) -> Result<Offset, ErrorCode> {
    let (node, _) = leader_of(here, topic, index).ok_or(ErrorCode::LeaderNotAvailable)?;
    let asked = here.ask(caller, node, HighWatermarkOf::new(topic.id, index)).await;
    let found = asked.unwrap_or_else(|error| {
        tracing::debug!(%node, %error, "could not ask the leader for the end of a partition");
        None
    });
    found.map(Offset).ok_or(ErrorCode::LeaderNotAvailable)
}
