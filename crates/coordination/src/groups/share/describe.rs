//! ShareGroupDescribe.

use std::sync::Arc;

use tailrace_metadata::MetadataImage;

use super::event::{ShareDescription, ShareMemberDescription};
use super::group::ShareGroup;
use crate::groups::member::ClientIdentity;
use crate::groups::topics::named;

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
