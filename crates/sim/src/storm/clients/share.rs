//! A member of a share group (KIP-932): it acquires records of the output, accepts them, and gives some back.

use std::collections::BTreeMap;

use tailrace_env::random;
use tailrace_env::time::{Duration, Instant};
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use tailrace_kafka_wire::messages::share_acknowledge_request::{
    AcknowledgePartition, AcknowledgeTopic, AcknowledgementBatch,
};
use tailrace_kafka_wire::messages::share_fetch_request::{FetchPartition, FetchTopic};
use tailrace_kafka_wire::messages::{
    IncrementalAlterConfigsRequest, ShareAcknowledgeRequest, ShareFetchRequest, ShareGroupHeartbeatRequest,
};
use tailrace_types::PartitionId;

use super::client::{Client, Coordinated, below, code, pause};
use crate::storm::history::Phase;
use crate::storm::site::{OUT_TOPIC, topic_partition};

const INCREMENTAL_ALTER_CONFIGS: i16 = 1;
const SHARE_GROUP_HEARTBEAT: i16 = 1;
const SHARE_FETCH: i16 = 1;
const SHARE_ACKNOWLEDGE: i16 = 1;

const GROUP: &str = "workers";

/// What a group is to IncrementalAlterConfigs.
const GROUP_RESOURCE: i8 = 32;

/// Where a group begins that has not read yet; how long a record is held; how often it is delivered.
const SETTINGS: [(&str, &str); 3] = [
    ("share.auto.offset.reset", "earliest"),
    ("share.record.lock.duration.ms", "2000"),
    ("share.delivery.count.limit", "10"),
];

/// Between two heartbeats.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(500);

/// What is said of a record.
const ACCEPT: i8 = 1;
const RELEASE: i8 = 2;

struct Member {
    id: String,
    epoch: i32,
    beat_at: Option<Instant>,
    /// Of the session with each node, the epoch of the next request.
    sessions: BTreeMap<u8, i32>,
}

pub(super) async fn run(mut client: Client) {
    while configure(&mut client).await.is_none() {
        client.refresh().await;
    }
    let id = format!("{:016x}", random::u64());
    let mut member = Member { id, epoch: 0, beat_at: None, sessions: BTreeMap::new() };
    loop {
        pause(100).await;
        if member.beat_at.is_none_or(|at| at.elapsed() >= HEARTBEAT_INTERVAL) {
            member.beat(&mut client).await;
        }
        if member.share(&mut client).await.is_none() {
            client.refresh().await;
        }
    }
}

async fn configure(client: &mut Client) -> Option<()> {
    let setting = |(name, value): (&str, &str)| AlterableConfig {
        name: name.to_owned(),
        config_operation: 0,
        value: Some(value.to_owned()),
        ..Default::default()
    };
    let resource = AlterConfigsResource {
        resource_type: GROUP_RESOURCE,
        resource_name: GROUP.to_owned(),
        configs: SETTINGS.map(setting).into(),
        ..Default::default()
    };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    let node = client.any_node();
    let answer = client.ask(node, INCREMENTAL_ALTER_CONFIGS, &request).await?;
    (code(answer.responses.first()?.error_code) == ErrorCode::None).then_some(())
}

impl Member {
    async fn beat(&mut self, client: &mut Client) {
        let Some(node) = client.coordinator(Coordinated::Group, GROUP).await else { return };
        let request = ShareGroupHeartbeatRequest {
            group_id: GROUP.to_owned(),
            member_id: self.id.clone(),
            member_epoch: self.epoch,
            subscribed_topic_names: (self.epoch == 0).then(|| vec![OUT_TOPIC.to_owned()]),
            ..Default::default()
        };
        let answer = client.ask(node, SHARE_GROUP_HEARTBEAT, &request).await;
        match answer.as_ref().map(|answer| code(answer.error_code)) {
            Some(ErrorCode::None) => {
                self.epoch = answer.map_or(0, |answer| answer.member_epoch);
                self.beat_at = Some(Instant::now());
            }
            Some(ErrorCode::UnknownMemberId | ErrorCode::FencedMemberEpoch) => self.epoch = 0,
            _ => client.refresh().await,
        }
    }

    /// Fetches some records, and says what becomes of them. `None`: it is not known who leads, or it does not answer.
    async fn share(&mut self, client: &mut Client) -> Option<()> {
        let (node, _) = client.leader(&topic_partition(OUT_TOPIC, PartitionId(0))).await?;
        let topic_id = client.topic_id(OUT_TOPIC).await?;
        let asked_at = client.history.lock().acceptances();
        let acquired = self.fetch(client, node, topic_id).await?;
        for (first_offset, last_offset) in acquired {
            let is_ending = client.history.lock().phase() == Phase::Ending;
            if is_ending {
                client.history.lock().acquired_at_the_end(first_offset..=last_offset);
            }
            let said = if !is_ending && below(8) == 0 { RELEASE } else { ACCEPT };
            let batch = AcknowledgementBatch {
                first_offset,
                last_offset,
                acknowledge_types: vec![said],
                ..Default::default()
            };
            let done = self.acknowledge(client, node, topic_id, batch).await;
            if said == ACCEPT && done != Some(false) {
                client.history.lock().accepted(first_offset..=last_offset, done.is_some(), asked_at);
            }
            done?;
        }
        Some(())
    }

    /// Ranges that were acquired.
    async fn fetch(&mut self, client: &mut Client, node: u8, topic_id: [u8; 16]) -> Option<Vec<(i64, i64)>> {
        let partition = FetchPartition { partition_index: 0, ..Default::default() };
        let topic = FetchTopic { topic_id, partitions: vec![partition], ..Default::default() };
        let request = ShareFetchRequest {
            group_id: Some(GROUP.to_owned()),
            member_id: Some(self.id.clone()),
            share_session_epoch: self.next_epoch(node),
            max_wait_ms: 100,
            min_bytes: 1,
            max_bytes: 1 << 20,
            max_records: 20,
            batch_size: 20,
            topics: vec![topic],
            ..Default::default()
        };
        let answer = client.ask(node, SHARE_FETCH, &request).await;
        let answer = self.unless_lost(node, answer)?;
        self.look(node, answer.error_code)?;
        let Some(partition) = answer.responses.first().and_then(|topic| topic.partitions.first()) else {
            return Some(Vec::new());
        };
        if code(partition.error_code) != ErrorCode::None {
            return None;
        }
        let ranges: Vec<_> =
            partition.acquired_records.iter().map(|range| (range.first_offset, range.last_offset)).collect();
        if !ranges.is_empty() {
            client.count("records were acquired");
        }
        Some(ranges)
    }

    /// True if it is done, false if it was refused. `None`: nothing was answered.
    async fn acknowledge(
        &mut self,
        client: &mut Client,
        node: u8,
        topic_id: [u8; 16],
        batch: AcknowledgementBatch,
    ) -> Option<bool> {
        let acknowledgement_batches = vec![batch];
        let partition =
            AcknowledgePartition { partition_index: 0, acknowledgement_batches, ..Default::default() };
        let request = ShareAcknowledgeRequest {
            group_id: Some(GROUP.to_owned()),
            member_id: Some(self.id.clone()),
            share_session_epoch: self.next_epoch(node),
            topics: vec![AcknowledgeTopic { topic_id, partitions: vec![partition], ..Default::default() }],
            ..Default::default()
        };
        let answer = client.ask(node, SHARE_ACKNOWLEDGE, &request).await;
        let answer = self.unless_lost(node, answer)?;
        if self.look(node, answer.error_code).is_none() {
            return Some(false);
        }
        let partition = answer.responses.first()?.partitions.first()?;
        match code(partition.error_code) {
            ErrorCode::None => Some(true),
            ErrorCode::InvalidRecordState => {
                client.count("an acknowledgement was refused");
                Some(false)
            }
            // It may have been carried out.
            _ => None,
        }
    }

    fn next_epoch(&mut self, node: u8) -> i32 {
        let epoch = self.sessions.entry(node).or_insert(0);
        *epoch += 1;
        *epoch - 1
    }

    /// Where nothing was answered, the session is not known any more.
    fn unless_lost<T>(&mut self, node: u8, answer: Option<T>) -> Option<T> {
        if answer.is_none() {
            self.sessions.remove(&node);
        }
        answer
    }

    /// `None`: the request was refused as a whole.
    fn look(&mut self, node: u8, error_code: i16) -> Option<()> {
        let is_fine = code(error_code) == ErrorCode::None;
        if !is_fine {
            self.sessions.remove(&node);
        }
        is_fine.then_some(())
    }
}
