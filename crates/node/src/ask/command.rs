//! Commands to the controller, sent by the node that received them to the leader of the metadata log.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use tailrace_metadata::{Command, MetadataRecord, RemoteControlError};
use tailrace_types::Offset;

use crate::controller::CommandError;

/// Execute a command, as the controller.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Execute(pub(crate) Command);

/// Execute a command of a client, as the controller. The client's rights are asked again, by the metadata
/// that the controller has.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExecuteFor {
    pub(crate) command: Command,
    /// The name of the user. `None` if the client did not log in.
    pub(crate) user: Option<String>,
    /// The address of the client.
    pub(crate) address: SocketAddr,
}

/// The controller's answer to a command.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The command was executed.
    Done {
        /// The records, encoded.
        records: Vec<String>,
        /// One past the last record of the metadata log that reflects the command.
        end: i64,
    },
    /// The controller refused the command.
    Refused(RemoteControlError),
    /// The node asked is not the controller. Nothing changed.
    NotController,
    /// The node lost leadership meanwhile, or does not hear from a majority. The command may still take
    /// effect.
    Unknown,
    /// The metadata log cannot be written.
    Failed(String),
}

impl Outcome {
    /// Returns the records and the end of the metadata log that reflects them.
    ///
    /// # Errors
    /// The error that the command failed with.
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
