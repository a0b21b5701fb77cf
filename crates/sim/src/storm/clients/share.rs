//! A member of a share group (KIP-932). It acquires records of the output, accepts most, and releases some.

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
use crate::storm::site::{OUT_TOPIC, topic_partition};

const INCREMENTAL_ALTER_CONFIGS: i16 = 1;
const SHARE_GROUP_HEARTBEAT: i16 = 1;
const SHARE_FETCH: i16 = 1;
const SHARE_ACKNOWLEDGE: i16 = 1;

/// The group that is never deleted.
const WORKERS: &str = "workers";

/// The resource type of a group in IncrementalAlterConfigs.
const GROUP_RESOURCE: i8 = 32;

/// Where a new group starts, how long a record is locked, and how often it is delivered.
const SETTINGS: [(&str, &str); 3] = [
    ("share.auto.offset.reset", "earliest"),
    ("share.record.lock.duration.ms", "2000"),
    ("share.delivery.count.limit", "10"),
];

/// Time between two heartbeats.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(500);

/// The epoch with which a member leaves.
const LEAVES: i32 = -1;

/// The acknowledgement types of a record.
const ACCEPT: i8 = 1;
const RELEASE: i8 = 2;

pub(super) struct Member {
    group: &'static str,
    id: String,
    /// 0 if it has to join.
    epoch: i32,
    beat_at: Option<Instant>,
    /// The epoch of the next request in the session with each node.
    sessions: BTreeMap<u8, i32>,
}

pub(super) async fn run(mut client: Client) {
    configure(&mut client, WORKERS).await;
    let mut member = Member::new(WORKERS);
    loop {
        member.turn(&mut client).await;
    }
}

/// Sets the group's settings before any member joins.
pub(super) async fn configure(client: &mut Client, group: &str) {
    while try_to_configure(client, group).await.is_none() {
        client.refresh().await;
    }
}

async fn try_to_configure(client: &mut Client, group: &str) -> Option<()> {
    let setting = |(name, value): (&str, &str)| AlterableConfig {
        name: name.to_owned(),
        config_operation: 0,
        value: Some(value.to_owned()),
        ..Default::default()
    };
    let resource = AlterConfigsResource {
        resource_type: GROUP_RESOURCE,
        resource_name: group.to_owned(),
        configs: SETTINGS.map(setting).into(),
        ..Default::default()
    };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    let node = client.any_node();
    let answer = client.ask(node, INCREMENTAL_ALTER_CONFIGS, &request).await?;
    (code(answer.responses.first()?.error_code) == ErrorCode::None).then_some(())
}

impl Member {
    pub(super) fn new(group: &'static str) -> Self {
        let id = format!("{:016x}", random::u64());
        Self { group, id, epoch: 0, beat_at: None, sessions: BTreeMap::new() }
    }

    /// Sends a heartbeat if one is due, then handles some records.
    pub(super) async fn turn(&mut self, client: &mut Client) {
        pause(100).await;
        if self.beat_at.is_none_or(|at| at.elapsed() >= HEARTBEAT_INTERVAL) {
            self.beat(client).await;
        }
        if self.share(client).await.is_none() {
            client.refresh().await;
        }
    }

    /// Sends a heartbeat. Returns the node that confirmed the membership, if one did.
    pub(super) async fn beat(&mut self, client: &mut Client) -> Option<u8> {
        let (node, answered) = self.ask_coordinator(client, self.epoch).await?;
        match answered {
            Ok(epoch) => {
                self.epoch = epoch;
                self.beat_at = Some(Instant::now());
                Some(node)
            }
            Err(ErrorCode::UnknownMemberId | ErrorCode::FencedMemberEpoch | ErrorCode::GroupIdNotFound) => {
                self.epoch = 0;
                None
            }
            Err(_) => {
                client.refresh().await;
                None
            }
        }
    }

    /// Leaves the group. Returns true if it is no longer a member.
    pub(super) async fn leave(&mut self, client: &mut Client) -> bool {
        let gone = [ErrorCode::UnknownMemberId, ErrorCode::GroupIdNotFound];
        match self.ask_coordinator(client, LEAVES).await {
            Some((_, answered)) => answered.map_or_else(|code| gone.contains(&code), |_| true),
            None => false,
        }
    }

    /// Sends a heartbeat to the coordinator. Returns the coordinator and the member's epoch. `None` if the
    /// coordinator is unknown or does not answer.
    async fn ask_coordinator(
        &mut self,
        client: &mut Client,
        member_epoch: i32,
    ) -> Option<(u8, Result<i32, ErrorCode>)> {
        let node = client.coordinator(Coordinated::Group, self.group).await?;
        let request = ShareGroupHeartbeatRequest {
            group_id: self.group.to_owned(),
            member_id: self.id.clone(),
            member_epoch,
            subscribed_topic_names: (member_epoch == 0).then(|| vec![OUT_TOPIC.to_owned()]),
            ..Default::default()
        };
        let Some(answer) = client.ask(node, SHARE_GROUP_HEARTBEAT, &request).await else {
            client.refresh().await;
            return None;
        };
        Some(match code(answer.error_code) {
            ErrorCode::None => (node, Ok(answer.member_epoch)),
            refused => (node, Err(refused)),
        })
    }

    /// Fetches some records and acknowledges them. `None` if the leader is unknown or does not answer.
    async fn share(&mut self, client: &mut Client) -> Option<()> {
        let (node, _) = client.leader(&topic_partition(OUT_TOPIC, PartitionId(0))).await?;
        let topic_id = client.topic_id(OUT_TOPIC).await?;
        let asked_at = client.history.lock().acceptances();
        let acquired = self.fetch(client, node, topic_id).await?;
        for (first_offset, last_offset) in acquired {
            let (is_ending, stays) = (client.is_ending(), self.group == WORKERS);
            if is_ending && stays {
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
                let (mut history, offsets) = (client.history.lock(), first_offset..=last_offset);
                if stays {
                    history.accepted(offsets, done.is_some(), asked_at);
                } else {
                    history.successor_accepted(offsets);
                }
            }
            done?;
        }
        Some(())
    }

    /// Returns the ranges that were acquired.
    async fn fetch(&mut self, client: &mut Client, node: u8, topic_id: [u8; 16]) -> Option<Vec<(i64, i64)>> {
        let partition = FetchPartition { partition_index: 0, ..Default::default() };
        let topic = FetchTopic { topic_id, partitions: vec![partition], ..Default::default() };
        let request = ShareFetchRequest {
            group_id: Some(self.group.to_owned()),
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

    /// Acknowledges a batch. Returns true if it is done, false if it was refused. `None` if there was no
    /// answer.
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
            group_id: Some(self.group.to_owned()),
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
            // The acknowledgement may have been carried out.
            _ => None,
        }
    }

    fn next_epoch(&mut self, node: u8) -> i32 {
        let epoch = self.sessions.entry(node).or_insert(0);
        *epoch += 1;
        *epoch - 1
    }

    /// Forgets the session if there was no answer.
    fn unless_lost<T>(&mut self, node: u8, answer: Option<T>) -> Option<T> {
        if answer.is_none() {
            self.sessions.remove(&node);
        }
        answer
    }

    /// `None` if the request was refused as a whole, which also ends the session.
    fn look(&mut self, node: u8, error_code: i16) -> Option<()> {
        let is_fine = code(error_code) == ErrorCode::None;
        if !is_fine {
            self.sessions.remove(&node);
        }
        is_fine.then_some(())
    }
}
