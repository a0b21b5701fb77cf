//! Where a partition ends that another node may lead: the coordinator of a share group is asked about partitions of all nodes.

use tailrace_kafka_wire::ErrorCode;
use tailrace_types::Offset;

use crate::errors::absent_code;
use tailrace_node::ask::HighWatermarkOf;
use tailrace_node::cluster::leaders::leader_of;
use tailrace_node::partitions::{NotHere, Topic};
use tailrace_node::{Caller, Node};

/// The high watermark, from the node that leads the partition.
///
/// # Errors
/// There is no such partition, or nobody leads it or answers just now.
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
        tracing::debug!(%node, %error, "the end of a partition could not be asked for");
        None
    });
    found.map(Offset).ok_or(ErrorCode::LeaderNotAvailable)
}
