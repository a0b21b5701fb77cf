//! A task on each node that watches its replicas: elections, truncations, copies of logs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tailrace_env::time;
use tailrace_node::Node;
use tailrace_replication::raft::Counters;
use tailrace_types::TopicPartition;

use super::history::{Phase, SharedHistory};
use super::site::{INTERNAL_TOPICS, TOPICS};

/// Events between the last look and the end of a node are not counted.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Counts events until everything has settled.
pub(super) async fn watch(node: Arc<Node>, history: SharedHistory) {
    let mut known = BTreeMap::<TopicPartition, Counters>::new();
    while history.lock().phase() <= Phase::Settling {
        time::sleep(POLL_INTERVAL).await;
        let topics = TOPICS.iter().map(|(name, _)| *name).chain(INTERNAL_TOPICS);
        let topics: Vec<_> = topics.filter_map(|name| node.topics().by_name(name)).collect();
        let partitions =
            topics.iter().flat_map(|topic| (0..topic.partition_count()).map(move |i| topic.here(i)));
        let handles: Vec<_> = partitions.filter_map(Result::ok).cloned().collect();
        for handle in handles {
            let counters = handle.look(|core| core.as_replica().map(|replica| replica.counters())).await;
            let Some(now) = counters.flatten() else { continue };
            let before = known.insert(handle.id.clone(), now).unwrap_or_default();
            // A replica that was reopened counts from zero.
            let before = if before.elected > now.elected { Counters::default() } else { before };
            let happened = [
                ("a replica was elected", now.elected, before.elected),
                ("the end of a log was truncated", now.truncations, before.truncations),
                ("a snapshot was offered", now.snapshots_offered, before.snapshots_offered),
                ("a snapshot was installed", now.snapshots_installed, before.snapshots_installed),
                ("a snapshot was abandoned", now.snapshots_given_up, before.snapshots_given_up),
                ("a damaged segment was repaired", now.segments_mended, before.segments_mended),
            ];
            for (what, now, before) in happened {
                (before..now).for_each(|_| history.lock().count(what));
            }
        }
    }
}
