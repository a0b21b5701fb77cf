//! The controller: decides about commands and applies the records that result.
//!
//! [`Controller::plan`] looks and changes nothing, so a dry run is a plan whose records are dropped. The caller writes
//! the records to the metadata log and, once they count, gives them to [`Controller::apply`]. A second command must be
//! planned after the first one's records were applied. Replay at start is `apply` over the whole log.

mod apply;
mod bindings;
mod change;
mod command;
mod error;
mod nodes;
mod plan;
mod replicas;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use apply::ApplyError;
pub use command::{
    BrokerScope, CLUSTER_ID_BYTES_MAX, Command, CommandDecodeError, ConfigAction, ConfigChange, ConfigOp,
    CreateTopic, RegisterNode, Requester, TopicRef,
};
pub use error::{ControlError, ControlErrorKind, RemoteControlError};

use crate::image::MetadataImage;
use crate::record::MetadataRecord;
use tailrace_config::{BrokerConfig, ConfigError, DynamicConfigs};

/// Producer ids that are reserved at a time, as many as Kafka reserves.
pub const PRODUCER_IDS_PER_BLOCK: i64 = 1000;

/// Groups that may have settings of their own. Each costs its id and its settings in memory, and a record in the metadata log.
pub const GROUPS_CONFIGURED_MAX: usize = 10_000;

/// Length of the id of a group that may have settings of its own, in bytes.
pub const GROUP_ID_BYTES_MAX: usize = 1_024;

/// The state machine over the metadata log.
#[derive(Clone, Debug)]
pub struct Controller {
    fixed: BTreeMap<String, String>,
    image: Arc<MetadataImage>,
}

impl Controller {
    /// Starts with no topics and the start configuration: file, environment and flags, already merged.
    ///
    /// # Errors
    /// The start configuration is illegal.
    pub fn new(fixed: BTreeMap<String, String>) -> Result<Self, ConfigError> {
        let broker = BrokerConfig::resolve(&fixed, &DynamicConfigs::default())?;
        Ok(Self { fixed, image: Arc::new(MetadataImage::empty(broker)) })
    }

    /// The same start configuration with no topics: what a snapshot in the metadata log begins with.
    ///
    /// # Panics
    /// Never: the configuration was found legal before.
    #[must_use]
    pub fn anew(&self) -> Self {
        Self::new(self.fixed.clone()).expect("the start configuration is legal")
    }

    /// What holds now. Cheap: the image is shared, and later changes leave it as it is.
    pub fn image(&self) -> Arc<MetadataImage> {
        Arc::clone(&self.image)
    }

    /// Decides what `command` changes, without changing it.
    ///
    /// # Errors
    /// The command is refused, and why.
    pub fn plan(&self, command: &Command) -> Result<Vec<MetadataRecord>, ControlError> {
        plan::plan(&self.image, &self.fixed, command)
    }

    /// Takes over a record of the metadata log.
    ///
    /// # Errors
    /// The record contradicts what was applied before it, or holds settings that are illegal under the start
    /// configuration. Records that were just planned never fail.
    pub fn apply(&mut self, record: &MetadataRecord) -> Result<(), ApplyError> {
        let image = Arc::make_mut(&mut self.image);
        apply::apply(image, &self.fixed, record)
    }

    /// Records that lead from nothing to the present image, to replace a long log.
    pub fn snapshot_records(&self) -> Vec<MetadataRecord> {
        self.image.snapshot_records()
    }
}
