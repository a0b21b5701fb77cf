//! Nodes for tests: without fronts, each in its own folder.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use crate::disk::NodeDisk;
use tailrace_config::{BrokerConfig, DynamicConfigs};
use tailrace_env::metrics::Metrics;
use tailrace_env::workers::Workers;
use tailrace_log::{LogStore, PartitionIdentity};
use tailrace_types::{NodeId, PartitionId, RaftGroup, TopicId, TopicName, TopicPartition};
use tempfile::TempDir;

use crate::cluster::{Addresses, Links};
use crate::partitions::{Core, PartitionContext, PartitionHandle, start_flusher};
use crate::start::{DataFolder, Fronts, RunningNode, Startup, start};

/// Starts a node in `folder` with these settings.
pub(crate) async fn start_in(folder: &TempDir, settings: &[(&str, &str)]) -> RunningNode {
    start_with(folder, settings, Fronts::default()).await
}

/// The same, with these fronts.
pub(crate) async fn start_with(folder: &TempDir, settings: &[(&str, &str)], fronts: Fronts) -> RunningNode {
    tailrace_runtime::install();
    let data = folder.path().join("data").display().to_string();
    let settings = settings.iter().copied().chain([("data.dir", &*data)]);
    let settings: BTreeMap<_, _> = settings.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let config = BrokerConfig::resolve(&settings, &DynamicConfigs::default()).unwrap();
    let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let addresses =
        Addresses { kafka: nowhere, more_kafka: Vec::new(), nats: None, http: nowhere, cluster: None };
    let disk = NodeDisk::new(tailrace_runtime::disk::LocalDisk::default());
    let startup = Startup {
        folder: DataFolder::open(&config, disk).unwrap(),
        settings,
        metrics: Arc::new(Metrics::default()),
        addresses: Some(addresses),
        workers: Arc::new(Workers::start().unwrap()),
        fronts,
    };
    start(startup).await.unwrap()
}

/// The partition of [`alone`].
pub(crate) fn identity() -> PartitionIdentity {
    let topic_partition = TopicPartition::new(TopicName::new("t").unwrap(), PartitionId(0));
    PartitionIdentity { topic_id: TopicId([1; 16]), topic_partition }
}

/// A log store on the local disk.
pub(crate) fn log_store() -> LogStore<NodeDisk> {
    LogStore::new(NodeDisk::new(tailrace_runtime::disk::LocalDisk::default()), 16)
}

/// A partition without a node. Unless the test does so, nothing syncs what it appends and nothing delivers
/// its messages.
pub(crate) fn alone(core: Core) -> Arc<PartitionHandle> {
    tailrace_runtime::install();
    let PartitionIdentity { topic_id, topic_partition } = identity();
    let group = RaftGroup { topic: topic_id, partition: topic_partition.partition };
    let context = PartitionContext {
        links: Arc::new(Links::new(NodeId(1), 10)),
        flusher: Arc::new(start_flusher(0, Arc::default()).unwrap()),
        dirty: Arc::default(),
    };
    Arc::new(PartitionHandle::new(topic_partition, group, core, context))
}
