//! The controller: an image, and the records and commands that change it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tailrace_config::{BrokerConfig, ConfigError, DynamicConfigs};

use super::apply::{self, ApplyError};
use super::command::Command;
use super::error::ControlError;
use super::plan;
use crate::image::MetadataImage;
use crate::record::MetadataRecord;

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
