//! The NATS listener: accepts connections within the limits, and runs each as a task.

use std::net::SocketAddr;
use std::sync::Arc;
use tailrace_env::time::Duration;
use tailrace_env::{select, task, time};

use tailrace_env::io::AsyncWriteExt as _;
use tailrace_env::net::{Listener, Stream};
use tailrace_nats_wire::{ProtocolError, write_error, write_info};

use crate::close::CloseReason;
use crate::connection::{Opening, Transport, serve_one};
use crate::secure;
use crate::server::NatsServer;
use crate::websocket::Cookies;
use tailrace_env::task::stopped;

/// Delay after a failed accept, so that a lack of descriptors does not become a busy loop.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Time for telling a client that there are too many connections.
const REFUSAL_MAX: Duration = Duration::from_secs(1);

/// The label of connections that their address opens too fast for its quota.
pub(crate) const TOO_FAST: &str = "connection_creation_rate";

/// Accepts connections until the server stops.
pub async fn serve(listener: Listener, server: Arc<NatsServer>) {
    let mut stopping = server.front.stopping();
    loop {
        select! {
            () = stopped(&mut stopping) => return,
            accepted = listener.accept() => match accepted {
                Ok((socket, peer)) => admit(socket, peer, &server),
                Err(error) => {
                    tracing::warn!(%error, "accepting a NATS connection failed");
                    time::sleep(ACCEPT_RETRY_INTERVAL).await;
                }
            },
        }
    }
}

fn admit(socket: Stream, peer: SocketAddr, server: &Arc<NatsServer>) {
    let front = &server.front;
    let Some(place) = server.take_place(peer.ip()) else {
        task::spawn(refuse(socket, Arc::clone(server)));
        return;
    };
    if let Err(hold_ms) = server.node.connected(peer.ip()) {
        front.count_refused(TOO_FAST);
        // The client would be back at once if it were closed at once.
        task::spawn(async move {
            let _held = (socket, place);
            time::sleep(Duration::from_millis(hold_ms.into())).await;
        });
        return;
    }
    if let Some(tls) = server.tls.clone().filter(|_| front.demands_tls()) {
        task::spawn(secure::serve(socket, peer, place, Arc::clone(server), tls));
        return;
    }
    let opening = Opening {
        id: front.next_client_id(),
        peer,
        transport: Transport::Plain(socket),
        nonce: front.nonce(),
        info_sent: false,
        cookies: Cookies::default(),
        certificate: None,
        place,
    };
    task::spawn(serve_one(Arc::clone(server), opening));
}

async fn refuse(mut socket: Stream, server: Arc<NatsServer>) {
    tracing::debug!(reason = %CloseReason::MaximumConnections, "NATS connection refused");
    let mut out = Vec::new();
    write_info(&mut out, server.front.server_info());
    write_error(&mut out, &ProtocolError::MaximumConnections);
    // A client that does not take the error in time is closed without it.
    let _ = time::timeout(REFUSAL_MAX, async {
        socket.write_all(&out).await?;
        socket.shutdown().await
    })
    .await;
}
