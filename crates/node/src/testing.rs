//! Nodes for tests: without fronts, each in a folder of its own.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use crate::disk::NodeDisk;
use tailrace_config::{BrokerConfig, DynamicConfigs};
use tailrace_env::metrics::Metrics;
use tempfile::TempDir;

use crate::cluster::Addresses;
use crate::start::{DataFolder, Fronts, RunningNode, Startup, start};

/// Starts a node in `folder` with these settings.
pub(crate) async fn start_in(folder: &TempDir, settings: &[(&str, &str)]) -> RunningNode {
    tailrace_runtime::install();
    let data = folder.path().join("data").display().to_string();
    let settings = settings.iter().copied().chain([("data.dir", &*data)]);
    let settings: BTreeMap<_, _> = settings.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let config = BrokerConfig::resolve(&settings, &DynamicConfigs::default()).unwrap();
    let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let addresses = Addresses { kafka: nowhere, nats: None, http: nowhere, cluster: None };
    let disk = NodeDisk::new(tailrace_runtime::disk::LocalDisk::default());
    let startup = Startup {
        folder: DataFolder::open(&config, disk).unwrap(),
        settings,
        metrics: Arc::new(Metrics::default()),
        addresses: Some(addresses),
        fronts: Fronts::default(),
    };
    start(startup).await.unwrap()
}
