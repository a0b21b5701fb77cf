//! What a client may do to streams: what it may do to their topics through Kafka.

use tailrace_identity::acl::{Operation, ResourceKind};
use tailrace_jetstream::error::{ApiError, ErrorKind};
use tailrace_node::access::Rights;

use super::stream::Stream;

/// The rights of the client that asks.
pub(super) struct StreamRights<'a>(pub(super) Rights<'a>);

impl StreamRights<'_> {
    /// Reports whether the client may know that there is such a topic.
    pub(super) fn sees(&self, stream: &Stream) -> bool {
        self.0.sees(Operation::Describe, ResourceKind::Topic, stream.topic_name())
    }

    /// Checks that the client may read messages of the stream.
    pub(super) fn may_read(&self, stream: &Stream) -> bool {
        self.0.may(Operation::Read, ResourceKind::Topic, stream.topic_name())
    }

    /// # Errors
    /// 10049.
    pub(super) fn check_create(&self, topic: &str) -> Result<(), ApiError> {
        let is_allowed = self.0.sees_cluster(Operation::Create)
            || self.0.may(Operation::Create, ResourceKind::Topic, topic);
        allowed(is_allowed, ErrorKind::StreamCreate)
    }

    /// # Errors
    /// 10069.
    pub(super) fn check_update(&self, topic: &str) -> Result<(), ApiError> {
        allowed(self.0.may(Operation::AlterConfigs, ResourceKind::Topic, topic), ErrorKind::StreamUpdate)
    }

    /// # Errors
    /// 10050.
    pub(super) fn check_delete(&self, topic: &str) -> Result<(), ApiError> {
        let is_allowed = self.0.sees_cluster(Operation::Delete)
            || self.0.may(Operation::Delete, ResourceKind::Topic, topic);
        allowed(is_allowed, ErrorKind::StreamDelete)
    }

    /// What DeleteRecords asks for.
    ///
    /// # Errors
    /// 10110.
    pub(super) fn check_purge(&self, topic: &str) -> Result<(), ApiError> {
        allowed(self.0.may(Operation::Delete, ResourceKind::Topic, topic), ErrorKind::StreamPurgeFailed)
    }
}

/// JetStream has no error for a missing right: nats-server knows rights to subjects only.
fn allowed(is_allowed: bool, kind: ErrorKind) -> Result<(), ApiError> {
    if is_allowed { Ok(()) } else { Err(not_authorized(kind)) }
}

/// The error for a missing right.
pub(super) fn not_authorized(kind: ErrorKind) -> ApiError {
    ApiError::because(kind, "not authorized")
}
