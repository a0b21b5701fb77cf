//! One connection: requests go out, responses come in, in the order of the requests.
//!
//! Two tasks serve a connection, one per direction, so that a large request never delays a response. The
//! server answers in order, so a queue of waiting requests is enough. The correlation id is checked all the
//! same.

use std::collections::{HashMap, VecDeque};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tailrace_kafka_wire::messages::{ApiVersionsRequest, ApiVersionsResponse};
use tailrace_kafka_wire::{
    ApiKey, ErrorCode, Part, Request, VersionRange, decode_response, frame_bytes, request_frame,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

use super::ClientError;
use super::address::nature;
use super::tls::Tls;

/// Our client id.
const CLIENT_ID: &str = "tailrace-cli";
/// Requests queued on one connection. Callers keep far fewer in flight.
const QUEUE_REQUESTS_MAX: usize = 64;
/// Longest accepted response: longer than any fetch asks for, and short enough not to exhaust a machine's
/// memory.
const RESPONSE_BYTES_MAX: u32 = 1 << 30;

type ResponseBytes = Result<Bytes, End>;

/// Why a connection ended.
#[derive(Clone, Debug)]
enum End {
    Reason(String),
    /// The other side is not a Kafka server.
    NotKafka(&'static str),
}

impl From<String> for End {
    fn from(reason: String) -> Self {
        Self::Reason(reason)
    }
}

impl From<&str> for End {
    fn from(reason: &str) -> Self {
        Self::Reason(reason.to_owned())
    }
}

/// A request for the writing task.
struct Outgoing {
    correlation_id: i32,
    parts: Vec<Part>,
    /// The request has no response: it is done once it is written.
    unanswered: bool,
    done: oneshot::Sender<ResponseBytes>,
}

/// Requests that were written and wait for their responses. `None` once the connection has ended.
type WaitingList = Option<VecDeque<(i32, oneshot::Sender<ResponseBytes>)>>;
type Waiting = Arc<Mutex<WaitingList>>;

/// A connection to one server, after version negotiation.
#[derive(Debug)]
pub(crate) struct Connection {
    address: Arc<str>,
    requests: mpsc::Sender<Outgoing>,
    next_correlation_id: AtomicI32,
    versions: HashMap<i16, VersionRange>,
    timeout: Duration,
    /// Nobody between the two ends can read along: it is encrypted, or both ends are on this machine.
    is_private: bool,
}

impl std::fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outgoing").field("correlation_id", &self.correlation_id).finish_non_exhaustive()
    }
}

/// A response that has yet to arrive.
#[derive(Debug)]
pub(crate) struct Pending<R> {
    address: Arc<str>,
    version: i16,
    timeout: Duration,
    answer: oneshot::Receiver<ResponseBytes>,
    request: PhantomData<R>,
}

impl Connection {
    /// Connects and negotiates versions. `timeout` limits connecting, and each later response.
    pub(crate) async fn open(
        address: &str,
        timeout: Duration,
        tls: Option<&Tls>,
    ) -> Result<Self, ClientError> {
        let failed = |reason: String| ClientError::Connect { address: address.to_owned(), reason };
        let stream = tokio::time::timeout(timeout, TcpStream::connect(address))
            .await
            .map_err(|_| failed(format!("no answer within {timeout:?}")))?
            .map_err(|error| failed(plain(&error)))?;
        // Callers wait for responses, and a delay to fill a packet would only make them wait longer.
        stream.set_nodelay(true).map_err(|error| failed(plain(&error)))?;
        let peer = stream.peer_addr().map_err(|error| failed(plain(&error)))?;
        let is_private = tls.is_some() || peer.ip().to_canonical().is_loopback();
        let requests = match tls {
            None => {
                let (reader, writer) = stream.into_split();
                serve(reader, writer)
            }
            Some(tls) => {
                let handshake = tokio::time::timeout(timeout, tls.connect(address, stream)).await;
                let stream =
                    handshake.map_err(|_| failed(format!("no TLS within {timeout:?}")))?.map_err(failed)?;
                let (reader, writer) = tokio::io::split(stream);
                serve(reader, writer)
            }
        };
        let mut connection = Self {
            address: address.into(),
            requests,
            next_correlation_id: AtomicI32::new(0),
            versions: HashMap::new(),
            timeout,
            is_private,
        };
        connection.versions = connection.ask_versions().await?;
        Ok(connection)
    }

    /// Reports whether the connection can send no more requests.
    pub(crate) fn is_closed(&self) -> bool {
        self.requests.is_closed()
    }

    /// The address it was opened with, HOST:PORT.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Reports whether secrets may travel on it: it is encrypted, or the other end is on this machine.
    pub(crate) fn is_private(&self) -> bool {
        self.is_private
    }

    /// Refuses secrets on a connection that others can read.
    pub(crate) fn check_private(&self) -> Result<(), ClientError> {
        match self.is_private {
            true => Ok(()),
            false => Err(ClientError::InTheClear { address: self.address.to_string() }),
        }
    }

    /// The connection as if it led to another machine, in the clear.
    #[cfg(test)]
    pub(crate) fn over_a_network(self) -> Self {
        Self { is_private: false, ..self }
    }

    /// Reports whether the server lists any version of `R`.
    pub(crate) fn offers<R: Request>(&self) -> bool {
        self.versions.contains_key(&R::KEY.code())
    }

    /// The newest version of `R` up to `newest` that both sides support.
    pub(crate) fn version_up_to<R: Request>(&self, newest: i16) -> Result<i16, ClientError> {
        let stable = R::KEY.stable_versions();
        let ours = VersionRange { min: stable.min, max: stable.max.min(newest) };
        let theirs = self.versions.get(&R::KEY.code()).copied();
        theirs.and_then(|theirs| theirs.intersect(ours)).map(|both| both.max).ok_or_else(|| {
            ClientError::Version { address: self.address.to_string(), api: R::KEY.name(), theirs, ours }
        })
    }

    /// The newest version of `R` that both sides support.
    pub(crate) fn version<R: Request>(&self) -> Result<i16, ClientError> {
        self.version_up_to::<R>(i16::MAX)
    }

    /// Sends a request at the newest common version and waits for the response.
    pub(crate) async fn call<R: Request>(&self, request: &R) -> Result<R::Response, ClientError> {
        self.begin(request, self.version::<R>()?).await?.answer().await
    }

    /// Queues a request for sending. Requests are sent, and answered, in the order of these calls.
    pub(crate) async fn begin<R: Request>(
        &self,
        request: &R,
        version: i16,
    ) -> Result<Pending<R>, ClientError> {
        self.hand_over(request, version, false).await
    }

    /// Queues a request that has no response. [`Pending::sent`] waits until it is written.
    pub(crate) async fn begin_unanswered<R: Request>(
        &self,
        request: &R,
        version: i16,
    ) -> Result<Pending<R>, ClientError> {
        self.hand_over(request, version, true).await
    }

    async fn hand_over<R: Request>(
        &self,
        request: &R,
        version: i16,
        unanswered: bool,
    ) -> Result<Pending<R>, ClientError> {
        let correlation_id = self.next_correlation_id.fetch_add(1, Ordering::Relaxed);
        let frame = request_frame(correlation_id, Some(CLIENT_ID), version, request)
            .map_err(|error| ClientError::Encode { api: R::KEY.name(), error })?;
        let (done, answer) = oneshot::channel();
        let outgoing = Outgoing { correlation_id, parts: frame.into_parts(), unanswered, done };
        self.requests.send(outgoing).await.map_err(|_| self.closed("it was closed earlier"))?;
        let address = Arc::clone(&self.address);
        Ok(Pending { address, version, timeout: self.timeout, answer, request: PhantomData })
    }

    fn closed(&self, reason: &str) -> ClientError {
        ClientError::Closed { address: self.address.to_string(), reason: reason.to_owned() }
    }

    /// Asks for the supported versions. A server that does not support our version of the request answers in
    /// the layout of version 0 and lists its own versions.
    async fn ask_versions(&self) -> Result<HashMap<i16, VersionRange>, ClientError> {
        let ask = ApiVersionsRequest {
            client_software_name: "tailrace".to_owned(),
            client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Default::default()
        };
        let newest = ApiKey::ApiVersions.stable_versions().max;
        let mut answer = self.try_versions(&ask, newest).await?;
        if ErrorCode::from_code(answer.error_code) == Some(ErrorCode::UnsupportedVersion) {
            let listed = answer.api_keys.iter().find(|api| api.api_key == ApiKey::ApiVersions.code());
            let version = listed.map_or(0, |api| api.max_version.min(newest));
            answer = self.try_versions(&ask, version).await?;
        }
        match answer.error_code {
            0 => Ok(answer
                .api_keys
                .iter()
                .map(|api| (api.api_key, VersionRange { min: api.min_version, max: api.max_version }))
                .collect()),
            code => Err(ClientError::refused(format!("cannot use {}", self.address), code, None)),
        }
    }

    async fn try_versions(
        &self,
        ask: &ApiVersionsRequest,
        version: i16,
    ) -> Result<ApiVersionsResponse, ClientError> {
        let ask = if version >= 3 { ask.clone() } else { ApiVersionsRequest::default() };
        let pending = self.begin(&ask, version).await?;
        let (address, bytes) = (Arc::clone(&pending.address), pending.bytes().await?);
        let decoded = decode_response::<ApiVersionsRequest>(bytes.clone(), version)
            .or_else(|error| decode_response::<ApiVersionsRequest>(bytes, 0).map_err(|_| error));
        decoded.map(|(_, answer)| answer).map_err(|error| ClientError::Decode {
            address: address.to_string(),
            api: ApiKey::ApiVersions.name(),
            error,
        })
    }
}

impl<R: Request> Pending<R> {
    /// Waits for the response.
    pub(crate) async fn answer(self) -> Result<R::Response, ClientError> {
        let (address, version) = (Arc::clone(&self.address), self.version);
        let bytes = self.bytes().await?;
        let decoded = decode_response::<R>(bytes, version);
        decoded.map(|(_, answer)| answer).map_err(|error| ClientError::Decode {
            address: address.to_string(),
            api: R::KEY.name(),
            error,
        })
    }

    /// Waits until a request without a response is written.
    pub(crate) async fn sent(self) -> Result<(), ClientError> {
        self.bytes().await.map(drop)
    }

    async fn bytes(self) -> Result<Bytes, ClientError> {
        let address = self.address.to_string();
        match tokio::time::timeout(self.timeout, self.answer).await {
            Ok(Ok(Ok(bytes))) => Ok(bytes),
            Ok(Ok(Err(End::Reason(reason)))) => Err(ClientError::Closed { address, reason }),
            Ok(Ok(Err(End::NotKafka(what)))) => Err(ClientError::NotKafka { address, what }),
            Ok(Err(_)) => Err(ClientError::Closed { address, reason: "before the answer came".to_owned() }),
            Err(_) => Err(ClientError::Timeout { address, api: R::KEY.name(), timeout: self.timeout }),
        }
    }
}

/// Starts the two tasks. They end with the connection.
fn serve(
    reader: impl AsyncRead + Unpin + Send + 'static,
    writer: impl AsyncWrite + Unpin + Send + 'static,
) -> mpsc::Sender<Outgoing> {
    let (requests, queue) = mpsc::channel(QUEUE_REQUESTS_MAX);
    let waiting: Waiting = Arc::new(Mutex::new(Some(VecDeque::new())));
    tokio::spawn(write_requests(writer, queue, Arc::clone(&waiting)));
    tokio::spawn(read_answers(reader, waiting));
    requests
}

/// Writes queued requests until the connection is dropped or the socket fails. Requests that still wait then
/// fail.
async fn write_requests(
    mut socket: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<Outgoing>,
    waiting: Waiting,
) {
    while let Some(outgoing) = queue.recv().await {
        let mut unanswered = None;
        if outgoing.unanswered {
            unanswered = Some(outgoing.done);
        } else {
            match waiting.lock().as_mut() {
                Some(list) => list.push_back((outgoing.correlation_id, outgoing.done)),
                None => {
                    let _ = outgoing.done.send(Err("the server closed it".into()));
                    return;
                }
            }
        }
        let written = write_parts(&mut socket, &outgoing.parts).await;
        if let Some(done) = unanswered {
            let _ = done.send(written.as_ref().map(|()| Bytes::new()).map_err(|error| plain(error).into()));
        }
        if let Err(error) = written {
            end(&waiting, &plain(&error).into());
            return;
        }
    }
}

/// Writes a request. Small records are in the frame's first part, so most requests take one system call.
async fn write_parts(socket: &mut (impl AsyncWrite + Unpin), parts: &[Part]) -> std::io::Result<()> {
    for part in parts {
        if let Part::Bytes(bytes) = part {
            socket.write_all(bytes).await?;
        }
    }
    // TLS may buffer the end of what was written.
    socket.flush().await
}

async fn read_answers(mut socket: impl AsyncRead + Unpin, waiting: Waiting) {
    let mut is_first = true;
    loop {
        let answer = match read_frame(&mut socket, std::mem::take(&mut is_first)).await {
            Ok(answer) => answer,
            Err(reason) => return end(&waiting, &reason),
        };
        let next = waiting.lock().as_mut().and_then(VecDeque::pop_front);
        let found = answer.first_chunk::<4>().map(|id| i32::from_be_bytes(*id));
        match next {
            Some((expected, done)) if found == Some(expected) => drop(done.send(Ok(answer))),
            Some((expected, done)) => {
                let reason = format!("expected the response to request {expected}, found {found:?}");
                let _ = done.send(Err(reason.clone().into()));
                return end(&waiting, &reason.into());
            }
            None => return end(&waiting, &"the server sent an unexpected response".into()),
        }
    }
}

/// Reads a frame. The first one shows what kind of server the other side is.
async fn read_frame(socket: &mut (impl AsyncRead + Unpin), is_first: bool) -> Result<Bytes, End> {
    let mut prefix = [0; 4];
    socket.read_exact(&mut prefix).await.map_err(|error| plain(&error))?;
    if let Some(what) = nature(&prefix).filter(|_| is_first) {
        return Err(End::NotKafka(what));
    }
    let bytes = frame_bytes(prefix, RESPONSE_BYTES_MAX).map_err(|error| error.to_string())? as usize;
    let mut frame = BytesMut::with_capacity(bytes);
    while frame.len() < bytes {
        let mut rest = (&mut *socket).take((bytes - frame.len()) as u64);
        if rest.read_buf(&mut frame).await.map_err(|error| plain(&error))? == 0 {
            return Err("the server closed it in the middle of a response".into());
        }
    }
    Ok(frame.freeze())
}

fn end(waiting: &Waiting, reason: &End) {
    let list = waiting.lock().take().unwrap_or_default();
    for (_, done) in list {
        let _ = done.send(Err(reason.clone()));
    }
}

/// The system's message, without its error number.
fn plain(error: &std::io::Error) -> String {
    if error.kind() == std::io::ErrorKind::UnexpectedEof {
        return "the server closed it".to_owned();
    }
    tailrace_cli::failure::plain(error)
}
