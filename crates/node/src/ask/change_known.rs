//! When a change of the metadata is known to a node.

use serde::{Deserialize, Serialize};
use tailrace_metadata::MetadataRecord;

use crate::controller::Executed;

/// Tell when a change of the metadata is known to the node.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ChangeKnown {
    /// One past its last record.
    pub(super) end: i64,
    /// Ids of topics that got partitions.
    pub(super) topics: Vec<String>,
}

impl ChangeKnown {
    pub(super) fn of(executed: &Executed) -> Self {
        let topics = executed.records.iter().filter_map(|record| match record {
            MetadataRecord::TopicCreated { id, .. } | MetadataRecord::PartitionsAdded { id, .. } => {
                Some(id.to_string())
            }
            _ => None,
        });
        Self { end: executed.end.get(), topics: topics.collect() }
    }
}
