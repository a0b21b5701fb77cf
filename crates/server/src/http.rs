//! The HTTP listener: `/healthz`, `/metrics`, `/clusterz`, the pages that NATS tools read (`nats::monitor`), and NATS by WebSocket at `/`
//! and wherever there is no page.
//!
//! Deliberately small: GET and HEAD, HTTP/1.1, no request body is read, every connection has a time limit.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::broker::Broker;
use crate::cluster;
use crate::nats::WebSocketFront;
use crate::nats::monitor::{self, Answer};
use crate::runtime::task;
use crate::tls::HandshakeError;
use crate::transport::ByteStream;

/// Connections served at once. Each costs about 16 KiB. For one more, the oldest that asks nothing at the moment is closed, so that whoever
/// holds connections keeps no probe of `/healthz` out; while all are asking, others wait in the listen queue.
const CONNECTIONS_MAX: usize = 64;

/// A connection that has not sent a whole request header by then is closed.
const HEADER_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection is closed after this time, idle or not, so that slow readers cannot hold a place.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);

/// Serves until the task is dropped.
pub(crate) async fn serve(listener: TcpListener, broker: Arc<Broker>) {
    let places = Arc::new(Places::default());
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "accepting an HTTP connection failed");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        places.make_room().await;
        let place = places.take();
        let broker = Arc::clone(&broker);
        tokio::spawn(task(async move {
            let evicted = Arc::clone(&place.0);
            tokio::select! {
                () = serve_one(stream, peer, &place, broker) => {}
                () = evicted.evicted.notified() => tracing::debug!(%peer, "an idle HTTP connection made way for another one"),
            }
        }));
    }
}

async fn serve_one(stream: TcpStream, peer: SocketAddr, place: &Place, broker: Arc<Broker>) {
    // For WebSockets: without it small messages wait for the acknowledgement of earlier ones.
    if stream.set_nodelay(true).is_err() {
        return;
    }
    match secure(stream, &broker).await {
        Ok(stream) => serve_connection(stream, peer, Arc::clone(&place.0), broker).await,
        Err(error) => tracing::info!(%peer, reason = %error, "HTTP connection cut"),
    }
}

/// The connections that are served, the oldest first.
#[derive(Default)]
struct Places {
    taken: Mutex<VecDeque<Arc<Taken>>>,
    /// One was given back, or asks nothing any more.
    freed: Notify,
}

struct Taken {
    places: Arc<Places>,
    /// A request is being answered.
    is_asking: AtomicBool,
    evicted: Notify,
}

/// Gives it back when dropped.
struct Place(Arc<Taken>);

impl Places {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Taken>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is a place, or one can be taken from a connection that asks nothing.
    async fn make_room(&self) {
        loop {
            let freed = self.freed.notified();
            {
                let mut taken = self.lock();
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

    fn take(self: &Arc<Self>) -> Place {
        let places = Arc::clone(self);
        let taken = Taken { places, is_asking: AtomicBool::new(false), evicted: Notify::new() };
        let place = Arc::new(taken);
        self.lock().push_back(Arc::clone(&place));
        Place(place)
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

impl Drop for Place {
    fn drop(&mut self) {
        let places = &self.0.places;
        places.lock().retain(|place| !Arc::ptr_eq(place, &self.0));
        places.freed.notify_one();
    }
}

/// Makes the TLS handshake, if this listener demands it.
async fn secure(stream: TcpStream, broker: &Broker) -> Result<Box<dyn ByteStream>, HandshakeError> {
    match broker.tls.as_ref().filter(|_| broker.config().tailrace_http_tls) {
        Some(tls) => Ok(Box::new(tls.accept(stream).await?)),
        None => Ok(Box::new(stream)),
    }
}

async fn serve_connection(
    stream: Box<dyn ByteStream>,
    peer: SocketAddr,
    place: Arc<Taken>,
    broker: Arc<Broker>,
) {
    let service = service_fn(move |mut request| {
        let (broker, place) = (Arc::clone(&broker), Arc::clone(&place));
        async move {
            place.asks(true);
            let response = match WebSocketFront::answer(&broker, &mut request, peer) {
                Some(response) => response,
                None => respond(&request, &broker).await,
            };
            place.asks(false);
            Ok::<_, Infallible>(response)
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    // What becomes a WebSocket goes on by itself, without these limits. How the connection ended concerns only its client.
    let _ = tokio::time::timeout(CONNECTION_TIMEOUT, connection).await;
}

async fn respond(request: &Request<Incoming>, broker: &Arc<Broker>) -> Response<Full<Bytes>> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n".into());
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    broker.nats.monitor().asked_for(request.uri().path());
    let (broker, uri) = (Arc::clone(broker), request.uri().clone());
    match uri.path() {
        "/healthz" => health(&broker),
        "/" => index(),
        _ => broker.aside.run(page(Arc::clone(&broker), uri)).await,
    }
}

/// A page that may be long. It is made beside the event loops: a client may ask for a hundred at once.
async fn page(broker: Arc<Broker>, uri: Uri) -> Response<Full<Bytes>> {
    match uri.path() {
        "/metrics" => metrics(&broker),
        "/clusterz" => typed(StatusCode::OK, "application/json", cluster::page(&broker).await),
        path => match monitor::respond(&broker, path, uri.query().unwrap_or_default()).await {
            Some(Answer::Page(page)) => typed(StatusCode::OK, "application/json", page),
            Some(Answer::BadQuery(reason)) => text(StatusCode::BAD_REQUEST, reason),
            None => text(StatusCode::NOT_FOUND, "not found: / lists what there is\n".into()),
        },
    }
}

/// All pages but the one that lists them.
fn pages() -> impl Iterator<Item = &'static str> {
    ["/healthz", "/metrics", "/clusterz"].into_iter().chain(monitor::paths())
}

/// True if there is a page at this path, other than the list of pages.
pub(crate) fn is_page(path: &str) -> bool {
    pages().any(|page| page == path)
}

/// Links to all pages.
fn index() -> Response<Full<Bytes>> {
    let links: String = pages().map(|path| format!("<li><a href=\"{path}\">{path}</a></li>\n")).collect();
    let head =
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>tailrace</title></head>";
    let page = format!("{head}\n<body>\n<h1>tailrace</h1>\n<ul>\n{links}</ul>\n</body>\n</html>\n");
    typed(StatusCode::OK, "text/html; charset=utf-8", page)
}

/// 200 `{"status":"ok"}`, as nats-server answers; 503 with the reasons when a partition is offline or halted. What serves
/// and needs attention is named beside either: a restart, which a failed probe brings, would not help.
fn health(broker: &Broker) -> Response<Full<Bytes>> {
    let (problems, warnings) = (broker.problems(), broker.warnings());
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

fn metrics(broker: &Broker) -> Response<Full<Bytes>> {
    match broker.metrics.page() {
        Ok(page) => typed(StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", page),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
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
