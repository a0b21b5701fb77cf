//! The HTTP listener: `/healthz`, `/metrics`, `/clusterz`, and whatever another front adds ([`Guest`]): its
//! own pages, and connections that are upgraded at `/` or at any path without a page.
//!
//! Deliberately small: GET and HEAD, HTTP/1.1, no request bodies, a time limit for every connection.

mod access;
mod metrics;
mod nameless;
mod timer;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tailrace_env::time::Duration;
use tailrace_env::{select, task, time};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tailrace_env::io::ByteStream;
use tailrace_env::net::{Listener, Stream};
use tailrace_env::sync::Notify;

use tailrace_env::aside::Aside;
use tailrace_env::metrics::Metrics;
use tailrace_node::cluster;
use tailrace_node::{Caller, Door, Node};
use tailrace_tls::{HandshakeError, Tls, peer_certificate};

use access::{Origin, View};
pub use metrics::HttpMetrics;
use timer::WorldTimer;

/// Maximum number of connections served at once. Each costs about 16 KiB. When one more arrives, the oldest
/// connection without a request is closed, so that clients that only hold connections cannot block probes of
/// `/healthz`. While all have a request, further connections wait in the listen queue.
const CONNECTIONS_MAX: usize = 64;

/// Time within which a connection must send a whole request header. After that it is closed.
const HEADER_TIMEOUT: Duration = Duration::from_secs(2);

/// Time after which a connection is closed, idle or not, so that slow readers cannot hold a place.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);

/// Another front that is reached through this listener.
pub trait Guest: Send + Sync {
    /// Returns the paths of its pages.
    fn paths(&self) -> Vec<&'static str>;

    /// Records a request for this path, whether or not the guest answers it.
    fn asked_for(&self, path: &str);

    /// Makes one of its pages. `None` if the path is not one of its own.
    fn page(&self, path: String, query: String) -> GuestFuture;

    /// Upgrades a connection from HTTP, if the request asks for that, and returns the response. `None` if it
    /// does not. `certificate` is the one that the client shows (DER).
    fn upgrade(
        &self,
        request: &mut Request<Incoming>,
        peer: SocketAddr,
        certificate: Option<&[u8]>,
    ) -> Option<Response<Full<Bytes>>>;
}

/// A page that is being made.
pub type GuestFuture = Pin<Box<dyn Future<Output = Option<PageAnswer>> + Send>>;

/// A page of a [`Guest`].
#[derive(Debug)]
pub enum PageAnswer {
    /// JSON.
    Page(String),
    /// The query cannot be parsed, with the reason.
    BadQuery(String),
    /// A bug in the server. The log has details.
    Failed,
}

/// The HTTP front of one server.
pub struct HttpServer {
    /// The node whose health is reported.
    pub node: Arc<Node>,
    /// The metrics that `/metrics` shows.
    pub metrics: Arc<Metrics>,
    /// Its own ones.
    pub own_metrics: Arc<HttpMetrics>,
    /// Runs the work on pages that may be long.
    pub aside: Arc<Aside>,
    /// Present if any listener uses TLS.
    pub tls: Option<Arc<Tls>>,
    /// The other front that this listener serves.
    pub guest: Arc<dyn Guest>,
}

/// Serves until the task is dropped.
pub async fn serve(listener: Listener, server: Arc<HttpServer>) {
    let places = Arc::new(Places::default());
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "accepting an HTTP connection failed");
                time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        places.make_room().await;
        let place = places.take();
        task::spawn(serve_one(stream, peer, place, Arc::clone(&server)));
    }
}

async fn serve_one(stream: Stream, peer: SocketAddr, place: ConnectionPlace, server: Arc<HttpServer>) {
    let (taken, caller) = (Arc::clone(&place.0), Caller::client(Door::Http, peer));
    select! {
        () = secure_and_serve(stream, peer, Arc::clone(&taken), Arc::clone(&server)) => {}
        () = taken.evicted.notified() => {
            server.own_metrics.cut("no_place");
            tracing::debug!(%caller, "an idle HTTP connection was closed to make room for another");
        }
    }
    drop(place);
}

async fn secure_and_serve(stream: Stream, peer: SocketAddr, place: Arc<Taken>, server: Arc<HttpServer>) {
    match secure(stream, &server).await {
        Ok((stream, certificate)) => {
            serve_connection(stream, Origin { peer, certificate }, place, server).await;
        }
        Err(error) => {
            let caller = Caller::client(Door::Http, peer);
            server.own_metrics.cut("tls_handshake");
            tracing::info!(%caller, reason = %error, "HTTP connection closed");
        }
    }
}

/// The connections being served, oldest first.
#[derive(Default)]
struct Places {
    taken: Mutex<VecDeque<Arc<Taken>>>,
    /// Notified when a place is freed, or a connection has no request any more.
    freed: Notify,
}

struct Taken {
    places: Arc<Places>,
    /// True while a request is being answered.
    is_asking: AtomicBool,
    evicted: Notify,
}

/// A place, freed on drop.
struct ConnectionPlace(Arc<Taken>);

impl Places {
    /// Waits until a place is free, or until one can be taken from a connection without a request.
    async fn make_room(&self) {
        loop {
            let freed = self.freed.notified();
            {
                let mut taken = self.taken.lock();
                if taken.len() < CONNECTIONS_MAX {
                    return;
                }
                let idle = taken.iter().position(|place| !place.is_asking.load(Ordering::Acquire));
                if let Some(place) = idle.and_then(|number| taken.remove(number)) {
                    place.evicted.notify_one();
                    return;
                }
            }
            freed.await;
        }
    }

    fn take(self: &Arc<Self>) -> ConnectionPlace {
        let places = Arc::clone(self);
        let taken = Taken { places, is_asking: AtomicBool::new(false), evicted: Notify::new() };
        let place = Arc::new(taken);
        self.taken.lock().push_back(Arc::clone(&place));
        ConnectionPlace(place)
    }
}

impl Taken {
    fn asks(&self, whether: bool) {
        self.is_asking.store(whether, Ordering::Release);
        if !whether {
            self.places.freed.notify_one();
        }
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let places = &self.0.places;
        places.taken.lock().retain(|place| !Arc::ptr_eq(place, &self.0));
        places.freed.notify_one();
    }
}

/// Performs the TLS handshake, if this listener requires TLS. Returns the client's certificate, too.
async fn secure(
    stream: Stream,
    server: &HttpServer,
) -> Result<(Box<dyn ByteStream>, Option<Vec<u8>>), HandshakeError> {
    match server.tls.as_ref().filter(|_| server.node.config().tailrace_http_tls) {
        Some(tls) => {
            let stream = tls.accept(stream).await?;
            let certificate = peer_certificate(&stream).map(<[u8]>::to_vec);
            Ok((Box::new(stream), certificate))
        }
        None => Ok((Box::new(stream), None)),
    }
}

async fn serve_connection(
    stream: Box<dyn ByteStream>,
    origin: Origin,
    place: Arc<Taken>,
    server: Arc<HttpServer>,
) {
    let origin = Arc::new(origin);
    let service = service_fn(move |mut request| {
        let (server, place, origin) = (Arc::clone(&server), Arc::clone(&place), Arc::clone(&origin));
        async move {
            place.asks(true);
            let response = match upgrade(&server, &mut request, &origin) {
                Some(response) => response,
                None => respond(&request, &server, &origin, &place).await,
            };
            place.asks(false);
            Ok::<_, Infallible>(response)
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(WorldTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    // A connection that becomes a WebSocket continues on its own, without these limits. How the connection
    // ended matters only to its client.
    let _ = time::timeout(CONNECTION_TIMEOUT, connection).await;
}

/// Upgrades the connection if the request asks for it. A request for a page is answered with the page even if
/// it asks for an upgrade.
fn upgrade(
    server: &HttpServer,
    request: &mut Request<Incoming>,
    origin: &Origin,
) -> Option<Response<Full<Bytes>>> {
    let path = request.uri().path();
    if pages(server).contains(&path) {
        return None;
    }
    server.guest.upgrade(request, origin.peer, origin.certificate.as_deref())
}

async fn respond(
    request: &Request<Incoming>,
    server: &Arc<HttpServer>,
    origin: &Origin,
    place: &Taken,
) -> Response<Full<Bytes>> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n".into());
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    let path = request.uri().path();
    let mut reader = None;
    if path != "/healthz" {
        match access::view(&server.node, path, request.headers(), origin).await {
            View::All => {}
            View::Metrics(caller) => reader = Some(caller),
            View::NotLoggedIn(delay) => {
                // Others may have the place meanwhile.
                place.asks(false);
                time::sleep(delay).await;
                return not_logged_in(&server.node);
            }
            View::Forbidden => {
                let reason = "a user with DESCRIBE on the cluster may see this: tailrace acl add --user NAME \
                    --operation describe --cluster\n";
                return text(StatusCode::FORBIDDEN, reason.into());
            }
        }
    }
    server.guest.asked_for(path);
    let (server, uri) = (Arc::clone(server), request.uri().clone());
    match uri.path() {
        "/healthz" => health(&server.node),
        "/" => index(&server),
        _ => server.aside.run(page(Arc::clone(&server), uri, reader)).await,
    }
}

fn not_logged_in(node: &Node) -> Response<Full<Bytes>> {
    let reason = "log in: with a password, a token or a certificate\n";
    let mut response = text(StatusCode::UNAUTHORIZED, reason.into());
    for way in access::challenges(node) {
        response.headers_mut().append(WWW_AUTHENTICATE, HeaderValue::from_static(way));
    }
    response
}

/// Makes a page that may be long. The work runs outside the event loops, because a client may ask for a
/// hundred pages at once. A `reader` sees metrics without the names that it may not describe.
async fn page(server: Arc<HttpServer>, uri: Uri, reader: Option<Caller>) -> Response<Full<Bytes>> {
    match uri.path() {
        "/metrics" => metrics(&server, reader.as_ref()),
        "/clusterz" => typed(StatusCode::OK, "application/json", cluster::page(&server.node).await),
        path => match server.guest.page(path.to_owned(), uri.query().unwrap_or_default().to_owned()).await {
            Some(PageAnswer::Page(page)) => typed(StatusCode::OK, "application/json", page),
            Some(PageAnswer::BadQuery(reason)) => text(StatusCode::BAD_REQUEST, reason),
            Some(PageAnswer::Failed) => {
                let reason = "a bug in the server: the page could not be made; see the server's log\n";
                text(StatusCode::INTERNAL_SERVER_ERROR, reason.into())
            }
            None => text(StatusCode::NOT_FOUND, "not found: / lists all pages\n".into()),
        },
    }
}

/// Returns the paths of all pages except the index.
fn pages(server: &HttpServer) -> Vec<&'static str> {
    let mut pages = vec!["/healthz", "/metrics", "/clusterz"];
    pages.extend(server.guest.paths());
    pages
}

/// Returns a page with links to all pages.
fn index(server: &HttpServer) -> Response<Full<Bytes>> {
    let link = |path| format!("<li><a href=\"{path}\">{path}</a></li>\n");
    let links: String = pages(server).into_iter().map(link).collect();
    let head =
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>tailrace</title></head>";
    let page = format!("{head}\n<body>\n<h1>tailrace</h1>\n<ul>\n{links}</ul>\n</body>\n</html>\n");
    typed(StatusCode::OK, "text/html; charset=utf-8", page)
}

/// Answers 200 `{"status":"ok"}`, as nats-server does, or 503 with the reasons when a partition is offline or
/// halted. Warnings are listed in both cases. They do not change the status, because the restart that follows
/// a failed probe would not help.
fn health(node: &Node) -> Response<Full<Bytes>> {
    let (problems, warnings) = (node.problems(), node.warnings());
    let (status, mut body) = if problems.is_empty() {
        (StatusCode::OK, serde_json::json!({ "status": "ok" }))
    } else {
        let body = serde_json::json!({ "status": "error", "error": "partitions are not usable", "problems": problems });
        (StatusCode::SERVICE_UNAVAILABLE, body)
    };
    if !warnings.is_empty() {
        body["warnings"] = warnings.into();
    }
    typed(status, "application/json", format!("{body}\n"))
}

fn metrics(server: &HttpServer, reader: Option<&Caller>) -> Response<Full<Bytes>> {
    let page = match server.metrics.page() {
        Ok(page) => page,
        Err(error) => return text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    };
    let page = match reader.and_then(|reader| server.node.rights(reader).describable_topics()) {
        Some(topics) => nameless::without_names(&page, &topics),
        None => page,
    };
    typed(StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", page)
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    typed(status, "text/plain; charset=utf-8", body)
}

fn typed(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
