//! Positions and generations: offsets, watermarks, epochs, ids.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl $name {
            /// Returns the bare number.
            pub const fn get(self) -> $inner {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<$inner> for $name {
            fn from(value: $inner) -> Self {
                Self(value)
            }
        }
    };
}

number!(
    /// The position of a record in its partition, from 0. Negative values appear only as protocol sentinels.
    Offset(i64)
);
number!(
    /// One past the last record that consumers may see.
    HighWatermark(i64)
);
number!(
    /// One past the last record that was appended, durable or not.
    LogEnd(i64)
);
number!(
    /// One past the last record that is known to be on stable storage.
    DurableEnd(i64)
);
number!(
    /// The generation of a partition's leadership: the term in raft, the leader epoch in Kafka. -1 means
    /// "unknown".
    LeaderEpoch(i32)
);
number!(
    /// The position of an entry in a partition's raft log, from 1. Entries without records have an index but
    /// no offset.
    RaftIndex(u64)
);
number!(
    /// The id of an idempotent producer. -1 means "none".
    ProducerId(i64)
);
number!(
    /// The generation of a producer id. -1 means "none".
    ProducerEpoch(i16)
);
number!(
    /// The id of a node of the cluster. Kafka's broker id.
    NodeId(i32)
);

impl Offset {
    /// Returns the offset `count` records further on. Saturates at the largest offset.
    pub const fn plus(self, count: i64) -> Self {
        Self(self.0.saturating_add(count))
    }
}

impl LeaderEpoch {
    /// The unknown epoch. Clients without an epoch send it, and unstamped batches carry it.
    pub const UNKNOWN: Self = Self(-1);
}

impl ProducerId {
    /// The absent producer id of batches whose producer is not idempotent.
    pub const NONE: Self = Self(-1);
}

macro_rules! as_offset {
    ($($name:ident),*) => { $(
        impl $name {
            /// Returns the same position as a plain offset.
            pub const fn offset(self) -> Offset {
                Offset(self.0)
            }
        }

        impl From<Offset> for $name {
            fn from(value: Offset) -> Self {
                Self(value.0)
            }
        }
    )* };
}

as_offset!(HighWatermark, LogEnd, DurableEnd);
