//! What is in a stream, as its leader tells.

use std::sync::Arc;

use tailrace_env::time::WallTime;
use tailrace_jetstream::Time;
use tailrace_jetstream::api::{StreamInfo, StreamInfoAnswer, StreamState, bodies};
use tailrace_jetstream::error::{ApiError, ErrorKind};
use tailrace_jetstream::stream::StreamConfig;
use tailrace_node::partitions::Topic;
use tailrace_node::streams::{self, StateTerms, StreamFailure, SubjectsPage};

use super::asked::Asked;
use super::clusters;
use super::stream::Stream;

/// Nanoseconds of a millisecond.
const MS: i64 = 1_000_000;

/// The stream's topic on this node.
pub(super) fn topic_of(asked: Asked<'_>, stream: &Stream) -> Result<Arc<Topic>, ApiError> {
    let topic = asked.server.node.topics().by_id(stream.topic.id.0);
    topic.ok_or_else(|| ErrorKind::StreamNotFound.into())
}

/// The time of a message. The log has milliseconds.
pub(super) fn time_of(ms: i64) -> Time {
    Time::from_nanos(ms.saturating_mul(MS))
}

/// The time of an answer.
pub(super) fn now() -> Time {
    let since = WallTime::now().after_epoch().as_nanos();
    Time::from_nanos(i64::try_from(since).unwrap_or(i64::MAX))
}

async fn asked_state(
    asked: Asked<'_>,
    stream: &Stream,
    terms: StateTerms,
) -> Result<streams::StreamState, ApiError> {
    let topic = topic_of(asked, stream)?;
    match streams::state(&asked.server.node, asked.caller, &topic, terms).await {
        // A node that keeps no tables of streams knows the marks of the log.
        Err(StreamFailure::NoStream) => {
            by_offsets(&topic).ok_or_else(|| StreamFailure::NoStream.to_api_error())
        }
        state => state.map_err(|failure| failure.to_api_error()),
    }
}

/// The numbers that follow from the marks of the log alone, if this node leads it.
fn by_offsets(topic: &Topic) -> Option<streams::StreamState> {
    let bounds = topic.led(0).ok()?.bounds();
    let (start, end) = (bounds.log_start.get().unsigned_abs(), bounds.high_watermark.get().unsigned_abs());
    let first_seq = if end == 0 { 0 } else { start + 1 };
    let messages = end.saturating_sub(start);
    Some(streams::StreamState { messages, first_seq, last_seq: end, ..streams::StreamState::default() })
}

fn shown(state: &streams::StreamState) -> StreamState {
    let time = |ms: Option<i64>| ms.map_or(Time::ZERO, time_of);
    StreamState {
        messages: state.messages,
        bytes: state.bytes,
        first_seq: state.first_seq,
        first_ts: time(state.first_time_ms),
        last_seq: state.last_seq,
        last_ts: time(state.last_time_ms),
        num_subjects: state.subjects,
        subjects: state.listed.iter().cloned().collect(),
        num_deleted: state.deleted,
        deleted: state.deleted_sequences.clone(),
        ..StreamState::default()
    }
}

/// What the answers to CREATE and UPDATE tell, but for the nodes.
pub(super) async fn info(asked: Asked<'_>, stream: &Stream) -> Result<StreamInfo, ApiError> {
    Ok(StreamInfo { config: shown_config(asked, stream), ..listed(asked, stream).await? })
}

/// The same for a stream that was just made.
pub(super) fn empty(asked: Asked<'_>, stream: &Stream) -> StreamInfo {
    let state = streams::StreamState::default();
    StreamInfo { config: shown_config(asked, stream), ..of_state(stream, &state) }
}

/// The configuration with the metadata that not all answers show.
fn shown_config(asked: Asked<'_>, stream: &Stream) -> StreamConfig {
    stream.config.for_answer(&asked.server.front.server_info().version)
}

/// What LIST tells: without the metadata that only other answers show.
pub(super) async fn listed(asked: Asked<'_>, stream: &Stream) -> Result<StreamInfo, ApiError> {
    let state = asked_state(asked, stream, StateTerms::default()).await?;
    Ok(of_state(stream, &state))
}

fn of_state(stream: &Stream, state: &streams::StreamState) -> StreamInfo {
    StreamInfo {
        config: stream.config.clone(),
        created: stream.created(),
        state: shown(state),
        domain: String::new(),
        cluster: None,
        mirror: None,
        sources: Vec::new(),
        alternates: Vec::new(),
        ts: now(),
    }
}

/// Answers STREAM.INFO.
pub(super) async fn answer(asked: Asked<'_>, name: &str, body: &[u8]) -> Result<StreamInfoAnswer, ApiError> {
    let request = bodies::StreamInfoRequest::parse(body)?;
    let stream = asked.stream(name)?;
    let offset = u64::try_from(request.offset).unwrap_or(0);
    let filter = request.subjects_filter;
    let subjects = (!filter.is_empty()).then_some(SubjectsPage { filter, offset });
    let terms = StateTerms { subjects, deleted: request.deleted_details };
    let state = asked_state(asked, &stream, terms).await?;
    let total = usize::try_from(state.listed_total).unwrap_or(usize::MAX);
    let config = shown_config(asked, &stream);
    let cluster = clusters::of_info(asked, &stream);
    let info = StreamInfo { config, cluster, ..of_state(&stream, &state) };
    Ok(StreamInfoAnswer { page: StreamInfoAnswer::page_of_subjects(total, request.offset), info })
}
