//! Topics: where their partitions are, and their configuration.

use std::collections::BTreeMap;
use std::time::Duration;

use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::DescribeConfigsRequest;
use tailrace_kafka_wire::messages::describe_configs_request::DescribeConfigsResource;
use tailrace_kafka_wire::messages::describe_configs_response::DescribeConfigsResourceResult;
use tailrace_kafka_wire::messages::metadata_response::MetadataResponseTopic;

use super::{Backoff, ClientError, Cluster, check, retrying};

/// The resource type of topics in requests about configurations.
pub(crate) const RESOURCE_TOPIC: i8 = 2;
/// The resource type of nodes.
pub(crate) const RESOURCE_BROKER: i8 = 4;
/// The source of a value that was set for the topic itself.
pub(crate) const SOURCE_TOPIC: i8 = 1;
/// How long to retry for a topic that does not exist: on a real cluster, a topic that was just created
/// appears late.
const APPEAR_WAIT: Duration = Duration::from_millis(500);

/// A topic, from metadata.
#[derive(Clone, Debug)]
pub(crate) struct Topic {
    pub(crate) name: String,
    /// All zero if the server does not support topic ids.
    pub(crate) id: [u8; 16],
    pub(crate) internal: bool,
    /// Sorted by number, starting at 0.
    pub(crate) partitions: Vec<Partition>,
}

/// A partition of a topic.
#[derive(Clone, Debug)]
pub(crate) struct Partition {
    pub(crate) index: i32,
    /// -1 if the partition has no leader.
    pub(crate) leader: i32,
    pub(crate) leader_epoch: i32,
    pub(crate) replicas: Vec<i32>,
    pub(crate) in_sync: Vec<i32>,
}

impl Topic {
    fn from_answer(answer: MetadataResponseTopic) -> Self {
        let mut partitions: Vec<Partition> = answer
            .partitions
            .into_iter()
            .map(|partition| Partition {
                index: partition.partition_index,
                leader: partition.leader_id,
                leader_epoch: partition.leader_epoch,
                replicas: partition.replica_nodes,
                in_sync: partition.isr_nodes,
            })
            .collect();
        partitions.sort_unstable_by_key(|partition| partition.index);
        let name = answer.name.unwrap_or_default();
        Self { name, id: answer.topic_id, internal: answer.is_internal, partitions }
    }

    /// The wanted partitions, or all.
    pub(crate) fn choose(&self, wanted: &[i32]) -> Result<Vec<i32>, ClientError> {
        let unknown = wanted.iter().find(|index| !self.partitions.iter().any(|p| p.index == **index));
        if let Some(&partition) = unknown {
            return Err(self.no_partition(partition));
        }
        let all = self.partitions.iter().map(|p| p.index);
        Ok(all.filter(|index| wanted.is_empty() || wanted.contains(index)).collect())
    }

    /// The error for a partition that the topic does not have.
    pub(crate) fn no_partition(&self, partition: i32) -> ClientError {
        let (topic, count) = (self.name.clone(), self.partitions.len());
        ClientError::NoPartition { topic, partition, count }
    }

    /// The current leader of a partition.
    pub(crate) fn leader(&self, partition: i32) -> Option<i32> {
        let found = self.partitions.iter().find(|p| p.index == partition)?;
        (found.leader >= 0).then_some(found.leader)
    }
}

/// Lists every topic of the cluster, sorted by name.
pub(crate) async fn all_topics(cluster: &mut Cluster) -> Result<Vec<Topic>, ClientError> {
    let answer = retrying(cluster, async |cluster| {
        let answer = cluster.metadata(None, false).await?;
        check(answer.error_code, None, || "cannot list topics".to_owned())?;
        Ok(answer)
    })
    .await?;
    let mut topics: Vec<Topic> = answer.topics.into_iter().map(Topic::from_answer).collect();
    topics.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(topics)
}

/// Finds the topics of these names, in the same order.
pub(crate) async fn find_topics(cluster: &mut Cluster, names: &[String]) -> Result<Vec<Topic>, ClientError> {
    let mut topics = Vec::with_capacity(names.len());
    for name in names {
        topics.push(find_topic(cluster, name).await?);
    }
    Ok(topics)
}

/// Finds a topic that must exist.
pub(crate) async fn find_topic(cluster: &mut Cluster, name: &str) -> Result<Topic, ClientError> {
    look_for(cluster, name, false, APPEAR_WAIT).await
}

/// Finds a topic that the server may create on demand.
pub(crate) async fn wait_for_topic(cluster: &mut Cluster, name: &str) -> Result<Topic, ClientError> {
    look_for(cluster, name, true, Duration::from_secs(3)).await
}

/// Retries for `appear` while the topic does not exist, and until the timeout while it has no leader.
async fn look_for(
    cluster: &mut Cluster,
    name: &str,
    create: bool,
    appear: Duration,
) -> Result<Topic, ClientError> {
    let (mut missing, mut failing) = (Backoff::new(appear), Backoff::new(cluster.timeout()));
    loop {
        let error = match ask(cluster, name, create).await {
            Ok(topic) => return Ok(topic),
            Err(error) if !error.is_retriable() => return Err(error),
            Err(error) => error,
        };
        let unknown = error.code() == Some(ErrorCode::UnknownTopicOrPartition);
        match if unknown { missing.next() } else { failing.next() } {
            Some(wait) => tokio::time::sleep(wait).await,
            None if unknown => return Err(ClientError::NoTopic(name.to_owned())),
            None => return Err(error),
        }
    }
}

async fn ask(cluster: &mut Cluster, name: &str, create: bool) -> Result<Topic, ClientError> {
    let answer = cluster.metadata(Some(&[name.to_owned()]), create).await?;
    let found = answer.topics.into_iter().find(|topic| topic.name.as_deref() == Some(name));
    let found = found.ok_or_else(|| ClientError::NoTopic(name.to_owned()))?;
    check(found.error_code, None, || format!("cannot use topic '{name}'"))?;
    Ok(Topic::from_answer(found))
}

/// Fetches the configurations of topics, by topic name.
pub(crate) async fn topic_configs(
    cluster: &mut Cluster,
    names: &[String],
    keys: Option<&[&str]>,
) -> Result<BTreeMap<String, Vec<DescribeConfigsResourceResult>>, ClientError> {
    let resource = |name: &String| DescribeConfigsResource {
        resource_type: RESOURCE_TOPIC,
        resource_name: name.clone(),
        configuration_keys: keys.map(|keys| keys.iter().map(|&key| key.to_owned()).collect()),
        ..Default::default()
    };
    let request =
        DescribeConfigsRequest { resources: names.iter().map(resource).collect(), ..Default::default() };
    retrying(cluster, async |cluster| {
        let answer = cluster.any().await?.call(&request).await?;
        let mut configs = BTreeMap::new();
        for result in answer.results {
            check(result.error_code, result.error_message.as_ref(), || {
                format!("cannot read the configuration of topic '{}'", result.resource_name)
            })?;
            configs.insert(result.resource_name, result.configs);
        }
        Ok(configs)
    })
    .await
}
