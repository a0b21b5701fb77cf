//! A member of a consumer group (KIP-848). It joins, takes the partitions it is assigned, gives up the
//! others, leaves, or vanishes.

use tailrace_env::random;
use tailrace_env::time::{self, Instant};
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::ConsumerGroupHeartbeatRequest;
use tailrace_kafka_wire::messages::consumer_group_heartbeat_request::TopicPartitions;
use tailrace_kafka_wire::messages::consumer_group_heartbeat_response::ConsumerGroupHeartbeatResponse;

use super::client::{Client, Coordinated, below, code};
use super::ownership::{HEARTBEAT_INTERVAL, Ownership, while_owning};
use crate::storm::history::Phase;
use crate::storm::site::DATA_TOPIC;

const CONSUMER_GROUP_HEARTBEAT: i16 = 1;

const GROUP: &str = "readers";

/// The epoch with which a member joins.
const JOINS: i32 = 0;
/// The epoch with which a member leaves.
const LEAVES: i32 = -1;

/// What a member knows about itself.
struct Member {
    id: String,
    epoch: i32,
    owns: Ownership,
    /// The next heartbeat must be complete: the member is new, or a lost answer may have told it something.
    is_news: bool,
    /// When it sent the last heartbeat that was answered, or its first one.
    alive_at: Option<Instant>,
}

/// `number` identifies the client in the history, after the nodes.
pub(super) async fn run(mut client: Client, number: usize) {
    client.history.lock().begins();
    let mut member = Member::new(number);
    while !client.history.lock().has_ended(number) {
        time::sleep(HEARTBEAT_INTERVAL).await;
        member.beat(&mut client).await;
        if client.history.lock().phase() == Phase::Storm {
            match below(60) {
                0 => member.leave(&mut client).await,
                // Its partitions become free when its session has expired.
                1 => member.give_up(&client),
                _ => {}
            }
        }
    }
    member.leave(&mut client).await;
    client.history.lock().finishes();
}

impl Member {
    fn new(number: usize) -> Self {
        let id = format!("{number}-{:016x}", random::u64());
        let owns = Ownership::none(GROUP, number);
        Self { id, epoch: JOINS, owns, is_news: true, alive_at: None }
    }

    async fn beat(&mut self, client: &mut Client) {
        let since = *self.alive_at.get_or_insert_with(Instant::now);
        if while_owning(since, self.heartbeat(client)).await.is_none() {
            self.give_up(client);
        }
    }

    async fn heartbeat(&mut self, client: &mut Client) {
        let sent = Instant::now();
        match self.ask(client, self.epoch).await {
            Some((ErrorCode::None, answer)) => {
                (self.epoch, self.alive_at, self.is_news) = (answer.member_epoch, Some(sent), false);
                if let Some(assignment) = answer.assignment {
                    let all = assignment.topic_partitions.into_iter().flat_map(|topic| topic.partitions);
                    self.is_news |= self.owns.take(client, all.collect());
                }
                client.history.lock().done(self.owns.number());
            }
            Some((ErrorCode::UnknownMemberId | ErrorCode::FencedMemberEpoch, _)) => {
                client.count("a member was fenced");
                self.give_up(client);
            }
            _ => {
                self.is_news = true;
                client.refresh().await;
            }
        }
    }

    async fn ask(
        &self,
        client: &mut Client,
        epoch: i32,
    ) -> Option<(ErrorCode, ConsumerGroupHeartbeatResponse)> {
        let node = client.coordinator(Coordinated::Group, GROUP).await?;
        let topic_id = client.topic_id(DATA_TOPIC).await?;
        let partitions: Vec<i32> = self.owns.partitions().iter().copied().collect();
        let owned = if partitions.is_empty() {
            Vec::new()
        } else {
            vec![TopicPartitions { topic_id, partitions, ..Default::default() }]
        };
        let tells_all = self.is_news && epoch != LEAVES;
        let request = ConsumerGroupHeartbeatRequest {
            group_id: GROUP.to_owned(),
            member_id: self.id.clone(),
            member_epoch: epoch,
            rebalance_timeout_ms: if tells_all { 5_000 } else { -1 },
            subscribed_topic_names: tells_all.then(|| vec![DATA_TOPIC.to_owned()]),
            topic_partitions: self.is_news.then_some(owned),
            ..Default::default()
        };
        let answer = client.ask(node, CONSUMER_GROUP_HEARTBEAT, &request).await?;
        Some((code(answer.error_code), answer))
    }

    async fn leave(&mut self, client: &mut Client) {
        // Another member may own the partitions before this is answered.
        self.owns.give_up(client);
        if self.epoch != JOINS && self.ask(client, LEAVES).await.is_some() {
            client.count("a member left");
        }
        self.give_up(client);
    }

    /// Gives up everything. It comes back as another member.
    fn give_up(&mut self, client: &Client) {
        self.owns.give_up(client);
        *self = Self::new(self.owns.number());
    }
}
