//! The records of internal topics, as Kafka writes them: `__consumer_offsets`, `__transaction_state`,
//! `__share_group_state`.
//!
//! Each key and each value begins with a version; the version of a key also says what kind of record it is. Kafka's own
//! tools read what is written here.

mod codec;
mod group;
mod offsets;
mod share_state;
mod transaction;

pub use codec::{FieldReader, FieldWriter, InternalRecordError, Layout, WriteField};
pub use group::{GroupKey, GroupMemberValue, GroupValue};
pub use offsets::{OffsetKey, OffsetValue};
pub use share_state::{
    DELIVERY_COMPLETE_COUNT_UNKNOWN, ShareSnapshotValue, ShareStateBatch, ShareStateKey, ShareStateKind,
    ShareUpdateValue,
};
pub use transaction::{TransactionLogKey, TransactionLogPartitions, TransactionLogValue};
