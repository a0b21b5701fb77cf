//! The records of internal topics in Kafka's format: `__consumer_offsets`, `__transaction_state`,
//! `__share_group_state`. Those of `__jetstream_state` are ours, in the same manner.
//!
//! Each key and each value starts with a version. The version of a key also determines the kind of record.
//! Kafka's own tools can read what is written in Kafka's formats.

mod codec;
mod consumer_group;
mod group;
mod offsets;
mod share_group;
mod share_state;
mod stream_consumers;
mod transaction;

pub use codec::{FieldReader, FieldWriter, InternalRecordError, Layout};
pub use consumer_group::{
    ClassicMemberMetadata, ConsumerGroupKey, ConsumerGroupMember, ConsumerGroupMetadata,
    CurrentMemberAssignment, HeldPartitions, RegularExpression, TargetAssignmentMember,
    TargetAssignmentMetadata, TopicPartitionsById, TopicUuid,
};
pub use group::{GroupKey, GroupMemberValue, GroupValue};
pub use offsets::{OffsetKey, OffsetValue};
pub use share_group::{
    NamedTopicPartitions, ShareCurrentMemberAssignment, ShareGroupKey, ShareGroupMember, ShareGroupMetadata,
    ShareGroupStatePartitions,
};
pub use share_state::{
    DELIVERY_COMPLETE_COUNT_UNKNOWN, ShareSnapshotValue, ShareStateBatch, ShareStateKey, ShareStateKind,
    ShareUpdateValue,
};
pub use stream_consumers::{
    ConsumerSnapshotValue, ConsumerUpdateValue, ConsumersLeaderValue, StreamConsumersKey, StreamConsumersKind,
};
pub use transaction::{TransactionLogKey, TransactionLogPartitions, TransactionLogValue};
