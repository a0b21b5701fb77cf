//! From settings to a running server, and back.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use tailrace_broker::config::{BrokerConfig, ConfigError, DynamicConfigs, NatsTls};
use tailrace_log::{DataDirLock, LockError, LogError, LogStore, remove_leftovers};
use tailrace_types::{TimestampMs, TopicId};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;

use crate::broker::{Broker, Limits};
use crate::budget::RequestBudget;
use crate::cleaner::Cleaner;
use crate::collector::BrokerCollector;
use crate::controller::{ControllerShell, ProducerIdBlock};
use crate::coordinators::Coordinators;
use crate::dirty::DirtyPages;
use crate::disk::ServerDisk;
use crate::group_collector::GroupCollector;
use crate::kafka::{FetchSessions, api_name};
use crate::metadata_log::{MetadataError, MetadataLog};
use crate::metrics::Metrics;
use crate::nats::{self, Auth, AuthError, NatsFront};
use crate::partitions::{Flusher, Opener, close_all, keep_up};
use crate::share::ShareGroups;
use crate::space::{self, DiskSpace};
use crate::tls::{Tls, TlsError};
use crate::{http, listener};

/// File in the data folder that names the node and the cluster it belongs to, and the format of the folder.
const META_FILE: &str = "tailrace.meta";

/// Newest format of a data folder that this build knows.
const FORMAT: u32 = 1;

/// What a server is started with.
pub struct Startup {
    /// Settings by key, all layers merged: see `tailrace_broker::config`.
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
    /// The data folder was written by a newer tailrace.
    #[error("{} has format {found}; this tailrace knows up to {FORMAT}: start a newer tailrace", .path.display())]
    NewerFormat {
        /// The file that says so.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// The data folder belongs to another node.
    #[error("{} belongs to node {found}, not {expected}: set node.id={found} or choose another data.dir", .path.display())]
    OtherNode {
        /// The file that says so.
        path: PathBuf,
        /// The node it names.
        found: i32,
        /// The configured node.
        expected: i32,
    },
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

/// Where a server listens.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// The Kafka protocol.
    pub kafka: SocketAddr,
    /// The NATS protocol; `None` if that is off.
    pub nats: Option<SocketAddr>,
    /// Health and metrics.
    pub http: SocketAddr,
}

/// A running server.
pub struct Server {
    addresses: Addresses,
    pub(crate) broker: Arc<Broker>,
    kafka: JoinHandle<()>,
    others: Vec<JoinHandle<()>>,
    grace: Duration,
    runtime: tokio::runtime::Handle,
    _lock: DataDirLock,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Meta {
    format: u32,
    node_id: i32,
    cluster_id: String,
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
    let meta = read_or_write_meta(&data_dir, config.node_id)?;
    let tls = Tls::load(&config)?;
    let auth = Auth::load(&config)?;
    let kafka = listen("kafka", &config.kafka).await?;
    let http = listen("http", &config.http).await?;
    let nats = match config.nats_address() {
        Some(address) => Some(listen("nats", address).await?),
        None => None,
    };
    let nats_address = nats.as_ref().map(local).transpose()?;
    let addresses = Addresses { kafka: local(&kafka)?, nats: nats_address, http: local(&http)? };
    warn_if_open_to_all(&addresses, &config, tls.as_deref(), &auth);

    let metrics = Arc::new(Metrics::new(api_name));
    let space = DiskSpace::new(startup.disk.clone());
    let store =
        LogStore::new(startup.disk, usize::try_from(config.tailrace_open_segments_max).unwrap_or(usize::MAX));
    let opener = Opener { store, data_dir: data_dir.clone() };
    let settings = startup.settings;
    let front = Arc::new(NatsFront::new(&config, nats_address, auth));
    let parts = (opener, Arc::clone(&front));
    let opened = tokio::task::spawn_blocking(move || open_controller(parts, &settings)).await;
    let controller = opened.expect("opening the data folder does not panic")?;
    let flush_threads = usize::try_from(config.tailrace_flush_threads).unwrap_or(1);
    let slots = usize::try_from(config.max_incremental_fetch_session_cache_slots).unwrap_or(0);
    let broker = Arc::new(Broker {
        limits: Limits::of(&config),
        budget: RequestBudget::new(
            usize::try_from(config.queued_max_request_bytes).unwrap_or(usize::MAX),
            metrics.request_memory.clone(),
        ),
        controller,
        cleaner: Cleaner::default(),
        coordinators: Coordinators::new(),
        share: ShareGroups::new(),
        flusher: Flusher::start(flush_threads, Arc::clone(&metrics)).map_err(StartError::Threads)?,
        dirty: Arc::new(DirtyPages::default()),
        fetch_sessions: FetchSessions::new(slots, Arc::clone(&metrics)),
        nats: front,
        producer_ids: Mutex::new(ProducerIdBlock::default()),
        tls,
        cluster_id: meta.cluster_id,
        data_dir: data_dir.canonicalize().unwrap_or(data_dir),
        space,
        connections: AtomicUsize::new(0),
        stopping: watch::Sender::new(false),
        metrics,
    });
    broker.metrics.add(|registry| broker.nats.metrics().register_into(registry));
    broker.metrics.register_collector(Box::new(BrokerCollector(Arc::downgrade(&broker))));
    broker.cleaner.start(&broker).map_err(StartError::Threads)?;
    broker.metrics.register_collector(Box::new(GroupCollector::new(&broker)));
    let grace = Duration::from_millis(config.tailrace_shutdown_grace_ms);
    let mut others = vec![
        tokio::spawn(http::serve(http, Arc::clone(&broker))),
        tokio::spawn(keep_up(Arc::clone(&broker))),
        tokio::spawn(nats::give_back(Arc::clone(&broker))),
        tokio::spawn(space::watch(Arc::clone(&broker))),
        tokio::spawn(run_coordinators(Arc::clone(&broker))),
        tokio::spawn(ShareGroups::sweep(Arc::clone(&broker))),
        tokio::spawn(Arc::clone(&broker.dirty).watch()),
    ];
    if let Some(listener) = nats {
        others.push(tokio::spawn(nats::serve(listener, Arc::clone(&broker))));
    }
    others.extend(broker.tls.clone().map(|tls| tokio::spawn(tls.watch())));
    Ok(Server {
        addresses,
        kafka: tokio::spawn(listener::serve(kafka, Arc::clone(&broker), grace)),
        others,
        grace,
        runtime: tokio::runtime::Handle::current(),
        broker,
        _lock: lock,
    })
}

impl Server {
    /// Where it listens; with the port that was picked where 0 was asked for.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// What the listeners share, for tests from within.
    #[cfg(test)]
    pub(crate) fn broker(&self) -> &Arc<Broker> {
        &self.broker
    }

    /// Lame duck mode for NATS clients: they are told that the server is about to stop, and closed one after the other, over
    /// `tailrace.nats.lame.duck.duration.ms`. The task ends when they are gone; then [`Server::stop`] is due.
    pub fn lame_duck(&self) -> JoinHandle<()> {
        let broker = Arc::clone(&self.broker);
        self.runtime.spawn(async move { broker.nats.lame_duck().await })
    }

    /// Stops: no new connections, answers for what is in flight, everything on disk, partitions closed cleanly.
    /// Returns how many partitions could not be closed cleanly; the next start recovers those.
    pub async fn stop(self) -> usize {
        self.broker.stopping.send_replace(true);
        let (kafka, ()) = tokio::join!(self.kafka, self.broker.nats.stop(self.grace));
        if let Err(error) = kafka {
            tracing::error!(%error, "the Kafka listener panicked");
        }
        for task in &self.others {
            task.abort();
        }
        let broker = Arc::clone(&self.broker);
        let stop = move || {
            broker.cleaner.stop();
            broker.flusher.stop();
        };
        if tokio::task::spawn_blocking(stop).await.is_err() {
            tracing::error!("stopping the cleaner or the flusher panicked");
        }
        let failed = close_all(&self.broker).await;
        self.broker.controller.close().await;
        failed
    }
}

async fn run_coordinators(broker: Arc<Broker>) {
    broker.coordinators.run(&broker).await;
}

fn open_controller(
    (opener, nats): (Opener, Arc<NatsFront>),
    settings: &BTreeMap<String, String>,
) -> Result<ControllerShell, StartError> {
    let now = now();
    for leftover in remove_leftovers(opener.store.disk(), &opener.data_dir)? {
        tracing::info!(folder = %leftover, "removed what was left of a deleted partition");
    }
    let (log, controller) = MetadataLog::open(&opener.store, &opener.data_dir, settings, now)?;
    Ok(ControllerShell::start(controller, log, (opener, nats), now))
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

fn read_or_write_meta(data_dir: &Path, node_id: i32) -> Result<Meta, StartError> {
    let path = data_dir.join(META_FILE);
    let failed = |action, error: String| StartError::Folder { action, path: path.clone(), error };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let cluster_id = TopicId::from_random(crate::random::bytes16()).to_string();
            let meta = Meta { format: FORMAT, node_id, cluster_id };
            write_meta(data_dir, &path, &meta).map_err(|error| failed("write", error.to_string()))?;
            return Ok(meta);
        }
        Err(error) => return Err(failed("read", error.to_string())),
    };
    let format: u32 = serde_json::from_str::<serde_json::Value>(&text)
        .ok()
        .and_then(|value| u32::try_from(value.get("format")?.as_u64()?).ok())
        .ok_or_else(|| failed("understand", "it is damaged".to_owned()))?;
    if format > FORMAT {
        return Err(StartError::NewerFormat { path, found: format });
    }
    let meta: Meta = serde_json::from_str(&text).map_err(|error| failed("understand", error.to_string()))?;
    if meta.node_id != node_id {
        return Err(StartError::OtherNode { path, found: meta.node_id, expected: node_id });
    }
    Ok(meta)
}

/// Written beside and renamed, so that a crash leaves the old file or the new one.
fn write_meta(data_dir: &Path, path: &Path, meta: &Meta) -> io::Result<()> {
    let beside = path.with_extension("new");
    let text = serde_json::to_string_pretty(meta).map_err(io::Error::other)?;
    std::fs::write(&beside, text + "\n")?;
    std::fs::File::open(&beside)?.sync_all()?;
    std::fs::rename(&beside, path)?;
    std::fs::File::open(data_dir)?.sync_all()
}
