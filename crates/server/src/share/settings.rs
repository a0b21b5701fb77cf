//! What holds for a share group now.

use tailrace_broker::MetadataImage;
use tailrace_broker::share::GroupTerms;

/// Where a group begins in a partition that it has not read yet (`share.auto.offset.reset`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beginning {
    Latest,
}

/// Settings of one group's data path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupSettings {
    pub(crate) terms: GroupTerms,
    pub(crate) beginning: Beginning,
    /// Records of undecided and aborted transactions are not delivered (`share.isolation.level`).
    pub(crate) committed_only: bool,
}

impl GroupSettings {
    pub(crate) fn of(image: &MetadataImage, _group: &str) -> Self {
        let broker = image.broker();
        let terms = GroupTerms {
            record_locks_max: broker.group_share_partition_max_record_locks.max(1).unsigned_abs(),
            delivery_count_limit: i16::try_from(broker.group_share_delivery_count_limit).unwrap_or(i16::MAX),
            lock_duration_ms: broker.group_share_record_lock_duration_ms.into(),
            renewal_allowed: true,
        };
        Self { terms, beginning: Beginning::Latest, committed_only: false }
    }

    /// As the protocol has it.
    pub(crate) fn lock_duration_ms(&self) -> i32 {
        i32::try_from(self.terms.lock_duration_ms).unwrap_or(i32::MAX)
    }
}
