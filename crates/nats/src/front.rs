//! State shared by all NATS connections of a server: router, captured and live subjects, limits, metrics, and
//! the list of open connections. It also closes them when the server stops.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tailrace_env::time;
use tailrace_env::time::{Duration, Instant, WallTime};

use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tailrace_config::{BrokerConfig, NatsTls, TlsClientAuth};
use tailrace_env::sync::watch;
use tailrace_nats_wire::ServerInfo;

use crate::account::Accounts;
use crate::auth::{self, Auth};
use crate::capture::Captures;
use crate::client::{Client, TransportKind};
use crate::close::CloseReason;
use crate::jetstream::JetStream;
use crate::limits::NatsLimits;
use crate::live::Live;
use crate::mapping::MessageLimits;
use crate::metrics::NatsMetrics;
use crate::monitor::Monitor;
use crate::places::{ConnectionPlace, Places};
use crate::router::Router;
use crate::routes::{Addresses, Routes, Told};
use crate::websocket::WebSocketFront;
use tailrace_env::metrics::ReasonLabel;
use tailrace_env::workers::Workers;
use tailrace_node::partitions::{FollowsTopics, Topic, TopicTable};

/// The version of nats-server whose features clients may expect. They compare it.
const NATS_VERSION: &str = "2.14.0";

/// The API level that nats-server 2.15 announces, with and without JetStream.
const API_LEVEL: u64 = 5;

/// State shared by all NATS connections of a server.
pub struct NatsFront {
    limits: NatsLimits,
    accounts: Accounts,
    pub(crate) addresses: Addresses,
    metrics: NatsMetrics,
    captures: Captures,
    live: Live,
    monitor: Monitor,
    auth: Auth,
    /// `None` if the settings do not ask for it.
    jetstream: Option<JetStream>,
    info: ServerInfo,
    next_client_id: AtomicU64,
    clients: Mutex<HashMap<u64, Arc<Client>>>,
    /// Places taken by connections, including those still in their TLS handshake.
    places: Places,
    tls_first: bool,
    websocket: Option<WebSocketFront>,
    /// Whether connections with much waiting data have ended since the last check.
    freed_much: AtomicBool,
    /// Whether every INFO announces that the server is about to stop.
    lame_duck: AtomicBool,
    stopping: watch::Sender<bool>,
    started: WallTime,
}

/// An entry in the list of open connections, removed when dropped.
pub(crate) struct Registered<'a> {
    front: &'a NatsFront,
    id: u64,
}

impl FollowsTopics for NatsFront {
    /// Applies the captured subjects, and the subjects under which records appear.
    fn follow(&self, topics: &TopicTable) {
        self.live.subjects.follow(topics);
        self.captures.bindings.follow(self.router(), topics);
    }
}

impl NatsFront {
    /// Creates the front. `listens_at` is the address in INFO. Even if it is `None`, clients may arrive
    /// through the HTTP listener.
    pub fn new(
        config: &BrokerConfig,
        listens_at: Option<SocketAddr>,
        auth: Auth,
        workers: Arc<Workers>,
    ) -> Self {
        let limits = NatsLimits::of(config);
        let address = listens_at.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)));
        let id: String = tailrace_env::random::bytes16().iter().map(|byte| format!("{byte:02X}")).collect();
        let mut info = ServerInfo {
            server_id: auth.callouts().map_or_else(|| format!("N{id}"), |one| one.server_id().to_owned()),
            server_name: config.nats_server_name(),
            version: NATS_VERSION.to_owned(),
            proto: 1,
            go: concat!("tailrace-", env!("CARGO_PKG_VERSION")).to_owned(),
            host: address.ip().to_string(),
            port: address.port(),
            headers: true,
            auth_required: auth.asks(),
            tls_required: config.tailrace_nats_tls == NatsTls::Required,
            tls_verify: config.tailrace_nats_tls == NatsTls::Required
                && config.tailrace_tls_client_auth == TlsClientAuth::Required,
            max_payload: limits.payload_max,
            api_lvl: API_LEVEL,
            ..ServerInfo::default()
        };
        let metrics = NatsMetrics::new();
        let jetstream = JetStream::of(config, &metrics);
        info.jetstream = jetstream.is_some();
        let routes = Arc::new(Routes::new(config));
        let (topics, system) = (&config.tailrace_nats_topics_account, auth.system_account());
        let accounts = Accounts::new(&info.server_name, limits.control_line_max, routes, topics, system);
        accounts.define(&auth.accounts());
        Self {
            accounts,
            addresses: Addresses::default(),
            limits,
            metrics,
            captures: Captures::new(config),
            live: Live::new(config, workers),
            monitor: Monitor::new(),
            auth,
            jetstream,
            info,
            next_client_id: AtomicU64::new(1),
            clients: Mutex::default(),
            places: Places::default(),
            tls_first: config.tailrace_nats_tls_handshake_first,
            websocket: WebSocketFront::of(config),
            freed_much: AtomicBool::new(false),
            lame_duck: AtomicBool::new(false),
            stopping: watch::Sender::new(false),
            started: WallTime::now(),
        }
    }

    pub(crate) fn limits(&self) -> &NatsLimits {
        &self.limits
    }

    pub(crate) fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// The subjects of the account in which topics live.
    pub(crate) fn router(&self) -> &Router {
        self.accounts.topics().router()
    }

    pub(crate) fn metrics(&self) -> &NatsMetrics {
        &self.metrics
    }

    /// The data of the monitoring pages.
    pub fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    pub(crate) fn auth(&self) -> &Auth {
        &self.auth
    }

    /// JetStream's API, if there is one.
    #[inline]
    pub(crate) fn jetstream(&self) -> Option<&JetStream> {
        self.jetstream.as_ref()
    }

    /// INFO without the fields for a single client.
    pub(crate) fn server_info(&self) -> &ServerInfo {
        &self.info
    }

    /// The time at which the server started.
    pub(crate) fn started(&self) -> WallTime {
        self.started
    }

    /// Returns INFO for one client.
    pub(crate) fn info(&self, client: &Client) -> ServerInfo {
        self.info_for(client.id, client.peer, client.transport)
    }

    pub(crate) fn info_for(&self, id: u64, peer: SocketAddr, transport: TransportKind) -> ServerInfo {
        let mut info = ServerInfo {
            client_id: id,
            client_ip: peer.ip().to_canonical().to_string(),
            ldm: self.lame_duck.load(Ordering::Relaxed),
            ..self.info.clone()
        };
        let told = self.addresses.told();
        info.cluster.clone_from(&told.cluster);
        if transport != TransportKind::WebSocket {
            // WebSocket clients would need other addresses.
            info.connect_urls = told.connect_urls(info.ldm);
        }
        if transport == TransportKind::WebSocket {
            // TLS, if any, is below WebSocket. Nothing is upgraded.
            info.tls_required = self.websocket.as_ref().is_some_and(WebSocketFront::is_secure);
            (info.tls_available, info.tls_verify) = (info.tls_required, false);
        }
        info
    }

    /// Reports whether the listener requires TLS.
    pub(crate) fn demands_tls(&self) -> bool {
        self.info.tls_required
    }

    /// Reports whether the TLS handshake comes before INFO.
    pub(crate) fn tls_first(&self) -> bool {
        self.tls_first
    }

    /// The WebSocket front, if clients may use it.
    pub(crate) fn websocket(&self) -> Option<&WebSocketFront> {
        self.websocket.as_ref()
    }

    /// Returns a new challenge for clients with an nkey. Empty if no user has one.
    pub(crate) fn nonce(&self) -> String {
        if self.auth.wants_nonce() { auth::nonce() } else { String::new() }
    }

    pub(crate) fn next_client_id(&self) -> u64 {
        self.next_client_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes a place for a connection from an address that may have `per_address`. `None`, and counted, if
    /// the limit is reached.
    pub(crate) fn take_place(&self, address: IpAddr, per_address: u32) -> Option<ConnectionPlace> {
        let taken = self.places.take(self.limits.connections_max, address, per_address);
        let count = |reason: &&'static str| {
            self.metrics.connections_refused.get_or_create(&ReasonLabel { reason }).inc();
        };
        taken.inspect_err(count).ok()
    }

    /// Counts a connection that was refused.
    pub(crate) fn count_refused(&self, reason: &'static str) {
        self.metrics.connections_refused.get_or_create(&ReasonLabel { reason }).inc();
    }

    /// Adds a connection to the list of open ones.
    pub(crate) fn register(&self, client: &Arc<Client>) -> Registered<'_> {
        self.metrics.connections.inc();
        self.clients.lock().insert(client.id, Arc::clone(client));
        if *self.stopping.borrow() {
            client.out.close(CloseReason::ServerShutdown);
        }
        Registered { front: self, id: client.id }
    }

    /// Records that a connection with much waiting data ended, whose memory should go back to the system.
    pub(crate) fn freed_much(&self) {
        self.freed_much.store(true, Ordering::Relaxed);
    }

    /// Reports whether that happened since the last call.
    pub fn take_freed_much(&self) -> bool {
        self.freed_much.swap(false, Ordering::Relaxed)
    }

    /// Returns all open connections, in no particular order.
    pub(crate) fn clients(&self) -> Vec<Arc<Client>> {
        self.clients.lock().values().cloned().collect()
    }

    /// Bytes that wait for all clients together.
    pub fn pending_bytes(&self) -> usize {
        self.clients().iter().map(|client| client.pending_bytes()).sum()
    }

    /// Registers all metrics of this front.
    pub fn register_into(&self, registry: &mut Registry) {
        self.metrics.register_into(registry);
        self.accounts.routes().metrics().register_into(registry);
    }

    /// The addresses of the cluster that clients are told.
    pub(crate) fn addresses(&self) -> Arc<Told> {
        self.addresses.told()
    }

    pub(crate) fn captures(&self) -> &Captures {
        &self.captures
    }

    pub(crate) fn live(&self) -> &Live {
        &self.live
    }

    /// Reports whether there may be subscribers for the messages that records of the topic become.
    pub(crate) fn listens_to(&self, topic: &Topic) -> bool {
        self.live.subjects.have_first_word(topic.id, |word| self.router().has_interest_in(word))
    }

    /// The limits of a message.
    pub(crate) fn message_limits(&self) -> MessageLimits<'_> {
        MessageLimits { payload_bytes_max: self.limits.payload_max, subject: self.router().limits() }
    }

    /// Returns a receiver that signals when no more connections are accepted.
    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }

    /// Lame duck mode: accepts no new connections and tells the clients. After the grace period it closes
    /// them one by one, so that they do not all connect to another server at once. Ends when all are gone, or
    /// after `duration` at the latest.
    pub async fn lame_duck(&self) {
        let (duration, grace) = (self.limits.lame_duck_duration, self.limits.lame_duck_grace);
        self.retire(grace.min(duration), duration.saturating_sub(grace)).await;
    }

    /// Like [`NatsFront::lame_duck`], within the time that the server has left.
    pub async fn stop(&self, within: Duration) {
        // Clients that understand the announcement connect elsewhere meanwhile. Without clients there is no
        // wait.
        let grace = within.min(Duration::from_millis(100));
        self.retire(grace, within.saturating_sub(grace).min(Duration::from_millis(400))).await;
    }

    async fn retire(&self, grace: Duration, closing: Duration) {
        self.lame_duck.store(true, Ordering::Relaxed);
        self.stopping.send_replace(true);
        for client in self.clients() {
            client.out.signal(|signals| signals.lame_duck = true);
        }
        let until = Instant::now() + grace;
        while !self.clients.lock().is_empty() && Instant::now() < until {
            time::sleep(Duration::from_millis(5).min(grace)).await;
        }
        let clients = self.clients();
        let pause = closing / u32::try_from(clients.len().max(1)).unwrap_or(u32::MAX);
        let mut at = time::Instant::now();
        for client in clients {
            client.out.finish(CloseReason::ServerShutdown);
            at += pause;
            // The timer's resolution is a millisecond, so several are closed at once if there are many.
            if at > time::Instant::now() + Duration::from_millis(1) {
                time::sleep_until(at).await;
            }
        }
        let until = Instant::now() + Duration::from_secs(2);
        while !self.clients.lock().is_empty() && Instant::now() < until {
            time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.front.clients.lock().remove(&self.id);
        self.front.metrics.connections.dec();
    }
}
