//! What holds for one consumer group.

use tailrace_config::{BrokerConfig, MigrationPolicy};
use tailrace_metadata::MetadataImage;

use crate::groups::limits::MEMBERS_PER_GROUP_MAX;

/// The settings that decisions about a group need; times in milliseconds.
#[derive(Debug)]
pub(crate) struct Settings<'a> {
    pub(crate) heartbeat_interval_ms: i32,
    pub(crate) session_timeout_ms: i32,
    /// Between two target assignments.
    pub(crate) assignment_interval_ms: i32,
    /// Between two looks for what regular expressions match.
    pub(crate) regex_refresh_interval_ms: i32,
    pub(crate) members_max: usize,
    /// The assignors that members may ask for; the first is for those who do not.
    pub(crate) assignors: &'a [String],
    pub(crate) migration: MigrationPolicy,
    /// How many members a classic group may have.
    pub(crate) classic_members_max: usize,
}

fn size(setting: i32) -> usize {
    usize::try_from(setting).unwrap_or(0).min(MEMBERS_PER_GROUP_MAX)
}

impl<'a> Settings<'a> {
    /// What holds for a group.
    pub(crate) fn of(image: &'a MetadataImage, group: &str) -> Self {
        let broker: &BrokerConfig = image.broker();
        let group = image.group_config(group);
        Self {
            heartbeat_interval_ms: group.consumer_heartbeat_interval_ms,
            session_timeout_ms: group.consumer_session_timeout_ms,
            assignment_interval_ms: group.consumer_assignment_interval_ms,
            regex_refresh_interval_ms: broker.group_consumer_regex_refresh_interval_ms,
            members_max: size(broker.group_consumer_max_size),
            assignors: &broker.group_consumer_assignors,
            migration: broker.group_consumer_migration_policy,
            classic_members_max: size(broker.group_max_size),
        }
    }
}
