//! A connection as others see it: its out-buffer, its counters, and the options of its CONNECT.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use tailrace_env::time;
use tailrace_env::time::{Instant, WallTime};

use parking_lot::Mutex;
use tailrace_identity::nats_accounts::jwt::{Connection, ConnectionKind};
use tailrace_nats_wire::ConnectOptions;

use crate::account::GLOBAL;
use crate::auth::Permissions;
use crate::dues::Dues;
use crate::outbuf::OutBuffer;
use tailrace_node::{Caller, Door};

/// One connection. Shared by its own task, its subscriptions and its publishers.
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) peer: SocketAddr,
    pub(crate) transport: TransportKind,
    pub(crate) started: WallTime,
    pub(super) out: OutBuffer,
    /// Whether the client understands headers.
    pub(super) headers: AtomicBool,
    pub(super) counts: ClientCounts,
    /// What it owes to its quotas.
    pub(super) dues: Dues,
    /// Subscriptions that have received their last message. The connection's task removes them.
    expired: Mutex<VecDeque<u64>>,
    /// The user's permissions. Empty until the client is authenticated.
    permissions: OnceLock<Arc<Permissions>>,
    said: Mutex<Option<Arc<ConnectOptions>>>,
    epoch: Instant,
}

/// The kind of connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransportKind {
    /// TCP.
    Plain,
    /// TLS over TCP.
    Tls,
    /// WebSocket, with or without TLS below.
    WebSocket,
}

/// Counters written by the connection's task alone.
#[derive(Debug, Default)]
pub(crate) struct ClientCounts {
    pub(crate) messages_in: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) subscriptions: AtomicUsize,
    /// Milliseconds since the start of the connection.
    last_activity_ms: AtomicI64,
    /// Microseconds between the last PING and its PONG.
    pub(crate) round_trip_us: AtomicU64,
}

impl Client {
    pub(super) fn new(id: u64, peer: SocketAddr, transport: TransportKind, out: OutBuffer) -> Self {
        Self {
            id,
            peer,
            transport,
            started: WallTime::now(),
            out,
            headers: AtomicBool::new(false),
            counts: ClientCounts::default(),
            dues: Dues::default(),
            expired: Mutex::default(),
            permissions: OnceLock::new(),
            said: Mutex::default(),
            epoch: Instant::now(),
        }
    }

    /// The options of its CONNECT, without the secrets.
    pub(crate) fn said(&self) -> Option<Arc<ConnectOptions>> {
        self.said.lock().clone()
    }

    pub(super) fn set_said(&self, mut options: ConnectOptions) {
        self.headers.store(options.headers, Ordering::Relaxed);
        options.forget_secrets();
        *self.said.lock() = Some(Arc::new(options));
    }

    /// The client's identity within the node: a user, once it is authenticated, if there are users.
    pub(super) fn caller(&self) -> Caller {
        let client = Caller::client(Door::Nats, self.peer);
        match self.permissions().and_then(|permissions| permissions.user().name()) {
            Some(name) => client.as_user(Arc::clone(name)),
            None => client,
        }
    }

    /// The client's permissions, once it is authenticated.
    pub(super) fn permissions(&self) -> Option<&Arc<Permissions>> {
        self.permissions.get()
    }

    /// The name of the client's account: the global one until it is authenticated.
    pub(crate) fn account(&self) -> &str {
        self.permissions().map_or(GLOBAL, |permissions| permissions.account())
    }

    pub(super) fn set_permissions(&self, permissions: Arc<Permissions>) {
        // The caller sets them once.
        let _ = self.permissions.set(permissions);
    }

    pub(super) fn expire(&self, subscription: u64) {
        self.expired.lock().push_back(subscription);
        self.out.signal(|signals| signals.expired = true);
    }

    /// Takes the oldest expired subscriptions, `most` at most.
    pub(super) fn take_expired(&self, most: usize) -> Vec<u64> {
        let mut expired = self.expired.lock();
        let most = most.min(expired.len());
        expired.drain(..most).collect()
    }

    pub(super) fn active(&self, now: Instant) {
        let ms = i64::try_from(now.duration_since(self.epoch).as_millis()).unwrap_or(i64::MAX);
        self.counts.last_activity_ms.store(ms, Ordering::Relaxed);
    }

    /// Time at which something last arrived from the client or was taken by it.
    pub(crate) fn last_activity(&self) -> WallTime {
        let ms = self.counts.last_activity_ms.load(Ordering::Relaxed).max(0).unsigned_abs();
        let arrived = time::Duration::from_millis(ms);
        let taken = self.out.last_progress().duration_since(self.epoch);
        self.started + arrived.max(taken)
    }

    /// Asks for a measurement of the round trip.
    pub(crate) fn measure_round_trip(&self) {
        self.out.signal(|signals| signals.measure = true);
    }

    /// Number of messages, and bytes of their headers and payloads, put into the out-buffer so far.
    pub(crate) fn sent(&self) -> (u64, u64) {
        let sent = self.out.sent();
        (sent.messages, sent.bytes)
    }

    /// The same for what came from the client.
    pub(crate) fn received(&self) -> (u64, u64) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (count(&self.counts.messages_in), count(&self.counts.bytes_in))
    }

    /// The connection, as claims are checked against it.
    pub(crate) fn connection(&self) -> Connection {
        let kind = match self.transport {
            TransportKind::Plain | TransportKind::Tls => ConnectionKind::Standard,
            TransportKind::WebSocket => ConnectionKind::WebSocket,
        };
        Connection { kind, address: Some(self.peer.ip()), has_trusted_proxy: false }
    }

    /// Bytes that wait for the client.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.out.pending()
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("id", &self.id).field("peer", &self.peer).finish_non_exhaustive()
    }
}
