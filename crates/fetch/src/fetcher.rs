//! The fetch.

use std::io;
use std::path::PathBuf;
use std::pin::pin;

use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::header::{ACCEPT, CONNECTION, CONTENT_ENCODING, HOST, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tailrace_env::io::ByteStream;
use tailrace_env::time::{Duration, timeout};
use tailrace_env::{net, select, task};
use tailrace_tls::ServersTls;

use crate::address::Address;
use crate::error::FetchError;

/// Maximum length of the head of an answer, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Maximum number of headers of an answer.
const HEADERS_MAX: usize = 100;

/// Bounds of a fetch.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The time for all of it, from the search for the address to the last byte.
    pub time: Duration,
    /// Maximum length of the document, in bytes.
    pub bytes: usize,
}

/// Fetches one document, as often as it is asked to.
#[derive(Debug)]
pub struct Fetcher {
    address: Address,
    /// The setting that names the file, and the file. Without one, the system's authorities count.
    authorities: (&'static str, Option<PathBuf>),
    limits: Limits,
}

impl Fetcher {
    /// Makes a fetcher. The server's certificate is checked against the authorities in the file of the
    /// setting `key`, or against those of the system.
    pub fn new(address: Address, key: &'static str, authorities: Option<PathBuf>, limits: Limits) -> Self {
        Self { address, authorities: (key, authorities), limits }
    }

    /// Reads the authorities once, to find a fault before the first fetch. Blocks.
    ///
    /// # Errors
    /// The file cannot be used, or the system has no authorities.
    pub fn check(&self) -> Result<(), FetchError> {
        if self.address.is_encrypted {
            self.tls()?;
        }
        Ok(())
    }

    /// Returns the address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Fetches the document. Reads the authorities each time, so a changed file counts at once.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub async fn fetch(&self) -> Result<Vec<u8>, FetchError> {
        let limit_ms = self.limits.time.as_millis();
        timeout(self.limits.time, self.try_fetch()).await.unwrap_or(Err(FetchError::TimedOut { limit_ms }))
    }

    async fn try_fetch(&self) -> Result<Vec<u8>, FetchError> {
        let stream = self.connect().await?;
        let mut http = Builder::new();
        http.max_buf_size(HEAD_BYTES_MAX).max_headers(HEADERS_MAX);
        let (sender, connection) = http.handshake(TokioIo::new(stream)).await?;
        let mut document = pin!(self.ask(sender));
        select! {
            outcome = &mut document => outcome,
            // The end of the answer may still be on its way to the other branch.
            ended = connection => match ended {
                Ok(()) => document.await,
                Err(error) => Err(error.into()),
            },
        }
    }

    async fn connect(&self) -> Result<Box<dyn ByteStream>, FetchError> {
        let stream = net::connect(&self.address.to_connect()).await.map_err(FetchError::Connect)?;
        if !self.address.is_encrypted {
            return Ok(Box::new(stream));
        }
        let (key, file) = self.authorities.clone();
        let tls = task::spawn_blocking(move || ServersTls::load(key, file.as_deref())).await;
        let tls = tls.map_err(|_| FetchError::Dropped)??;
        let stream = tls.connect(&self.address.host, stream).await.map_err(FetchError::Handshake)?;
        Ok(Box::new(stream))
    }

    fn tls(&self) -> Result<ServersTls, FetchError> {
        let (key, file) = &self.authorities;
        Ok(ServersTls::load(key, file.as_deref())?)
    }

    async fn ask(&self, mut sender: SendRequest<Empty<Bytes>>) -> Result<Vec<u8>, FetchError> {
        let request = Request::get(&self.address.target)
            .header(HOST, &self.address.authority)
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, "tailrace")
            .header(CONNECTION, "close")
            .body(Empty::new());
        // The parts come from a URL that was read.
        let request = request.map_err(|error| FetchError::Connect(io::Error::other(error)))?;
        let answer = sender.send_request(request).await?;
        check_head(&answer)?;
        read(answer.into_body(), self.limits.bytes).await
    }
}

fn check_head(answer: &Response<Incoming>) -> Result<(), FetchError> {
    let status = answer.status();
    if status.is_redirection() {
        return Err(FetchError::Redirect(status.as_u16()));
    }
    if status != StatusCode::OK {
        return Err(FetchError::Status(status.as_u16()));
    }
    match answer.headers().get(CONTENT_ENCODING) {
        Some(encoding) if encoding != "identity" => Err(FetchError::Encoded),
        _ => Ok(()),
    }
}

async fn read(mut body: Incoming, limit: usize) -> Result<Vec<u8>, FetchError> {
    let announced = body.size_hint().lower();
    if usize::try_from(announced).map_or(true, |announced| announced > limit) {
        return Err(FetchError::TooLong { limit });
    }
    let mut document = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(bytes) = frame?.into_data() else { continue };
        if document.len() + bytes.len() > limit {
            return Err(FetchError::TooLong { limit });
        }
        document.extend_from_slice(&bytes);
    }
    Ok(document)
}
