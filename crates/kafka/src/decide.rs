//! From a frame to its API: reads the header, and refuses what is not served.

use std::sync::Arc;

use bytes::Bytes;
use tailrace_env::budget::Reservation;
use tailrace_kafka_wire::{ApiKey, MEMORY_BYTES_PER_FRAME_BYTE, Reader, RequestHeader};

use crate::closed::Closed;
use crate::context::{Context, Decided, carry_on_aside, decoded_bytes_max};
use crate::dispatch::dispatch;
use crate::served::{self, Road};
use crate::server::KafkaServer;
use crate::session::ClientSession;
use crate::{api_versions, feature_gate, login};

/// A frame as it arrived, without its length field.
pub(crate) struct RequestFrame {
    pub(crate) body: Bytes,
    /// Its share of the request memory, released when the request is decided.
    pub(crate) reservation: Option<Reservation>,
}

/// Decides one request. An error closes the connection, as in Kafka when the client could not understand an
/// answer.
pub(crate) async fn decide(
    server: Arc<KafkaServer>,
    session: Arc<ClientSession>,
    frame: RequestFrame,
) -> Result<Decided, Closed> {
    let RequestFrame { body, reservation } = frame;
    if let Some(decided) = login::naked_frame(&server, &session, &body).await {
        return decided;
    }
    let bytes = body.len();
    let mut reader = Reader::new(body);
    let header = RequestHeader::decode(&mut reader)
        .map_err(|error| Closed::Protocol(format!("bad request header: {error}")))?;
    let (key, version) = (header.api_key, header.api_version);
    login::check(&server, &session, key)?;
    let context = Context::new(server, session, header, bytes);
    if !served::serves(key, version) {
        if key == ApiKey::ApiVersions {
            return api_versions::unsupported(&context);
        }
        return Err(Closed::Protocol(format!("{} version {version} is not served", key.name())));
    }
    if feature_gate::is_shut(&context) {
        return feature_gate::refuse(&context, reader);
    }
    let decided = match served::road(key, bytes) {
        Road::Loop => dispatch(context, reader).await,
        Road::Aside => aside(context, reader).await,
    };
    drop(reservation);
    decided
}

/// Decides a request on the threads for long work.
async fn aside(context: Context, reader: Reader) -> Result<Decided, Closed> {
    let server = Arc::clone(&context.server);
    let room = match reader.remaining() {
        // A small request takes its memory without waiting.
        bytes @ ..=served::LOOP_BYTES => server.aside.take(bytes),
        bytes => {
            let at_most = bytes.saturating_mul(MEMORY_BYTES_PER_FRAME_BYTE);
            server.aside.reserve(at_most.min(decoded_bytes_max(context.header.api_key))).await
        }
    };
    *context.room() = Some(room);
    let session = Arc::clone(&context.session);
    carry_on_aside(server, session, dispatch(context, reader)).await
}
