//! Commands to the controller, from the node that was asked to the one that leads the metadata log.

use serde::{Deserialize, Serialize};
use tailrace_metadata::{Command, MetadataRecord, RemoteControlError};
use tailrace_types::Offset;

use crate::controller::CommandError;

/// Carry out a command, as the controller.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Execute(pub(crate) Command);

/// What the controller says of a command.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It was carried out.
    Done {
        /// The records, encoded.
        records: Vec<String>,
        /// One past the last record of the metadata log that holds since.
        end: i64,
    },
    /// It was refused.
    Refused(RemoteControlError),
    /// The node asked is not the controller. Nothing changed.
    NotController,
    /// It is not any more, or does not hear from a majority. The command may be carried out all the same.
    Unknown,
    /// The metadata log cannot be written.
    Failed(String),
}

impl Outcome {
    /// # Errors
    /// What the command failed with.
    pub(crate) fn into_records(self) -> Result<(Vec<MetadataRecord>, Offset), CommandError> {
        match self {
            Self::Done { records, end } => {
                let decoded = records.iter().map(|record| MetadataRecord::decode(record.as_bytes()));
                let records = decoded.collect::<Result<_, _>>();
                let records = records.map_err(|error| CommandError::Append(error.to_string()))?;
                Ok((records, Offset(end)))
            }
            Self::Refused(error) => Err(CommandError::Refused(error.into())),
            Self::NotController => Err(CommandError::NotController),
            Self::Unknown => Err(CommandError::OutcomeUnknown),
            Self::Failed(reason) => Err(CommandError::Append(reason)),
        }
    }
}
