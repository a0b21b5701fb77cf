//! The NATS front as a guest of the HTTP listener: its monitoring pages, and its WebSocket clients.

use std::net::SocketAddr;
use std::sync::Arc;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};

use tailrace_http::{Guest, GuestFuture};
use tailrace_nats::monitor::{self, MonitorAnswer};
use tailrace_nats::{NatsServer, WebSocketFront};

/// The NATS server as a [`Guest`].
pub(crate) struct NatsOnHttp(pub(crate) Arc<NatsServer>);

impl Guest for NatsOnHttp {
    fn paths(&self) -> Vec<&'static str> {
        monitor::paths().collect()
    }

    fn asked_for(&self, path: &str) {
        self.0.front.monitor().asked_for(path);
    }

    fn page(&self, path: String, query: String) -> GuestFuture {
        let server = Arc::clone(&self.0);
        Box::pin(async move {
            Some(match monitor::respond(&server, &path, &query).await? {
                MonitorAnswer::Page(page) => tailrace_http::PageAnswer::Page(page),
                MonitorAnswer::Failed => tailrace_http::PageAnswer::Failed,
                MonitorAnswer::BadQuery(reason) => tailrace_http::PageAnswer::BadQuery(reason),
            })
        })
    }

    fn upgrade(
        &self,
        request: &mut Request<Incoming>,
        peer: SocketAddr,
        certificate: Option<&[u8]>,
    ) -> Option<Response<Full<Bytes>>> {
        WebSocketFront::answer(&self.0, request, peer, certificate)
    }
}
