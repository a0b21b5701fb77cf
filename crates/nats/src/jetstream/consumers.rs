//! `CONSUMER.*`, but for MSG.NEXT. The leader of the stream has its consumers.

use std::sync::Arc;

use tailrace_jetstream::Time;
use tailrace_jetstream::api::bodies::PauseRequest;
use tailrace_jetstream::api::{
    ConsumerInfo, ConsumerList, ConsumerNames, Page, PauseAnswer, PriorityGroupState, Request, SequenceInfo,
    Success, bodies,
};
use tailrace_jetstream::consumer_config::{ConsumerConfig, CreateForm, CreateRequest};
use tailrace_jetstream::error::{ApiError, ErrorKind};
use tailrace_node::partitions::Topic;
use tailrace_node::streams::{ConsumerFacts, Consumers, CreateConsumer, Reached, StreamFailure};

use super::asked::{Asked, Spoken};
use super::clusters;
use super::rights::not_authorized;
use super::state::{now, topic_of};
use super::stream::Stream;
use crate::auth::Permissions;

/// Answers a request.
pub(super) async fn answer(asked: Asked<'_>, request: &Request<'_>, kind: &'static str) -> Spoken {
    let body = &*asked.call.body;
    match *request {
        Request::ConsumerCreate(form) => asked.tell(kind, create(asked, &form, body).await).await,
        Request::ConsumerNames { stream } => asked.tell(kind, names(asked, stream, body).await).await,
        Request::ConsumerList { stream } => asked.tell(kind, list(asked, stream, body).await).await,
        Request::ConsumerInfo { stream, consumer } => {
            asked.tell(kind, info(asked, stream, consumer, body).await).await
        }
        Request::ConsumerDelete { stream, consumer } => {
            asked.tell(kind, delete(asked, stream, consumer, body).await).await
        }
        Request::ConsumerPause { stream, consumer } => {
            asked.tell(kind, pause(asked, stream, consumer, body).await).await
        }
        Request::ConsumerUnpin { stream, consumer }
        | Request::ConsumerReset { stream, consumer }
        | Request::ConsumerStepDown { stream, consumer }
        | Request::ConsumerRemovePeer { stream, consumer }
        | Request::ConsumerEvacuatePeer { stream, consumer } => {
            asked.refuse(kind, not_yet(asked, stream, consumer).await).await
        }
        // The caller has taken the others.
        _ => Spoken::Done,
    }
}

/// The error for what is not there yet, if the consumer is.
async fn not_yet(asked: Asked<'_>, stream: &str, consumer: &str) -> ApiError {
    match info(asked, stream, consumer, b"").await {
        Ok(_) => ApiError::because(ErrorKind::ConsumerCreate, "this request is not supported yet"),
        Err(error) => error,
    }
}

fn failed(failure: StreamFailure) -> ApiError {
    failure.to_api_error()
}

fn of<'a>(asked: Asked<'a>, topic: &'a Topic) -> Consumers<'a> {
    Consumers { node: &asked.server.node, caller: asked.caller, topic }
}

async fn create(asked: Asked<'_>, form: &CreateForm<'_>, body: &[u8]) -> Result<ConsumerInfo, ApiError> {
    // The leader reads it again. Errors of the request come before those of the stream, as in nats-server.
    let request = CreateRequest::parse(body)?.matched(form)?;
    if asked.server.node.is_alone() && request.config.num_replicas > 1 {
        return Err(ErrorKind::StreamReplicasNotSupported.into());
    }
    let stream = asked.stream(form.stream())?;
    if !asked.rights().may_read(&stream) {
        return Err(not_authorized(ErrorKind::ConsumerCreate));
    }
    check_deliver_subject(asked, &request.config)?;
    let topic = topic_of(asked, &stream)?;
    let request = CreateConsumer {
        subject: asked.call.subject.to_string(),
        body: String::from_utf8_lossy(body).into_owned(),
        stream: stream.config.to_stored(),
        is_single: asked.server.node.is_alone(),
    };
    let facts = of(asked, &topic).create(request).await.map_err(failed)?;
    shown(asked, &stream, facts, true)
}

/// The server sends there for anybody who listens. So the client must be allowed to say or to hear something
/// there.
fn check_deliver_subject(asked: Asked<'_>, config: &ConsumerConfig) -> Result<(), ApiError> {
    let subject = config.deliver_subject.as_bytes();
    let group = (!config.deliver_group.is_empty()).then_some(config.deliver_group.as_bytes());
    let may = |user: &Arc<Permissions>| user.may_subscribe(subject, group) || user.may_publish(subject);
    match subject.is_empty() || asked.call.permissions.as_ref().is_none_or(may) {
        true => Ok(()),
        false => Err(not_authorized(ErrorKind::ConsumerCreate)),
    }
}

async fn info(asked: Asked<'_>, stream: &str, consumer: &str, body: &[u8]) -> Result<ConsumerInfo, ApiError> {
    bodies::nothing(body)?;
    let stream = asked.stream(stream)?;
    let topic = topic_of(asked, &stream)?;
    let facts = of(asked, &topic).info(consumer).await.map_err(failed)?;
    shown(asked, &stream, facts, true)
}

async fn delete(asked: Asked<'_>, stream: &str, consumer: &str, body: &[u8]) -> Result<Success, ApiError> {
    bodies::nothing(body)?;
    let stream = asked.stream(stream)?;
    if !asked.rights().may_read(&stream) {
        return Err(not_authorized(ErrorKind::ConsumerCreate));
    }
    let topic = topic_of(asked, &stream)?;
    of(asked, &topic).delete(consumer).await.map_err(failed)?;
    Ok(Success::new())
}

async fn pause(asked: Asked<'_>, stream: &str, consumer: &str, body: &[u8]) -> Result<PauseAnswer, ApiError> {
    let PauseRequest { until } = PauseRequest::parse(body)?;
    let stream = asked.stream(stream)?;
    if !asked.rights().may_read(&stream) {
        return Err(not_authorized(ErrorKind::ConsumerCreate));
    }
    let topic = topic_of(asked, &stream)?;
    of(asked, &topic).pause(consumer, &String::from_utf8_lossy(body)).await.map_err(failed)?;
    Ok(PauseAnswer::new(until, now().to_nanos()))
}

/// The names and configurations of all consumers of a stream.
pub(super) async fn configs(
    asked: Asked<'_>,
    stream: &Stream,
) -> Result<Vec<(String, ConsumerConfig)>, ApiError> {
    let topic = topic_of(asked, stream)?;
    let mut found = Vec::new();
    loop {
        let offset = i64::try_from(found.len()).unwrap_or(i64::MAX);
        let (total, page) = of(asked, &topic).list(offset).await.map_err(failed)?;
        let is_last = page.is_empty();
        for facts in page {
            found.push((facts.name, ConsumerConfig::from_stored(&facts.config)?));
        }
        if is_last || found.len() >= total {
            return Ok(found);
        }
    }
}

async fn names(asked: Asked<'_>, stream: &str, body: &[u8]) -> Result<ConsumerNames, ApiError> {
    let request = bodies::ListRequest::of_consumers(body)?;
    let stream = asked.stream(stream)?;
    let topic = topic_of(asked, &stream)?;
    let (total, consumers) = of(asked, &topic).names(request.offset).await.map_err(failed)?;
    Ok(ConsumerNames { page: Page::of_names(total, request.offset), consumers })
}

async fn list(asked: Asked<'_>, stream: &str, body: &[u8]) -> Result<ConsumerList, ApiError> {
    let request = bodies::ListRequest::of_consumers(body)?;
    let stream = asked.stream(stream)?;
    let topic = topic_of(asked, &stream)?;
    let (total, list) = of(asked, &topic).list(request.offset).await.map_err(failed)?;
    let consumers: Result<Vec<_>, _> =
        list.into_iter().map(|facts| shown(asked, &stream, facts, false)).collect();
    Ok(ConsumerList {
        page: Page::of_list(total, request.offset),
        consumers: consumers?,
        missing: Vec::new(),
    })
}

fn shown(
    asked: Asked<'_>,
    stream: &Stream,
    facts: ConsumerFacts,
    shows_level: bool,
) -> Result<ConsumerInfo, ApiError> {
    let config = ConsumerConfig::from_stored(&facts.config)?;
    let version = &asked.server.front.server_info().version;
    let ts = now();
    let left_ns = facts.paused_until_ns.saturating_sub(ts.to_nanos()).max(0);
    let count = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    Ok(ConsumerInfo {
        stream_name: stream.name().to_owned(),
        created: Time::from_nanos(facts.created_ns),
        delivered: reached(facts.delivered),
        ack_floor: reached(facts.ack_floor),
        num_ack_pending: count(facts.num_ack_pending),
        num_redelivered: count(facts.num_redelivered),
        num_waiting: count(facts.num_waiting),
        num_pending: facts.num_pending,
        cluster: clusters::of_change(asked, stream),
        push_bound: facts.push_bound,
        paused: left_ns > 0,
        pause_remaining: left_ns,
        ts,
        priority_groups: groups(&config, &facts),
        config: if shows_level { config.for_answer(version) } else { config },
        name: facts.name,
    })
}

fn reached(place: Reached) -> SequenceInfo {
    let last_active = (place.at_ns > 0).then(|| Time::from_nanos(place.at_ns));
    SequenceInfo { consumer_seq: place.consumer, stream_seq: place.stream, last_active }
}

/// A consumer has one pin, whatever its groups.
fn groups(config: &ConsumerConfig, facts: &ConsumerFacts) -> Vec<PriorityGroupState> {
    let pin = facts.pin.clone().map(|(group, id, since_ns)| PriorityGroupState {
        group,
        pinned_client_id: id,
        pinned_ts: Time::from_nanos(since_ns),
    });
    let free = || {
        let first = config.priority_groups.first()?;
        Some(PriorityGroupState { group: first.clone(), ..PriorityGroupState::default() })
    };
    pin.or_else(free).into_iter().collect()
}
