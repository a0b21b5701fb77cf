//! From settings to a running server, and back.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use crate::peers::{PeerTls, Peers};
use tailrace_config::{BrokerConfig, ConfigError, DynamicConfigs, NatsTls};
use tailrace_log::{DataDirLock, LockError, LogError, LogStore, remove_leftovers};
use tailrace_metadata::{ControlError, RegisterNode};
use tailrace_replication::raft::ReplicaOptions;
use tailrace_types::{NodeId, TimestampMs};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Mutex, oneshot, watch};
use tokio::task::JoinHandle;

use crate::aside::Aside;
use crate::budget::RequestBudget;
use crate::cleaner::Cleaner;
use crate::cluster::{self, Addresses, ClusterError, Entered, LinkUser, Links, Own, Registration};
use crate::collector::NodeCollector;
use crate::controller::log::{self, MetadataError, OpenLog};
use crate::controller::{ControllerShell, Hold, ProducerIdBlock, Tools};
use crate::coordinators::Coordinators;
use crate::dirty::DirtyPages;
use crate::disk::ServerDisk;
use crate::group_collector::GroupCollector;
use crate::http::{self, HttpServer};
use crate::kafka::{self, FetchSessions, KafkaServer, Limits, api_name};
use crate::memory::{self, Held};
use crate::metrics::Metrics;
use crate::nats::{self, Auth, AuthError, NatsFront, NatsServer, PendingCollector};
use crate::nats_on_http::NatsOnHttp;
use crate::node::Node;
use crate::partitions::{
    Flusher, Journal, Opener, PartitionContext, Stepper, close_all, keep_up, replace_lost, tick,
};
use crate::relay::Relay;
use crate::scrubber::Scrubber;
use crate::share::ShareGroups;
use crate::space::{self, DiskSpace};
use crate::taps::Taps;
use crate::tls::{Tls, TlsError};

/// Threads that step replicas. A step may wait for the disk.
const STEP_THREADS: usize = 4;

/// How long a node that stops waits for others to take over what it leads.
const HAND_OVER_MAX: Duration = Duration::from_secs(5);

/// What a server is started with.
pub struct Startup {
    /// Settings by key, all layers merged: see `tailrace_config`.
    pub settings: BTreeMap<String, String>,
    /// The disk; tests put a watcher before it.
    pub disk: ServerDisk,
}

/// Without the settings' values: some of them are secrets.
impl std::fmt::Debug for Startup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let settings: Vec<_> = self.settings.keys().collect();
        f.debug_struct("Startup").field("settings", &settings).field("disk", &self.disk).finish()
    }
}

/// Why a server did not start. One line each, saying what to do where that is known.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting is unknown or illegal.
    #[error("configuration: {0}")]
    Config(#[from] ConfigError),
    /// The data folder is used by another process, or cannot be written.
    #[error("{0}")]
    Lock(#[from] LockError),
    /// Which node the data folder belongs to, and which cluster.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// A copy of the folder of a node that runs.
    #[error(
        "another node with number {0} is alive, with a copy of this data folder or the original: only one of them may run"
    )]
    NumberTaken(NodeId),
    /// The cluster does not want this node, or not any more.
    #[error("the cluster refuses this node: {0}")]
    NotRegistered(ControlError),
    /// A file of the data folder itself.
    #[error("cannot {action} {}: {error}", .path.display())]
    Folder {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        error: String,
    },
    /// The users of the NATS listener.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// The metadata log.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// The metadata log is damaged, and nobody else has it.
    #[error("{error}. No other node has this log: `tailrace log repair {}` shows what is whole, and goes on with it", .dir.display())]
    MetadataLost {
        /// What was found.
        error: Box<MetadataError>,
        /// The data folder.
        dir: PathBuf,
    },
    /// The partition folders.
    #[error(transparent)]
    Log(#[from] LogError),
    /// An address that cannot be listened on.
    #[error("cannot listen on {address} ({key}): {error}")]
    Listen {
        /// The setting.
        key: &'static str,
        /// Its value.
        address: String,
        /// What the system said.
        error: io::Error,
    },
    /// The files of TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The operating system gave no thread.
    #[error("cannot start threads: {0}")]
    Threads(#[source] io::Error),
}

/// A running server.
pub struct Server {
    addresses: Addresses,
    node: Arc<Node>,
    nats: Arc<NatsFront>,
    kafka: JoinHandle<()>,
    others: Vec<JoinHandle<()>>,
    grace: Duration,
    runtime: tokio::runtime::Handle,
    _lock: DataDirLock,
}

/// Opens the data folder and the listeners. All of them accept when this returns.
///
/// # Errors
/// See [`StartError`]. Damaged partitions are no error: they are offline, and `/healthz` says so.
pub async fn start(startup: Startup) -> Result<Server, StartError> {
    let config = BrokerConfig::resolve(&startup.settings, &DynamicConfigs::default())?;
    let data_dir = PathBuf::from(&config.data_dir);
    make_durable_folder(&data_dir)?;
    let lock = DataDirLock::acquire(&data_dir)?;
    let mut own = Own::open(&data_dir, config.node())?;
    let tls = Tls::load(&config)?;
    let auth = Auth::load(&config)?;
    let kafka_listener = listen("kafka", &config.kafka).await?;
    let http = listen("http", &config.http).await?;
    let nats = match config.nats_address() {
        Some(address) => Some(listen("nats", address).await?),
        None => None,
    };
    let nats_address = nats.as_ref().map(local).transpose()?;
    let mut addresses =
        Addresses { kafka: local(&kafka_listener)?, nats: nats_address, http: local(&http)?, cluster: None };
    warn_if_open_to_all(&addresses, &config, tls.as_deref(), &auth);

    let metrics = Arc::new(Metrics::new(api_name));
    let space = DiskSpace::new(startup.disk.clone());
    let store =
        LogStore::new(startup.disk, usize::try_from(config.tailrace_open_segments_max).unwrap_or(usize::MAX));
    let links = Arc::new(Links::new(config.node(), config.tailrace_raft_election_ticks));
    let front = Arc::new(NatsFront::new(&config, nats_address, auth));
    for leftover in remove_leftovers(store.disk(), &data_dir)? {
        tracing::info!(folder = %leftover, "removed what was left of a deleted partition");
    }
    let journal = Arc::new(Journal::open(store.disk(), &data_dir)?);
    let flush_threads = usize::try_from(config.tailrace_flush_threads).unwrap_or(1);
    let flusher = Flusher::start(flush_threads, Arc::clone(&metrics)).map_err(StartError::Threads)?;
    let context = PartitionContext {
        links: Arc::clone(&links),
        flusher: Arc::new(flusher),
        dirty: Arc::new(DirtyPages::default()),
    };
    let opener = Opener { store, data_dir: data_dir.clone(), context: context.clone(), journal, crowd: 0 };
    let settings = startup.settings;
    // Before anybody hears of this node: whoever lost the log has to be taken for gone, until it gets another replica.
    let known = own.place().filter(|_| config.cluster_address().is_some());
    let known = known.map(|(id, founders)| cluster::replica_options(&config, id, founders));
    let others = own.others(&config.tailrace_cluster_seeds);
    let (opened, renews) = match known {
        None => (None, false),
        Some(replica) => match open_metadata(&opener, &settings, Some(replica)).await {
            Err(StartError::Metadata(error)) if error.is_loss() && !others.is_empty() => {
                tracing::error!(%error, "this node asks the others for another replica of the metadata log");
                (None, true)
            }
            opened => (Some(opened.map_err(|error| lost(error, &data_dir))?), false),
        },
    };
    let entered =
        enter_cluster(&mut own, &config, &addresses, &metrics, Arc::clone(&front) as _, renews).await?;
    if let Some(entered) = &entered {
        addresses.cluster = Some(entered.bound);
        if !entered.bound.ip().is_loopback() && !config.tailrace_cluster_tls {
            tracing::warn!(
                listener = "cluster", address = %entered.bound,
                "LISTENING FOR OTHER NODES BEYOND LOOPBACK WITHOUT TLS: whoever reaches this address may speak as a node; \
                 docs/security.md says how to demand certificates"
            );
        }
        links.connect(entered.peers.clone());
    }
    let log = match opened {
        Some(log) => log,
        None => {
            let options = |e: &Entered| cluster::replica_options(&config, e.replica, e.founders.clone());
            let opened = open_metadata(&opener, &settings, entered.as_ref().map(options)).await;
            opened.map_err(|error| lost(error, &data_dir))?
        }
    };
    let hold = Hold {
        upto: log.lacks_upto,
        registration: entered.as_ref().filter(|_| renews).map(|entered| entered.replica),
    };
    let tools = Tools { opener, followers: vec![front.clone()], hold };
    let started = tokio::task::spawn_blocking(move || ControllerShell::start(log, tools, now())).await;
    let controller = started.expect("opening the data folder does not panic");
    links.configure(controller.image().broker());
    let slots = usize::try_from(config.max_incremental_fetch_session_cache_slots).unwrap_or(0);
    let blocking = usize::try_from(config.tailrace_io_threads).unwrap_or(1);
    let aside = Aside::start(blocking, &metrics).map_err(StartError::Threads)?;
    let stepper = Stepper::start(STEP_THREADS).map_err(StartError::Threads)?;
    let node = Arc::new(Node {
        links,
        controller,
        cleaner: Cleaner::default(),
        scrubber: Scrubber::default(),
        coordinators: Coordinators::new(),
        share: ShareGroups::new(),
        flusher: context.flusher,
        stepper,
        dirty: context.dirty,
        taps: Taps::new([Arc::clone(&front) as _]),
        relay: Relay::new(&config, Some(nats::NAME), front.metrics().capture.retries.clone()),
        link_user: Arc::clone(&front) as _,
        producer_ids: Mutex::new(ProducerIdBlock::default()),
        cluster_id: own.cluster_id().to_owned(),
        receiver: entered.as_ref().map(|entered| Arc::clone(&entered.receiver)),
        data_dir: data_dir.canonicalize().unwrap_or(data_dir),
        space,
        stopping: watch::Sender::new(false),
        metrics: Arc::clone(&metrics),
    });
    let kafka_server = Arc::new(KafkaServer {
        node: Arc::clone(&node),
        limits: Limits::of(&config),
        metrics: Arc::clone(&metrics),
        budget: RequestBudget::new(
            usize::try_from(config.queued_max_request_bytes).unwrap_or(usize::MAX),
            metrics.request_memory.clone(),
        ),
        half_read: Arc::default(),
        aside: Arc::new(aside),
        fetch_sessions: FetchSessions::new(slots, Arc::clone(&metrics)),
        tls: tls.clone(),
        connections: AtomicUsize::new(0),
    });
    let nats_server = Arc::new(NatsServer {
        front: Arc::clone(&front),
        node: Arc::clone(&node),
        tls: tls.clone(),
        kafka_connections: metrics.connections.clone(),
    });
    let http_server = Arc::new(HttpServer {
        node: Arc::clone(&node),
        metrics: Arc::clone(&metrics),
        aside: Arc::clone(&kafka_server.aside),
        tls: tls.clone(),
        guest: Arc::new(NatsOnHttp(Arc::clone(&nats_server))),
    });
    metrics.add(|registry| front.register_into(registry));
    metrics.add(|registry| node.links.register_into(registry));
    metrics.register_collector(Box::new(NodeCollector(Arc::downgrade(&node))));
    metrics.register_collector(Box::new(PendingCollector(Arc::downgrade(&front))));
    node.cleaner.start(&node).map_err(StartError::Threads)?;
    node.scrubber.start(&node).map_err(StartError::Threads)?;
    metrics.register_collector(Box::new(GroupCollector::new(&node)));
    let grace = Duration::from_millis(config.tailrace_shutdown_grace_ms);
    let follower = tokio::spawn(follow_metadata(Arc::clone(&node)));
    if let Some(entered) = entered {
        live_in_cluster(&node, entered, &config, &addresses).await?;
    }
    let mut others = vec![
        tokio::spawn(http::serve(http, http_server)),
        tokio::spawn(keep_up(Arc::clone(&node))),
        tokio::spawn(replace_lost(Arc::clone(&node))),
        follower,
        tokio::spawn(memory::give_back(held_memory(Arc::clone(&kafka_server), Arc::clone(&front)))),
        tokio::spawn(space::watch(Arc::clone(&node))),
        tokio::spawn(run_coordinators(Arc::clone(&node))),
        tokio::spawn(ShareGroups::sweep(Arc::clone(&node))),
        tokio::spawn(Arc::clone(&node.dirty).watch()),
        tokio::spawn(remember_nodes(Arc::clone(&node), own)),
    ];
    if let Some(listener) = nats {
        others.push(tokio::spawn(nats::serve(listener, nats_server)));
    }
    others.extend(tls.map(|tls| tokio::spawn(tls.watch())));
    Ok(Server {
        addresses,
        kafka: tokio::spawn(kafka::serve(kafka_listener, kafka_server, grace)),
        others,
        grace,
        runtime: tokio::runtime::Handle::current(),
        node,
        nats: front,
        _lock: lock,
    })
}

/// Takes the node's place in its cluster, if it is not to be alone.
async fn enter_cluster(
    own: &mut Own,
    config: &BrokerConfig,
    addresses: &Addresses,
    metrics: &Metrics,
    link_user: Arc<dyn LinkUser>,
    renews: bool,
) -> Result<Option<Entered>, StartError> {
    let Some(address) = config.cluster_address() else {
        own.may_be_alone()?;
        return Ok(None);
    };
    let tls = match config.tailrace_cluster_tls {
        true => Some(PeerTls::load(
            Path::new(&config.tailrace_cluster_tls_certificate_file),
            Path::new(&config.tailrace_cluster_tls_key_file),
            Path::new(&config.tailrace_cluster_tls_ca_file),
        )?),
        false => None,
    };
    if let Some(tls) = &tls {
        tokio::spawn(Arc::clone(tls).watch());
    }
    let listener = listen("cluster.listen", address).await?;
    // Told before anybody is asked: a node that others cannot reach is of no use to them.
    let registration = RegisterNode { renews, ..cluster::registration(config, addresses)? };
    Ok(Some(cluster::enter(own, config, listener, tls, metrics, link_user, registration).await?))
}

/// How long a node that starts waits for the newest metadata.
const METADATA_MAX: Duration = Duration::from_secs(5);

/// Begins to take part. Ends when this node knows of itself.
async fn live_in_cluster(
    here: &Arc<Node>,
    entered: Entered,
    config: &BrokerConfig,
    addresses: &Addresses,
) -> Result<(), StartError> {
    let node = cluster::registration(config, addresses)?;
    let replica = Some(entered.replica);
    let node =
        RegisterNode { directory: entered.directory, cluster: entered.address.clone(), replica, ..node };
    let founds = entered.founds().then(|| here.cluster_id.clone());
    entered.receiver.set_node(here);
    cluster::connect_to_nodes(here);
    tokio::spawn(tick(Arc::clone(here)));
    let (answered, answer) = oneshot::channel();
    tokio::spawn(cluster::run(Arc::clone(here), Registration { node, founds, answered }));
    if entered.is_new || here.controller.is_held() {
        tracing::info!("waiting for the cluster's metadata");
        cluster::known_to_itself(here).await;
    }
    // Clients must not be told that there is no such topic. Without a majority of the controllers there is nothing newer to be had.
    let newest = async {
        // It lasts as long as the node does.
        answer.await.unwrap_or(Ok(()))?;
        Ok(here.controller.catch_up(here.now()).await.is_ok())
    };
    let caught_up = tokio::time::timeout(METADATA_MAX, newest).await.unwrap_or(Ok(false));
    if !caught_up.map_err(StartError::NotRegistered)? {
        if here.links.peers().is_some_and(Peers::number_is_taken) {
            return Err(StartError::NumberTaken(here.id()));
        }
        tracing::warn!("no controller answers: this node begins with the metadata that it has");
    }
    Ok(())
}

impl Server {
    /// Where it listens; with the port that was picked where 0 was asked for.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// What the listeners share, for tests from within.
    #[cfg(test)]
    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Lame duck mode for NATS clients: they are told that the server is about to stop, and closed one after the other, over
    /// `tailrace.nats.lame.duck.duration.ms`. The task ends when they are gone; then [`Server::stop`] is due.
    pub fn lame_duck(&self) -> JoinHandle<()> {
        let nats = Arc::clone(&self.nats);
        self.runtime.spawn(async move { nats.lame_duck().await })
    }

    /// Stops: no new connections, answers for what is in flight, everything on disk, partitions closed cleanly.
    /// Returns how many partitions could not be closed cleanly; the next start recovers those.
    pub async fn stop(self) -> usize {
        if self.node.links.peers().is_some() && self.node.config().controlled_shutdown_enable {
            cluster::hand_over(&self.node, HAND_OVER_MAX).await;
        }
        self.node.stopping.send_replace(true);
        let (kafka, ()) = tokio::join!(self.kafka, self.nats.stop(self.grace));
        if let Err(error) = kafka {
            tracing::error!(%error, "the Kafka listener panicked");
        }
        for task in &self.others {
            task.abort();
        }
        let node = Arc::clone(&self.node);
        let stop = move || {
            node.cleaner.stop();
            node.scrubber.stop();
            node.stepper.stop();
            node.flusher.stop();
        };
        if tokio::task::spawn_blocking(stop).await.is_err() {
            tracing::error!("stopping the cleaner or the flusher panicked");
        }
        let failed = close_all(&self.node).await;
        self.node.controller.close().await;
        if let Some(peers) = self.node.links.peers() {
            peers.stop().await;
        }
        failed
    }
}

/// What requests, answers and slow consumers hold.
fn held_memory(kafka: Arc<KafkaServer>, nats: Arc<NatsFront>) -> impl Fn() -> Held {
    move || Held {
        bytes: nats.pending_bytes() + kafka.budget.used() + kafka.aside.used() + kafka.half_read.used(),
        most_bytes: kafka.budget.take_most() + kafka.aside.take_most() + kafka.half_read.take_most(),
        freed_much: nats.take_freed_much(),
    }
}

async fn follow_metadata(node: Arc<Node>) {
    node.controller.follow(&node).await;
}

async fn run_coordinators(node: Arc<Node>) {
    node.coordinators.run(&node).await;
}

/// Opens the metadata log, and replays it.
async fn open_metadata(
    opener: &Opener,
    settings: &BTreeMap<String, String>,
    replica: Option<ReplicaOptions>,
) -> Result<OpenLog, StartError> {
    let (opener, settings) = (opener.clone(), settings.clone());
    let opened = tokio::task::spawn_blocking(move || log::open(&opener, &settings, replica, now())).await;
    Ok(opened.expect("opening the metadata log does not panic")?)
}

/// Says what can be done where nobody else has the log.
fn lost(error: StartError, data_dir: &Path) -> StartError {
    match error {
        StartError::Metadata(error) if error.is_loss() => {
            StartError::MetadataLost { error: Box::new(error), dir: data_dir.to_owned() }
        }
        error => error,
    }
}

/// Keeps in the data folder where the other nodes are, for as long as the server runs: a node whose metadata log is damaged asks them.
async fn remember_nodes(node: Arc<Node>, mut own: Own) {
    let mut changes = node.controller.changes();
    loop {
        let image = node.image();
        let nodes = image.nodes().map(|n| (n.registration.node.get(), n.registration.cluster.clone()));
        let nodes: Vec<_> = nodes.collect();
        if !nodes.is_empty() {
            let remembered = tokio::task::spawn_blocking(move || {
                let remembered = own.remember(nodes);
                (own, remembered)
            });
            let Ok((back, remembered)) = remembered.await else { return };
            own = back;
            if let Err(error) = remembered {
                tracing::warn!(%error, "where the nodes are could not be written down");
            }
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

fn now() -> TimestampMs {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    TimestampMs(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

async fn listen(key: &'static str, address: &str) -> Result<TcpListener, StartError> {
    let outcome = match tokio::net::lookup_host(address).await {
        Ok(addresses) => listen_at_first(addresses),
        Err(error) => Err(error),
    };
    outcome.map_err(|error| StartError::Listen { key, address: address.to_owned(), error })
}

/// Connections that the kernel holds until they are accepted; it may be set to fewer (`net.core.somaxconn`). When a storm overflows
/// the queue, SYN cookies leave clients of NATS, who wait for the server to speak first, with half a connection.
const BACKLOG: u32 = 4096;

fn listen_at_first(addresses: impl Iterator<Item = SocketAddr>) -> io::Result<TcpListener> {
    let mut failed = io::Error::new(io::ErrorKind::InvalidInput, "the name has no address");
    for address in addresses {
        let bound = || {
            let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            // The port of a server that just ended can be taken at once.
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            socket.listen(BACKLOG)
        };
        match bound() {
            Ok(listener) => return Ok(listener),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn local(listener: &TcpListener) -> Result<SocketAddr, StartError> {
    listener.local_addr().map_err(StartError::Threads)
}

/// A client certificate or a password that is demanded keeps strangers out; encryption alone does not.
fn warn_if_open_to_all(addresses: &Addresses, config: &BrokerConfig, tls: Option<&Tls>, auth: &Auth) {
    let verifies = tls.is_some_and(Tls::verifies_clients);
    let nats_tls = config.tailrace_nats_tls == NatsTls::Required;
    let listeners = [
        ("kafka", Some(addresses.kafka), config.tailrace_kafka_tls, false),
        ("http", Some(addresses.http), config.tailrace_http_tls, false),
        ("nats", addresses.nats, nats_tls, auth.required()),
    ];
    for (name, address, encrypted, asks_for_users) in listeners {
        let Some(address) = address.filter(|address| !address.ip().is_loopback()) else { continue };
        let encryption = if encrypted { "on" } else { "off" };
        if asks_for_users {
            if !encrypted {
                tracing::warn!(
                    listener = name, %address, encryption,
                    "passwords and messages cross the network in clear text; docs/security.md says how to encrypt them"
                );
            }
        } else if !encrypted || !verifies {
            tracing::warn!(
                listener = name, %address, encryption,
                "LISTENING BEYOND LOOPBACK WITHOUT AUTHENTICATION: whoever reaches this address may use everything that \
                 it serves; docs/security.md says how to demand users or client certificates"
            );
        }
    }
}

/// Creates the folder where it is missing, and syncs the folders that name it: after a power loss a folder whose name
/// was not synced may be gone with everything in it.
fn make_durable_folder(data_dir: &Path) -> Result<(), StartError> {
    if data_dir.is_dir() {
        return Ok(());
    }
    let failed = |action, path: &Path, error: io::Error| StartError::Folder {
        action,
        path: path.to_owned(),
        error: error.to_string(),
    };
    std::fs::create_dir_all(data_dir).map_err(|error| failed("create", data_dir, error))?;
    let whole = data_dir.canonicalize().map_err(|error| failed("find", data_dir, error))?;
    for folder in whole.ancestors().skip(1) {
        // A folder above that may not be read cannot have been created just now.
        let Ok(opened) = std::fs::File::open(folder) else { break };
        opened.sync_all().map_err(|error| failed("sync", folder, error))?;
    }
    Ok(())
}
