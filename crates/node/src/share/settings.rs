//! The current settings of a share group.

use tailrace_config::{GroupIsolationLevel, ShareOffsetReset};
use tailrace_coordination::share::GroupTerms;
use tailrace_metadata::MetadataImage;

/// The settings of one group's data path.
#[derive(Clone, Copy, Debug)]
pub struct GroupSettings {
    pub(crate) terms: GroupTerms,
    /// Where the group starts in a partition that it has not read yet.
    pub(crate) beginning: ShareOffsetReset,
    /// Do not deliver records of undecided and aborted transactions.
    pub(crate) committed_only: bool,
}

impl GroupSettings {
    /// Returns the settings as they are in `image`.
    pub fn of(image: &MetadataImage, group: &str) -> Self {
        let config = image.group_config(group);
        let terms = GroupTerms {
            record_locks_max: config.share_partition_max_record_locks.max(1).unsigned_abs(),
            delivery_count_limit: i16::try_from(config.share_delivery_count_limit).unwrap_or(i16::MAX),
            lock_duration_ms: config.share_record_lock_duration_ms.into(),
            renewal_allowed: config.share_renew_acknowledge_enable,
        };
        Self {
            terms,
            beginning: config.share_auto_offset_reset,
            committed_only: config.share_isolation_level == GroupIsolationLevel::ReadCommitted,
        }
    }

    /// Returns the lock duration in the type of the protocol.
    pub fn lock_duration_ms(&self) -> i32 {
        i32::try_from(self.terms.lock_duration_ms).unwrap_or(i32::MAX)
    }
}
