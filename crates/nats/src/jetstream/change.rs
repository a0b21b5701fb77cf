//! STREAM.CREATE, STREAM.UPDATE, STREAM.DELETE and STREAM.PURGE.

use std::sync::Arc;

use tailrace_env::time::{Duration, timeout};
use tailrace_env::{random, task};
use tailrace_jetstream::api::{Created, Purged, StreamInfo, Success, bodies};
use tailrace_jetstream::consumer_config::ConsumerConfig;
use tailrace_jetstream::error::{ApiError, ErrorKind};
use tailrace_jetstream::stream::{self, Creation, StreamConfig};
use tailrace_metadata::{Command, ConfigChange, CreateTopic, Requester, TopicRef};
use tailrace_node::access::ChangeEnd;
use tailrace_node::streams::{self, PurgeTerms};
use tailrace_types::TopicId;

use super::asked::Asked;
use super::commands::{check_bindings, execute, mutate};
use super::names::topic_of;
use super::streams::Streams;
use super::{clusters, consumers, settings, state};

/// Time in which the configurations before this one are judged.
const JUDGED_WITHIN: Duration = Duration::from_secs(2);

/// Time in which a node learns of a change at the controller.
const KNOWN_WITHIN: Duration = Duration::from_secs(1);

/// Creates a stream, unless it is there with the same configuration.
pub(super) async fn create(
    asked: Asked<'_>,
    name: &str,
    body: &[u8],
) -> Result<Created<StreamInfo>, ApiError> {
    // Whether there is such a stream, and how it differs, is only for those who may create it.
    asked.rights().check_create(&topic_of(name))?;
    let mut creation = judge_creation(asked, name, body).await?;
    if let Creation::New(config) = &creation {
        clusters::check_placement(asked, config)?;
        match make(asked, config).await {
            // Somebody else has made it at the same time, perhaps the same.
            Err(error) if error.kind() == ErrorKind::StreamNameExist => {
                known_here(asked, &topic_of(name)).await;
                creation = judge_creation(asked, name, body).await?;
                if creation != Creation::Same {
                    return Err(error);
                }
            }
            made => made?,
        }
    }
    let streams = asked.streams();
    let made = streams.get(name).ok_or(ErrorKind::StreamNotFound)?;
    let info = match creation {
        Creation::New(_) => state::empty(asked, made),
        Creation::Same => state::info(asked, made).await?,
    };
    let cluster = clusters::of_change(asked, made);
    Ok(Created { info: StreamInfo { cluster, ..info }, did_create: true })
}

async fn judge_creation(asked: Asked<'_>, name: &str, body: &[u8]) -> Result<Creation, ApiError> {
    let (streams, limits) = (asked.streams(), clusters::limits(asked));
    judge(asked, name, body, move |name, body| stream::create(name, body, &*streams, &limits)).await
}

/// Waits, but not long, until this node knows a topic that the controller knows.
async fn known_here(asked: Asked<'_>, topic: &str) {
    let node = &asked.server.node;
    let mut changes = node.metadata_changes();
    let known = async { while node.image().topic(topic).is_none() && changes.changed().await.is_ok() {} };
    // What it does not know by then is reported as a stream of another configuration.
    let _ = timeout(KNOWN_WITHIN, known).await;
}

/// Judges a configuration. Each subject is compared with those of all streams, which may take long, so no
/// event loop waits for that, and only a few are judged at a time: it cannot be broken off.
async fn judge<T: Send + 'static>(
    asked: Asked<'_>,
    name: &str,
    body: &[u8],
    work: impl FnOnce(&str, &[u8]) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let place = timeout(JUDGED_WITHIN, asked.jetstream.judging.acquire()).await;
    // The semaphore is never closed.
    let _place = place.ok().and_then(Result::ok).ok_or(ErrorKind::ClusterNotAvail)?;
    let (name, body) = (name.to_owned(), body.to_owned());
    task::spawn_blocking(move || work(&name, &body)).await.unwrap_or_else(|error| {
        tracing::error!(%error, "a bug in the server: judging a configuration panicked");
        Err(ErrorKind::ClusterNotAvail.into())
    })
}

async fn make(asked: Asked<'_>, config: &StreamConfig) -> Result<(), ApiError> {
    let kind = ErrorKind::StreamCreate;
    let settings = settings::of_stream(config)?;
    let topic = topic_of(&config.name);
    let command = Command::CreateTopic(CreateTopic {
        name: topic.clone(),
        id: TopicId::from_random(random::bytes16()),
        partitions: 1,
        // The configuration was checked.
        replication_factor: i16::try_from(config.num_replicas).unwrap_or(i16::MAX),
        configs: settings.into_iter().map(|(key, value)| (key, Some(value))).collect(),
        assignment: None,
        now: asked.server.node.now(),
        by: Requester::Stream,
    });
    check_bindings(asked, &topic, &command, kind).await?;
    mutate(asked, command, kind).await.map(drop)
}

/// Changes the configuration of a stream.
pub(super) async fn update(asked: Asked<'_>, name: &str, body: &[u8]) -> Result<StreamInfo, ApiError> {
    let found = asked.stream(name);
    if let Ok(stream) = &found {
        asked.rights().check_update(stream.topic_name())?;
    }
    // A stream that the client may not know is not there.
    let others = if found.is_ok() { asked.streams() } else { Arc::default() };
    let config = judge_update(asked, name, body, &others, Vec::new()).await?;
    let stream = found?;
    let invalid = |text| Err(ApiError::because(ErrorKind::StreamInvalidConfig, text));
    if !stream.is_made_here {
        return invalid("the topic of this stream was made by a Kafka client: change it there");
    }
    if config.consumer_limits != stream.config.consumer_limits {
        // They must hold for the consumers that there are.
        judge_update(asked, name, body, &others, consumers::configs(asked, &stream).await?).await?;
    }
    if config.num_replicas != stream.config.num_replicas {
        return invalid("changing the number of replicas is not supported yet");
    }
    clusters::check_placement(asked, &config)?;
    let kind = ErrorKind::StreamUpdate;
    let topic = stream.topic_name().to_owned();
    let change = ConfigChange::Stream(settings::of_stream(&config)?);
    let command = Command::AlterTopicConfigs { topic: topic.clone(), change };
    check_bindings(asked, &topic, &command, kind).await?;
    execute(asked, command, kind).await?;
    let streams = asked.streams();
    let changed = streams.get(name).ok_or(ErrorKind::StreamNotFound)?;
    let cluster = clusters::of_change(asked, changed);
    Ok(StreamInfo { cluster, ..state::info(asked, changed).await? })
}

async fn judge_update(
    asked: Asked<'_>,
    name: &str,
    body: &[u8],
    others: &Arc<Streams>,
    consumers: Vec<(String, ConsumerConfig)>,
) -> Result<StreamConfig, ApiError> {
    let (others, limits) = (Arc::clone(others), clusters::limits(asked));
    let judged = move |name: &str, body: &[u8]| {
        let consumers = consumers.iter().map(|(name, config)| (name.as_str(), config));
        stream::update(name, body, &*others, &limits, consumers)
    };
    judge(asked, name, body, judged).await
}

/// Deletes a stream with its messages.
pub(super) async fn delete(asked: Asked<'_>, name: &str, body: &[u8]) -> Result<Success, ApiError> {
    bodies::nothing(body)?;
    let stream = asked.stream(name)?;
    asked.rights().check_delete(stream.topic_name())?;
    let kind = ErrorKind::StreamDelete;
    if !stream.is_made_here {
        let text = "the topic of this stream was made by a Kafka client: delete it there";
        return Err(ApiError::because(kind, text));
    }
    // By its id: a stream that was made again under this name is spared.
    let command = Command::DeleteTopic { topic: TopicRef::Id(stream.topic.id), by: Requester::Stream };
    mutate(asked, command, kind).await?;
    Ok(Success::new())
}

/// Removes messages from the first on. Those of some subjects only cannot be removed yet.
pub(super) async fn purge(asked: Asked<'_>, name: &str, body: &[u8]) -> Result<Purged, ApiError> {
    let request = bodies::PurgeRequest::parse(body)?;
    let stream = asked.stream(name)?;
    asked.rights().check_purge(stream.topic_name())?;
    bodies::PurgeRequest::permitted(&stream.config)?;
    let failed = |text: &str| Err(ApiError::because(ErrorKind::StreamPurgeFailed, text));
    if !stream.is_made_here {
        return failed("the topic of this stream was made by a Kafka client: delete its records there");
    }
    if !matches!(&*request.filter, "" | ">") {
        return failed("purging by subject is not supported yet");
    }
    let (topic, caller) = (state::topic_of(asked, &stream)?, asked.caller);
    let last = state::last_sequence(asked, &stream).await?;
    let upto = match request.sequence {
        0 => last,
        below if below <= last + 1 => below - 1,
        _ => return failed("purging beyond the last sequence is not supported yet"),
    };
    let terms = PurgeTerms { upto, keep: request.keep };
    let node = &asked.server.node;
    let mut change = node.open_change(caller, &format_args!("PurgeStream {}", name.escape_debug()));
    match streams::purge(node, caller, &topic, terms).await.map_err(|failure| failure.to_api_error()) {
        Ok(purged) => {
            change.add(&format_args!("{purged} messages"));
            change.end(ChangeEnd::Done);
            Ok(Purged::new(purged))
        }
        Err(error) => {
            change.end(ChangeEnd::Unknown(&error.to_string()));
            Err(error)
        }
    }
}
