//! Shared parts of ShareFetch and ShareAcknowledge: the member, and acknowledgements of records.

use std::sync::Arc;

use tailrace_coordination::groups::TopicReference;
use tailrace_coordination::share::{AcknowledgeKind, Acknowledgement, SharePartitionKey};
use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::ErrorCode;
use tailrace_types::{Offset, TopicId};

use crate::commands::Refusal;
use crate::context::Context;
use crate::errors::{acknowledge_code, share_state_code};
use crate::groups::check_topic;
use tailrace_node::share::sessions::Partition;
use tailrace_node::share::{GroupSettings, Keeping};
use tailrace_node::{Caller, Node};

/// Longest id of a member: the text of a UUID, as in Kafka.
const MEMBER_BYTES_MAX: usize = 36;

/// Longest group name. The share coordinator stores no longer one.
const GROUP_BYTES_MAX: usize = 32_767;

/// The member that sends the request. As in Kafka, only the group's coordinator checks, with heartbeats,
/// whether it belongs to the group.
pub(super) struct Member {
    pub(super) group: Arc<str>,
    pub(super) id: Arc<str>,
    pub(super) settings: GroupSettings,
}

impl Member {
    pub(super) fn of(context: &Context, group: Option<&str>, id: Option<&str>) -> Result<Self, ErrorCode> {
        let legal = |text: &&str, bytes_max| !text.is_empty() && text.len() <= bytes_max;
        let group = group.filter(|group| legal(group, GROUP_BYTES_MAX)).ok_or(ErrorCode::InvalidRequest)?;
        let id = id.filter(|id| legal(id, MEMBER_BYTES_MAX)).ok_or(ErrorCode::InvalidRequest)?;
        context.rights().group(Operation::Read, group)?;
        let settings = GroupSettings::of(&context.node().image(), group);
        Ok(Self { group: group.into(), id: id.into(), settings })
    }

    pub(super) fn key(&self, topic: TopicId, partition: i32) -> SharePartitionKey {
        SharePartitionKey { group: Arc::clone(&self.group), topic, partition }
    }
}

/// A batch of a request, with its acknowledgements.
pub(super) struct Said {
    pub(super) first: i64,
    pub(super) last: i64,
    /// Types of acknowledgements.
    pub(super) codes: Vec<i8>,
}

/// The outcome of the acknowledgements of one partition.
pub(super) struct Outcome {
    pub(super) code: ErrorCode,
    pub(super) message: Option<String>,
}

impl Outcome {
    fn refused(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: Some(message.into()) }
    }
}

/// Acknowledgements that were accepted and are being persisted, or were refused.
pub(super) struct Acknowledging(Vec<(Partition, Result<Keeping, Outcome>)>);

impl Acknowledging {
    /// Accepts the acknowledgements of each partition, all or none. Refuses topics that the client may not
    /// read. `renews` is the request's claim that renewals are among them (KIP-1222).
    pub(super) fn begin(
        context: &Context,
        member: &Member,
        said: Vec<(Partition, Vec<Said>)>,
        renews: bool,
    ) -> Self {
        let (node, caller, rights) = (context.node(), context.caller(), context.rights());
        let each = said.into_iter().map(|(partition, said)| {
            let begun = match check_topic(context, &rights, Operation::Read, &TopicReference::Id(partition.0))
            {
                Ok(()) => begin_one(node, caller, member, partition, said, renews),
                Err(code) => Err(Outcome::refused(code, Refusal::unauthorized(code).message)),
            };
            (partition, begun)
        });
        Self(each.collect())
    }

    /// Waits until all accepted acknowledgements are persisted.
    pub(super) async fn outcomes(self) -> Vec<(Partition, Outcome)> {
        let mut outcomes = Vec::with_capacity(self.0.len());
        for (partition, begun) in self.0 {
            let outcome = match begun {
                Err(outcome) => outcome,
                Ok(keeping) => match keeping.kept().await {
                    Ok(()) => Outcome { code: ErrorCode::None, message: None },
                    Err(failure) => Outcome::refused(share_state_code(&failure), failure.to_string()),
                },
            };
            outcomes.push((partition, outcome));
        }
        outcomes
    }
}

fn begin_one(
    node: &Arc<Node>,
    caller: &Caller,
    member: &Member,
    partition: Partition,
    said: Vec<Said>,
    renews: bool,
) -> Result<Keeping, Outcome> {
    let batches =
        said.into_iter().map(|said| acknowledgement(said, renews)).collect::<Result<Vec<_>, _>>()?;
    // After a restart, or once the share-partition was unloaded, its acquired records have no holder.
    let (topic, number) = partition;
    let live = node.share_groups().get(&member.key(topic, number)).ok_or_else(|| {
        let known = node.topics().by_id(topic.0).is_some();
        let code = if known { ErrorCode::InvalidRecordState } else { ErrorCode::UnknownTopicId };
        Outcome::refused(code, "the member holds no records of this partition")
    })?;
    match live.acknowledge(node, caller, &member.settings, &member.id, &batches) {
        Ok(()) => Ok(live.keep(node, caller)),
        Err(failure) => Err(Outcome::refused(acknowledge_code(&failure), failure.to_string())),
    }
}

fn acknowledgement(said: Said, renews: bool) -> Result<Acknowledgement, Outcome> {
    let kinds: Option<Vec<_>> = said.codes.iter().copied().map(AcknowledgeKind::from_code).collect();
    let kinds = kinds.ok_or_else(|| {
        Outcome::refused(ErrorCode::InvalidRequest, "an acknowledgement has an unknown type")
    })?;
    if !renews && kinds.contains(&AcknowledgeKind::Renew) {
        let message = "the request contains a renewal, but declares that it has none";
        return Err(Outcome::refused(ErrorCode::InvalidRequest, message));
    }
    Ok(Acknowledgement { first: Offset(said.first), last: Offset(said.last), kinds })
}

/// Returns the partition that a request refers to.
pub(super) fn partition_of(topic: [u8; 16], index: i32) -> Partition {
    (TopicId(topic), index)
}
