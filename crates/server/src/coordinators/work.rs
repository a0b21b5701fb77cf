//! What coordinators want done elsewhere, once it is committed.

use std::sync::Arc;

use tailrace_coordination::groups::{GroupEvent, GroupWork, ShareEvent, ShareWork};
use tailrace_types::TopicId;

use crate::broker::Broker;
use crate::share::state;

/// Carries out what a coordinator of groups wants.
pub(super) async fn group_work(broker: Arc<Broker>, work: GroupWork) {
    match work {
        GroupWork::Share(ShareWork::InitializeStates { group, topics, .. }) => {
            let made = state::initialize_all(&broker, &group, topics).await;
            tell_of_states(&broker, group, made).await;
        }
        GroupWork::Share(ShareWork::ReleaseMember { group, member }) => {
            broker.share.member_left(&broker, &group, &member);
        }
        GroupWork::Share(ShareWork::DeleteStates { group }) => {
            if let Err(failure) = state::delete_group(&broker, &group).await {
                tracing::warn!(%group, %failure, "states of a deleted share group are left");
            }
        }
    }
}

/// The group assigns what has a state. What it is not told of it asks for again.
async fn tell_of_states(broker: &Arc<Broker>, group: Arc<str>, made: Vec<(TopicId, Vec<i32>)>) {
    let name = Arc::clone(&group);
    let event = move |token| GroupEvent::Share { token, group, event: ShareEvent::StatesInitialized(made) };
    let told = broker.coordinators.groups.submit(broker, &name, event).await;
    if let Err(failure) = told {
        tracing::warn!(group = %name, %failure, "a share group was not told of its states");
    }
}
