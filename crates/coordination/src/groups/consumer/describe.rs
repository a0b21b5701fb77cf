//! ConsumerGroupDescribe.

use std::sync::Arc;

use tailrace_metadata::MetadataImage;

use super::event::{ConsumerDescription, ConsumerMemberDescription};
use super::group::ConsumerGroup;
use super::member::{Member, partitions_of};
use super::settings::Settings;
use super::step::not_found;
use crate::coordinator::Moment;
use crate::groups::assignors::ConsumerAssignor;
use crate::groups::group::Group;
use crate::groups::topics::named;
use crate::groups::{ClientIdentity, GroupCoordinator, GroupError};

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
