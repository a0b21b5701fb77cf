//! The controller: an image, changed by commands and records.

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
    /// Starts with no topics and the start configuration, which is file, environment and flags merged.
    ///
    /// # Errors
    /// The start configuration is illegal.
    pub fn new(fixed: BTreeMap<String, String>) -> Result<Self, ConfigError> {
        let broker = BrokerConfig::resolve(&fixed, &DynamicConfigs::default())?;
        Ok(Self { fixed, image: Arc::new(MetadataImage::empty(broker)) })
    }

    /// Returns a controller with the same start configuration and no topics, to apply a snapshot of the
    /// metadata log to.
    ///
    /// # Panics
    /// Never: the configuration has been checked before.
    #[must_use]
    pub fn emptied(&self) -> Self {
        Self::new(self.fixed.clone()).expect("the start configuration is legal")
    }

    /// Returns the current image. This is cheap: the image is shared, and later changes do not affect it.
    pub fn image(&self) -> Arc<MetadataImage> {
        Arc::clone(&self.image)
    }

    /// Decides what `command` changes, without changing anything.
    ///
    /// # Errors
    /// Why the command is refused.
    pub fn plan(&self, command: &Command) -> Result<Vec<MetadataRecord>, ControlError> {
        plan::plan(&self.image, &self.fixed, command)
    }

    /// Applies a record of the metadata log.
    ///
    /// # Errors
    /// The record contradicts those before it, or has settings that are illegal under the start
    /// configuration. Records that were just planned never fail.
    pub fn apply(&mut self, record: &MetadataRecord) -> Result<(), ApplyError> {
        let image = Arc::make_mut(&mut self.image);
        apply::apply(image, &self.fixed, record)
    }

    /// Returns records that produce the current image from nothing, to replace a long log.
    pub fn snapshot_records(&self) -> Vec<MetadataRecord> {
        self.image.snapshot_records()
    }
}
