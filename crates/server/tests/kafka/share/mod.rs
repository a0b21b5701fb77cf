//! The records of share groups. Each goes to one member at a time, comes again if it is not accepted, and
//! never comes again once it is accepted. The tests send plain requests. One member joins and leaves so that
//! the group exists. The clients that fetch afterwards need not be members.

mod records;
mod states;

use std::time::{Duration, Instant};

use crate::common::{Client, PATIENCE, TestServer, error};
use tailrace_kafka_wire::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use tailrace_kafka_wire::messages::share_fetch_response::PartitionData;
use tailrace_kafka_wire::messages::{
    IncrementalAlterConfigsRequest, ShareAcknowledgeRequest, ShareFetchRequest, ShareFetchResponse,
    ShareGroupHeartbeatRequest, share_acknowledge_request, share_fetch_request,
};
use tailrace_kafka_wire::{ErrorCode, Records};
use tailrace_records::{DecodedBatch, split_batches};

const GROUP: &str = "workers";

/// `ConfigResource.Type.GROUP`.
const GROUP_RESOURCE: i8 = 32;

const ACCEPT: i8 = 1;
const RELEASE: i8 = 2;
const REJECT: i8 = 3;
const RENEW: i8 = 4;

/// First offset, last offset, and the acknowledgements for them.
type Said<'a> = (i64, i64, &'a [i8]);

/// A member with its own connection and session.
struct Member {
    client: Client,
    name: String,
    topic: [u8; 16],
    epoch: i32,
}

impl Member {
    async fn new(server: &TestServer, name: &str, topic: [u8; 16]) -> Self {
        Self { client: server.connect().await, name: name.to_owned(), topic, epoch: 0 }
    }

    fn next_epoch(&mut self) -> i32 {
        self.epoch += 1;
        self.epoch - 1
    }

    fn fetch_request(&mut self, said: &[Said<'_>], max_wait_ms: i32) -> ShareFetchRequest {
        let batches = said.iter().map(|&(first_offset, last_offset, types)| {
            share_fetch_request::AcknowledgementBatch {
                first_offset,
                last_offset,
                acknowledge_types: types.to_vec(),
                ..Default::default()
            }
        });
        let partition = share_fetch_request::FetchPartition {
            partition_index: 0,
            acknowledgement_batches: batches.collect(),
            ..Default::default()
        };
        let topic = share_fetch_request::FetchTopic {
            topic_id: self.topic,
            partitions: vec![partition],
            ..Default::default()
        };
        ShareFetchRequest {
            group_id: Some(GROUP.to_owned()),
            member_id: Some(self.name.clone()),
            share_session_epoch: self.next_epoch(),
            max_wait_ms,
            min_bytes: 1,
            max_bytes: 1 << 20,
            max_records: 500,
            batch_size: 500,
            topics: vec![topic],
            ..Default::default()
        }
    }

    async fn fetch(&mut self, max_wait_ms: i32) -> Vec<(i64, i64, i16)> {
        self.fetch_and_say(&[], max_wait_ms).await.0
    }

    async fn fetch_at_least(&mut self, min_bytes: i32, max_wait_ms: i32) -> Vec<(i64, i64, i16)> {
        let request = ShareFetchRequest { min_bytes, ..self.fetch_request(&[], max_wait_ms) };
        let answer = self.client.call(2, &request).await;
        assert_eq!(error(answer.error_code), ErrorCode::None);
        partition_of(&answer).map(acquired).unwrap_or_default()
    }

    /// Fetches and acknowledges in one request. Returns what was acquired, and the code for the
    /// acknowledgements.
    async fn fetch_and_say(
        &mut self,
        said: &[Said<'_>],
        max_wait_ms: i32,
    ) -> (Vec<(i64, i64, i16)>, ErrorCode) {
        let request = self.fetch_request(said, max_wait_ms);
        let answer = self.client.call(2, &request).await;
        assert_eq!(error(answer.error_code), ErrorCode::None);
        match partition_of(&answer) {
            Some(data) => {
                assert_eq!(error(data.error_code), ErrorCode::None);
                check_records(data);
                (acquired(data), error(data.acknowledge_error_code))
            }
            None => (Vec::new(), ErrorCode::None),
        }
    }

    async fn say(&mut self, said: &[Said<'_>]) -> ErrorCode {
        let epoch = self.next_epoch();
        self.say_at(epoch, said).await
    }

    async fn say_at(&mut self, epoch: i32, said: &[Said<'_>]) -> ErrorCode {
        let batches = said.iter().map(|&(first_offset, last_offset, types)| {
            share_acknowledge_request::AcknowledgementBatch {
                first_offset,
                last_offset,
                acknowledge_types: types.to_vec(),
                ..Default::default()
            }
        });
        let partition = share_acknowledge_request::AcknowledgePartition {
            partition_index: 0,
            acknowledgement_batches: batches.collect(),
            ..Default::default()
        };
        let topic = share_acknowledge_request::AcknowledgeTopic {
            topic_id: self.topic,
            partitions: vec![partition],
            ..Default::default()
        };
        let request = ShareAcknowledgeRequest {
            group_id: Some(GROUP.to_owned()),
            member_id: Some(self.name.clone()),
            share_session_epoch: epoch,
            is_renew_ack: said.iter().any(|(_, _, types)| types.contains(&RENEW)),
            topics: vec![topic],
            ..Default::default()
        };
        let answer = self.client.call(2, &request).await;
        match answer.responses.first() {
            Some(topic) => error(topic.partitions[0].error_code),
            None => error(answer.error_code),
        }
    }
}

fn partition_of(answer: &ShareFetchResponse) -> Option<&PartitionData> {
    answer.responses.first().map(|topic| &topic.partitions[0])
}

fn acquired(data: &PartitionData) -> Vec<(i64, i64, i16)> {
    let records = data.acquired_records.iter();
    records.map(|records| (records.first_offset, records.last_offset, records.delivery_count)).collect()
}

/// Checks that every acquired record is in the answer.
fn check_records(data: &PartitionData) {
    let Records::Bytes(bytes) = &data.records else { panic!("records in memory") };
    let mut offsets = Vec::new();
    for batch in split_batches(bytes) {
        let (_, batch) = batch.expect("whole batches only");
        let batch = DecodedBatch::new(batch, usize::MAX).expect("a sound batch");
        offsets.extend(batch.records().map(|record| record.expect("a sound record").offset.get()));
    }
    for records in &data.acquired_records {
        for offset in records.first_offset..=records.last_offset {
            assert!(offsets.contains(&offset), "{offset} is acquired, but not in the records: {offsets:?}");
        }
    }
}

/// Starts a server with a topic of one partition. The group starts at the first record and locks records for
/// `lock_ms`.
async fn rig(lock_ms: u32) -> (TestServer, Client, [u8; 16]) {
    rig_with(lock_ms, &[]).await
}

async fn rig_with(lock_ms: u32, topic: &[(&str, &str)]) -> (TestServer, Client, [u8; 16]) {
    rig_set(lock_ms, topic, &[]).await
}

async fn rig_set(
    lock_ms: u32,
    topic: &[(&str, &str)],
    more: &[(&str, &str)],
) -> (TestServer, Client, [u8; 16]) {
    let settings = [
        ("log.cleaner.backoff.ms", "20"),
        ("group.share.min.record.lock.duration.ms", "1000"),
        ("share.coordinator.state.topic.num.partitions", "3"),
        ("group.share.assignment.interval.ms", "0"),
    ];
    let server = TestServer::with(&[&settings[..], more].concat()).await;
    let mut client = server.connect().await;
    let topic = client.create_topic("jobs", 1, topic).await;
    let lock_ms = lock_ms.to_string();
    configure(
        &mut client,
        &[("share.auto.offset.reset", "earliest"), ("share.record.lock.duration.ms", &lock_ms)],
    )
    .await;
    join_and_leave(&mut client, topic).await;
    (server, client, topic)
}

async fn configure(client: &mut Client, configs: &[(&str, &str)]) {
    let configs = configs.iter().map(|&(name, value)| AlterableConfig {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        ..Default::default()
    });
    let resource = AlterConfigsResource {
        resource_type: GROUP_RESOURCE,
        resource_name: GROUP.to_owned(),
        configs: configs.collect(),
        ..Default::default()
    };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    let answer = client.call(1, &request).await;
    assert_eq!(answer.responses[0].error_code, 0, "{:?}", answer.responses[0].error_message);
}

/// Longer than anything takes that a test does not wait for on purpose.
const LONG: u32 = 30_000;

/// A member joins the group and leaves, so that the group exists and has a state of the topic's partition.
async fn join_and_leave(client: &mut Client, topic: [u8; 16]) {
    let mut request = ShareGroupHeartbeatRequest {
        group_id: GROUP.to_owned(),
        member_id: "7d4efac4-6d4f-4f4e-9c4b-3f5a5a1f0a01".to_owned(),
        subscribed_topic_names: Some(vec!["jobs".to_owned()]),
        ..Default::default()
    };
    let (mut assigned, deadline) = (Vec::new(), Instant::now() + PATIENCE);
    while !assigned.contains(&topic) {
        assert!(Instant::now() < deadline, "{assigned:?}");
        let answer = client.call(1, &request).await;
        assert_eq!(error(answer.error_code), ErrorCode::None, "{:?}", answer.error_message);
        request.member_epoch = answer.member_epoch;
        let topics = answer.assignment.into_iter().flat_map(|assignment| assignment.topic_partitions);
        assigned.extend(topics.map(|topic| topic.topic_id));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    request.member_epoch = -1;
    let answer = client.call(1, &request).await;
    assert_eq!(error(answer.error_code), ErrorCode::None, "{:?}", answer.error_message);
}
