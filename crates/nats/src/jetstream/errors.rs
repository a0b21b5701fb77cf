//! Errors of the controller as JetStream's API has them. There are no wildcard arms, so that each new error
//! needs a decision.

use tailrace_jetstream::error::{ApiError, ErrorKind};
use tailrace_metadata::{ControlError, ControlErrorKind};
use tailrace_node::controller::CommandError;

use super::rights::not_authorized;

/// Part of the controller's text for subjects that two topics would capture.
const OVERLAPS: &str = "a subject can be captured only once";

/// The error of a command; `kind` is for what the protocol has no code for.
pub(super) fn of_command(error: &CommandError, kind: ErrorKind) -> ApiError {
    match error {
        CommandError::Refused(error) => of_refusal(error, kind),
        CommandError::NotController
        | CommandError::OutcomeUnknown
        | CommandError::Stopping
        | CommandError::Append(_) => ErrorKind::ClusterNotAvail.into(),
        CommandError::Metadata(_) | CommandError::Panicked => ApiError::because(kind, error.to_string()),
    }
}

fn of_refusal(error: &ControlError, kind: ErrorKind) -> ApiError {
    use ControlErrorKind as Kind;
    match error.kind() {
        // A topic that is no stream has the name, or a stream that was made at the same time.
        Kind::TopicExists => ErrorKind::StreamNameExist.into(),
        Kind::UnknownTopicOrPartition | Kind::UnknownTopicId => ErrorKind::StreamNotFound.into(),
        Kind::InvalidReplicationFactor | Kind::InvalidAssignment => {
            ApiError::because(ErrorKind::ClusterNoPeers, "no suitable peers for placement")
        }
        Kind::Policy | Kind::InvalidPartitions => ErrorKind::MaximumStreamsLimit.into(),
        Kind::NotAuthorized | Kind::TopicReserved => not_authorized(kind),
        Kind::InvalidConfig => {
            let text = error.to_string();
            if text.contains(OVERLAPS) {
                return ErrorKind::StreamSubjectOverlap.into();
            }
            ApiError::because(ErrorKind::StreamInvalidConfig, text)
        }
        // The text would name a topic that the client may not know.
        Kind::InvalidTopic => ApiError::because(
            ErrorKind::StreamInvalidConfig,
            "stream name is too long, or differs from another topic's name in punctuation only",
        ),
        Kind::DeletionDisabled
        | Kind::NoReassignment
        | Kind::InvalidRequest
        | Kind::InvalidUpdateVersion
        | Kind::InvalidRegistration
        | Kind::NodeIdInUse
        | Kind::UnsupportedLevel
        | Kind::NotRegistered
        | Kind::ResourceNotFound
        | Kind::DuplicateResource
        | Kind::UnacceptableCredential
        | Kind::UnknownToken
        | Kind::TokenExpired
        | Kind::TokenOwnerMismatch
        | Kind::InvalidPrincipalType
        | Kind::Unknown => ApiError::because(kind, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use tailrace_types::TopicName;

    use super::*;

    #[test]
    fn a_hidden_topic_is_not_named() {
        let name = |name| TopicName::new(name).unwrap();
        let overlap = ControlError::SubjectsOverlap {
            topic: name("mine"),
            pattern: "a.*".to_owned(),
            other: name("secret"),
            other_pattern: "a.>".to_owned(),
        };
        let collision = ControlError::TopicCollision { name: name("se_cret"), existing: name("se.cret") };
        for (error, code) in [(overlap, 10065), (collision, 10052)] {
            let error = of_command(&CommandError::Refused(error), ErrorKind::StreamCreate);
            assert_eq!(error.kind().err_code(), code);
            assert!(!error.description().contains("cret"), "{error}");
        }
    }
}
