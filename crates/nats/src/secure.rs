//! TLS before a NATS connection starts: by upgrade after INFO, as in the protocol, or from the first byte.

use std::net::SocketAddr;
use std::sync::Arc;
use tailrace_env::select;

use tailrace_env::io::AsyncWriteExt as _;
use tailrace_env::net::Stream;
use tailrace_nats_wire::{ProtocolError, write_error, write_info};

use crate::client::TransportKind;
use crate::close::CloseReason;
use crate::connection::{Opening, Transport, serve_one};
use crate::front::NatsFront;
use crate::places::ConnectionPlace;
use crate::server::NatsServer;
use crate::websocket::Cookies;
use tailrace_env::metrics::ReasonLabel;
use tailrace_env::task::stopped;
use tailrace_node::{Caller, Door};
use tailrace_tls::{HandshakeError, Tls, peer_certificate};

/// Performs the handshake, then serves the connection.
pub(crate) async fn serve(
    socket: Stream,
    peer: SocketAddr,
    place: ConnectionPlace,
    server: Arc<NatsServer>,
    tls: Arc<Tls>,
) {
    let front = &server.front;
    let (id, nonce) = (front.next_client_id(), front.nonce());
    let mut stopping = front.stopping();
    let handshake = handshake(socket, peer, id, &nonce, front, &tls);
    let secured = select! {
        secured = handshake => secured,
        () = stopped(&mut stopping) => return,
    };
    match secured {
        Ok(secured) => {
            let info_sent = !front.tls_first();
            let (transport, certificate) = secured;
            let cookies = Cookies::default();
            let opening = Opening { id, peer, transport, nonce, info_sent, cookies, certificate, place };
            serve_one(server, opening).await;
        }
        Err(error) => {
            let caller = Caller::client(Door::Nats, peer);
            tracing::info!(client = id, %caller, reason = %error, "NATS connection closed by the server");
            let reason = CloseReason::TlsHandshake.label();
            front.metrics().connections_cut.get_or_create(&ReasonLabel { reason }).inc();
        }
    }
}

/// Returns the client's certificate, too, if certificates are looked at.
async fn handshake(
    mut socket: Stream,
    peer: SocketAddr,
    id: u64,
    nonce: &str,
    front: &NatsFront,
    tls: &Tls,
) -> Result<(Transport, Option<Arc<[u8]>>), HandshakeError> {
    if !front.tls_first() {
        let mut info = front.info_for(id, peer, TransportKind::Tls);
        nonce.clone_into(&mut info.nonce);
        let mut out = Vec::new();
        write_info(&mut out, &info);
        // A new socket accepts a line. If one does not, the client closes it.
        socket.write_all(&out).await.map_err(HandshakeError::Failed)?;
    }
    let mut words = Vec::new();
    write_error(&mut words, &ProtocolError::TlsRequired);
    let stream = tls.accept_or_tell(socket, &words).await?;
    let certificate = peer_certificate(&stream).filter(|_| front.auth().reads_certificates()).map(Into::into);
    Ok((Transport::Boxed(Box::new(stream), TransportKind::Tls, None), certificate))
}
