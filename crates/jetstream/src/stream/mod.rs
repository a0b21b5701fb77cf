//! Configurations of streams: what they hold, which are legal, and what may change.
//!
//! - [`StreamConfig`]: the fields, as they are read and echoed.
//! - [`create`], [`update`]: a request from its body to the configuration that takes effect.
//! - [`StreamConfig::to_stored`], [`StreamConfig::from_stored`]: the form in which it is kept.
//! - [`OtherStreams`]: what a check needs to know of the account.

mod check;
mod check_origins;
mod check_subjects;
mod config;
pub(crate) mod metadata;
mod request;
mod source;
mod stored;
mod update;

pub use config::{
    Compression, ConsumerLimits, Discard, PersistMode, Placement, Republish, Retention, Storage, StreamConfig,
};
pub use request::{Creation, OtherStreams, StreamLimits, create, update};
pub use source::{ExternalStream, Source, SourceConsumer, SubjectTransform};

/// Fields that JSON leaves out when they say nothing.
pub(crate) mod omit {
    /// A number that is zero.
    pub(crate) fn zero<T: Default + PartialEq>(value: &T) -> bool {
        *value == T::default()
    }
}
