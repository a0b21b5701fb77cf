//! Builds the request that a line of a script asks for.

use bytes::Bytes;
use tailrace_kafka_wire::messages::*;
use tailrace_kafka_wire::{ApiKey, Records, Request, request_frame};
use tailrace_records::{BatchBuilder, BatchOptions};
use tailrace_types::{ProducerEpoch, ProducerId, TimestampMs};

use super::show::Names;
use super::words::{Place, Words};
use crate::common::rig::now;

/// Returns the whole frame, and the API key needed to decode its answer.
pub fn ask(words: &Words, correlation: i32, names: &Names) -> (ApiKey, Bytes) {
    let asking = Asking { words, names, correlation };
    match words.verb.as_str() {
        "metadata" => asking.metadata(),
        "create" => asking.create(),
        "delete" => asking.delete(),
        "partitions" => asking.partitions(),
        "describe-partitions" => asking.describe_partitions(),
        "configs" => asking.configs(),
        "alter" => asking.alter(),
        "produce" => asking.produce(),
        "fetch" => asking.fetch(),
        "list" => asking.list(),
        "epoch-end" => asking.epoch_end(),
        "delete-records" => asking.delete_records(),
        "init-producer" => asking.init_producer(),
        "add-partitions" => asking.add_partitions(),
        "add-offsets" => asking.add_offsets(),
        "commit-in" => asking.commit_in(),
        "end" => asking.end(),
        "find" => asking.find(),
        "join" => asking.join(),
        "sync" => asking.sync(),
        "heartbeat" => asking.heartbeat(),
        "leave" => asking.leave(),
        "commit" => asking.commit(),
        "committed" => asking.committed(),
        "groups" => asking.groups(),
        "describe-groups" => asking.describe_groups(),
        "delete-groups" => asking.delete_groups(),
        "beat" => asking.beat(),
        "share-beat" => asking.share_beat(),
        "share-fetch" => asking.share_fetch(),
        "acknowledge" => asking.acknowledge(),
        other => panic!("unknown verb {other}"),
    }
}

struct Asking<'a> {
    words: &'a Words,
    names: &'a Names,
    correlation: i32,
}

impl Asking<'_> {
    fn frame<R: Request>(&self, request: &R) -> (ApiKey, Bytes) {
        let frame = request_frame(self.correlation, Some("conversation"), self.words.version, request);
        (R::KEY, frame.expect("the request can be encoded").into_bytes().expect("no external parts"))
    }

    fn group(&self) -> String {
        self.words.text("group").unwrap_or_default()
    }

    fn member(&self) -> String {
        self.words.text("member").map_or_else(String::new, |member| self.names.member(&member))
    }

    fn transactional_id(&self) -> String {
        self.words.text("id").unwrap_or_default()
    }

    /// Reads `e1`, or a number.
    fn epoch(&self, key: &str, otherwise: i32) -> i32 {
        self.words.text(key).map_or(otherwise, |epoch| self.names.epoch(&epoch))
    }

    /// Reads `as=p1/0`. Without it, there is no producer.
    fn producer(&self) -> (i64, i16) {
        let Some(producer) = self.words.text("as") else { return (-1, -1) };
        let (id, epoch) = producer.split_once('/').expect("as=ID/EPOCH");
        (self.names.producer(id), epoch.parse().expect("an epoch"))
    }

    // ---- topics ----

    fn metadata(&self) -> (ApiKey, Bytes) {
        let topic = |word: &String| {
            let by_id = word.starts_with("id");
            metadata_request::MetadataRequestTopic {
                topic_id: if by_id { self.names.id(word) } else { [0; 16] },
                name: (!by_id).then(|| word.clone()),
                ..Default::default()
            }
        };
        let named = self.words.plain.iter().filter(|word| *word != "auto");
        self.frame(&MetadataRequest {
            topics: Some(named.map(topic).collect()),
            allow_auto_topic_creation: self.words.has("auto"),
            ..Default::default()
        })
    }

    fn create(&self) -> (ApiKey, Bytes) {
        use create_topics_request::{CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig};
        let configs = self.words.settings().map(|(key, value)| CreatableTopicConfig {
            name: key.clone(),
            value: Some(value.clone()),
            ..Default::default()
        });
        let configs: Vec<_> = configs.collect();
        let assigned = self.words.text("assigned").map(|brokers| CreatableReplicaAssignment {
            partition_index: 0,
            broker_ids: brokers.split(',').map(|id| id.parse().expect("a node id")).collect(),
            ..Default::default()
        });
        let topic = |name: &String| CreatableTopic {
            name: name.clone(),
            num_partitions: self.words.number("partitions", -1),
            replication_factor: self.words.number("replicas", -1),
            assignments: assigned.clone().into_iter().collect(),
            configs: configs.clone(),
            ..Default::default()
        };
        let names = self.words.plain.iter().filter(|word| *word != "validate");
        self.frame(&CreateTopicsRequest {
            topics: names.chain(&self.words.texts).map(topic).collect(),
            timeout_ms: 30_000,
            validate_only: self.words.has("validate"),
            ..Default::default()
        })
    }

    fn delete(&self) -> (ApiKey, Bytes) {
        let topic = |word: &String| {
            let by_id = word.starts_with("id");
            delete_topics_request::DeleteTopicState {
                topic_id: if by_id { self.names.id(word) } else { [0; 16] },
                name: (!by_id).then(|| word.clone()),
                ..Default::default()
            }
        };
        let topics = self.words.plain.iter().map(topic).collect();
        self.frame(&DeleteTopicsRequest { topics, timeout_ms: 30_000, ..Default::default() })
    }

    /// `name count=N`.
    fn partitions(&self) -> (ApiKey, Bytes) {
        let topic = create_partitions_request::CreatePartitionsTopic {
            name: self.words.plain[0].clone(),
            count: self.words.number("count", 0),
            assignments: None,
            ..Default::default()
        };
        self.frame(&CreatePartitionsRequest {
            topics: vec![topic],
            timeout_ms: 30_000,
            validate_only: self.words.has("validate"),
            ..Default::default()
        })
    }

    fn describe_partitions(&self) -> (ApiKey, Bytes) {
        use describe_topic_partitions_request::{Cursor, TopicRequest};
        let topics = self.words.plain.iter().filter(|word| Place::of(word).is_none());
        let cursor = self.words.places().into_iter().next().map(|place| Cursor {
            topic_name: place.topic,
            partition_index: place.partition,
            ..Default::default()
        });
        self.frame(&DescribeTopicPartitionsRequest {
            topics: topics.map(|name| TopicRequest { name: name.clone(), ..Default::default() }).collect(),
            response_partition_limit: self.words.number("limit", 2_000),
            cursor,
            ..Default::default()
        })
    }

    /// Asks for the named settings of a topic.
    fn configs(&self) -> (ApiKey, Bytes) {
        let resource = describe_configs_request::DescribeConfigsResource {
            resource_type: 2,
            resource_name: self.words.plain[0].clone(),
            configuration_keys: Some(self.words.plain[1..].to_vec()),
            ..Default::default()
        };
        self.frame(&DescribeConfigsRequest { resources: vec![resource], ..Default::default() })
    }

    /// `key=value` sets a setting and `key=` removes it: of a topic, or of a group after the word `group`.
    fn alter(&self) -> (ApiKey, Bytes) {
        use incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
        let configs = self.words.settings().map(|(key, value)| AlterableConfig {
            name: key.clone(),
            config_operation: i8::from(value.is_empty()),
            value: (!value.is_empty()).then(|| value.clone()),
            ..Default::default()
        });
        let (resource_type, name) = match self.words.has("group") {
            true => (32, 1),
            false => (2, 0),
        };
        let resource = AlterConfigsResource {
            resource_type,
            resource_name: self.words.plain[name].clone(),
            configs: configs.collect(),
            ..Default::default()
        };
        self.frame(&IncrementalAlterConfigsRequest {
            resources: vec![resource],
            validate_only: self.words.has("validate"),
            ..Default::default()
        })
    }

    // ---- records ----

    /// Builds a batch with one record for each text of the line. Empty if there are no texts.
    fn batch(&self) -> Bytes {
        if self.words.texts.is_empty() {
            return Bytes::new();
        }
        let (id, epoch) = self.producer();
        let mut builder = BatchBuilder::new(BatchOptions {
            producer_id: ProducerId(id),
            producer_epoch: ProducerEpoch(epoch),
            base_sequence: self.words.number("seq", -1),
            transactional: self.words.has("txn"),
            ..BatchOptions::default()
        });
        let ago: Option<String> = self.words.text("ago");
        let first = match ago {
            Some(ms) => now().0 - ms.parse::<i64>().expect("milliseconds"),
            None => self.words.number("ts", 1000_i64),
        };
        for (number, text) in (0..).zip(&self.words.texts) {
            let key = self.words.text("key");
            let key = key.as_ref().map(String::as_bytes);
            builder
                .push(TimestampMs(first + number), key, Some(text.as_bytes()), &[])
                .expect("the record fits into the batch");
        }
        let batch = builder.build();
        match self.words.has("damaged") {
            false => batch,
            true => {
                let mut bytes = batch.to_vec();
                *bytes.last_mut().expect("the batch is not empty") ^= 1;
                bytes.into()
            }
        }
    }

    fn produce(&self) -> (ApiKey, Bytes) {
        use produce_request::{PartitionProduceData, TopicProduceData};
        let data = |place: &Place| PartitionProduceData {
            index: place.partition,
            records: Records::Bytes(self.batch()),
            ..Default::default()
        };
        let topics = self.words.by_topic().into_iter().map(|(name, places)| TopicProduceData {
            name,
            partition_data: places.iter().map(data).collect(),
            ..Default::default()
        });
        self.frame(&ProduceRequest {
            transactional_id: self.words.text("id"),
            acks: self.words.number("acks", -1),
            timeout_ms: 30_000,
            topic_data: topics.collect(),
            ..Default::default()
        })
    }

    fn fetch(&self) -> (ApiKey, Bytes) {
        use fetch_request::{FetchPartition, FetchTopic};
        let partition = |place: &Place| FetchPartition {
            partition: place.partition,
            current_leader_epoch: self.words.number("current", -1),
            fetch_offset: place.offset(),
            last_fetched_epoch: self.words.number("fetched", -1),
            log_start_offset: -1,
            partition_max_bytes: self.words.number("partition-max", 1 << 20),
            ..Default::default()
        };
        let topics = self.words.by_topic().into_iter().map(|(name, places)| FetchTopic {
            topic_id: self.names.id(&name),
            topic: name,
            partitions: places.iter().map(partition).collect(),
            ..Default::default()
        });
        self.frame(&FetchRequest {
            replica_id: -1,
            max_wait_ms: self.words.number("wait", 0),
            min_bytes: self.words.number("min", 0),
            max_bytes: self.words.number("max", 1 << 20),
            isolation_level: i8::from(self.words.has("committed")),
            session_id: 0,
            session_epoch: -1,
            topics: topics.collect(),
            ..Default::default()
        })
    }

    /// `t-0@earliest`, `latest`, `max`, `local`, `tiered`, or a timestamp.
    fn list(&self) -> (ApiKey, Bytes) {
        use list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
        let timestamp = |at: &str| match at {
            "latest" => -1,
            "earliest" => -2,
            "max" => -3,
            "local" => -4,
            "tiered" => -5,
            time => time.parse().expect("a timestamp"),
        };
        let partition = |place: &Place| ListOffsetsPartition {
            partition_index: place.partition,
            current_leader_epoch: self.words.number("current", -1),
            timestamp: timestamp(place.at.as_deref().unwrap_or("latest")),
            ..Default::default()
        };
        let topics = self.words.by_topic().into_iter().map(|(name, places)| ListOffsetsTopic {
            name,
            partitions: places.iter().map(partition).collect(),
            ..Default::default()
        });
        self.frame(&ListOffsetsRequest {
            replica_id: -1,
            isolation_level: i8::from(self.words.has("committed")),
            topics: topics.collect(),
            ..Default::default()
        })
    }

    fn epoch_end(&self) -> (ApiKey, Bytes) {
        use offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
        let partition = |place: &Place| OffsetForLeaderPartition {
            partition: place.partition,
            current_leader_epoch: self.words.number("current", -1),
            leader_epoch: self.words.number("epoch", 0),
            ..Default::default()
        };
        let topics = self.words.by_topic().into_iter().map(|(topic, places)| OffsetForLeaderTopic {
            topic,
            partitions: places.iter().map(partition).collect(),
            ..Default::default()
        });
        self.frame(&OffsetForLeaderEpochRequest {
            replica_id: -1,
            topics: topics.collect(),
            ..Default::default()
        })
    }

    fn delete_records(&self) -> (ApiKey, Bytes) {
        use delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
        let partition = |place: &Place| DeleteRecordsPartition {
            partition_index: place.partition,
            offset: place.offset(),
            ..Default::default()
        };
        let topics = self.words.by_topic().into_iter().map(|(name, places)| DeleteRecordsTopic {
            name,
            partitions: places.iter().map(partition).collect(),
            ..Default::default()
        });
        self.frame(&DeleteRecordsRequest {
            topics: topics.collect(),
            timeout_ms: 30_000,
            ..Default::default()
        })
    }

    // ---- transactions ----

    fn init_producer(&self) -> (ApiKey, Bytes) {
        let (producer_id, producer_epoch) = self.producer();
        self.frame(&InitProducerIdRequest {
            transactional_id: self.words.text("id"),
            transaction_timeout_ms: self.words.number("timeout", 60_000),
            producer_id,
            producer_epoch,
            ..Default::default()
        })
    }

    /// For the versions that clients use: up to 3.
    fn add_partitions(&self) -> (ApiKey, Bytes) {
        use add_partitions_to_txn_request::AddPartitionsToTxnTopic;
        let (producer_id, producer_epoch) = self.producer();
        let topics = self.words.by_topic().into_iter().map(|(name, places)| AddPartitionsToTxnTopic {
            name,
            partitions: places.iter().map(|place| place.partition).collect(),
            ..Default::default()
        });
        self.frame(&AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: self.transactional_id(),
            v3_and_below_producer_id: producer_id,
            v3_and_below_producer_epoch: producer_epoch,
            v3_and_below_topics: topics.collect(),
            ..Default::default()
        })
    }

    fn add_offsets(&self) -> (ApiKey, Bytes) {
        let (producer_id, producer_epoch) = self.producer();
        self.frame(&AddOffsetsToTxnRequest {
            transactional_id: self.transactional_id(),
            producer_id,
            producer_epoch,
            group_id: self.group(),
            ..Default::default()
        })
    }

    fn commit_in(&self) -> (ApiKey, Bytes) {
        use txn_offset_commit_request::{TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic};
        let (producer_id, producer_epoch) = self.producer();
        let partition = |place: &Place| TxnOffsetCommitRequestPartition {
            partition_index: place.partition,
            committed_offset: place.offset(),
            ..Default::default()
        };
        let topics = self.words.by_topic().into_iter().map(|(name, places)| TxnOffsetCommitRequestTopic {
            name,
            partitions: places.iter().map(partition).collect(),
            ..Default::default()
        });
        self.frame(&TxnOffsetCommitRequest {
            transactional_id: self.transactional_id(),
            group_id: self.group(),
            producer_id,
            producer_epoch,
            topics: topics.collect(),
            ..Default::default()
        })
    }

    fn end(&self) -> (ApiKey, Bytes) {
        let (producer_id, producer_epoch) = self.producer();
        self.frame(&EndTxnRequest {
            transactional_id: self.transactional_id(),
            producer_id,
            producer_epoch,
            committed: self.words.has("commit"),
            ..Default::default()
        })
    }

    // ---- groups ----

    /// Finds the coordinator of a group, of a transactional id, or of a share group's partition.
    fn find(&self) -> (ApiKey, Bytes) {
        let (key_type, key) = match (self.words.text("id"), self.words.text("share")) {
            (Some(id), _) => (1, id),
            (None, Some(key)) => (2, key),
            (None, None) => (0, self.group()),
        };
        self.frame(&FindCoordinatorRequest { key_type, coordinator_keys: vec![key], ..Default::default() })
    }

    fn join(&self) -> (ApiKey, Bytes) {
        let protocols = self.words.text("protocols").unwrap_or_else(|| "range".to_owned());
        let protocol = |name: &str| join_group_request::JoinGroupRequestProtocol {
            name: name.to_owned(),
            metadata: subscription(&self.words.texts),
            ..Default::default()
        };
        self.frame(&JoinGroupRequest {
            group_id: self.group(),
            session_timeout_ms: self.words.number("session", 30_000),
            rebalance_timeout_ms: self.words.number("rebalance", 30_000),
            member_id: self.member(),
            group_instance_id: self.words.text("instance"),
            protocol_type: self.words.text("type").unwrap_or_else(|| "consumer".to_owned()),
            protocols: protocols.split(',').filter(|name| !name.is_empty()).map(protocol).collect(),
            ..Default::default()
        })
    }

    /// Words such as `m1:first` give a member its assignment.
    fn sync(&self) -> (ApiKey, Bytes) {
        let assignments = self.words.plain.iter().filter_map(|word| {
            let (member, assignment) = word.split_once(':')?;
            Some(sync_group_request::SyncGroupRequestAssignment {
                member_id: self.names.member(member),
                assignment: assignment.to_owned().into(),
                ..Default::default()
            })
        });
        self.frame(&SyncGroupRequest {
            group_id: self.group(),
            generation_id: self.words.number("generation", 1),
            member_id: self.member(),
            group_instance_id: self.words.text("instance"),
            protocol_type: self.words.text("type"),
            protocol_name: self.words.text("protocol"),
            assignments: assignments.collect(),
            ..Default::default()
        })
    }

    fn heartbeat(&self) -> (ApiKey, Bytes) {
        self.frame(&HeartbeatRequest {
            group_id: self.group(),
            generation_id: self.words.number("generation", 1),
            member_id: self.member(),
            group_instance_id: self.words.text("instance"),
            ..Default::default()
        })
    }

    fn leave(&self) -> (ApiKey, Bytes) {
        let identity = leave_group_request::MemberIdentity {
            member_id: self.member(),
            group_instance_id: self.words.text("instance"),
            ..Default::default()
        };
        self.frame(&LeaveGroupRequest {
            group_id: self.group(),
            members: vec![identity],
            ..Default::default()
        })
    }

    fn commit(&self) -> (ApiKey, Bytes) {
        use offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
        let partition = |place: &Place| OffsetCommitRequestPartition {
            partition_index: place.partition,
            committed_offset: place.offset(),
            committed_leader_epoch: self.words.number("epoch", -1),
            committed_metadata: self.words.texts.first().cloned(),
            ..Default::default()
        };
        let topics = self.words.by_topic().into_iter().map(|(name, places)| OffsetCommitRequestTopic {
            name,
            partitions: places.iter().map(partition).collect(),
            ..Default::default()
        });
        self.frame(&OffsetCommitRequest {
            group_id: self.group(),
            generation_id_or_member_epoch: self.epoch("generation", -1),
            member_id: self.member(),
            group_instance_id: self.words.text("instance"),
            topics: topics.collect(),
            ..Default::default()
        })
    }

    /// For versions from 8 on. Without partitions, asks for all of them.
    fn committed(&self) -> (ApiKey, Bytes) {
        use offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
        let topics = self.words.by_topic().into_iter().map(|(name, places)| OffsetFetchRequestTopics {
            name,
            partition_indexes: places.iter().map(|place| place.partition).collect(),
            ..Default::default()
        });
        let topics: Vec<_> = topics.collect();
        let group = OffsetFetchRequestGroup {
            group_id: self.group(),
            member_id: self.words.text("member").map(|member| self.names.member(&member)),
            member_epoch: self.epoch("generation", -1),
            topics: (!topics.is_empty()).then_some(topics),
            ..Default::default()
        };
        self.frame(&OffsetFetchRequest {
            groups: vec![group],
            require_stable: self.words.has("stable"),
            ..Default::default()
        })
    }

    /// `states=Stable,Empty types=classic`.
    fn groups(&self) -> (ApiKey, Bytes) {
        let list = |key: &str| {
            self.words.text(key).map_or_else(Vec::new, |words| words.split(',').map(str::to_owned).collect())
        };
        self.frame(&ListGroupsRequest {
            states_filter: list("states"),
            types_filter: list("types"),
            ..Default::default()
        })
    }

    fn describe_groups(&self) -> (ApiKey, Bytes) {
        self.frame(&DescribeGroupsRequest { groups: self.words.plain.clone(), ..Default::default() })
    }

    fn delete_groups(&self) -> (ApiKey, Bytes) {
        self.frame(&DeleteGroupsRequest { groups_names: self.words.plain.clone(), ..Default::default() })
    }

    /// A heartbeat of the consumer protocol: `topics=t,u owned=id1-0`.
    fn beat(&self) -> (ApiKey, Bytes) {
        use consumer_group_heartbeat_request::TopicPartitions;
        let topics = self.words.text("topics");
        let owned = self.words.by_topic().into_iter().map(|(name, places)| TopicPartitions {
            topic_id: self.names.id(&name),
            partitions: places.iter().map(|place| place.partition).collect(),
            ..Default::default()
        });
        let owned: Vec<_> = owned.collect();
        self.frame(&ConsumerGroupHeartbeatRequest {
            group_id: self.group(),
            member_id: self.member(),
            member_epoch: self.epoch("epoch", 0),
            instance_id: self.words.text("instance"),
            rebalance_timeout_ms: self.words.number("rebalance", -1),
            subscribed_topic_names: topics.map(|topics| topics.split(',').map(str::to_owned).collect()),
            server_assignor: self.words.text("assignor"),
            topic_partitions: (!owned.is_empty() || self.words.has("nothing")).then_some(owned),
            ..Default::default()
        })
    }

    fn share_beat(&self) -> (ApiKey, Bytes) {
        let topics = self.words.text("topics");
        self.frame(&ShareGroupHeartbeatRequest {
            group_id: self.group(),
            member_id: self.member(),
            member_epoch: self.epoch("epoch", 0),
            subscribed_topic_names: topics.map(|topics| topics.split(',').map(str::to_owned).collect()),
            ..Default::default()
        })
    }

    fn share_fetch(&self) -> (ApiKey, Bytes) {
        use share_fetch_request::{FetchPartition, FetchTopic};
        let topics = self.words.by_topic().into_iter().map(|(name, places)| FetchTopic {
            topic_id: self.names.id(&name),
            partitions: places
                .iter()
                .map(|place| FetchPartition { partition_index: place.partition, ..Default::default() })
                .collect(),
            ..Default::default()
        });
        self.frame(&ShareFetchRequest {
            group_id: Some(self.group()),
            member_id: Some(self.member()),
            share_session_epoch: self.words.number("epoch", 0),
            max_wait_ms: self.words.number("wait", 500),
            min_bytes: self.words.number("min", 0),
            max_bytes: 1 << 20,
            max_records: self.words.number("records", 500),
            batch_size: 500,
            topics: topics.collect(),
            ..Default::default()
        })
    }

    /// `id1-0@0 last=2 type=1`: accept 1, release 2, reject 3.
    fn acknowledge(&self) -> (ApiKey, Bytes) {
        use share_acknowledge_request::{AcknowledgePartition, AcknowledgeTopic, AcknowledgementBatch};
        let partition = |place: &Place| AcknowledgePartition {
            partition_index: place.partition,
            acknowledgement_batches: vec![AcknowledgementBatch {
                first_offset: place.offset(),
                last_offset: self.words.number("last", place.offset()),
                acknowledge_types: vec![self.words.number("type", 1)],
                ..Default::default()
            }],
            ..Default::default()
        };
        let topics = self.words.by_topic().into_iter().map(|(name, places)| AcknowledgeTopic {
            topic_id: self.names.id(&name),
            partitions: places.iter().map(partition).collect(),
            ..Default::default()
        });
        self.frame(&ShareAcknowledgeRequest {
            group_id: Some(self.group()),
            member_id: Some(self.member()),
            share_session_epoch: self.words.number("epoch", 1),
            topics: topics.collect(),
            ..Default::default()
        })
    }
}

/// Encodes the subscription of a classic member as consumers do: `ConsumerProtocolSubscription`, version 0.
fn subscription(topics: &[String]) -> Bytes {
    let mut bytes = 0_i16.to_be_bytes().to_vec();
    bytes.extend(u32::try_from(topics.len()).expect("a small number").to_be_bytes());
    for topic in topics {
        bytes.extend(u16::try_from(topic.len()).expect("a short name").to_be_bytes());
        bytes.extend(topic.as_bytes());
    }
    bytes.extend((-1_i32).to_be_bytes());
    bytes.into()
}
