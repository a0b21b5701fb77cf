//! Starts a server from its settings, and stops it.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use tailrace_config::{
    AuthorizerClass, BrokerConfig, ConfigError, DynamicConfigs, KafkaAuthentication, KafkaListener, NatsTls,
    TlsClientAuth,
};
use tailrace_env::aside::Aside;
use tailrace_env::budget::{Held, RequestBudget};
use tailrace_env::join;
use tailrace_env::metrics::Metrics;
use tailrace_env::net::{ListenError, Listener, listen};
use tailrace_env::task::{self, JoinHandle, Spawner};
use tailrace_env::time::Duration;
use tailrace_env::workers::Workers;
use tailrace_http::{HttpMetrics, HttpServer};
use tailrace_kafka::{FetchSessions, KafkaMetrics, KafkaServer, LOGIN_MEMORY_BYTES, Limits, api_name};
use tailrace_nats::{Auth, AuthError, NatsFront, NatsServer, PendingCollector};
use tailrace_node::cluster::Addresses;
use tailrace_node::{DataFolder, Fronts, Node, NodeDisk, RunningNode};
use tailrace_tls::{Tls, TlsError};

use crate::nats_on_http::NatsOnHttp;

/// The input of [`start`].
pub struct Startup {
    /// All settings by key, with all layers merged. See `tailrace_config`.
    pub settings: BTreeMap<String, String>,
    /// The disk. Tests pass one with a watcher in front of it.
    pub disk: NodeDisk,
}

/// Leaves out the values of the settings, because some of them are secrets.
impl std::fmt::Debug for Startup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let settings: Vec<_> = self.settings.keys().collect();
        f.debug_struct("Startup").field("settings", &settings).field("disk", &self.disk).finish()
    }
}

/// Why a server did not start. Each error is one line, which also says what to do if that is known.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting is unknown or illegal.
    #[error("configuration: {0}")]
    Config(#[from] ConfigError),
    /// The node, its data folder or its cluster failed to start.
    #[error(transparent)]
    Node(#[from] tailrace_node::StartError),
    /// The users of the NATS listener could not be loaded.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// The server cannot listen on an address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The TLS files could not be loaded.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Two users have one name.
    #[error(
        "users of the NATS settings (or of tailrace.nats.users.file) and of the cluster (or tailrace.first.user) have names in \
         common: {names}; remove them from the settings, or from the cluster with \"tailrace user remove\""
    )]
    UsersTwice {
        /// The names.
        names: String,
    },
    /// The operating system refused a thread or a listener's address.
    #[error("cannot start threads: {0}")]
    Threads(#[source] io::Error),
}

/// A running server.
pub struct Server {
    addresses: Addresses,
    node: RunningNode,
    nats: Arc<NatsFront>,
    kafka: JoinHandle<()>,
    others: Vec<JoinHandle<()>>,
    grace: Duration,
    tasks: Spawner,
    kafka_server: Arc<KafkaServer>,
}

/// The listeners of all fronts.
struct Listeners {
    /// In the order of the settings. At least one.
    kafka: Vec<(Listener, KafkaListener)>,
    nats: Option<Listener>,
    http: Listener,
}

impl Listeners {
    async fn open(config: &BrokerConfig) -> Result<Self, ListenError> {
        let mut kafka = Vec::new();
        for settings in config.kafka_listeners() {
            let key = if settings.name.is_some() { "listeners" } else { "kafka" };
            kafka.push((listen(key, &settings.address).await?, settings.clone()));
        }
        let http = listen("http", &config.http).await?;
        let nats = match config.nats_address() {
            Some(address) => Some(listen("nats", address).await?),
            None => None,
        };
        Ok(Self { kafka, nats, http })
    }

    fn addresses(&self) -> io::Result<Addresses> {
        let nats = self.nats.as_ref().map(Listener::local_addr).transpose()?;
        let kafka = self.kafka.iter().map(|(listener, _)| listener.local_addr());
        let mut more_kafka = kafka.collect::<io::Result<Vec<_>>>()?;
        let (kafka, http) = (more_kafka.remove(0), self.http.local_addr()?);
        Ok(Addresses { kafka, more_kafka, nats, http, cluster: None })
    }
}

/// Opens the data folder and the listeners. All listeners accept connections when this returns.
///
/// # Errors
/// See [`StartError`]. Damaged partitions are not an error: they are taken offline, and `/healthz` reports
/// them.
pub async fn start(startup: Startup) -> Result<Server, StartError> {
    let config = BrokerConfig::resolve(&startup.settings, &DynamicConfigs::default())?;
    let folder = DataFolder::open(&config, startup.disk)?;
    let tls = Tls::load(&config)?;
    let auth = Auth::load(&config)?;
    let listeners = Listeners::open(&config).await?;
    let addresses = listeners.addresses().map_err(StartError::Threads)?;
    let nats_asks_for_users = auth.required();
    log_listeners(&addresses, &config);

    let metrics = Arc::new(Metrics::default());
    let kafka_metrics = Arc::new(KafkaMetrics::new(api_name));
    metrics.add(|registry| kafka_metrics.register_into(registry));
    let http_metrics = Arc::new(HttpMetrics::default());
    metrics.add(|registry| http_metrics.register_into(registry));
    let workers = Arc::new(Workers::start().map_err(StartError::Threads)?);
    let front = Arc::new(NatsFront::new(&config, addresses.nats, auth, Arc::clone(&workers)));
    metrics.add(|registry| front.register_into(registry));
    metrics.register_collector(Box::new(PendingCollector(Arc::downgrade(&front))));
    let fronts = Fronts {
        followers: vec![Arc::clone(&front) as _],
        sinks: vec![Arc::clone(&front) as _],
        relays: Some(tailrace_nats::NAME),
        link_user: Some(Arc::clone(&front) as _),
        translator: Some(Arc::clone(&front) as _),
        deliverer: Some(Arc::clone(&front) as _),
        users: Some(Arc::clone(&front) as _),
    };
    let node = tailrace_node::start(tailrace_node::Startup {
        settings: startup.settings,
        folder,
        metrics: Arc::clone(&metrics),
        addresses: Some(addresses.clone()),
        workers,
        fronts,
    });
    let running = node.await?;
    let names = running.node().users_twice(&running.node().image());
    if !names.is_empty() {
        running.stop().await;
        return Err(StartError::UsersTwice { names: shown(&names) });
    }
    let (node, addresses) = (running.node(), running.addresses().cloned().unwrap_or(addresses));
    // The metadata may say otherwise than the settings.
    let rules = Rules::of(&config, node.image().broker());
    if rules == Rules::Tried {
        tracing::warn!(
            "tailrace.authorizer.report.only is true: the rules refuse nothing, and everybody may do everything"
        );
    }
    warn_if_open_to_all(&addresses, &config, rules, nats_asks_for_users);
    let blocking = usize::try_from(config.tailrace_io_threads).unwrap_or(1);
    let aside = Aside::start(blocking, kafka_metrics.request_aside_memory.clone());
    let aside = Arc::new(aside.map_err(StartError::Threads)?);
    let slots = usize::try_from(config.max_incremental_fetch_session_cache_slots).unwrap_or(0);
    let requests = usize::try_from(config.queued_max_request_bytes).unwrap_or(usize::MAX);
    let kafka = Arc::new(KafkaServer {
        node: Arc::clone(node),
        limits: Limits::of(&config),
        budget: RequestBudget::new(requests, kafka_metrics.request_memory.clone()),
        login_budget: RequestBudget::new(
            requests.min(LOGIN_MEMORY_BYTES),
            kafka_metrics.login_memory.clone(),
        ),
        half_read: Arc::default(),
        aside: Arc::clone(&aside),
        fetch_sessions: FetchSessions::new(slots, Arc::clone(&kafka_metrics)),
        tls: tls.clone(),
        connections: AtomicUsize::new(0),
        metrics: Arc::clone(&kafka_metrics),
    });
    let nats = Arc::new(NatsServer {
        front: Arc::clone(&front),
        node: Arc::clone(node),
        tls: tls.clone(),
        kafka_connections: kafka_metrics.connections.clone(),
        charging: Default::default(),
    });
    let http = Arc::new(HttpServer {
        node: Arc::clone(node),
        metrics,
        own_metrics: http_metrics,
        aside,
        tls: tls.clone(),
        guest: Arc::new(NatsOnHttp(Arc::clone(&nats))),
    });
    let grace = Duration::from_millis(config.tailrace_shutdown_grace_ms);
    let mut others = vec![
        task::spawn(tailrace_nats::follow_access(Arc::clone(&nats))),
        task::spawn(tailrace_nats::follow_claims(Arc::clone(&nats))),
        task::spawn(tailrace_nats::charge_deliveries(Arc::clone(&nats))),
        task::spawn(tailrace_nats::report_regularly(Arc::clone(&nats))),
    ];
    others.push(task::spawn(tailrace_http::serve(listeners.http, http)));
    others.extend(listeners.nats.map(|listener| task::spawn(tailrace_nats::serve(listener, nats))));
    others.extend(tls.map(|tls| task::spawn(tls.watch())));
    Ok(Server {
        addresses,
        kafka: task::spawn(tailrace_kafka::serve(listeners.kafka, Arc::clone(&kafka), grace)),
        kafka_server: kafka,
        others,
        grace,
        tasks: Spawner::current(),
        node: running,
        nats: front,
    })
}

impl Server {
    /// Returns the addresses that the server listens on. A port configured as 0 is replaced by the one that
    /// was picked.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Returns the node behind the listeners.
    pub fn node(&self) -> &Arc<Node> {
        self.node.node()
    }

    /// Returns a function that measures the memory held by requests, answers and slow consumers. It can be
    /// called repeatedly.
    pub fn held_memory(&self) -> impl Fn() -> Held + Send + 'static {
        let (kafka, nats) = (Arc::clone(&self.kafka_server), Arc::clone(&self.nats));
        move || Held {
            bytes: nats.pending_bytes()
                + kafka.budget.used()
                + kafka.login_budget.used()
                + kafka.aside.used()
                + kafka.half_read.used(),
            most_bytes: kafka.budget.take_most()
                + kafka.login_budget.take_most()
                + kafka.aside.take_most()
                + kafka.half_read.take_most(),
            freed_much: nats.take_freed_much(),
        }
    }

    /// Puts NATS clients into lame duck mode: tells them that the server is about to stop, then closes their
    /// connections one by one over `tailrace.nats.lame.duck.duration.ms`. The task ends when all clients are
    /// gone. [`Server::stop`] is due then.
    pub fn lame_duck(&self) -> JoinHandle<()> {
        let nats = Arc::clone(&self.nats);
        self.tasks.spawn(async move {
            tailrace_nats::announce_retirement(&nats).await;
            nats.lame_duck().await;
        })
    }

    /// Stops the server: refuses new connections, answers what is in flight, puts everything on disk and
    /// closes the partitions cleanly. Returns how many partitions could not be closed cleanly. The next start
    /// recovers those.
    pub async fn stop(self) -> usize {
        self.node.hand_over().await;
        self.node.begin_to_stop();
        tailrace_nats::announce_stop(&self.nats).await;
        let (kafka, ()) = join!(self.kafka, self.nats.stop(self.grace));
        if let Err(error) = kafka {
            tracing::error!(%error, "the Kafka listener panicked");
        }
        for task in &self.others {
            task.abort();
        }
        self.node.stop().await
    }
}

/// Logs what the Kafka listeners with names speak.
fn log_listeners(addresses: &Addresses, config: &BrokerConfig) {
    for (listener, address) in config.kafka_listeners().iter().zip(addresses.all_kafka()) {
        if let Some(listener_name) = &listener.name {
            let (protocol, listener_name) = (listener.protocol.name(), listener_name.as_str());
            tracing::info!(listener = listener_name, %address, protocol, "listening for Kafka clients");
        }
    }
}

/// Who can use a listener.
struct Openness<'a> {
    name: &'a str,
    address: Option<SocketAddr>,
    is_encrypted: bool,
    demands_certificates: bool,
    asks_for_users: bool,
}

/// What the rules of `authorizer.class.name` do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rules {
    None,
    /// What they refuse is only reported.
    Tried,
    Decide,
}

impl Rules {
    /// `now` are the settings with those in the metadata.
    fn of(config: &BrokerConfig, now: &BrokerConfig) -> Self {
        match config.authorizer_class_name {
            AuthorizerClass::Standard if now.tailrace_authorizer_report_only => Self::Tried,
            AuthorizerClass::Standard => Self::Decide,
            AuthorizerClass::None => Self::None,
        }
    }
}

/// Writes names for an error. Only the first ones, if there are many.
fn shown(names: &[String]) -> String {
    const SHOWN_MAX: usize = 10;
    let mut text: Vec<_> = names.iter().take(SHOWN_MAX).map(|name| name.escape_debug().to_string()).collect();
    if names.len() > SHOWN_MAX {
        text.push(format!("and {} more", names.len() - SHOWN_MAX));
    }
    text.join(", ")
}

/// Warns about listeners that strangers can use. Demanding client certificates or passwords keeps strangers
/// out. Encryption alone does not. Neither do rules on NATS: they are about subjects of topics, and who does
/// not log in uses all others.
fn warn_if_open_to_all(
    addresses: &Addresses,
    config: &BrokerConfig,
    rules: Rules,
    nats_asks_for_users: bool,
) {
    let has_rules = rules == Rules::Decide;
    let verifies = config.tailrace_tls_client_auth == TlsClientAuth::Required;
    let kafka =
        config.kafka_listeners().iter().zip(addresses.all_kafka()).map(|(listener, address)| Openness {
            name: listener.label(),
            address: Some(address),
            is_encrypted: listener.protocol.uses_tls(),
            demands_certificates: listener.demands_certificates(),
            asks_for_users: has_rules || listener.authentication == KafkaAuthentication::Required,
        });
    let http = Openness {
        name: "http",
        address: Some(addresses.http),
        is_encrypted: config.tailrace_http_tls,
        demands_certificates: config.tailrace_http_tls && verifies,
        asks_for_users: has_rules,
    };
    let nats_tls = config.tailrace_nats_tls == NatsTls::Required;
    let nats = Openness {
        name: "nats",
        address: addresses.nats,
        is_encrypted: nats_tls,
        demands_certificates: nats_tls && verifies,
        asks_for_users: nats_asks_for_users,
    };
    kafka.chain([http, nats]).for_each(|listener| warn_if_open(&listener));
}

fn warn_if_open(listener: &Openness<'_>) {
    let name = listener.name;
    let Some(address) = listener.address.filter(|address| !address.ip().is_loopback()) else { return };
    let encryption = if listener.is_encrypted { "on" } else { "off" };
    if listener.asks_for_users {
        if !listener.is_encrypted {
            tracing::warn!(
                listener = name, %address, encryption,
                "passwords and messages cross the network in clear text; docs/security.md says how to encrypt them"
            );
        }
    } else if !listener.demands_certificates {
        tracing::warn!(
            listener = name, %address, encryption,
            "LISTENING BEYOND LOOPBACK WITHOUT AUTHENTICATION: anyone who can reach this address may use \
             everything that it serves; docs/security.md says how to require users or client certificates"
        );
    }
}
