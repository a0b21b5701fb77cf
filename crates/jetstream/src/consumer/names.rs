//! Whose consumer it is.

use std::sync::Arc;

/// The names of a consumer and its stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The stream.
    pub stream: Arc<str>,
    /// The consumer.
    pub consumer: Arc<str>,
}
