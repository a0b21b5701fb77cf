//! A front with and without a node, and clients without a socket, for tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use prometheus_client::metrics::gauge::Gauge;
use tailrace_config::{BrokerConfig, DynamicConfigs};
use tailrace_env::metrics::Metrics;
use tailrace_env::workers::Workers;
use tailrace_node::{DataFolder, Fronts, NodeDisk, RunningNode, Startup};
use tailrace_runtime::disk::LocalDisk;
use tailrace_subjects::{Dialect, Pattern};
use tempfile::TempDir;

use crate::auth::Auth;
use crate::client::{Client, TransportKind};
use crate::front::NatsFront;
use crate::outbuf::OutBuffer;
use crate::router::Router;
use crate::server::NatsServer;
use crate::subscription::{ClientSubscription, Sid};

pub(crate) fn front() -> NatsFront {
    tailrace_runtime::install();
    let config = BrokerConfig::resolve(&BTreeMap::new(), &DynamicConfigs::default()).unwrap();
    front_of(&config, &Arc::new(Workers::start().unwrap()))
}

fn front_of(config: &BrokerConfig, workers: &Arc<Workers>) -> NatsFront {
    let auth = Auth::load(config).unwrap();
    NatsFront::new(config, None, auth, Arc::clone(workers))
}

/// Starts a front with a node in `folder`, with these settings.
pub(crate) async fn server_in(folder: &TempDir, settings: &[(&str, &str)]) -> (RunningNode, Arc<NatsServer>) {
    tailrace_runtime::install();
    let data = folder.path().join("data").display().to_string();
    let settings = settings.iter().copied().chain([("data.dir", &*data)]);
    let settings: BTreeMap<_, _> = settings.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let config = BrokerConfig::resolve(&settings, &DynamicConfigs::default()).unwrap();
    let workers = Arc::new(Workers::start().unwrap());
    let front = Arc::new(front_of(&config, &workers));
    let fronts = Fronts {
        followers: vec![Arc::clone(&front) as _],
        sinks: vec![Arc::clone(&front) as _],
        translator: Some(Arc::clone(&front) as _),
        deliverer: Some(Arc::clone(&front) as _),
        ..Fronts::default()
    };
    let folder = DataFolder::open(&config, NodeDisk::new(LocalDisk::default())).unwrap();
    let metrics = Arc::new(Metrics::default());
    let startup = Startup { folder, settings, metrics, addresses: None, workers, fronts };
    let running = tailrace_node::start(startup).await.unwrap();
    let node = Arc::clone(running.node());
    let server = NatsServer {
        front,
        node,
        tls: None,
        kafka_connections: Gauge::default(),
        charging: Default::default(),
    };
    (running, Arc::new(server))
}

/// Creates a client with `count` subscriptions to `subject`, in the account of the topics. It reads nothing.
pub(crate) fn subscriber(front: &NatsFront, subject: &[u8], queue: Option<&[u8]>, count: u64) -> Arc<Client> {
    subscriber_in(front, front.router(), subject, queue, count)
}

/// The same in the account of this router.
pub(crate) fn subscriber_in(
    front: &NatsFront,
    router: &Router,
    subject: &[u8],
    queue: Option<&[u8]>,
    count: u64,
) -> Arc<Client> {
    let out = OutBuffer::new(front.limits().out, None);
    let client = Arc::new(Client::new(1, ([127, 0, 0, 1], 1).into(), TransportKind::Plain, out));
    let pattern = Pattern::parse(Dialect::Nats, subject, router.limits()).unwrap();
    for number in 0..count {
        let sid = Sid::new(number.to_string().as_bytes());
        let queue = queue.map(|name| router.queue_name(name));
        let subscription = ClientSubscription::new(&client, sid, number, queue, false);
        drop(router.subscribe(&pattern, subscription).unwrap());
    }
    client
}
