//! Work that group coordinators want done elsewhere. Those of share groups and of streams have none.

use std::sync::Arc;

use tailrace_coordination::groups::{
    GroupCoordinator, GroupError, GroupWork, ShareEvent, ShareReply, ShareWork,
};
use tailrace_coordination::share::ShareCoordinator;
use tailrace_coordination::stream_consumers::ConsumersCoordinator;
use tailrace_types::TopicId;

use super::perform::{Perform, Performed};
use crate::caller::Caller;
use crate::node::Node;
use crate::share::{carry_out_deletion, state, tell_share_group};

impl Perform for GroupCoordinator {
    fn perform(node: Arc<Node>, _: i32, work: GroupWork) -> Performed {
        Box::pin(group_work(node, work))
    }
}

impl Perform for ShareCoordinator {
    fn perform(_: Arc<Node>, _: i32, work: Self::Work) -> Performed {
        match work {}
    }
}

impl Perform for ConsumersCoordinator {
    fn perform(_: Arc<Node>, _: i32, work: Self::Work) -> Performed {
        match work {}
    }
}

async fn group_work(node: Arc<Node>, work: GroupWork) {
    match work {
        GroupWork::Share(ShareWork::InitializeStates { group, generation, topics }) => {
            let made = state::initialize_all(&node, Caller::internal(), &group, generation, topics).await;
            tell_of_states(&node, group, generation, made).await;
        }
        GroupWork::Share(ShareWork::ReleaseMember { group, member }) => {
            node.share.member_left(&node, Caller::internal(), &group, &member);
        }
        GroupWork::Share(ShareWork::DeleteStates { group, deletion }) => {
            if let Err(failure) = carry_out_deletion(&node, Caller::internal(), &group, deletion).await {
                tracing::warn!(%group, %failure, "could not tell a share group that its states are deleted");
            }
        }
    }
}

/// Tells the group which share-partitions have a state, so that it assigns them. The group asks again for
/// what it did not hear of.
async fn tell_of_states(node: &Arc<Node>, group: Arc<str>, generation: i64, made: Vec<(TopicId, Vec<i32>)>) {
    let event = ShareEvent::StatesInitialized { generation, topics: made.clone() };
    match tell_share_group(node, Caller::internal(), &group, event).await {
        Ok(ShareReply::StatesChanged(Err(GroupError::GroupNotFound { .. }))) => {
            state::take_back(node, Caller::internal(), &group, generation, &made).await;
        }
        Ok(_) => {}
        Err(failure) => tracing::warn!(%group, %failure, "could not tell a share group of its states"),
    }
}
