//! STREAM.MSG.GET.

use tailrace_jetstream::api::{MessageAnswer, StoredMessage, bodies::MessageGet};
use tailrace_jetstream::error::{ApiError, ErrorKind};
use tailrace_node::streams::{self, From, Messages, ReadBounds, Select, StreamFailure};

use super::asked::Asked;
use super::rights::not_authorized;
use super::state::{time_of, topic_of};
use super::stream::Stream;

/// Nanoseconds of a millisecond.
pub(super) const MS: i64 = 1_000_000;

/// Answers a request for one message, which any stream has, and its leader answers.
pub(super) async fn get(asked: Asked<'_>, name: &str, body: &[u8]) -> Result<MessageAnswer, ApiError> {
    let request = MessageGet::parse(body)?;
    let stream = asked.stream(name)?;
    if !asked.rights().may_read(&stream) {
        return Err(not_authorized(ErrorKind::StreamGeneral));
    }
    let bounds = ReadBounds { messages: 1, bytes: u64::MAX };
    let found = read(asked, &stream, selection(&request), bounds).await;
    let found = found.map_err(|failure| failure.to_api_error())?;
    let message = found.messages.into_iter().next().ok_or(ErrorKind::NoMessageFound)?;
    Ok(MessageAnswer {
        message: StoredMessage {
            subject: String::from_utf8_lossy(&message.subject).into_owned(),
            seq: message.sequence,
            hdrs: if request.no_headers { Vec::new() } else { message.headers.to_vec() },
            data: message.payload.to_vec(),
            time: time_of(message.time_ms),
        },
    })
}

/// Reads messages of a stream.
pub(super) async fn read(
    asked: Asked<'_>,
    stream: &Stream,
    select: Select,
    bounds: ReadBounds,
) -> Result<Messages, StreamFailure> {
    let topic = topic_of(asked, stream).map_err(|_| StreamFailure::NoStream)?;
    streams::messages(&asked.server.node, asked.caller, &topic, select, bounds).await
}

/// The messages that a request selects: one, or those from a point on.
pub(super) fn selection(request: &MessageGet) -> Select {
    let filter = request.next_for.clone();
    match request.start_time {
        // Times in the log are whole milliseconds, rounded down.
        Some(time) => Select::Next { filter, from: From::TimeMs(time.to_nanos().div_euclid(MS)) },
        None if !filter.is_empty() => Select::Next { filter, from: From::Sequence(request.sequence.max(1)) },
        None if request.sequence > 0 => Select::At(request.sequence),
        None => Select::Last(request.last_for.clone()),
    }
}
