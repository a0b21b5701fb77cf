//! A server in memory, small and slow: what the pure functions need around them to answer requests.

mod messages;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};
use tailrace_jetstream::Time;
use tailrace_jetstream::api::{
    Answer, ConsumerInfo, ConsumerList, ConsumerNames, Created, Page, PauseAnswer, PriorityGroupState,
    Purged, Request, SequenceInfo, SourceInfo, StreamInfo, StreamInfoAnswer, StreamList, StreamNames,
    StreamState, Success, Unpinned, bodies, has_level,
};
use tailrace_jetstream::consumer_config::{
    self, ConsumerConfig, ConsumerCreation, ConsumerLimitsInForce, CreateForm, CreateRequest, OtherConsumers,
};
use tailrace_jetstream::error::{ApiError, ErrorKind};
use tailrace_jetstream::stream::{self, Creation, OtherStreams, Source, StreamConfig, StreamLimits};

use messages::Messages;

const VERSION: &str = "V";
const GENERATED: &str = "GENERATE";
/// 2026-11-28, about when the answers were recorded.
const NOW: i64 = 1_795_824_000_000_000_000;

#[derive(Default)]
pub(crate) struct World {
    streams: BTreeMap<String, Stream>,
}

struct Stream {
    config: StreamConfig,
    consumers: BTreeMap<String, ConsumerConfig>,
    messages: Messages,
}

impl OtherStreams for World {
    fn config(&self, name: &str) -> Option<&StreamConfig> {
        self.streams.get(name).map(|stream| &stream.config)
    }

    fn any_subjects(&self, except: Option<&str>, found: &mut dyn FnMut(&[String]) -> bool) -> bool {
        let others = self.streams.iter().filter(|(name, _)| Some(name.as_str()) != except);
        others.map(|(_, stream)| &stream.config.subjects).any(|subjects| found(subjects))
    }

    fn count(&self, except: &str) -> usize {
        self.streams.keys().filter(|name| *name != except).count()
    }

    fn reserve(&self, _: &StreamConfig, _: Option<&StreamConfig>) -> Result<(), ApiError> {
        Ok(())
    }
}

impl OtherConsumers for Stream {
    fn config(&self, name: &str) -> Option<&ConsumerConfig> {
        self.consumers.get(name)
    }

    fn any(&self, found: &mut dyn FnMut(&str, &ConsumerConfig) -> bool) -> bool {
        self.consumers.iter().any(|(name, config)| found(name, config))
    }

    fn count(&self) -> usize {
        self.consumers.values().filter(|config| !config.direct && !config.sourcing).count()
    }

    fn has_interest(&self, _: &str) -> bool {
        false
    }
}

impl World {
    /// The answer to a recorded request, scrubbed as the recorded ones are.
    pub(crate) fn answer(&mut self, line: &Value) -> Value {
        if line["reset"] == true {
            self.streams.clear();
            return Value::Null;
        }
        if let Some(subject) = line["p"].as_str() {
            return self.publish(subject, line);
        }
        let subject = format!("$JS.API.{}", line["s"].as_str().unwrap_or_default());
        let body = line["b"].as_str().unwrap_or_default().as_bytes();
        let level = line["h"].as_str().and_then(|block| block.split("Level: ").nth(1));
        let Some(request) = Request::parse(&subject, None) else { return Value::Null };
        let level = level.map(|rest| rest.trim_end_matches("\r\n"));
        let kind = request.answer_type().unwrap_or_default();
        if !has_level(level) {
            return scrubbed(kind, Err::<Success, ApiError>(ErrorKind::RequiredApiLevel.into()), &request);
        }
        self.handle(&request, kind, body)
    }

    fn publish(&mut self, subject: &str, line: &Value) -> Value {
        let headers = line["h"].as_str().unwrap_or_default().as_bytes();
        let payload = line["m"].as_str().unwrap_or_default().as_bytes();
        let Some((name, stream)) = self.streams.iter_mut().next() else { return Value::Null };
        let answer = stream.messages.publish(name, &stream.config, subject, headers, payload);
        serde_json::from_str(&answer).expect("JSON")
    }

    fn handle(&mut self, request: &Request<'_>, kind: &'static str, body: &[u8]) -> Value {
        match *request {
            Request::StreamCreate { stream } => scrubbed(kind, self.create(stream, body), request),
            Request::StreamUpdate { stream } => scrubbed(kind, self.update(stream, body), request),
            Request::StreamDelete { stream } => scrubbed(kind, self.delete(stream, body), request),
            Request::StreamNames => scrubbed(kind, self.names(body), request),
            Request::StreamList => scrubbed(kind, self.list(body), request),
            Request::StreamInfo { stream } => scrubbed(kind, self.info(stream, body), request),
            Request::StreamPurge { stream } => scrubbed(kind, self.purge(stream, body), request),
            Request::MessageGet { stream } => scrubbed(kind, self.get(stream, body), request),
            Request::MessageDelete { stream } => scrubbed(kind, self.delete_message(stream, body), request),
            Request::ConsumerCreate(form) => scrubbed(kind, self.create_consumer(&form, body), request),
            Request::ConsumerNames { stream } => scrubbed(kind, self.consumer_names(stream, body), request),
            Request::ConsumerList { stream } => scrubbed(kind, self.consumer_list(stream, body), request),
            Request::ConsumerInfo { stream, consumer } => {
                scrubbed(kind, self.consumer_info(stream, consumer, body), request)
            }
            Request::ConsumerDelete { stream, consumer } => {
                scrubbed(kind, self.delete_consumer(stream, consumer, body), request)
            }
            Request::ConsumerPause { stream, consumer } => {
                scrubbed(kind, self.pause(stream, consumer, body), request)
            }
            Request::ConsumerUnpin { stream, consumer } => {
                scrubbed(kind, self.unpin(stream, consumer, body), request)
            }
            _ => Value::Null,
        }
    }

    fn stream(&self, name: &str) -> Result<&Stream, ApiError> {
        self.streams.get(name).ok_or_else(|| ErrorKind::StreamNotFound.into())
    }

    fn create(&mut self, name: &str, body: &[u8]) -> Result<Created<StreamInfo>, ApiError> {
        let limits = StreamLimits::none(!self.is_clustered(body));
        if let Creation::New(config) = stream::create(name, body, self, &limits)? {
            let messages = Messages::new(&config);
            let stream = Stream { config: *config, consumers: BTreeMap::new(), messages };
            self.streams.insert(name.to_owned(), stream);
        }
        Ok(Created { info: self.stream(name)?.info(true), did_create: true })
    }

    /// The recording of publishes is that of a cluster.
    fn is_clustered(&self, body: &[u8]) -> bool {
        let text = String::from_utf8_lossy(body);
        text.contains("\"num_replicas\":3,\"storage\":\"memory\"")
    }

    fn update(&mut self, name: &str, body: &[u8]) -> Result<StreamInfo, ApiError> {
        let none = BTreeMap::new();
        let consumers = self.streams.get(name).map_or(&none, |stream| &stream.consumers);
        let consumers = consumers.iter().map(|(name, config)| (name.as_str(), config));
        let config = stream::update(name, body, self, &StreamLimits::none(true), consumers)?;
        let stream = self.streams.get_mut(name).expect("updated");
        stream.config = config;
        Ok(stream.info(true))
    }

    fn delete(&mut self, name: &str, body: &[u8]) -> Result<Success, ApiError> {
        bodies::nothing(body)?;
        self.streams.remove(name).ok_or(ErrorKind::StreamNotFound)?;
        Ok(Success::new())
    }

    fn names(&self, body: &[u8]) -> Result<StreamNames, ApiError> {
        let request = bodies::ListRequest::of_stream_names(body)?;
        let listed = |(name, stream): (&String, &Stream)| request.lists(&stream.config).then(|| name.clone());
        let names: Vec<_> = self.streams.iter().filter_map(listed).collect();
        let page = Page::of_names(names.len(), request.offset);
        Ok(StreamNames { page, streams: names[page.range()].to_vec() })
    }

    fn list(&self, body: &[u8]) -> Result<StreamList, ApiError> {
        let request = bodies::ListRequest::of_stream_list(body)?;
        let streams = self.streams.values().filter(|stream| request.lists(&stream.config));
        let infos: Vec<_> = streams.map(|stream| stream.info(false)).collect();
        let page = Page::of_list(infos.len(), request.offset);
        Ok(StreamList { page, streams: infos[page.range()].to_vec(), missing: Vec::new() })
    }

    fn info(&self, name: &str, body: &[u8]) -> Result<StreamInfoAnswer, ApiError> {
        let request = bodies::StreamInfoRequest::parse(body)?;
        let page = StreamInfoAnswer::page_of_subjects(0, request.offset);
        Ok(StreamInfoAnswer { page, info: self.stream(name)?.info(true) })
    }

    fn purge(&mut self, name: &str, body: &[u8]) -> Result<Purged, ApiError> {
        let request = bodies::PurgeRequest::parse(body)?;
        let stream = self.streams.get_mut(name).ok_or(ErrorKind::StreamNotFound)?;
        bodies::PurgeRequest::permitted(&stream.config)?;
        stream.messages.purged(&request);
        Ok(Purged::new(0))
    }

    fn get(&self, name: &str, body: &[u8]) -> Result<Success, ApiError> {
        bodies::MessageGet::parse(body)?;
        self.stream(name)?;
        Err(ErrorKind::NoMessageFound.into())
    }

    fn delete_message(&self, name: &str, body: &[u8]) -> Result<Success, ApiError> {
        let request = bodies::MessageDelete::parse(body)?;
        let stream = self.stream(name)?;
        bodies::MessageDelete::permitted(&stream.config)?;
        let reason = stream.messages.missing(request.sequence);
        Err(ApiError::because(ErrorKind::StreamMsgDeleteFailed, reason))
    }

    fn create_consumer(&mut self, form: &CreateForm<'_>, body: &[u8]) -> Result<ConsumerInfo, ApiError> {
        let request = CreateRequest::parse(body)?.matched(form)?;
        let limits = ConsumerLimitsInForce { is_single: true, ..ConsumerLimitsInForce::default() };
        if request.config.num_replicas > 1 {
            return Err(ErrorKind::StreamReplicasNotSupported.into());
        }
        let stream = self.streams.get_mut(form.stream()).ok_or(ErrorKind::StreamNotFound)?;
        let created = consumer_config::create(request, &stream.config, stream, &limits, GENERATED)?;
        let (ConsumerCreation::New { name, config } | ConsumerCreation::Update { name, config }) = created;
        stream.consumers.insert(name.clone(), *config);
        Ok(stream.consumer(&name, true).expect("created"))
    }

    fn consumer_names(&self, name: &str, body: &[u8]) -> Result<ConsumerNames, ApiError> {
        let request = bodies::ListRequest::of_consumers(body)?;
        let names: Vec<_> = self.stream(name)?.consumers.keys().cloned().collect();
        let page = Page::of_names(names.len(), request.offset);
        Ok(ConsumerNames { page, consumers: names[page.range()].to_vec() })
    }

    fn consumer_list(&self, name: &str, body: &[u8]) -> Result<ConsumerList, ApiError> {
        let request = bodies::ListRequest::of_consumers(body)?;
        let stream = self.stream(name)?;
        let infos: Vec<_> = stream.consumers.keys().filter_map(|name| stream.consumer(name, false)).collect();
        let page = Page::of_list(infos.len(), request.offset);
        Ok(ConsumerList { page, consumers: infos[page.range()].to_vec(), missing: Vec::new() })
    }

    fn consumer_info(&self, stream: &str, name: &str, body: &[u8]) -> Result<ConsumerInfo, ApiError> {
        bodies::nothing(body)?;
        Ok(self.stream(stream)?.consumer(name, true).ok_or(ErrorKind::ConsumerNotFound)?)
    }

    fn delete_consumer(&mut self, stream: &str, name: &str, body: &[u8]) -> Result<Success, ApiError> {
        bodies::nothing(body)?;
        let stream = self.streams.get_mut(stream).ok_or(ErrorKind::StreamNotFound)?;
        stream.consumers.remove(name).ok_or(ErrorKind::ConsumerNotFound)?;
        Ok(Success::new())
    }

    fn pause(&mut self, stream: &str, name: &str, body: &[u8]) -> Result<PauseAnswer, ApiError> {
        let request = bodies::PauseRequest::parse(body)?;
        let stream = self.streams.get_mut(stream).ok_or(ErrorKind::StreamNotFound)?;
        let config = stream.consumers.get_mut(name).ok_or(ErrorKind::ConsumerNotFound)?;
        *config = config.paused(request.until);
        Ok(PauseAnswer::new(request.until, NOW))
    }

    fn unpin(&self, stream: &str, name: &str, body: &[u8]) -> Result<Unpinned, ApiError> {
        let group = bodies::unpin_group(body)?;
        let stream = self.stream(stream)?;
        let config = stream.consumers.get(name).ok_or(ErrorKind::ConsumerNotFound)?;
        if !config.priority_groups.contains(&group) {
            return Err(ErrorKind::ConsumerInvalidPriorityGroup.into());
        }
        Ok(Unpinned::default())
    }
}

impl Stream {
    fn info(&self, shows_level: bool) -> StreamInfo {
        let source = |source: &Source| SourceInfo {
            name: source.name.clone(),
            active: -1,
            external: source.external.clone(),
            filter_subject: source.filter_subject.clone(),
            subject_transforms: source.subject_transforms.clone(),
            ..SourceInfo::default()
        };
        let config = if shows_level { self.config.for_answer(VERSION) } else { self.config.clone() };
        let state = StreamState { consumer_count: self.consumers.len(), ..self.messages.state() };
        StreamInfo {
            config,
            created: Time::ZERO,
            state,
            domain: String::new(),
            cluster: None,
            // What a mirror takes shows when it has found its origin.
            mirror: self
                .config
                .mirror
                .as_ref()
                .map(source)
                .map(|mirror| SourceInfo { filter_subject: String::new(), ..mirror }),
            sources: self.config.sources.iter().flatten().map(source).collect(),
            alternates: Vec::new(),
            ts: Time::ZERO,
        }
    }

    fn consumer(&self, name: &str, shows_level: bool) -> Option<ConsumerInfo> {
        let config = self.consumers.get(name)?;
        let before = config.opt_start_seq.saturating_sub(1);
        let start = SequenceInfo { stream_seq: before, ..SequenceInfo::default() };
        let until = config.pause_until.filter(|until| until.to_nanos() > NOW);
        // A consumer has one pin, whatever its groups.
        let groups = config.priority_groups.iter().take(1);
        let group =
            |group: &String| PriorityGroupState { group: group.clone(), ..PriorityGroupState::default() };
        Some(ConsumerInfo {
            stream_name: self.config.name.clone(),
            name: name.to_owned(),
            created: Time::ZERO,
            config: if shows_level { config.for_answer(VERSION) } else { config.clone() },
            delivered: start,
            ack_floor: start,
            num_ack_pending: 0,
            num_redelivered: 0,
            num_waiting: 0,
            num_pending: 0,
            cluster: None,
            push_bound: false,
            paused: until.is_some(),
            pause_remaining: i64::from(until.is_some()),
            ts: Time::ZERO,
            priority_groups: groups.map(group).collect(),
        })
    }
}

/// The answer as the recorder would have written it. What nats-server writes beside an error is added.
fn scrubbed<T: Serialize>(kind: &'static str, result: Result<T, ApiError>, request: &Request<'_>) -> Value {
    let failed = result.is_err();
    let mut answer = serde_json::to_value(Answer::new(kind, result)).expect("JSON");
    scrub(&mut answer, "");
    if failed {
        let zeros: &[(&str, Value)] = match request {
            Request::StreamNames => &[("streams", Value::Null)],
            Request::StreamList => &[("streams", json!([]))],
            Request::ConsumerNames { .. } | Request::ConsumerList { .. } => &[("consumers", json!([]))],
            Request::StreamPurge { .. } => &[("purged", json!(0))],
            Request::ConsumerPause { .. } => {
                &[("paused", json!(false)), ("pause_until", json!("0001-01-01T00:00:00Z"))]
            }
            _ => &[],
        };
        let paged = matches!(
            request,
            Request::StreamNames
                | Request::StreamList
                | Request::StreamInfo { .. }
                | Request::ConsumerNames { .. }
                | Request::ConsumerList { .. }
        );
        let pages = ["total", "offset", "limit"].map(|key| (key, json!(0)));
        for (key, value) in zeros.iter().cloned().chain(pages.into_iter().filter(|_| paged)) {
            answer[key] = value;
        }
    }
    answer
}

fn scrub(value: &mut Value, key: &str) {
    match value {
        Value::Object(fields) => {
            fields.remove("cluster");
            fields.iter_mut().for_each(|(key, value)| scrub(value, key));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| scrub(value, "")),
        Value::String(text) if key == "type" => *text = text.replace("io.nats.jetstream.api.v1.", "~"),
        value if matches!(key, "created" | "ts" | "active") => *value = json!("T"),
        value if key == "pause_remaining" => *value = json!(1),
        _ => {}
    }
}
