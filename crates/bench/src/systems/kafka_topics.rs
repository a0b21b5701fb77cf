//! Kafka topics: creates them, finds their leaders, lists and deletes them.

use std::time::{Duration, Instant};

use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use tailrace_kafka_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use tailrace_kafka_wire::messages::metadata_request::MetadataRequestTopic;
use tailrace_kafka_wire::messages::{
    CreateTopicsRequest, DeleteTopicsRequest, ListOffsetsRequest, MetadataRequest, MetadataResponse,
};

use super::kafka_wire::{Broker, reason};
use super::settings::Settings;
use super::wire::SETUP_TIMEOUT;
use crate::error::RequesterError;

/// The timeout for requests about topics.
const TIMEOUT_MS: i32 = SETUP_TIMEOUT.as_millis() as i32;

/// How often to check whether a new topic has a leader.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The timestamp that stands for the offset after the last record.
const LATEST: i64 = -1;

/// A topic to create, with one partition.
#[derive(Clone, Debug)]
pub(super) struct Topic {
    pub(super) name: String,
    configs: Vec<(String, String)>,
    replication: i16,
}

impl Topic {
    /// Reads the settings `topic.KEY` and `replication`.
    pub(super) fn take(name: String, settings: &mut Settings) -> Result<Self, RequesterError> {
        let replication = match settings.take("replication") {
            None => 1,
            Some(text) => text.parse().ok().filter(|count| *count == -1 || *count > 0).ok_or_else(|| {
                let expected = "expected a number of replicas, or -1";
                RequesterError::Unsupported(format!("replication={text} is unknown: {expected}"))
            })?,
        };
        Ok(Self { name, configs: settings.take_prefixed("topic."), replication })
    }

    pub(super) fn create(&self, broker: &mut Broker) -> Result<(), RequesterError> {
        let configs = self.configs.iter().map(|(name, value)| CreatableTopicConfig {
            name: name.clone(),
            value: Some(value.clone()),
            ..CreatableTopicConfig::default()
        });
        let topic = CreatableTopic {
            name: self.name.clone(),
            num_partitions: 1,
            replication_factor: self.replication,
            configs: configs.collect(),
            ..CreatableTopic::default()
        };
        let request = CreateTopicsRequest {
            topics: vec![topic],
            timeout_ms: TIMEOUT_MS,
            ..CreateTopicsRequest::default()
        };
        let answer = broker.ask(&request, "creating a topic")?;
        let Some(topic) = answer.topics.first() else { return Err(broker.wire.protocol("a topic", b"")) };
        broker.check(topic.error_code, topic.error_message.as_deref(), &format!("topic {}", self.name))
    }
}

/// Deletes topics. Topics that do not exist count as deleted.
pub(super) fn delete(broker: &mut Broker, names: &[String]) -> Result<(), RequesterError> {
    let request = DeleteTopicsRequest {
        topic_names: names.to_vec(),
        timeout_ms: TIMEOUT_MS,
        ..DeleteTopicsRequest::default()
    };
    let answer = broker.ask(&request, "deleting topics")?;
    for topic in &answer.responses {
        if topic.error_code != ErrorCode::UnknownTopicOrPartition.code() {
            let name = topic.name.as_deref().unwrap_or_default();
            broker.check(topic.error_code, topic.error_message.as_deref(), &format!("topic {name}"))?;
        }
    }
    Ok(())
}

/// Lists the names of all topics that the user may see.
pub(super) fn list(broker: &mut Broker) -> Result<Vec<String>, RequesterError> {
    let request = MetadataRequest { topics: None, ..MetadataRequest::default() };
    let answer = broker.ask(&request, "listing topics")?;
    Ok(answer.topics.into_iter().filter_map(|topic| topic.name).collect())
}

/// Returns `HOST:PORT` of the leader of the topic's partition, as soon as there is one.
pub(super) fn leader(broker: &mut Broker, topic: &str) -> Result<String, RequesterError> {
    let named = MetadataRequestTopic { name: Some(topic.to_owned()), ..MetadataRequestTopic::default() };
    let request = MetadataRequest {
        topics: Some(vec![named]),
        allow_auto_topic_creation: false,
        ..MetadataRequest::default()
    };
    until_settled(broker, topic, |broker| {
        let answer = broker.ask(&request, "reporting a topic's leader")?;
        Ok(led_by(&answer))
    })
}

/// Retries while a topic is in a transient state.
fn until_settled<T>(
    broker: &mut Broker,
    topic: &str,
    mut ask: impl FnMut(&mut Broker) -> Result<Result<T, i16>, RequesterError>,
) -> Result<T, RequesterError> {
    let deadline = Instant::now() + SETUP_TIMEOUT;
    loop {
        match ask(broker)? {
            Ok(found) => return Ok(found),
            Err(code) if !is_passing(code) || Instant::now() >= deadline => {
                let (address, reason) = (broker.wire.address(), reason(code, None));
                return Err(RequesterError::Unsupported(format!(
                    "{address} says of topic {topic}: {reason}"
                )));
            }
            Err(_) => std::thread::sleep(POLL_INTERVAL),
        }
    }
}

/// Reports whether a new topic may be in this state for a moment.
fn is_passing(code: i16) -> bool {
    ErrorCode::from_code(code).is_some_and(ErrorCode::is_retriable)
}

fn led_by(answer: &MetadataResponse) -> Result<String, i16> {
    let unknown = ErrorCode::LeaderNotAvailable.code();
    let topic = answer.topics.first().ok_or(unknown)?;
    let partition = topic.partitions.first();
    let code = if topic.error_code == 0 {
        partition.map_or(unknown, |found| found.error_code)
    } else {
        topic.error_code
    };
    if code != 0 {
        return Err(code);
    }
    let leader = partition.map_or(-1, |partition| partition.leader_id);
    let broker = answer.brokers.iter().find(|broker| broker.node_id == leader).ok_or(unknown)?;
    let host = if broker.host.contains(':') { format!("[{}]", broker.host) } else { broker.host.clone() };
    Ok(format!("{host}:{}", broker.port))
}

/// The offset after the last record of the topic's partition. This broker is the leader, but Kafka may
/// announce that before the broker itself knows.
pub(super) fn end_offset(broker: &mut Broker, topic: &str) -> Result<i64, RequesterError> {
    let partition = ListOffsetsPartition { timestamp: LATEST, ..ListOffsetsPartition::default() };
    let named = ListOffsetsTopic {
        name: topic.to_owned(),
        partitions: vec![partition],
        ..ListOffsetsTopic::default()
    };
    let request = ListOffsetsRequest { replica_id: -1, topics: vec![named], ..ListOffsetsRequest::default() };
    until_settled(broker, topic, |broker| {
        let answer = broker.ask(&request, "telling the end of a topic")?;
        let found = answer.topics.first().and_then(|topic| topic.partitions.first());
        let Some(found) = found else { return Err(broker.wire.protocol("an offset", b"")) };
        Ok(if found.error_code == 0 { Ok(found.offset) } else { Err(found.error_code) })
    })
}

#[cfg(test)]
mod tests {
    use tailrace_kafka_wire::messages::metadata_response::{
        MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
    };

    use super::*;

    fn answer(leader_id: i32, topic_code: i16, partition_code: i16) -> MetadataResponse {
        let broker = |node_id, host: &str| MetadataResponseBroker {
            node_id,
            host: host.to_owned(),
            port: 9092,
            ..MetadataResponseBroker::default()
        };
        let partition = MetadataResponsePartition {
            leader_id,
            error_code: partition_code,
            ..MetadataResponsePartition::default()
        };
        let topic = MetadataResponseTopic {
            error_code: topic_code,
            partitions: vec![partition],
            ..MetadataResponseTopic::default()
        };
        MetadataResponse {
            brokers: vec![broker(1, "a"), broker(2, "::1")],
            topics: vec![topic],
            ..MetadataResponse::default()
        }
    }

    #[test]
    fn who_leads() {
        assert_eq!(led_by(&answer(1, 0, 0)), Ok("a:9092".to_owned()));
        assert_eq!(led_by(&answer(2, 0, 0)), Ok("[::1]:9092".to_owned()));
        assert_eq!(led_by(&answer(3, 0, 0)), Err(5));
        assert_eq!(led_by(&answer(1, 3, 0)), Err(3));
        assert_eq!(led_by(&answer(1, 0, 5)), Err(5));
        assert!(is_passing(3) && is_passing(5) && !is_passing(29));
    }
}
