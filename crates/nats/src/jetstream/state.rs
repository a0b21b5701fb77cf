//! What is in a stream, as its leader tells.

use std::sync::Arc;

use tailrace_env::task::JoinSet;
use tailrace_env::time::{Duration, WallTime};
use tailrace_jetstream::Time;
use tailrace_jetstream::api::{StreamInfo, StreamInfoAnswer, StreamState, bodies};
use tailrace_jetstream::error::{ApiError, ErrorKind};
use tailrace_jetstream::stream::StreamConfig;
use tailrace_node::partitions::Topic;
use tailrace_node::streams::{self, StateTerms, SubjectsPage};

use super::asked::Asked;
use super::clusters;
use super::stream::Stream;

/// Nanoseconds of a millisecond.
const MS: i64 = 1_000_000;

/// Streams of one request whose leaders are asked at a time.
const STATES_AT_ONCE: usize = 64;

/// Time in which the leader of one of them answers. What follows has the rest of the request's time.
const STATE_PATIENCE: Duration = Duration::from_millis(1_500);

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
    let state = streams::state(&asked.server.node, asked.caller, &topic, terms).await;
    state.map_err(|failure| failure.to_api_error())
}

/// The last sequence of a stream.
pub(super) async fn last_sequence(asked: Asked<'_>, stream: &Stream) -> Result<u64, ApiError> {
    Ok(asked_state(asked, stream, StateTerms::default()).await?.last_seq)
}

/// Asks for the sums of many streams, some at a time, so that one whose leader is gone does not hold up the
/// others. The answers have the order of the streams.
async fn states(asked: Asked<'_>, streams: &[Arc<Stream>]) -> Vec<Result<streams::StreamState, ApiError>> {
    let mut states = vec![Err(ErrorKind::ClusterNotAvail.into()); streams.len()];
    let (mut waiting, mut asking) = (streams.iter().enumerate(), JoinSet::new());
    loop {
        while asking.len() < STATES_AT_ONCE
            && let Some((at, stream)) = waiting.next()
        {
            match topic_of(asked, stream) {
                Ok(topic) => {
                    let (node, caller) =
                        (Arc::clone(&asked.server.node), asked.caller.within(STATE_PATIENCE));
                    let terms = StateTerms::default();
                    asking.spawn(async move { (at, streams::state(&node, &caller, &topic, terms).await) });
                }
                Err(error) => states[at] = Err(error),
            }
        }
        match asking.join_next().await {
            Some(Ok((at, state))) => states[at] = state.map_err(|failure| failure.to_api_error()),
            Some(Err(error)) => tracing::error!(%error, "a bug in the server: asking for a stream panicked"),
            None => return states,
        }
    }
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
        consumer_count: usize::try_from(state.consumers).unwrap_or(usize::MAX),
        ..StreamState::default()
    }
}

/// What the answers to CREATE and UPDATE tell, but for the nodes.
pub(super) async fn info(asked: Asked<'_>, stream: &Stream) -> Result<StreamInfo, ApiError> {
    let state = asked_state(asked, stream, StateTerms::default()).await?;
    Ok(StreamInfo { config: shown_config(asked, stream), ..of_state(stream, &state) })
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
pub(super) async fn listed(asked: Asked<'_>, streams: &[Arc<Stream>]) -> Vec<Result<StreamInfo, ApiError>> {
    let states = states(asked, streams).await;
    streams.iter().zip(states).map(|(stream, state)| Ok(of_state(stream, &state?))).collect()
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
