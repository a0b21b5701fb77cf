//! Finds, for a published subject, everyone who subscribed to a matching pattern.

pub mod classic;
mod dialect;
mod error;
mod limits;
mod matcher;
mod pattern;
mod subject;
pub mod tuple_space;

pub use dialect::Dialect;
pub use error::{SubscribeError, TextError};
pub use limits::Limits;
pub use matcher::Matcher;
pub use pattern::{Pattern, PatternWord};
pub use subject::Subject;
pub use tuple_space::{Batch, Cache, Snapshot, Subscription, TupleSpace};
