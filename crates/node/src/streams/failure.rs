//! Why a stream gives no answer.

use serde::{Deserialize, Serialize};
use tailrace_jetstream::error::{ApiError, ErrorKind};

/// Why a stream gives no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum StreamFailure {
    /// There is no such topic, or it has several partitions, or no front speaks for it.
    #[error("there is no such stream")]
    NoStream,
    /// No message is selected.
    #[error("no message found")]
    NoMessage,
    /// There are more subjects than were allowed: as many as this.
    #[error("{0} subjects have messages")]
    TooManySubjects(u64),
    /// The pattern is no subject.
    #[error("'{0}' is not a subject")]
    Subject(String),
    /// No leader was found in time, or it did not answer in time.
    #[error("the leader of the stream is not there: {0}")]
    NoLeader(String),
    /// The stream has more messages, subjects, or bytes of memory than the settings allow.
    #[error("{0}")]
    TooLarge(String),
    /// Too much is under way.
    #[error("too many requests wait for streams")]
    Busy,
    /// The log cannot be read. The fault is in the server's log.
    #[error("the stream cannot be read: {0}")]
    Unreadable(String),
    /// The error of JetStream's API with this code and text.
    #[error("{1}")]
    Api(u16, String),
}

impl StreamFailure {
    /// The failure that an error of the API is.
    pub(super) fn of(error: &ApiError) -> Self {
        Self::Api(error.kind().err_code(), error.description().to_owned())
    }

    /// The error as JetStream's API has it.
    pub fn to_api_error(&self) -> ApiError {
        let why = self.to_string();
        match self {
            Self::NoStream => ErrorKind::StreamNotFound.into(),
            Self::NoMessage => ErrorKind::NoMessageFound.into(),
            Self::TooManySubjects(_) | Self::Subject(_) => ErrorKind::BadRequest.into(),
            Self::NoLeader(_) => ErrorKind::ClusterNotAvail.into(),
            Self::TooLarge(_) => ErrorKind::StorageResourcesExceeded.into(),
            Self::Busy => ErrorKind::InsufficientResources.into(),
            Self::Unreadable(_) => ApiError::because(ErrorKind::StreamGeneral, why),
            Self::Api(code, text) => ApiError::told(*code, text.clone())
                .unwrap_or_else(|| ApiError::because(ErrorKind::StreamGeneral, why)),
        }
    }
}
