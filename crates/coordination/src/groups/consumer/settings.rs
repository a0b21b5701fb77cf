//! The effective settings of one consumer group.

use tailrace_config::{BrokerConfig, MigrationPolicy};
use tailrace_metadata::MetadataImage;

use crate::groups::limits::MEMBERS_PER_GROUP_MAX;

/// The settings that decisions about a group need. Times are in milliseconds.
#[derive(Debug)]
pub(crate) struct Settings<'a> {
    pub(crate) heartbeat_interval_ms: i32,
    pub(crate) session_timeout_ms: i32,
    /// Minimum time between two target assignments.
    pub(crate) assignment_interval_ms: i32,
    /// Interval at which regular expressions are resolved again.
    pub(crate) regex_refresh_interval_ms: i32,
    pub(crate) members_max: usize,
    /// The assignors that members may ask for. The first one is for groups whose members name none.
    pub(crate) assignors: &'a [String],
    pub(crate) migration: MigrationPolicy,
    /// The maximum size of a classic group.
    pub(crate) classic_members_max: usize,
}

fn size(setting: i32) -> usize {
    usize::try_from(setting).unwrap_or(0).min(MEMBERS_PER_GROUP_MAX)
}

impl<'a> Settings<'a> {
    /// Returns the effective settings of a group.
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
