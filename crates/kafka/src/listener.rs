//! The Kafka listener: accepts connections within the limits, counts them, and runs each as a task.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tailrace_env::time::Duration;
use tailrace_env::{select, time};

use parking_lot::Mutex;
use tailrace_config::{BrokerConfig, KafkaAuthentication};
use tailrace_env::net::{BufferSizes, Listener, Stream};
use tailrace_env::task::JoinSet;

use crate::closed::Closed;
use crate::connection::Connection;
use crate::login::state::Login;
use crate::server::KafkaServer;
use crate::transport::Transport;
use tailrace_env::metrics::ReasonLabel;
use tailrace_env::task::stopped;
use tailrace_node::{Caller, Door};

/// Delay after a failed accept, so that a lack of descriptors does not become a busy loop.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Number of open connections per address.
type PerAddress = Arc<Mutex<HashMap<IpAddr, u32>>>;

/// Accepts connections until the server stops, then gives them `grace` to end.
pub async fn serve(listener: Listener, server: Arc<KafkaServer>, grace: Duration) {
    let per_address = PerAddress::default();
    let mut stopping = server.node.stopping();
    let mut connections = JoinSet::new();
    loop {
        select! {
            () = stopped(&mut stopping) => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => admit(stream, peer, &server, &per_address, &mut connections),
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
    server: &Arc<KafkaServer>,
    per_address: &PerAddress,
    connections: &mut JoinSet<()>,
) {
    let Some(place) = ConnectionPlace::take(server, per_address, peer.ip()) else { return };
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
    let Some(mut login) = login(server, peer.ip()) else { return };
    if stream.set_buffers(buffer_sizes(&server.node.config())).is_err() {
        return;
    }
    server.metrics.connections_accepted.inc();
    let (server, caller) = (Arc::clone(server), Caller::client(Door::Kafka, peer));
    connections.spawn(async move {
        let _place = place;
        let closed = match secure(stream, &server).await {
            Ok(transport) => {
                if let Some(certificate) = transport.client_certificate() {
                    login.identify(&server.node, &caller, certificate);
                }
                Connection::new(transport, peer, local, login, Arc::clone(&server)).run().await
            }
            Err(closed) => closed,
        };
        match closed.reason() {
            None => tracing::debug!(%caller, reason = %closed, "connection closed"),
            Some(reason) => {
                server.metrics.connections_cut.get_or_create(&ReasonLabel { reason }).inc();
                tracing::info!(%caller, reason = %closed, "connection closed by the server");
            }
        }
    });
}

/// Returns the login of a new connection. `None` if too many clients are about to log in.
fn login(server: &KafkaServer, address: IpAddr) -> Option<Login> {
    let config = server.node.config();
    let time = Duration::from_millis(config.tailrace_kafka_login_timeout_ms);
    if config.tailrace_kafka_authentication != KafkaAuthentication::Required {
        return Some(Login::new(None, time));
    }
    match server.node.pending_login(address) {
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
async fn secure(stream: Stream, server: &Arc<KafkaServer>) -> Result<Transport, Closed> {
    let Some(tls) = server.tls.as_ref().filter(|_| server.node.config().tailrace_kafka_tls) else {
        return Ok(Transport::Plain(stream));
    };
    let mut stopping = server.node.stopping();
    select! {
        accepted = tls.accept(stream) => Ok(Transport::Tls(Box::new(accepted?))),
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
}

impl ConnectionPlace {
    fn take(server: &Arc<KafkaServer>, per_address: &PerAddress, address: IpAddr) -> Option<Self> {
        let config = server.node.config();
        let refused = |reason| {
            server.metrics.connections_refused.get_or_create(&ReasonLabel { reason }).inc();
            tracing::debug!(%address, reason, "connection refused");
            None
        };
        let open = server.connections.load(Ordering::Acquire);
        if open >= usize::try_from(config.max_connections).unwrap_or(usize::MAX) {
            return refused("max.connections");
        }
        let mut counts = per_address.lock();
        let count = counts.entry(address).or_insert(0);
        if *count >= config.max_connections_per_ip {
            if *count == 0 {
                counts.remove(&address);
            }
            return refused("max.connections.per.ip");
        }
        *count += 1;
        drop(counts);
        server.connections.fetch_add(1, Ordering::AcqRel);
        server.metrics.connections.inc();
        Some(Self { server: Arc::clone(server), per_address: Arc::clone(per_address), address })
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
    }
}
