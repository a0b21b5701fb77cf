//! The Kafka listeners: accept connections within the limits, count them, and run each as a task. The limits
//! are those of all listeners together.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tailrace_env::time::Duration;
use tailrace_env::{select, time};

use parking_lot::Mutex;
use tailrace_config::{BrokerConfig, KafkaAuthentication, KafkaListener};
use tailrace_env::net::{BufferSizes, Listener, Stream};
use tailrace_env::task::JoinSet;

use crate::came_by::CameBy;
use crate::closed::Closed;
use crate::connection::Connection;
use crate::login::state::Login;
use crate::server::KafkaServer;
use crate::session::ClientSession;
use crate::transport::Transport;
use tailrace_env::metrics::ReasonLabel;
use tailrace_env::task::stopped;
use tailrace_node::{Caller, Door};

/// Delay after a failed accept, so that a lack of descriptors does not become a busy loop.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Number of open connections per address.
type PerAddress = Arc<Mutex<HashMap<IpAddr, u32>>>;

/// Accepts connections on all listeners until the server stops, then gives them `grace` to end.
pub async fn serve(listeners: Vec<(Listener, KafkaListener)>, server: Arc<KafkaServer>, grace: Duration) {
    let (per_address, mut serving) = (PerAddress::default(), JoinSet::new());
    for (number, (listener, settings)) in listeners.into_iter().enumerate() {
        let connections = server.metrics.of_listener(settings.label());
        let came_by = Arc::new(CameBy { settings, is_first: number == 0, connections });
        let (server, per_address) = (Arc::clone(&server), Arc::clone(&per_address));
        serving.spawn(serve_one(listener, came_by, server, per_address, grace));
    }
    while let Some(ended) = serving.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "a Kafka listener panicked");
        }
    }
}

async fn serve_one(
    listener: Listener,
    came_by: Arc<CameBy>,
    server: Arc<KafkaServer>,
    per_address: PerAddress,
    grace: Duration,
) {
    let mut stopping = server.node.stopping();
    let mut connections = JoinSet::new();
    loop {
        select! {
            () = stopped(&mut stopping) => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    admit(stream, peer, &came_by, &server, &per_address, &mut connections);
                }
                Err(error) => {
                    tracing::warn!(%error, "accepting a connection failed");
                    time::sleep(ACCEPT_RETRY_INTERVAL).await;
                }
            },
        }
    }
    drop(listener);
    let all_ended = async { while connections.join_next().await.is_some() {} };
    if time::timeout(grace, all_ended).await.is_err() {
        tracing::warn!(left = connections.len(), "connections were closed at the end of the grace period");
        connections.shutdown().await;
    }
}

fn admit(
    stream: Stream,
    peer: SocketAddr,
    came_by: &Arc<CameBy>,
    server: &Arc<KafkaServer>,
    per_address: &PerAddress,
    connections: &mut JoinSet<()>,
) {
    let Some(place) = ConnectionPlace::take(server, came_by, per_address, peer.ip()) else { return };
    if let Err(throttle_ms) = server.node.connected(peer.ip()) {
        let reason = "connection_creation_rate";
        server.metrics.connections_refused.get_or_create(&ReasonLabel { reason }).inc();
        tracing::debug!(address = %peer.ip(), reason, "connection refused");
        // The client would be back at once if it were closed at once.
        connections.spawn(async move {
            let _held = (stream, place);
            time::sleep(Duration::from_millis(throttle_ms.into())).await;
        });
        return;
    }
    let Ok(local) = stream.local_addr() else { return };
    let Some(mut login) = login(server, came_by, peer.ip()) else { return };
    if stream.set_buffers(buffer_sizes(&server.node.config())).is_err() {
        return;
    }
    server.metrics.connections_accepted.inc();
    let (server, came_by) = (Arc::clone(server), Arc::clone(came_by));
    let caller = Caller::client(Door::Kafka, peer);
    connections.spawn(async move {
        let _place = place;
        let closed = match secure(stream, &server, &came_by).await {
            Ok(transport) => {
                if came_by.settings.certificates_name_users()
                    && let Some(certificate) = transport.client_certificate()
                {
                    login.identify(&server.node, &caller, certificate);
                }
                let session = ClientSession::new(peer, local, Arc::clone(&came_by), login);
                Connection::new(transport, session, Arc::clone(&server)).run().await
            }
            Err(closed) => closed,
        };
        match closed.reason() {
            None => tracing::debug!(%caller, reason = %closed, "connection closed"),
            Some(reason) => {
                server.metrics.connections_cut.get_or_create(&ReasonLabel { reason }).inc();
                let listener = came_by.settings.label();
                tracing::info!(%caller, listener, reason = %closed, "connection closed by the server");
            }
        }
    });
}

/// Returns the login of a new connection. `None` if too many clients are about to log in.
fn login(server: &KafkaServer, came_by: &CameBy, address: IpAddr) -> Option<Login> {
    let config = server.node.config();
    let time = Duration::from_millis(config.tailrace_kafka_login_timeout_ms);
    if came_by.settings.authentication != KafkaAuthentication::Required {
        return Some(Login::new(None, time));
    }
    match server.node.pending_kafka_login(address) {
        Ok(place) => Some(Login::new(Some(place), time)),
        Err(error) => {
            let reason = "tailrace.kafka.logins.max";
            server.metrics.connections_refused.get_or_create(&ReasonLabel { reason }).inc();
            tracing::debug!(%address, %error, "connection refused");
            None
        }
    }
}

/// Performs the TLS handshake if this listener requires it. A stopping server does not wait for it.
async fn secure(stream: Stream, server: &Arc<KafkaServer>, came_by: &CameBy) -> Result<Transport, Closed> {
    if !came_by.settings.protocol.uses_tls() {
        return Ok(Transport::Plain(stream));
    }
    let Some(tls) = &server.tls else { unreachable!("TLS was loaded for this listener at the start") };
    let mut stopping = server.node.stopping();
    select! {
        accepted = tls.accept_with(stream, came_by.settings.client_auth) => Ok(Transport::Tls(Box::new(accepted?))),
        () = stopped(&mut stopping) => Err(Closed::Stopping),
    }
}

fn buffer_sizes(config: &BrokerConfig) -> BufferSizes {
    let bytes = |setting: i32| usize::try_from(setting).ok().filter(|bytes| *bytes > 0);
    BufferSizes {
        send: bytes(config.socket_send_buffer_bytes),
        receive: bytes(config.socket_receive_buffer_bytes),
    }
}

/// A connection's place among the allowed ones, released when dropped.
struct ConnectionPlace {
    server: Arc<KafkaServer>,
    per_address: PerAddress,
    address: IpAddr,
    came_by: Arc<CameBy>,
}

impl ConnectionPlace {
    fn take(
        server: &Arc<KafkaServer>,
        came_by: &Arc<CameBy>,
        per_address: &PerAddress,
        address: IpAddr,
    ) -> Option<Self> {
        let config = server.node.config();
        let refused = |reason| {
            server.metrics.connections_refused.get_or_create(&ReasonLabel { reason }).inc();
            tracing::debug!(%address, reason, "connection refused");
            None
        };
        // Held until the connection counts: another listener may be accepting one as well.
        let mut counts = per_address.lock();
        let open = server.connections.load(Ordering::Acquire);
        if open >= usize::try_from(config.max_connections).unwrap_or(usize::MAX) {
            return refused("max.connections");
        }
        let count = counts.entry(address).or_insert(0);
        if *count >= config.max_connections_per_ip {
            if *count == 0 {
                counts.remove(&address);
            }
            return refused("max.connections.per.ip");
        }
        *count += 1;
        server.connections.fetch_add(1, Ordering::AcqRel);
        drop(counts);
        server.metrics.connections.inc();
        came_by.connections.inc();
        let (server, came_by) = (Arc::clone(server), Arc::clone(came_by));
        Some(Self { server, came_by, per_address: Arc::clone(per_address), address })
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut counts = self.per_address.lock();
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
        self.server.connections.fetch_sub(1, Ordering::AcqRel);
        self.server.metrics.connections.dec();
        self.came_by.connections.dec();
    }
}
