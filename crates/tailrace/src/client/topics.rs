//! Topics: where their partitions are, and what their configuration says.

use std::collections::BTreeMap;
use std::time::Duration;

use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::DescribeConfigsRequest;
use tailrace_kafka_wire::messages::describe_configs_request::DescribeConfigsResource;
use tailrace_kafka_wire::messages::describe_configs_response::DescribeConfigsResourceResult;
use tailrace_kafka_wire::messages::metadata_response::MetadataResponseTopic;

use super::{Backoff, ClientError, Cluster, check, retrying};

/// The number of "topic" among the kinds of things that have a configuration.
pub(crate) const RESOURCE_TOPIC: i8 = 2;
/// The number of "node" among the same.
pub(crate) const RESOURCE_BROKER: i8 = 4;
/// The number of "set for this topic" among the sources of a value.
pub(crate) const SOURCE_TOPIC: i8 = 1;
/// How long a topic that is not there is looked for again: one that was just created shows up late on a real cluster.
const APPEAR_WAIT: Duration = Duration::from_millis(500);

/// A topic as metadata describes it.
#[derive(Clone, Debug)]
pub(crate) struct Topic {
    pub(crate) name: String,
    /// All zero on servers that know no topic ids.
    pub(crate) id: [u8; 16],
    pub(crate) internal: bool,
    /// In the order of their numbers, which begin at 0.
    pub(crate) partitions: Vec<Partition>,
}

/// A partition of a topic.
#[derive(Clone, Debug)]
pub(crate) struct Partition {
    pub(crate) index: i32,
    /// -1 if there is none.
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

    /// The partitions that `wanted` names, or all.
    pub(crate) fn choose(&self, wanted: &[i32]) -> Result<Vec<i32>, ClientError> {
        let unknown = wanted.iter().find(|index| !self.partitions.iter().any(|p| p.index == **index));
        if let Some(&partition) = unknown {
            return Err(self.no_partition(partition));
        }
        let all = self.partitions.iter().map(|p| p.index);
        Ok(all.filter(|index| wanted.is_empty() || wanted.contains(index)).collect())
    }

    /// That it has no such partition.
    pub(crate) fn no_partition(&self, partition: i32) -> ClientError {
        let (topic, count) = (self.name.clone(), self.partitions.len());
        ClientError::NoPartition { topic, partition, count }
    }

    /// The node that leads a partition now.
    pub(crate) fn leader(&self, partition: i32) -> Option<i32> {
        let found = self.partitions.iter().find(|p| p.index == partition)?;
        (found.leader >= 0).then_some(found.leader)
    }
}

/// Every topic of the cluster, sorted by name.
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

/// The topics of these names, in their order.
pub(crate) async fn find_topics(cluster: &mut Cluster, names: &[String]) -> Result<Vec<Topic>, ClientError> {
    let mut topics = Vec::with_capacity(names.len());
    for name in names {
        topics.push(find_topic(cluster, name).await?);
    }
    Ok(topics)
}

/// A topic that shall be there.
pub(crate) async fn find_topic(cluster: &mut Cluster, name: &str) -> Result<Topic, ClientError> {
    look_for(cluster, name, false, APPEAR_WAIT).await
}

/// A topic that the server may create on demand.
pub(crate) async fn wait_for_topic(cluster: &mut Cluster, name: &str) -> Result<Topic, ClientError> {
    look_for(cluster, name, true, Duration::from_secs(3)).await
}

/// Tries again while the topic is missing for `appear`, and while it has no leader for as long as the timeout allows.
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

/// The configurations of topics, by topic name.
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
