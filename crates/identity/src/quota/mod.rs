//! Quotas: how much of the server a user, a client id or an address may use (KIP-13, KIP-124, KIP-546,
//! KIP-599, KIP-612).
//!
//! [`Quotas`] is the table: it says which quota is for a request, and which bucket to charge. A bucket is a
//! [`RateWindow`], or a [`TokenBucket`] for changes of the cluster. All of it holds for one node alone: three
//! nodes let three times as much pass.
//!
//! Deliberately not here: the buckets of all clients, with their bound, and how a client is held up.

mod check;
mod filter;
mod table;
#[cfg(test)]
mod tests;
mod token_bucket;
mod window;

pub use check::{NAME_BYTES_MAX, QuotaAlteration, QuotaError};
pub use filter::{NameFilter, QuotaFilter};
pub use table::{Bucket, Limits, Quota, Quotas};
pub use token_bucket::{BURST_SECONDS, TokenBucket};
pub use window::{REQUEST_THROTTLE_MS_MAX, RateWindow, SAMPLE_MS, SAMPLES};

/// The name of one part of an entity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntityName {
    /// Everyone who has no quota by name.
    Default,
    /// This one.
    Named(String),
}

/// What a quota is about: a user, a client id, both, or an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuotaEntity {
    /// The user.
    pub user: Option<EntityName>,
    /// The client id.
    pub client_id: Option<EntityName>,
    /// The address. Excludes the others.
    pub ip: Option<EntityName>,
}

/// A limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QuotaKey {
    /// Bytes per second that may be produced or published.
    ProducerByteRate,
    /// Bytes per second that may be fetched or delivered.
    ConsumerByteRate,
    /// Percent of one thread that requests may use.
    RequestPercentage,
    /// Created and deleted partitions per second.
    ControllerMutationRate,
    /// Accepted connections per second. Only for addresses.
    ConnectionCreationRate,
}

impl QuotaKey {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::ProducerByteRate,
        Self::ConsumerByteRate,
        Self::RequestPercentage,
        Self::ControllerMutationRate,
        Self::ConnectionCreationRate,
    ];

    /// Returns Kafka's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ProducerByteRate => "producer_byte_rate",
            Self::ConsumerByteRate => "consumer_byte_rate",
            Self::RequestPercentage => "request_percentage",
            Self::ControllerMutationRate => "controller_mutation_rate",
            Self::ConnectionCreationRate => "connection_creation_rate",
        }
    }

    /// Returns the one with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }
}
