//! The two connections of most systems: one to publish on, one to receive on.

use super::wire::Wire;
use crate::error::RequesterError;
use crate::requester::Readiness;

/// Both are there between set-up and tear-down.
#[derive(Debug, Default)]
pub(super) struct Pair {
    pub(super) publisher: Option<Wire>,
    pub(super) subscriber: Option<Wire>,
}

impl Pair {
    pub(super) fn of(publisher: Wire, subscriber: Wire) -> Self {
        Self { publisher: Some(publisher), subscriber: Some(subscriber) }
    }

    /// The buffer of what is to be published, if `bytes` more fit into it.
    pub(super) fn room_for(&mut self, bytes: usize) -> Option<&mut Vec<u8>> {
        self.publisher.as_mut()?.room_for(bytes)
    }

    /// Sends what it can of what is to be published, without waiting.
    pub(super) fn flush(&mut self) -> Result<(), RequesterError> {
        self.publisher.as_mut().map_or(Ok(()), Wire::flush)
    }

    /// What a requester with these connections waits for; for ever while it has none.
    pub(super) fn readiness(&self) -> Readiness<'_> {
        match (&self.publisher, &self.subscriber) {
            (Some(publisher), Some(subscriber)) => {
                Readiness::Sockets(publisher.watched(), Some(subscriber.watched()))
            }
            _ => Readiness::At(u64::MAX),
        }
    }
}
