//! From a request of the HTTP listener to a NATS connection.

use std::net::SocketAddr;
use std::sync::Arc;
use tailrace_env::task;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderValue, SEC_WEBSOCKET_VERSION};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;

use super::closing::ClosingFrame;
use super::front::WebSocketFront;
use super::handshake::{Refusal, Upgrade, is_upgrade};
use super::stream::WebSocket;
use crate::client::TransportKind;
use crate::connection::{Opening, Transport, serve_one};
use crate::listener::TOO_FAST;
use crate::server::NatsServer;
use tailrace_node::{Caller, Door};

impl WebSocketFront {
    /// Answers a request for a WebSocket. `None` if it is another request. After the answer, the connection
    /// continues as a separate task. `certificate` is the one that the client shows (DER).
    pub fn answer(
        server: &Arc<NatsServer>,
        request: &mut Request<Incoming>,
        peer: SocketAddr,
        certificate: Option<&[u8]>,
    ) -> Option<Response<Full<Bytes>>> {
        let front = server.front.websocket().filter(|_| is_upgrade(request))?;
        let certificate = certificate.filter(|_| server.front.auth().reads_certificates());
        match front.begin(server, request, peer, certificate) {
            Ok(response) => Some(response),
            Err(refusal) => {
                let caller = Caller::client(Door::Nats, peer);
                tracing::debug!(%caller, reason = refusal.reason, "WebSocket refused");
                Some(refused(refusal))
            }
        }
    }

    fn begin(
        &self,
        server: &Arc<NatsServer>,
        request: &mut Request<Incoming>,
        peer: SocketAddr,
        certificate: Option<&[u8]>,
    ) -> Result<Response<Full<Bytes>>, Refusal> {
        let certificate = certificate.map(Into::into);
        let upgrade = Upgrade::of(request, &self.policy)?;
        let nats = &server.front;
        if *nats.stopping().borrow() {
            return Err(Refusal {
                status: StatusCode::SERVICE_UNAVAILABLE,
                reason: "the server is stopping",
            });
        }
        let too_many = Refusal { status: StatusCode::SERVICE_UNAVAILABLE, reason: "too many connections" };
        let place = server.take_place(peer.ip()).ok_or(too_many)?;
        if server.node.connected(peer.ip()).is_err() {
            nats.count_refused(TOO_FAST);
            let reason = "the address opens connections too fast";
            return Err(Refusal { status: StatusCode::SERVICE_UNAVAILABLE, reason });
        }
        let cookies = self.cookies.read(request.headers());
        let (limits, compression) = (self.limits, upgrade.compression);
        let (server, upgraded) = (Arc::clone(server), hyper::upgrade::on(request));
        task::spawn(async move {
            // An error means that the HTTP connection ended before the answer was sent.
            let Ok(upgraded) = upgraded.await else { return };
            let closing = ClosingFrame::default();
            let stream = WebSocket::new(TokioIo::new(upgraded), limits, compression, closing.clone());
            let opening = Opening {
                id: server.front.next_client_id(),
                peer,
                transport: Transport::Boxed(Box::new(stream), TransportKind::WebSocket, Some(closing)),
                nonce: server.front.nonce(),
                info_sent: false,
                cookies,
                certificate,
                place,
            };
            serve_one(server, opening).await;
        });
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        *response.headers_mut() = upgrade.headers();
        Ok(response)
    }
}

fn refused(refusal: Refusal) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(format!("{}\n", refusal.reason))));
    *response.status_mut() = refusal.status;
    response.headers_mut().insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    response
}
