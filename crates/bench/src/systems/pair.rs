//! The two connections that most systems need: one to publish on, one to receive on.
//!
//! If its two ends are on two machines, each pair has only the one of its [`Role`].

use super::Role;
use super::wire::Wire;
use crate::error::RequesterError;
use crate::requester::{Expects, Readiness};

/// The connections of the role exist between set-up and teardown.
#[derive(Debug, Default)]
pub(super) struct Pair {
    pub(super) role: Role,
    pub(super) publisher: Option<Wire>,
    pub(super) subscriber: Option<Wire>,
}

impl Pair {
    /// Creates a pair without connections.
    pub(super) fn with_role(role: Role) -> Self {
        Self { role, publisher: None, subscriber: None }
    }

    /// What this role expects of what both ends expect.
    pub(super) fn expects(&self, both: Expects) -> Expects {
        Expects {
            acknowledgement: both.acknowledgement && self.role.publishes(),
            payload: both.payload.filter(|_| self.role.subscribes()),
        }
    }

    /// Opens the connections of the role, the subscriber's first.
    pub(super) fn connect(
        &mut self,
        subscriber: impl FnOnce() -> Result<Wire, RequesterError>,
        publisher: impl FnOnce() -> Result<Wire, RequesterError>,
    ) -> Result<(), RequesterError> {
        self.close();
        self.subscriber = self.role.subscribes().then(subscriber).transpose()?;
        self.publisher = self.role.publishes().then(publisher).transpose()?;
        Ok(())
    }

    /// Closes the open connections.
    pub(super) fn close(&mut self) {
        (self.publisher, self.subscriber) = (None, None);
    }

    /// The publisher's output buffer, if `bytes` more fit into it.
    pub(super) fn room_for(&mut self, bytes: usize) -> Option<&mut Vec<u8>> {
        self.publisher.as_mut()?.room_for(bytes)
    }

    /// Sends as much of the output buffer as possible without waiting.
    pub(super) fn flush(&mut self) -> Result<(), RequesterError> {
        self.publisher.as_mut().map_or(Ok(()), Wire::flush)
    }

    /// What a requester with these connections waits for. It waits forever while there are none.
    pub(super) fn readiness(&self) -> Readiness<'_> {
        match (&self.publisher, &self.subscriber) {
            (Some(publisher), Some(subscriber)) => {
                Readiness::Sockets(publisher.watched(), Some(subscriber.watched()))
            }
            (Some(only), None) | (None, Some(only)) => Readiness::Sockets(only.watched(), None),
            (None, None) => Readiness::At(u64::MAX),
        }
    }
}
