//! Takes a data folder to a running node, and back.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tailrace_env::{select, task, time};

use crate::disk::NodeDisk;
use tailrace_config::{BrokerConfig, ConfigError, DynamicConfigs};
use tailrace_env::metrics::Metrics;
use tailrace_env::sync::{Mutex, oneshot, watch};
use tailrace_env::task::JoinHandle;
use tailrace_env::time::wall_clock;
use tailrace_env::workers::Workers;
use tailrace_log::{DataDirLock, Disk, LockError, LogError, LogStore, remove_leftovers};
use tailrace_metadata::{ControlError, RegisterNode};
use tailrace_peers::{ListenError, PeerTls, Peers, Port, TlsError};
use tailrace_replication::raft::ReplicaOptions;
use tailrace_types::{NodeId, usize_of};

use crate::access::{
    Access, AccessError, AccessMetrics, OwnUsers, check_first_user, create_first_user, fill_audit_topic,
    finish_audit_topic, flush_audit_topic, remove_expired,
};
use crate::cleaner::Cleaner;
use crate::cluster::{self, Addresses, ClusterError, Entered, LinkUser, Links, Own, Registration};
use crate::collector::NodeCollector;
use crate::controller::log::{self, MetadataError, OpenLog};
use crate::controller::{ControllerShell, Hold, ProducerIdBlock, Tools};
use crate::coordinators::Coordinators;
use crate::deadlines::{HAND_OVER_TIMEOUT, START_CATCH_UP_TIMEOUT};
use crate::dirty::DirtyPages;
use crate::group_collector::GroupCollector;
use crate::metrics::NodeMetrics;
use crate::node::Node;
use crate::partitions::{
    FollowsTopics, Journal, Lookups, Opener, PartitionContext, Stepper, close_all, keep_open, keep_up,
    replace_lost, replica_options, start_flusher, tick,
};
use crate::relay::Relay;
use crate::scrubber::Scrubber;
use crate::share::ShareGroups;
use crate::space::{self, DiskSpace};
use crate::streams::{Deliverer, Streams, Translator, resume_consumers, save_consumers};
use crate::taps::{Sink, Taps};

/// Threads that step replicas. A step may wait for the disk.
const STEP_THREADS: usize = 4;

/// The data folder of a node on its disk. This process holds it until it is dropped.
pub struct DataFolder {
    path: PathBuf,
    disk: NodeDisk,
    lock: Option<DataDirLock>,
    own: Own,
}

impl DataFolder {
    /// Opens `data.dir`, and creates it if it is missing.
    ///
    /// # Errors
    /// [`StartError::Folder`], [`StartError::Lock`] if another process has it, [`StartError::Cluster`] if it
    /// belongs to another node.
    pub fn open(config: &BrokerConfig, disk: NodeDisk) -> Result<Self, StartError> {
        let path = PathBuf::from(&config.data_dir);
        let lock = if disk.is_private() {
            let made = disk.create_dir(&path).and_then(|()| disk.sync_dir(path.parent().unwrap_or(&path)));
            made.map_err(|error| folder_error("create", &path, &error))?;
            None
        } else {
            make_durable_folder(&path)?;
            Some(DataDirLock::acquire(&path)?)
        };
        // A node that was killed may have left writes that no sync has covered. We rely on what we read here.
        disk.sync_fs(&path).map_err(|error| folder_error("sync", &path, &error))?;
        let own = Own::open(&disk, &path, config.node())?;
        Ok(Self { path, disk, lock, own })
    }
}

/// What a node is started with.
pub struct Startup {
    /// Settings by key, all layers merged: see `tailrace_config`.
    pub settings: BTreeMap<String, String>,
    /// The folder with its data.
    pub folder: DataFolder,
    /// The registry for its metrics.
    pub metrics: Arc<Metrics>,
    /// Where its fronts listen, which this node announces to the others. A standalone server can omit it.
    pub addresses: Option<Addresses>,
    /// Threads for CPU-bound work.
    pub workers: Arc<Workers>,
    /// The fronts around it.
    pub fronts: Fronts,
}

/// The fronts around a node that clients speak to, as the node sees them. All are optional.
#[derive(Default)]
pub struct Fronts {
    /// Those that keep state per topic.
    pub followers: Vec<Arc<dyn FollowsTopics>>,
    /// Those that hear of committed records.
    pub sinks: Vec<Arc<dyn Sink>>,
    /// Name of the sink that has already delivered messages relayed to other nodes, before they are stored.
    pub relays: Option<&'static str>,
    /// The other user of the links between nodes.
    pub link_user: Option<Arc<dyn LinkUser>>,
    /// The one that says how records are messages of streams. Without it there are no streams.
    pub translator: Option<Arc<dyn Translator>>,
    /// The one that sends what push consumers deliver. Without it there are none.
    pub deliverer: Option<Arc<dyn Deliverer>>,
    /// The one that has users of its own.
    pub users: Option<Arc<dyn OwnUsers>>,
}

/// Why a node did not start. Each is one line, and says what to do if that is known.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting is unknown or illegal.
    #[error("configuration: {0}")]
    Config(#[from] ConfigError),
    /// The data folder is used by another process, or cannot be written.
    #[error("{0}")]
    Lock(#[from] LockError),
    /// The data folder belongs to another node or cluster.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// Another node runs on a copy of this folder.
    #[error(
        "another node with id {0} is running, with a copy of this data folder or the original: only one of them may run"
    )]
    NumberTaken(NodeId),
    /// The cluster does not accept this node, or no longer accepts it.
    #[error("the cluster refuses this node: {0}")]
    NotRegistered(ControlError),
    /// A file of the data folder itself failed.
    #[error("cannot {action} {}: {error}", .path.display())]
    Folder {
        /// The operation.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's message.
        error: String,
    },
    /// The metadata log failed.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// The metadata log is damaged, and no other node has it.
    #[error("{error}. No other node has this log: `tailrace log repair {}` shows what is whole, and continues with it", .dir.display())]
    MetadataLost {
        /// The damage.
        error: Box<MetadataError>,
        /// The data folder.
        dir: PathBuf,
    },
    /// The partition folders failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A node of a cluster has to announce where clients reach it.
    #[error("cluster.listen is set, but there is no front to announce to clients")]
    NoAddresses,
    /// The TLS files failed.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Clients could not log in with these settings.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The operating system could not create a thread.
    #[error("cannot start threads: {0}")]
    Threads(#[source] io::Error),
}

/// A node that runs.
pub struct RunningNode {
    node: Arc<Node>,
    addresses: Option<Addresses>,
    tasks: Vec<JoinHandle<()>>,
    _lock: Option<DataDirLock>,
}

/// Opens a data folder: its metadata, its partitions, its links to other nodes. Everything works when this
/// returns.
///
/// # Errors
/// See [`StartError`]. Damaged partitions are not an error: they are offline, and [`Node::problems`] reports
/// them.
pub async fn start(startup: Startup) -> Result<RunningNode, StartError> {
    let Startup { settings, folder, metrics, mut addresses, workers, fronts } = startup;
    let DataFolder { path: data_dir, disk, lock, mut own } = folder;
    let config = BrokerConfig::resolve(&settings, &DynamicConfigs::default())?;
    let access_metrics = Arc::new(AccessMetrics::default());
    let access = Access::open(&config, Arc::clone(&access_metrics))?;
    let registry = metrics;
    let metrics = Arc::new(NodeMetrics::default());
    registry.add(|registry| metrics.register_into(registry));
    let space = DiskSpace::new(disk.clone());
    let store = LogStore::new(disk, config.tailrace_open_segments_max as usize);
    let links = Arc::new(Links::new(config.node(), config.tailrace_raft_election_ticks));
    for leftover in remove_leftovers(store.disk(), &data_dir)? {
        tracing::info!(folder = %leftover, "removed what was left of a deleted partition");
    }
    let journal = Arc::new(Journal::open(store.disk(), &data_dir)?);
    let flush_threads = usize::try_from(config.tailrace_flush_threads).unwrap_or(1);
    let flusher = start_flusher(flush_threads, Arc::clone(&metrics)).map_err(StartError::Threads)?;
    let context = PartitionContext {
        links: Arc::clone(&links),
        flusher: Arc::new(flusher),
        dirty: Arc::new(DirtyPages::default()),
    };
    let opener = Opener {
        store,
        data_dir: data_dir.clone(),
        context: context.clone(),
        journal,
        // A standalone server has all metadata there are.
        is_up_to_date: Arc::new(AtomicBool::new(config.cluster_address().is_none())),
        crowd: 0,
    };
    // Do this before any other node hears of this one. A replica that lost its log counts as gone until the
    // node gets a new replica.
    let known = own.place().filter(|_| config.cluster_address().is_some());
    let known = known.map(|(id, founders)| replica_options(&config, id, founders));
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
    let Fronts { followers, sinks, relays, link_user, translator, deliverer, users } = fronts;
    let entered = match config.cluster_address() {
        None => {
            own.may_be_alone()?;
            None
        }
        Some(address) => {
            // Checked before we contact any node: a node that others cannot reach is of no use to them.
            let registration =
                cluster::registration(&config, addresses.as_ref().ok_or(StartError::NoAddresses)?)?;
            let registration = RegisterNode { renews, ..registration };
            let (tls, port) = (peer_tls(&config)?, Port::open("cluster.listen", address).await?);
            let entered =
                cluster::enter(&mut own, &config, port, tls, &registry, link_user.clone(), registration);
            Some(entered.await?)
        }
    };
    if let Some(entered) = &entered {
        addresses = addresses.map(|addresses| Addresses { cluster: Some(entered.bound), ..addresses });
        if !entered.bound.ip().is_loopback() && !config.tailrace_cluster_tls {
            tracing::warn!(
                listener = "cluster", address = %entered.bound,
                "LISTENING FOR OTHER NODES BEYOND LOOPBACK WITHOUT TLS: anyone who reaches this address may speak as a node; \
                 docs/security.md says how to require certificates"
            );
        }
        links.connect(entered.peers.clone());
    }
    let log = match opened {
        Some(log) => log,
        None => {
            let options = |e: &Entered| replica_options(&config, e.replica, e.founders.clone());
            let opened = open_metadata(&opener, &settings, entered.as_ref().map(options)).await;
            opened.map_err(|error| lost(error, &data_dir))?
        }
    };
    let hold = Hold {
        upto: log.lacks_upto,
        registration: entered.as_ref().filter(|_| renews).map(|entered| entered.replica),
    };
    let tools = Tools { opener, followers, hold };
    let started = task::spawn_blocking(move || ControllerShell::start(log, tools, wall_clock())).await;
    let controller = Arc::new(started.expect("opening the data folder does not panic"));
    links.configure(controller.image().broker());
    let stepper = Stepper::start(STEP_THREADS).map_err(StartError::Threads)?;
    let node = Arc::new(Node {
        links,
        controller,
        cleaner: Cleaner::default(),
        scrubber: Scrubber::default(),
        coordinators: Coordinators::new(),
        share: ShareGroups::new(),
        streams: Streams::new(translator, deliverer),
        own_users: users,
        flusher: context.flusher,
        stepper,
        dirty: context.dirty,
        lookups: Lookups::new(
            usize_of(config.tailrace_decompressed_bytes_max),
            Arc::clone(&workers),
            metrics.lookup_memory.clone(),
        ),
        workers,
        taps: Taps::new(sinks),
        relay: Relay::new(&config, relays, metrics.relay_retries.clone()),
        link_user,
        access,
        producer_ids: Mutex::new(ProducerIdBlock::default()),
        cluster_id: own.cluster_id().to_owned(),
        heard: entered.as_ref().map(|entered| Arc::clone(entered.receiver.heard())).unwrap_or_default(),
        data_dir: data_dir.canonicalize().unwrap_or(data_dir),
        space,
        stopping: watch::Sender::new(false),
        metrics,
    });
    registry.add(|registry| node.links.register_into(registry));
    registry.add(|registry| access_metrics.register_into(registry));
    registry.register_collector(Box::new(NodeCollector(Arc::downgrade(&node))));
    check_first_user(&node)?;
    node.cleaner.start(&node).map_err(StartError::Threads)?;
    node.scrubber.start(&node).map_err(StartError::Threads)?;
    registry.register_collector(Box::new(GroupCollector::new(&node)));
    let mut tasks = vec![
        task::spawn(follow_metadata(Arc::clone(&node))),
        task::spawn(space::watch(Arc::clone(&node))),
        task::spawn(keep_open(Arc::clone(&node))),
    ];
    if let (Some(entered), Some(addresses)) = (entered, &addresses) {
        live_in_cluster(&node, entered, &config, addresses).await?;
    }
    match node.is_alone() {
        true => create_first_user(Arc::clone(&node)).await,
        false => tasks.push(task::spawn(create_first_user(Arc::clone(&node)))),
    }
    tasks.extend([
        task::spawn(keep_up(Arc::clone(&node))),
        task::spawn(replace_lost(Arc::clone(&node))),
        task::spawn(run_coordinators(Arc::clone(&node))),
        task::spawn(remove_expired(Arc::clone(&node))),
        task::spawn(ShareGroups::sweep(Arc::clone(&node))),
        task::spawn(resume_consumers(Arc::clone(&node))),
        task::spawn(Arc::clone(&node.dirty).watch()),
        task::spawn(remember_nodes(Arc::clone(&node), own)),
    ]);
    tasks.extend(node.access.watch_token_keys().map(task::spawn));
    tasks.push(task::spawn(sweep_audit(Arc::clone(&node))));
    tasks.push(task::spawn(fill_audit_topic(Arc::clone(&node))));
    Ok(RunningNode { node, addresses, tasks, _lock: lock })
}

/// Loads certificates for the links to other nodes, if the settings ask for TLS, and reloads them when they
/// change.
fn peer_tls(config: &BrokerConfig) -> Result<Option<Arc<PeerTls>>, TlsError> {
    if !config.tailrace_cluster_tls {
        return Ok(None);
    }
    let tls = PeerTls::load(
        Path::new(&config.tailrace_cluster_tls_certificate_file),
        Path::new(&config.tailrace_cluster_tls_key_file),
        Path::new(&config.tailrace_cluster_tls_ca_file),
    )?;
    task::spawn(Arc::clone(&tls).watch());
    Ok(Some(tls))
}

/// Joins the work of the cluster. Returns when this node finds itself in the metadata.
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
    task::spawn(tick(Arc::clone(here)));
    let (answered, mut answer) = oneshot::channel();
    task::spawn(cluster::run(Arc::clone(here), Registration { node, founds, answered }));
    let mut is_answered = false;
    if entered.is_new || here.controller.is_held() {
        tracing::info!("waiting for the cluster's metadata");
        let mut known = pin!(cluster::known_to_itself(here));
        select! {
            () = &mut known => {}
            // A node that the cluster has removed would wait forever.
            said = &mut answer => {
                said.unwrap_or(Ok(())).map_err(StartError::NotRegistered)?;
                is_answered = true;
                known.await;
            }
        }
    }
    // Catch up, so that clients are not told that a topic does not exist. Without a majority of the
    // controllers there is nothing newer to get.
    let newest = async {
        if !is_answered {
            // The task that answers runs as long as the node does.
            answer.await.unwrap_or(Ok(()))?;
        }
        Ok(here.controller.catch_up(here.now()).await.is_ok())
    };
    let caught_up = time::timeout(START_CATCH_UP_TIMEOUT, newest).await.unwrap_or(Ok(false));
    if !caught_up.map_err(StartError::NotRegistered)? {
        if here.links.peers().is_some_and(Peers::number_is_taken) {
            return Err(StartError::NumberTaken(here.id()));
        }
        tracing::warn!("no controller answers: this node starts with the metadata that it has");
    }
    Ok(())
}

impl RunningNode {
    /// Returns the node, to work with.
    pub fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Returns where its fronts listen, and where it listens for other nodes. `None` if the startup gave no
    /// addresses.
    pub fn addresses(&self) -> Option<&Addresses> {
        self.addresses.as_ref()
    }

    /// Has other nodes take over what this one leads, if there are others and the settings say so. Clients
    /// are served meanwhile.
    pub async fn hand_over(&self) {
        flush_audit_topic(&self.node).await;
        save_consumers(&self.node).await;
        if self.node.links.peers().is_some() && self.node.config().controlled_shutdown_enable {
            cluster::hand_over(&self.node, HAND_OVER_TIMEOUT).await;
        }
    }

    /// Announces that the node is about to stop: waiting requests end, and fronts accept nothing more.
    pub fn begin_to_stop(&self) {
        self.node.stopping.send_replace(true);
    }

    /// Stops the node: everything is on disk, partitions are closed cleanly. Fronts must have finished with
    /// it by then. Returns how many partitions could not be closed cleanly. The next start recovers those.
    pub async fn stop(self) -> usize {
        self.begin_to_stop();
        finish_audit_topic(&self.node).await;
        for task in &self.tasks {
            task.abort();
        }
        // From here on nothing opens a partition.
        self.node.controller.end_commands().await;
        let node = Arc::clone(&self.node);
        let stop = move || {
            node.cleaner.stop();
            node.scrubber.stop();
            node.stepper.stop();
            node.flusher.stop();
        };
        if task::spawn_blocking(stop).await.is_err() {
            tracing::error!("stopping the cleaner or the flusher panicked");
        }
        let failed = close_all(&self.node).await;
        self.node.controller.close().await;
        self.node.access.audit.close().await;
        if let Some(peers) = self.node.links.peers() {
            peers.stop().await;
        }
        failed
    }
}

async fn follow_metadata(node: Arc<Node>) {
    node.controller.follow(node.stopping.subscribe()).await;
}

async fn sweep_audit(node: Arc<Node>) {
    node.access.sweep_audit().await;
}

async fn run_coordinators(node: Arc<Node>) {
    node.coordinators.run(&node).await;
}

/// Opens the metadata log and replays it.
async fn open_metadata(
    opener: &Opener,
    settings: &BTreeMap<String, String>,
    replica: Option<ReplicaOptions>,
) -> Result<OpenLog, StartError> {
    let (opener, settings) = (opener.clone(), settings.clone());
    let opened = task::spawn_blocking(move || log::open(&opener, &settings, replica, wall_clock())).await;
    Ok(opened.expect("opening the metadata log does not panic")?)
}

/// Adds what to do if no other node has the log.
fn lost(error: StartError, data_dir: &Path) -> StartError {
    match error {
        StartError::Metadata(error) if error.is_loss() => {
            StartError::MetadataLost { error: Box::new(error), dir: data_dir.to_owned() }
        }
        error => error,
    }
}

/// Stores the addresses of the other nodes in the data folder for as long as the server runs. A node whose
/// metadata log is damaged asks those nodes.
async fn remember_nodes(node: Arc<Node>, mut own: Own) {
    let mut changes = node.controller.changes();
    loop {
        let image = node.image();
        let nodes = image.nodes().map(|n| (n.registration.node.get(), n.registration.cluster.clone()));
        let nodes: Vec<_> = nodes.collect();
        if !nodes.is_empty() {
            let remembered = task::spawn_blocking(move || {
                let remembered = own.remember(nodes);
                (own, remembered)
            });
            let remembered = match remembered.await {
                Ok((back, remembered)) => {
                    own = back;
                    remembered
                }
                Err(error) => {
                    return tracing::error!(%error, "storing the addresses of the nodes panicked: they are no longer stored");
                }
            };
            if let Err(error) = remembered {
                tracing::warn!(%error, "could not store the addresses of the nodes");
            }
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

fn folder_error(action: &'static str, path: &Path, error: &io::Error) -> StartError {
    StartError::Folder { action, path: path.to_owned(), error: error.to_string() }
}

/// Creates the folder if it is missing, and syncs the folders that name it: after a power loss, a folder
/// whose name was not synced may be gone with everything in it.
fn make_durable_folder(data_dir: &Path) -> Result<(), StartError> {
    if data_dir.is_dir() {
        return Ok(());
    }
    std::fs::create_dir_all(data_dir).map_err(|error| folder_error("create", data_dir, &error))?;
    let whole = data_dir.canonicalize().map_err(|error| folder_error("find", data_dir, &error))?;
    for folder in whole.ancestors().skip(1) {
        // A parent that we may not read cannot have been created just now.
        let Ok(opened) = std::fs::File::open(folder) else { break };
        opened.sync_all().map_err(|error| folder_error("sync", folder, &error))?;
    }
    Ok(())
}
