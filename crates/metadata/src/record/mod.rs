//! Records of the metadata log and their versioned encoding.
//!
//! A record is one JSON object that starts with `"version"` and `"type"`. Every change that an older tailrace
//! could misread raises the version. An older tailrace then refuses the record and names both versions,
//! instead of guessing.

mod body;
mod encoding;
mod endpoint;
mod types;

pub use endpoint::KafkaEndpoint;
pub(crate) use endpoint::check_endpoints;
pub use types::{MetadataRecord, NodeRegistration, RecordError};
