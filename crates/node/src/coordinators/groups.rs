//! The coordinators of groups: their topic, and what their cores want done elsewhere.

use tailrace_coordination::groups::GroupCoordinator;
use tailrace_metadata::CONSUMER_OFFSETS_TOPIC;

use super::{Kind, Runtime};

/// All coordinators of groups.
pub(crate) type Groups = Runtime<GroupCoordinator>;

pub(super) static GROUPS: Kind<GroupCoordinator> = Kind {
    name: "group",
    topic: CONSUMER_OFFSETS_TOPIC,
    partitions: |config| config.offsets_topic_num_partitions,
    settings: |config| {
        vec![
            ("cleanup.policy", "compact".to_owned()),
            ("segment.bytes", config.offsets_topic_segment_bytes.to_string()),
        ]
    },
    new: GroupCoordinator::new,
    perform: |node, _, work| Box::pin(super::work::group_work(node, work)),
};
