//! Vocabulary shared by every tailrace crate: offsets, epochs, names, units and counts.
//!
//! Nothing here performs I/O. Types that could be mixed up are distinct, so that a mix-up does not compile:
//! an [`Offset`] is not a [`RaftIndex`], and a [`HighWatermark`] is not a [`LogEnd`].

mod counts;
mod names;
mod offsets;
mod replicas;
mod units;

pub use counts::{DECOMPRESSED_BYTES_MAX, Tally, i64_of, take_off, usize_of};
pub use names::{PartitionId, TopicId, TopicName, TopicNameError, TopicPartition};
pub use offsets::{
    DurableEnd, HighWatermark, LeaderEpoch, LogEnd, NodeId, Offset, ProducerEpoch, ProducerId, RaftIndex,
};
pub use replicas::{RaftGroup, ReplicaId};
pub use units::TimestampMs;
