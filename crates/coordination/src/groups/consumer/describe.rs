//! ConsumerGroupDescribe.

use std::sync::Arc;

use tailrace_metadata::MetadataImage;
use tailrace_types::{TopicId, TopicName};

use super::member::{Member, partitions_of};
use super::settings::Settings;
use super::{ConsumerGroup, not_found};
use crate::coordinator::Moment;
use crate::groups::assignors::{ConsumerAssignor, Partitions};
use crate::groups::group::Group;
use crate::groups::{ClientIdentity, GroupCoordinator, GroupError, GroupState};

/// A consumer group as ConsumerGroupDescribe shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerDescription {
    /// What it is doing.
    pub state: GroupState,
    /// The group's epoch.
    pub epoch: i32,
    /// The epoch of its target assignment.
    pub assignment_epoch: i32,
    /// The assignor that it uses.
    pub assignor: String,
    /// Its members, by id.
    pub members: Vec<ConsumerMemberDescription>,
}

/// A member as ConsumerGroupDescribe shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerMemberDescription {
    /// Its id.
    pub member: Arc<str>,
    /// Its static identity.
    pub instance: Option<String>,
    /// Where it is.
    pub rack: Option<String>,
    /// Its epoch.
    pub epoch: i32,
    /// Where it comes from.
    pub client: ClientIdentity,
    /// Names of topics that it subscribes to.
    pub topics: Vec<String>,
    /// Regular expression that it subscribes with.
    pub expression: Option<String>,
    /// What it has.
    pub assignment: Vec<NamedPartitions>,
    /// What it shall have.
    pub target: Vec<NamedPartitions>,
    /// True if it uses the classic protocol.
    pub is_classic: bool,
}

/// Partitions of a topic, with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPartitions {
    /// The topic's id.
    pub topic: TopicId,
    /// The topic's name.
    pub name: TopicName,
    /// Its partitions, ascending.
    pub partitions: Vec<i32>,
}

/// Partitions with the names of their topics; those of deleted topics are left out.
pub(crate) fn named(partitions: &Partitions, image: &MetadataImage) -> Vec<NamedPartitions> {
    let named = |(id, partitions): (&TopicId, &Vec<i32>)| {
        let name = image.topic_by_id(*id)?.name.clone();
        Some(NamedPartitions { topic: *id, name, partitions: partitions.clone() })
    };
    partitions.iter().filter_map(named).collect()
}

impl GroupCoordinator {
    pub(super) fn describe_consumer(
        &self,
        id: &Arc<str>,
        moment: &Moment<'_>,
    ) -> Result<ConsumerDescription, GroupError> {
        match self.groups.get(id) {
            Some(Group::Consumer(group)) => Ok(group.describe(id, moment.image)),
            _ => Err(not_found(id)),
        }
    }
}

impl ConsumerGroup {
    fn describe(&self, id: &Arc<str>, image: &MetadataImage) -> ConsumerDescription {
        let settings = Settings::of(image, id);
        let preferred = self.preferred_assignor().filter(|name| ConsumerAssignor::of_name(name).is_some());
        let assignor = preferred.or(settings.assignors.first().map(String::as_str));
        ConsumerDescription {
            state: self.state(),
            epoch: self.epoch,
            assignment_epoch: self.target_epoch,
            assignor: assignor.unwrap_or_default().to_owned(),
            members: self
                .members
                .iter()
                .map(|(id, member)| self.describe_member(id, member, image))
                .collect(),
        }
    }

    fn describe_member(
        &self,
        id: &Arc<str>,
        member: &Member,
        image: &MetadataImage,
    ) -> ConsumerMemberDescription {
        let details = &member.details;
        ConsumerMemberDescription {
            member: Arc::clone(id),
            instance: details.instance_id.clone(),
            rack: details.rack_id.clone(),
            epoch: member.standing.epoch,
            client: ClientIdentity {
                client_id: details.client_id.clone(),
                client_host: details.client_host.clone(),
            },
            topics: details.subscribed_topic_names.clone(),
            expression: details.subscribed_topic_regex.clone(),
            assignment: named(&partitions_of(&member.standing.assigned), image),
            target: self.targets.get(id).map(|target| named(target, image)).unwrap_or_default(),
            is_classic: member.is_classic(),
        }
    }
}
