//! The HTTP listener: `/healthz`, `/metrics`, `/clusterz`, the pages that NATS tools read (`nats::monitor`), and NATS by WebSocket at `/`.
//!
//! Deliberately small: GET and HEAD, HTTP/1.1, no request body is read, every connection has a time limit.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::broker::Broker;
use crate::cluster;
use crate::nats::WebSocketFront;
use crate::nats::monitor::{self, Answer};
use crate::tls::HandshakeError;
use crate::transport::ByteStream;

/// Connections served at once; others wait in the listen queue. Each costs about 16 KiB.
const CONNECTIONS_MAX: usize = 64;

/// A connection that has not sent a whole request header by then is closed.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection is closed after this time, idle or not, so that slow readers cannot hold a place.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);

/// Serves until the task is dropped.
pub(crate) async fn serve(listener: TcpListener, broker: Arc<Broker>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "accepting an HTTP connection failed");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let broker = Arc::clone(&broker);
        tokio::spawn(async move {
            let _place = place;
            // For WebSockets: without it small messages wait for the acknowledgement of earlier ones.
            if stream.set_nodelay(true).is_err() {
                return;
            }
            match secure(stream, &broker).await {
                Ok(stream) => serve_connection(stream, peer, broker).await,
                Err(error) => tracing::info!(%peer, reason = %error, "HTTP connection cut"),
            }
        });
    }
}

/// Makes the TLS handshake, if this listener demands it.
async fn secure(stream: TcpStream, broker: &Broker) -> Result<Box<dyn ByteStream>, HandshakeError> {
    match broker.tls.as_ref().filter(|_| broker.config().tailrace_http_tls) {
        Some(tls) => Ok(Box::new(tls.accept(stream).await?)),
        None => Ok(Box::new(stream)),
    }
}

async fn serve_connection(stream: Box<dyn ByteStream>, peer: SocketAddr, broker: Arc<Broker>) {
    let service = service_fn(move |mut request| {
        let broker = Arc::clone(&broker);
        async move {
            let response = match WebSocketFront::answer(&broker, &mut request, peer) {
                Some(response) => response,
                None => respond(&request, &broker).await,
            };
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
    let uri = request.uri();
    match uri.path() {
        "/healthz" => health(broker),
        "/metrics" => metrics(broker),
        "/clusterz" => typed(StatusCode::OK, "application/json", cluster::page(broker).await),
        "/" => index(),
        path => match monitor::respond(broker, path, uri.query().unwrap_or_default()).await {
            Some(Answer::Page(page)) => typed(StatusCode::OK, "application/json", page),
            Some(Answer::BadQuery(reason)) => text(StatusCode::BAD_REQUEST, reason),
            None => text(StatusCode::NOT_FOUND, "not found: / lists what there is\n".into()),
        },
    }
}

/// Links to all pages.
fn index() -> Response<Full<Bytes>> {
    let paths = ["/healthz", "/metrics", "/clusterz"].into_iter().chain(monitor::paths());
    let links: String = paths.map(|path| format!("<li><a href=\"{path}\">{path}</a></li>\n")).collect();
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
