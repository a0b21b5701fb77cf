//! STREAM.CREATE, STREAM.UPDATE and STREAM.DELETE.

use std::iter;
use std::sync::Arc;

use tailrace_env::{random, task};
use tailrace_jetstream::api::{Created, StreamInfo, Success, bodies};
use tailrace_jetstream::error::{ApiError, ErrorKind};
use tailrace_jetstream::stream::{self, Creation, StreamConfig};
use tailrace_metadata::{Command, ConfigChange, CreateTopic, Requester, TopicRef};
use tailrace_types::TopicId;

use super::asked::Asked;
use super::commands::{check_bindings, execute, mutate};
use super::names::topic_of;
use super::{clusters, settings, state};

/// Creates a stream, unless it is there with the same configuration.
pub(super) async fn create(
    asked: Asked<'_>,
    name: &str,
    body: &[u8],
) -> Result<Created<StreamInfo>, ApiError> {
    // Whether there is such a stream, and how it differs, is only for those who may create it.
    asked.rights().check_create(&topic_of(name))?;
    let (streams, limits) = (asked.streams(), clusters::limits(asked));
    let judged = judge(name, body, move |name, body| stream::create(name, body, &*streams, &limits));
    let creation = judged.await?;
    if let Creation::New(config) = &creation {
        clusters::check_placement(asked, config)?;
        make(asked, config).await?;
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

/// Judges a configuration. Each subject is compared with those of all streams, which may take long, and an
/// event loop must not wait for that.
async fn judge<T: Send + 'static>(
    name: &str,
    body: &[u8],
    work: impl FnOnce(&str, &[u8]) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
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
    let limits = clusters::limits(asked);
    let judged = move |name: &str, body: &[u8]| stream::update(name, body, &*others, &limits, iter::empty());
    let config = judge(name, body, judged).await?;
    let stream = found?;
    let invalid = |text| Err(ApiError::because(ErrorKind::StreamInvalidConfig, text));
    if !stream.is_made_here {
        return invalid("the topic of this stream was made by a Kafka client: change it there");
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
