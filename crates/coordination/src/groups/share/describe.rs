//! ShareGroupDescribe.

use std::sync::Arc;

use tailrace_metadata::MetadataImage;

use super::ShareGroup;
use crate::groups::consumer::named;
use crate::groups::{ClientIdentity, GroupState, NamedPartitions};

/// A share group as ShareGroupDescribe shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct ShareDescription {
    /// What it is doing.
    pub state: GroupState,
    /// The group's epoch.
    pub epoch: i32,
    /// The epoch of its target assignment.
    pub assignment_epoch: i32,
    /// Its members, by id.
    pub members: Vec<ShareMemberDescription>,
}

/// A member as ShareGroupDescribe shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct ShareMemberDescription {
    /// Its id.
    pub member: Arc<str>,
    /// Where it is.
    pub rack: Option<String>,
    /// Its epoch.
    pub epoch: i32,
    /// Where it comes from.
    pub client: ClientIdentity,
    /// Names of topics that it subscribes to.
    pub topics: Vec<String>,
    /// What it fetches from.
    pub assignment: Vec<NamedPartitions>,
}

impl ShareGroup {
    pub(super) fn describe(&self, image: &MetadataImage) -> ShareDescription {
        let members = self.members.iter().map(|(id, member)| ShareMemberDescription {
            member: Arc::clone(id),
            rack: member.details.rack_id.clone(),
            epoch: member.epoch,
            client: ClientIdentity {
                client_id: member.details.client_id.clone(),
                client_host: member.details.client_host.clone(),
            },
            topics: member.details.subscribed_topic_names.clone(),
            assignment: named(&member.assigned, image),
        });
        ShareDescription {
            state: self.state(),
            epoch: self.epoch,
            assignment_epoch: self.target_epoch,
            members: members.collect(),
        }
    }
}
