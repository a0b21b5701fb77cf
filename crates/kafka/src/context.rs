//! One request on its way through the server: how it is answered, and the memory its answer takes.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tailrace_env::budget::Reservation;
use tailrace_kafka_wire::{ApiKey, Frame, Part, Reader, Request, RequestHeader, Response, response_frame};
use tailrace_log::Extent;
use tailrace_node::{Caller, Node, NodeDisk};

use crate::closed::Closed;
use crate::outbox::ReplyPart;
use crate::server::KafkaServer;
use crate::session::{ClientSession, counted};

/// An answer that will be ready later.
pub(crate) type Promise = Pin<Box<dyn Future<Output = Result<Vec<ReplyPart>, Closed>> + Send>>;

/// The decision on a request.
pub(crate) enum Decided {
    /// The request asks for no answer.
    NoReply,
    /// The answer is ready.
    Reply(Vec<ReplyPart>),
    /// The answer is ready, and the connection is closed once it is sent.
    Last(Vec<ReplyPart>, Closed),
    /// The answer has to wait. Later requests are decided meanwhile.
    Later(Promise),
}

/// One request on its way through the server.
pub(crate) struct Context {
    pub(crate) server: Arc<KafkaServer>,
    pub(crate) session: Arc<ClientSession>,
    pub(crate) header: RequestHeader,
    /// Length of the frame, without its length field.
    pub(crate) request_bytes: usize,
    /// How long the client is held up after this request, for the answer. In milliseconds.
    throttle_ms: AtomicU32,
    /// Whether the client was charged for the time of the request.
    work_charged: AtomicBool,
    /// Memory beyond the frame, for a request that is decided aside or takes much.
    room: Mutex<Option<Reservation>>,
}

impl Context {
    pub(crate) fn new(
        server: Arc<KafkaServer>,
        session: Arc<ClientSession>,
        header: RequestHeader,
        request_bytes: usize,
    ) -> Self {
        let (throttle_ms, room) = (AtomicU32::new(0), Mutex::default());
        let work_charged = AtomicBool::new(false);
        Self { server, session, header, request_bytes, throttle_ms, work_charged, room }
    }

    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.server.node
    }

    /// The client that sent the request.
    pub(crate) fn caller(&self) -> &Caller {
        self.session.caller()
    }

    /// The id that the client gave itself, for its quotas. Empty without one.
    pub(crate) fn client_id(&self) -> &str {
        self.header.client_id.as_deref().unwrap_or_default()
    }

    /// Holds the client up for so many milliseconds (KIP-219): its connection is not read, and the answer
    /// says so. Of several times, the longest counts.
    pub(crate) fn throttle(&self, throttle_ms: u32) {
        self.throttle_ms.fetch_max(throttle_ms, Ordering::Relaxed);
        self.session.throttle(throttle_ms);
    }

    /// Returns `throttle_time_ms` of the answer.
    pub(crate) fn throttle_time_ms(&self) -> i32 {
        i32::try_from(self.throttle_ms.load(Ordering::Relaxed)).unwrap_or(i32::MAX)
    }

    pub(crate) fn version(&self) -> i16 {
        self.header.api_version
    }

    /// Charges the answer for `bytes` of memory that it takes or is about to take. Waits while too many such
    /// answers are being made. An answer made on the event loop is charged once it exceeds
    /// [`UNCHARGED_BYTES`].
    pub(crate) async fn charge(&self, bytes: usize) {
        let room = self.room().take();
        let mut room = match room {
            Some(room) => room,
            None if bytes <= UNCHARGED_BYTES => return,
            None => self.server.aside.reserve(0).await,
        };
        if bytes > room.bytes() {
            room.grow(bytes).await;
        }
        *self.room() = Some(room);
    }

    /// Charges an answer part by part.
    pub(crate) fn charges(&self) -> Charges<'_> {
        let request = self.room().as_ref().map_or(0, Reservation::bytes);
        Charges { context: self, request, taken: 0, charged: CHARGED_BYTES }
    }

    pub(crate) fn room(&self) -> MutexGuard<'_, Option<Reservation>> {
        self.room.lock()
    }

    /// Charges the client for the time that threads have spent on it since its last answer, at most once for
    /// each request. Returns how long that holds it up, in milliseconds.
    pub(crate) fn charge_work(&self) -> u32 {
        if self.work_charged.swap(true, Ordering::Relaxed) {
            return 0;
        }
        let time = self.session.work.take();
        let throttle_ms = self.node().worked(self.caller(), self.client_id(), time);
        self.throttle(throttle_ms);
        throttle_ms
    }

    /// Reports whether the request counts on no quota of time, as in Kafka: what nodes ask each other, and
    /// what comes before a login.
    fn is_exempt(&self) -> bool {
        match self.header.api_key {
            ApiKey::AddPartitionsToTxn => self.version() >= NODES_ADD_PARTITIONS_FROM,
            ApiKey::ApiVersions => self.session.login().is_due(),
            _ => false,
        }
    }

    /// Sets the time for which the client is held up.
    fn tell_throttle(&self, response: &mut impl Response) {
        let Some(field) = response.throttle_time_ms() else {
            // It is exempt. Neither does its time count for the next request.
            self.session.work.take();
            return;
        };
        if self.is_exempt() {
            self.session.work.take();
        } else {
            self.charge_work();
        }
        *field = (*field).max(self.throttle_time_ms());
    }

    /// Encodes an answer that is in memory.
    pub(crate) fn reply<R: Response>(&self, response: R) -> Result<Vec<ReplyPart>, Closed> {
        self.reply_with_files(response, &[])
    }

    /// Encodes an answer whose external parts are `files`. The tag is the index.
    pub(crate) fn reply_with_files<R: Response>(
        &self,
        mut response: R,
        files: &[Extent<NodeDisk>],
    ) -> Result<Vec<ReplyPart>, Closed> {
        self.tell_throttle(&mut response);
        let frame = response_frame(self.header.correlation_id, self.version(), &response)
            .map_err(|error| Closed::Protocol(format!("a response could not be encoded: {error}")))?;
        let mut parts = parts_of(frame, files);
        if let Some(mut room) = self.room().take() {
            let in_memory = |part: &ReplyPart| match part {
                ReplyPart::Bytes(bytes) => bytes.len(),
                ReplyPart::File(_) | ReplyPart::Room(_) => 0,
            };
            room.set(parts.iter().map(in_memory).sum());
            parts.push(ReplyPart::Room(Arc::new(room)));
        }
        Ok(parts)
    }
}

/// Memory an answer made on the event loop may take before it is charged: a few topics' partitions, and what
/// every client asks for.
const UNCHARGED_BYTES: usize = 1024 * 1024;

/// The first version of AddPartitionsToTxn that only nodes send.
const NODES_ADD_PARTITIONS_FROM: i16 = 4;

/// An answer of this size gets no further groups, resources or partitions: they are refused. A single one may
/// take more.
const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Step in which answers are charged, starting with the second step, so that small answers never wait.
const CHARGED_BYTES: usize = 256 * 1024;

/// Accounting of one answer while its parts are made.
pub(crate) struct Charges<'a> {
    context: &'a Context,
    /// Memory of the request.
    request: usize,
    taken: usize,
    charged: usize,
}

impl Charges<'_> {
    /// Reports whether the answer has reached its size limit.
    pub(crate) fn is_full(&self) -> bool {
        self.taken >= ANSWER_BYTES_MAX
    }

    /// Adds a part of `bytes`. Waits while too many answers are being made or wait to be read.
    pub(crate) async fn add(&mut self, bytes: usize) {
        self.taken += bytes;
        if self.taken > self.charged {
            self.charged = self.taken + CHARGED_BYTES;
            self.context.charge(self.request + self.charged).await;
        }
    }
}

pub(crate) fn parts_of(frame: Frame, files: &[Extent<NodeDisk>]) -> Vec<ReplyPart> {
    let part = |part| match part {
        Part::Bytes(bytes) => ReplyPart::Bytes(bytes),
        Part::External { tag, .. } => ReplyPart::File(files[tag as usize].clone()),
    };
    frame.into_parts().into_iter().map(part).collect()
}

/// Continues a request on the threads for long work, because its answer may take long.
pub(crate) async fn carry_on_aside(
    server: Arc<KafkaServer>,
    session: Arc<ClientSession>,
    decision: impl Future<Output = Result<Decided, Closed>> + Send + 'static,
) -> Result<Decided, Closed> {
    Ok(match server.aside.run(counted(Arc::clone(&session), decision)).await? {
        Decided::Later(promise) => {
            Decided::Later(Box::pin(async move { server.aside.run(counted(session, promise)).await }))
        }
        decided => decided,
    })
}

/// Decodes the body and answers it with the result of `handle`.
pub(crate) async fn answer<R, F>(
    context: Context,
    reader: Reader,
    handle: impl FnOnce(Arc<Context>, R) -> F,
) -> Result<Decided, Closed>
where
    R: Request,
    F: Future<Output = R::Response>,
{
    let request = decode::<R>(&context, reader)?;
    let context = Arc::new(context);
    let response = handle(Arc::clone(&context), request).await;
    Ok(Decided::Reply(context.reply(response)?))
}

/// Answers when `response` is ready. Later requests are decided meanwhile. Work that must keep the
/// connection's order has to be done before this call, because the future is not polled while an earlier
/// answer is due.
pub(crate) fn answer_later<R: Response + Send + 'static>(
    context: impl Into<Arc<Context>>,
    response: impl Future<Output = R> + Send + 'static,
) -> Decided {
    let context = context.into();
    Decided::Later(Box::pin(async move { context.reply(response.await) }))
}

/// Most bytes of memory that a decoded request may take beyond its frame.
const DECODED_BYTES_MAX: usize = 32 << 20;

/// The same for a Produce request, whose records stay in the frame. Enough for some ten thousand partitions.
const DECODED_PRODUCE_BYTES_MAX: usize = 8 << 20;

/// A decoded request that takes more than this is charged, even if it is decided on the event loop.
const UNCHARGED_DECODED_BYTES: usize = 64 * 1024;

pub(crate) fn decoded_bytes_max(key: ApiKey) -> usize {
    if key == ApiKey::Produce { DECODED_PRODUCE_BYTES_MAX } else { DECODED_BYTES_MAX }
}

/// Decodes a body. Ignores bytes after it, as Kafka does.
pub(crate) fn decode<R: Request>(context: &Context, mut reader: Reader) -> Result<R, Closed> {
    reader.limit_memory(decoded_bytes_max(context.header.api_key));
    let request = R::decode(&mut reader, context.version()).map_err(|error| {
        Closed::Protocol(format!("bad {} request: {error}", context.header.api_key.name()))
    })?;
    let bytes = reader.memory_bytes();
    context.session.set_decoded_bytes(bytes);
    match &mut *context.room() {
        Some(room) => room.set(bytes),
        room if bytes > UNCHARGED_DECODED_BYTES => *room = Some(context.server.aside.take(bytes)),
        _ => {}
    }
    Ok(request)
}
