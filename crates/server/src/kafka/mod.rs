//! The Kafka protocol's requests: one file per API, each from decoded request to response. (Permissions, quotas and credentials, which
//! are not there yet, have a file per kind.)
//!
//! This module reads the header, refuses what is not served, and hands the body to its API's file. Every request's
//! road passes through [`Context`], whose session says which client it is.

mod acls;
mod add_offsets_to_txn;
mod add_partitions_to_txn;
mod alter_configs;
mod alter_partition_reassignments;
mod alter_share_group_offsets;
mod api_versions;
mod client_quotas;
mod closest_replica;
mod commands;
mod config_resources;
pub(crate) mod connection;
mod consumer_group_describe;
mod consumer_group_heartbeat;
mod create_partitions;
mod create_topics;
mod delete_groups;
mod delete_records;
mod delete_share_group_offsets;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
mod describe_groups;
mod describe_log_dirs;
mod describe_producers;
mod describe_quorum;
mod describe_share_group_offsets;
mod describe_topic_partitions;
mod describe_transactions;
mod elect_leaders;
mod end_txn;
mod epochs;
mod errors;
mod feature_gate;
mod fetch;
mod fetch_session;
mod find_coordinator;
mod groups;
mod heartbeat;
mod high_watermarks;
mod incremental_alter_configs;
mod init_producer_id;
mod join_group;
mod leader_hints;
mod leave_group;
mod list_config_resources;
mod list_groups;
mod list_offsets;
mod list_partition_reassignments;
mod list_transactions;
mod listener;
mod lookup;
mod metadata;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod produce;
mod replicas;
mod scram_credentials;
mod server;
mod share_acknowledge;
mod share_acknowledgements;
mod share_fetch;
mod share_group_describe;
mod share_group_heartbeat;
mod share_group_states;
mod sync_group;
mod table;
pub(crate) mod topology;
mod transactions;
mod txn_offset_commit;
mod unregister_broker;
mod update_features;
mod write_txn_markers;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use tailrace_kafka_wire::{
    ApiKey, Frame, MEMORY_BYTES_PER_FRAME_BYTE, Part, Reader, Request, RequestHeader, Response,
    response_frame,
};

pub(crate) use fetch_session::FetchSessions;
pub(crate) use listener::serve;
use table::Road;
pub(crate) use table::api_name;

use self::connection::Closed;
pub(crate) use self::server::{KafkaServer, Limits};
use crate::budget::Reservation;
use crate::disk::ServerDisk;
use crate::node::Node;
use crate::outbox::ReplyPart;
use tailrace_log::Extent;

/// A frame as it arrived, without its length field.
pub(crate) struct RequestFrame {
    pub(crate) body: Bytes,
    /// Its share of the request memory, given back when the request is decided.
    pub(crate) reservation: Option<Reservation>,
}

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

/// What is known of the client at the other end of a connection.
///
/// Who it is belongs here and not to the single request: a connection is authenticated once, and every request's [`Context`]
/// leads here. There is deliberately no function yet that grants or denies: without a model of permissions, which is to be
/// the same for both protocols, its parameters would be guesses and each call a line that does nothing.
#[derive(Debug)]
pub(crate) struct ClientSession {
    /// Number of the connection, unique in the process.
    pub(crate) id: u64,
    pub(crate) peer: SocketAddr,
    /// The address that the client reached, told to it where no advertised listener is set.
    pub(crate) local: SocketAddr,
    /// Name and version that the client gave in ApiVersions.
    pub(crate) software: OnceLock<(String, String)>,
    /// Share sessions were opened or continued here.
    share_sessions: AtomicBool,
    /// Memory that the request decoded last takes beyond its frame.
    decoded_bytes: AtomicUsize,
}

impl ClientSession {
    /// Of a client.
    pub(crate) fn new(peer: SocketAddr, local: SocketAddr) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Self {
            id,
            peer,
            local,
            software: OnceLock::new(),
            share_sessions: AtomicBool::new(false),
            decoded_bytes: AtomicUsize::new(0),
        }
    }

    /// A share session was opened or continued here.
    pub(crate) fn uses_share_sessions(&self) {
        self.share_sessions.store(true, Ordering::Relaxed);
    }

    /// Memory that the request decided last took beyond its frame, once decoded. A connection decides one after the other.
    pub(crate) fn take_decoded_bytes(&self) -> usize {
        self.decoded_bytes.swap(0, Ordering::Relaxed)
    }

    pub(crate) fn has_share_sessions(&self) -> bool {
        self.share_sessions.load(Ordering::Relaxed)
    }
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

    fn room(&self) -> MutexGuard<'_, Option<Reservation>> {
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
        files: &[Extent<ServerDisk>],
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

fn parts_of(frame: Frame, files: &[Extent<ServerDisk>]) -> Vec<ReplyPart> {
    let part = |part| match part {
        Part::Bytes(bytes) => ReplyPart::Bytes(bytes),
        Part::External { tag, .. } => ReplyPart::File(files[tag as usize].clone()),
    };
    frame.into_parts().into_iter().map(part).collect()
}

/// Decides one request. An error closes the connection, as Kafka does where no answer can be understood.
pub(crate) async fn decide(
    server: Arc<KafkaServer>,
    session: Arc<ClientSession>,
    frame: RequestFrame,
) -> Result<Decided, Closed> {
    let RequestFrame { body, reservation } = frame;
    let bytes = body.len();
    let mut reader = Reader::new(body);
    let header = RequestHeader::decode(&mut reader)
        .map_err(|error| Closed::Protocol(format!("bad request header: {error}")))?;
    let (key, version) = (header.api_key, header.api_version);
    let context = Context::new(server, session, header);
    if !table::serves(key, version) {
        if key == ApiKey::ApiVersions {
            return api_versions::unsupported(&context);
        }
        return Err(Closed::Protocol(format!("{} version {version} is not served", key.name())));
    }
    if feature_gate::is_shut(&context) {
        return feature_gate::refuse(&context, reader);
    }
    let decided = match table::road(key, bytes) {
        Road::Loop => table::dispatch(context, reader).await,
        Road::Aside => aside(context, reader).await,
    };
    drop(reservation);
    decided
}

/// Decides a request on the threads for those that may take long.
async fn aside(context: Context, reader: Reader) -> Result<Decided, Closed> {
    let server = Arc::clone(&context.server);
    let room = match reader.remaining() {
        // Nor does who asks with little.
        bytes @ ..=table::LOOP_BYTES => server.aside.take(bytes),
        bytes => {
            let at_most = bytes.saturating_mul(MEMORY_BYTES_PER_FRAME_BYTE);
            server.aside.reserve(at_most.min(decoded_bytes_max(context.header.api_key))).await
        }
    };
    *context.room() = Some(room);
    carry_on_aside(server, table::dispatch(context, reader)).await
}

/// Goes on with a request on the threads for those that may take long, because its answer may.
async fn carry_on_aside(
    server: Arc<KafkaServer>,
    decision: impl Future<Output = Result<Decided, Closed>> + Send + 'static,
) -> Result<Decided, Closed> {
    Ok(match server.aside.run(decision).await? {
        Decided::Later(promise) => Decided::Later(Box::pin(async move { server.aside.run(promise).await })),
        decided => decided,
    })
}

/// Decodes the body and answers it with what `handle` returns.
async fn answer<R, F>(
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
fn answer_later<R: Response + Send + 'static>(
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

fn decoded_bytes_max(key: ApiKey) -> usize {
    if key == ApiKey::Produce { DECODED_PRODUCE_BYTES_MAX } else { DECODED_BYTES_MAX }
}

/// Decodes a body. Bytes behind it are ignored, as Kafka ignores them.
fn decode<R: Request>(context: &Context, mut reader: Reader) -> Result<R, Closed> {
    reader.limit_memory(decoded_bytes_max(context.header.api_key));
    let request = R::decode(&mut reader, context.version()).map_err(|error| {
        Closed::Protocol(format!("bad {} request: {error}", context.header.api_key.name()))
    })?;
    let bytes = reader.memory_bytes();
    context.session.decoded_bytes.store(bytes, Ordering::Relaxed);
    match &mut *context.room() {
        Some(room) => room.set(bytes),
        room if bytes > UNCHARGED_DECODED_BYTES => *room = Some(context.server.aside.take(bytes)),
        _ => {}
    }
    Ok(request)
}
