//! Commands to the controller, from the node that was asked to the one that leads the metadata log.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tailrace_metadata::{Command, MetadataRecord, RemoteControlError};
use tailrace_types::Offset;

use crate::broker::Broker;
use crate::controller::CommandError;

/// Bytes of a command that another node may send.
const COMMAND_BYTES_MAX: usize = 16 << 20;

/// What the controller says of a command.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// It was carried out.
    Done {
        /// The records, encoded.
        records: Vec<String>,
        /// One past the last record of the metadata log that holds since.
        end: i64,
    },
    /// It was refused.
    Refused(RemoteControlError),
    /// The node asked is not the controller, or is not any more.
    NotController,
    /// The metadata log cannot be written.
    Failed(String),
}

impl Answer {
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
            Self::Failed(reason) => Err(CommandError::Append(reason)),
        }
    }
}

/// Carries out a command that another node was asked for.
pub(super) async fn execute(broker: &Arc<Broker>, body: &[u8]) -> Bytes {
    let answer = match decode(body) {
        Ok(command) => answer(broker, command).await,
        Err(reason) => Answer::Failed(reason),
    };
    encode(&answer)
}

fn decode(body: &[u8]) -> Result<Command, String> {
    if body.len() > COMMAND_BYTES_MAX {
        return Err(format!("a command of {} bytes, expected at most {COMMAND_BYTES_MAX}", body.len()));
    }
    Command::decode(body).map_err(|error| error.to_string())
}

async fn answer(broker: &Arc<Broker>, command: Command) -> Answer {
    let broker = Arc::clone(broker);
    // Spawned: a command that was begun is carried out whole.
    let work = async move { broker.controller.execute_here(command, broker.now()).await };
    match tokio::spawn(work).await {
        Ok(Ok(done)) => {
            let text = |record: &MetadataRecord| String::from_utf8(record.encode()).unwrap_or_default();
            Answer::Done { records: done.records.iter().map(text).collect(), end: done.end.get() }
        }
        Ok(Err(CommandError::Refused(error))) => Answer::Refused(RemoteControlError::from(&error)),
        Ok(Err(CommandError::NotController | CommandError::Stopping)) => Answer::NotController,
        Ok(Err(error)) => Answer::Failed(error.to_string()),
        Err(error) => Answer::Failed(error.to_string()),
    }
}

pub(super) fn encode<T: Serialize>(message: &T) -> Bytes {
    // Texts, numbers and lists always serialize.
    serde_json::to_vec(message).expect("answers serialize").into()
}

/// How long the controller may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(25);
