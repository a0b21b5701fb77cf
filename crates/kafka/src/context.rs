//! One request on its road: what it is answered with, and what its answer takes.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tailrace_env::budget::Reservation;
use tailrace_kafka_wire::{ApiKey, Frame, Part, Reader, Request, RequestHeader, Response, response_frame};
use tailrace_log::Extent;
use tailrace_node::{Caller, Node, NodeDisk};

use crate::closed::Closed;
use crate::outbox::ReplyPart;
use crate::server::KafkaServer;
use crate::session::ClientSession;

/// An answer that will be there later.
pub(crate) type Promise = Pin<Box<dyn Future<Output = Result<Vec<ReplyPart>, Closed>> + Send>>;

/// What became of a request.
pub(crate) enum Decided {
    /// It asked for no answer.
    NoReply,
    /// Here it is.
    Reply(Vec<ReplyPart>),
    /// It has to wait; later requests are decided meanwhile.
    Later(Promise),
}

/// One request on its road.
pub(crate) struct Context {
    pub(crate) server: Arc<KafkaServer>,
    pub(crate) session: Arc<ClientSession>,
    pub(crate) header: RequestHeader,
    /// Of a request that is decided aside, or takes much: what it takes beyond its frame.
    room: Mutex<Option<Reservation>>,
}

impl Context {
    pub(crate) fn new(server: Arc<KafkaServer>, session: Arc<ClientSession>, header: RequestHeader) -> Self {
        Self { server, session, header, room: Mutex::default() }
    }

    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.server.node
    }

    /// Who asks.
    pub(crate) fn caller(&self) -> &Caller {
        &self.session.caller
    }

    pub(crate) fn version(&self) -> i16 {
        self.header.api_version
    }

    /// The answer takes so much memory by now, or is about to. Where too many such answers are made, this one waits. What is decided on
    /// the event loop is counted once it has grown beyond [`UNCHARGED_BYTES`].
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
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Encodes an answer that lies in memory.
    pub(crate) fn reply<R: Response>(&self, response: &R) -> Result<Vec<ReplyPart>, Closed> {
        self.reply_with_files(response, &[])
    }

    /// Encodes an answer whose external parts are `files`: the tag is the index.
    pub(crate) fn reply_with_files<R: Response>(
        &self,
        response: &R,
        files: &[Extent<NodeDisk>],
    ) -> Result<Vec<ReplyPart>, Closed> {
        let frame = response_frame(self.header.correlation_id, self.version(), response)
            .map_err(|error| Closed::Protocol(format!("an answer could not be encoded: {error}")))?;
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

/// What an answer may take that is made on the event loop, before it is charged: a few topics' partitions, and what every client asks.
const UNCHARGED_BYTES: usize = 1024 * 1024;

/// An answer that takes so much gets no further groups, resources or partitions: they are refused. One alone may take more.
const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Answers are charged in steps of so many bytes, from the second step on: who asks for little waits for nobody.
const CHARGED_BYTES: usize = 256 * 1024;

/// The parts of one answer, as they are made.
pub(crate) struct Charges<'a> {
    context: &'a Context,
    /// What the request takes beside them.
    request: usize,
    taken: usize,
    charged: usize,
}

impl Charges<'_> {
    /// True if nothing more is to be put into the answer.
    pub(crate) fn is_full(&self) -> bool {
        self.taken >= ANSWER_BYTES_MAX
    }

    /// Another part takes so many bytes. Waits where too many answers are being made, or wait to be read.
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

/// Goes on with a request on the threads for those that may take long, because its answer may.
pub(crate) async fn carry_on_aside(
    server: Arc<KafkaServer>,
    decision: impl Future<Output = Result<Decided, Closed>> + Send + 'static,
) -> Result<Decided, Closed> {
    Ok(match server.aside.run(decision).await? {
        Decided::Later(promise) => Decided::Later(Box::pin(async move { server.aside.run(promise).await })),
        decided => decided,
    })
}

/// Decodes the body and answers it with what `handle` returns.
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
    Ok(Decided::Reply(context.reply(&response)?))
}

/// Answers when `response` is there; later requests are decided meanwhile. What must keep the connection's order has to be done
/// before: the future is not looked at while an earlier answer is due.
pub(crate) fn answer_later<R: Response + Send + 'static>(
    context: impl Into<Arc<Context>>,
    response: impl Future<Output = R> + Send + 'static,
) -> Decided {
    let context = context.into();
    Decided::Later(Box::pin(async move { context.reply(&response.await) }))
}

/// Most bytes of memory that a decoded request may take beyond its frame.
const DECODED_BYTES_MAX: usize = 32 << 20;

/// Of a Produce, whose records stay in the frame: some ten thousand partitions.
const DECODED_PRODUCE_BYTES_MAX: usize = 8 << 20;

/// A request that takes more than that once it is decoded is charged, also where it is decided on the event loop.
const UNCHARGED_DECODED_BYTES: usize = 64 * 1024;

pub(crate) fn decoded_bytes_max(key: ApiKey) -> usize {
    if key == ApiKey::Produce { DECODED_PRODUCE_BYTES_MAX } else { DECODED_BYTES_MAX }
}

/// Decodes a body. Bytes behind it are ignored, as Kafka ignores them.
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
