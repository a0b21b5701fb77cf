//! Shared parts of the group handlers: the calls to the coordinator, and the error codes for its refusals.

use std::sync::Arc;

use tailrace_coordination::coordinator::Token;
use tailrace_coordination::groups::{
    ClassicEvent, ClassicReply, ClientIdentity, ConsumerEvent, ConsumerReply, GroupCoordinator, GroupError,
    GroupEvent, GroupReply, OffsetsEvent, OffsetsReply, ShareEvent, ShareReply, TopicReference,
};
use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::ErrorCode;
use tailrace_metadata::MetadataImage;
use tailrace_types::{LeaderEpoch, ProducerId};

use crate::context::Context;
use crate::errors::coordinator_code;
use crate::rights::ApiRights;
use tailrace_node::coordinators::{CoordinatorFailure, Pending};

/// Returns the code for a partition that does not exist, in a commit by any member. Kafka checks this before
/// it asks the group.
pub(super) fn unknown_code(image: &MetadataImage, topic: &TopicReference, index: i32) -> Option<ErrorCode> {
    let (known, unknown) = match topic {
        TopicReference::Name(name) => (image.topic(name), ErrorCode::UnknownTopicOrPartition),
        TopicReference::Id(id) => (image.topic_by_id(*id), ErrorCode::UnknownTopicId),
    };
    match known {
        None => Some(unknown),
        Some(topic) if !(0..topic.partitions).contains(&index) => Some(ErrorCode::UnknownTopicOrPartition),
        Some(_) => None,
    }
}

/// Refuses what the client may not do with a topic.
///
/// A topic that is named by an unknown id has no name to ask about. That is told, because ids are no secrets.
pub(super) fn check_topic(
    context: &Context,
    rights: &ApiRights<'_>,
    operation: Operation,
    topic: &TopicReference,
) -> Result<(), ErrorCode> {
    match topic {
        _ if rights.is_unlimited() => Ok(()),
        TopicReference::Name(name) => rights.topic(operation, name),
        TopicReference::Id(id) => match context.node().image().topic_by_id(*id) {
            Some(topic) => rights.topic(operation, topic.name.as_str()),
            None => Err(ErrorCode::UnknownTopicId),
        },
    }
}

/// A pending answer of a group coordinator, or the reason why there will be none.
pub(crate) struct PendingGroup(Result<Pending<GroupReply>, CoordinatorFailure>);

impl PendingGroup {
    /// Waits for the answer to any event.
    pub(crate) async fn reply(self) -> Result<GroupReply, ErrorCode> {
        match self.0 {
            Ok(pending) => pending.reply().await.map_err(|failure| coordinator_code(&failure)),
            Err(failure) => Err(coordinator_code(&failure)),
        }
    }

    /// Waits for the answer to a classic event.
    pub(crate) async fn classic(self) -> Result<ClassicReply, ErrorCode> {
        match self.reply().await? {
            GroupReply::Classic(reply) => Ok(reply),
            _ => Err(ErrorCode::UnknownServerError),
        }
    }

    /// Waits for the answer to an event of the consumer protocol.
    pub(crate) async fn consumer(self) -> Result<ConsumerReply, ErrorCode> {
        match self.reply().await? {
            GroupReply::Consumer(reply) => Ok(reply),
            _ => Err(ErrorCode::UnknownServerError),
        }
    }

    /// Waits for the answer to an event of the share protocol.
    pub(crate) async fn share(self) -> Result<ShareReply, ErrorCode> {
        match self.reply().await? {
            GroupReply::Share(reply) => Ok(reply),
            _ => Err(ErrorCode::UnknownServerError),
        }
    }

    /// Waits for the answer to an event about offsets.
    pub(crate) async fn offsets(self) -> Result<OffsetsReply, ErrorCode> {
        match self.reply().await? {
            GroupReply::Offsets(reply) => Ok(reply),
            _ => Err(ErrorCode::UnknownServerError),
        }
    }
}

/// Most characters of a client's reason that are logged. Kafka's clients send no more.
const REASON_CHARS_MAX: usize = 255;

/// Returns the part of a client's reason (KIP-800) that is logged.
pub(crate) fn reason_for_log(reason: &str) -> String {
    reason.chars().take(REASON_CHARS_MAX).collect()
}

impl Context {
    /// Submits an event to the coordinator of a group. Returns once the event is decided.
    pub(crate) async fn submit_group(
        &self,
        group: &str,
        event: impl FnOnce(Token) -> GroupEvent + Send + 'static,
    ) -> PendingGroup {
        PendingGroup(self.node().groups().submit(self.node(), self.caller(), group, event).await)
    }

    /// Submits an event of the classic protocol. Returns once the event is decided.
    pub(crate) async fn submit_classic(&self, group: String, event: ClassicEvent) -> PendingGroup {
        let id: Arc<str> = Arc::from(group.as_str());
        let event = move |token| GroupEvent::Classic { token, group: id, event };
        PendingGroup(self.node().groups().submit(self.node(), self.caller(), &group, event).await)
    }

    /// Submits an event of the consumer protocol. Returns once the event is decided.
    pub(crate) async fn submit_consumer(&self, group: String, event: ConsumerEvent) -> PendingGroup {
        let id: Arc<str> = Arc::from(group.as_str());
        let event = move |token| GroupEvent::Consumer { token, group: id, event };
        PendingGroup(self.node().groups().submit(self.node(), self.caller(), &group, event).await)
    }

    /// Submits an event of the share protocol. Returns once the event is decided.
    pub(crate) async fn submit_share_group(&self, group: String, event: ShareEvent) -> PendingGroup {
        let id: Arc<str> = Arc::from(group.as_str());
        let event = move |token| GroupEvent::Share { token, group: id, event };
        PendingGroup(self.node().groups().submit(self.node(), self.caller(), &group, event).await)
    }

    /// Submits an event about offsets. Returns once the event is decided.
    pub(crate) async fn submit_offsets(&self, group: String, event: OffsetsEvent) -> PendingGroup {
        let id: Arc<str> = Arc::from(group.as_str());
        let event = move |token| GroupEvent::Offsets { token, group: id, event };
        PendingGroup(self.node().groups().submit(self.node(), self.caller(), &group, event).await)
    }

    /// Submits an event about offsets to a partition's group coordinator if `holds` returns true for it.
    /// `None` if it does not.
    pub(crate) async fn submit_offsets_if(
        &self,
        partition: i32,
        group: &str,
        holds: impl FnOnce(&GroupCoordinator, LeaderEpoch) -> bool + Send + 'static,
        event: OffsetsEvent,
    ) -> Option<PendingGroup> {
        let group: Arc<str> = Arc::from(group);
        let event = move |token| GroupEvent::Offsets { token, group, event };
        let groups = self.node().groups();
        let submitted = groups.submit_if(self.node(), self.caller(), partition, holds, event).await;
        submitted.transpose().map(PendingGroup)
    }

    /// Returns how many transactions of a producer have ended in an offsets partition (see
    /// [`GroupCoordinator::transactions_ended`]), and the epoch of the coordinator that counted. `None` if
    /// the partition's coordinator is not loaded.
    pub(crate) async fn transactions_ended(
        &self,
        partition: i32,
        producer: ProducerId,
    ) -> Option<(LeaderEpoch, Option<u64>)> {
        let look = |core: &GroupCoordinator, epoch| (epoch, core.transactions_ended(producer));
        self.node().groups().peek(self.node(), self.caller(), partition, look).await
    }

    /// Returns the client's identity, as group descriptions show it.
    pub(crate) fn client_identity(&self) -> ClientIdentity {
        ClientIdentity {
            client_id: self.header.client_id.clone().unwrap_or_default(),
            // Java puts a slash before addresses.
            client_host: format!("/{}", self.session.peer.ip().to_canonical()),
        }
    }
}

/// Returns a new unique member id: the client's name or static identity, and random digits.
pub(crate) fn fresh_member_id(prefix: &str) -> Arc<str> {
    format!("{prefix}-{}", uuid_text(tailrace_env::random::bytes16())).into()
}

/// Formats 16 random bytes as a UUID of version 4 (RFC 9562).
fn uuid_text(mut bytes: [u8; 16]) -> String {
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let mut text = String::with_capacity(36);
    for (number, byte) in bytes.iter().enumerate() {
        if matches!(number, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// Returns the message beside the error code: the fact, and what to do about it where that is not obvious.
pub(crate) fn group_message(error: &GroupError) -> String {
    match error {
        GroupError::FencedMemberEpoch { .. } => {
            format!("{error}; it must revoke all its partitions and join again with epoch 0.")
        }
        GroupError::InvalidRequest { .. }
        | GroupError::UnsupportedAssignor { .. }
        | GroupError::InvalidRegularExpression { .. } => error.to_string(),
        _ => format!("{error}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_ids_end_in_a_uuid_of_version_4() {
        tailrace_runtime::install();
        assert_eq!(uuid_text([0xff; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_ne!(fresh_member_id("a"), fresh_member_id("a"));
    }
}
