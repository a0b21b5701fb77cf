//! What coordinators of groups want done elsewhere. Those of share groups want nothing.

use std::sync::Arc;

use tailrace_coordination::groups::{GroupCoordinator, GroupEvent, GroupWork, ShareEvent, ShareWork};
use tailrace_coordination::share::ShareCoordinator;
use tailrace_types::TopicId;

use super::perform::{Perform, Performed};
use crate::node::Node;
use crate::share::state;

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

async fn group_work(node: Arc<Node>, work: GroupWork) {
    match work {
        GroupWork::Share(ShareWork::InitializeStates { group, topics, .. }) => {
            let made = state::initialize_all(&node, &group, topics).await;
            tell_of_states(&node, group, made).await;
        }
        GroupWork::Share(ShareWork::ReleaseMember { group, member }) => {
            node.share.member_left(&node, &group, &member);
        }
        GroupWork::Share(ShareWork::DeleteStates { group }) => {
            if let Err(failure) = state::delete_group(&node, &group).await {
                tracing::warn!(%group, %failure, "states of a deleted share group are left");
            }
        }
    }
}

/// The group assigns what has a state. What it is not told of it asks for again.
async fn tell_of_states(node: &Arc<Node>, group: Arc<str>, made: Vec<(TopicId, Vec<i32>)>) {
    let name = Arc::clone(&group);
    let event = move |token| GroupEvent::Share { token, group, event: ShareEvent::StatesInitialized(made) };
    let told = node.coordinators.groups.submit(node, &name, event).await;
    if let Err(failure) = told {
        tracing::warn!(group = %name, %failure, "a share group was not told of its states");
    }
}
