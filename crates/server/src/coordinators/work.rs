//! What coordinators want done elsewhere, once it is committed.

use std::sync::Arc;

use tailrace_broker::groups::GroupWork;

use crate::broker::Broker;

/// Carries out what a coordinator of groups wants.
pub(super) async fn group_work(_broker: Arc<Broker>, work: GroupWork) {
    match work {
        // The state of share-partitions is kept by their own coordinator.
        GroupWork::Share(_) => {}
    }
}
