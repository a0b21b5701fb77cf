//! The two connections of most systems: one to publish on, one to receive on.
//!
//! A pair whose ends are on two machines has one of them only, by its [`Role`].

use super::Role;
use super::wire::Wire;
use crate::error::RequesterError;
use crate::requester::{Expects, Readiness};

/// The connections that the role asks for are there between set-up and tear-down.
#[derive(Debug, Default)]
pub(super) struct Pair {
    pub(super) role: Role,
    pub(super) publisher: Option<Wire>,
    pub(super) subscriber: Option<Wire>,
}

impl Pair {
    /// None of its connections is there.
    pub(super) fn with_role(role: Role) -> Self {
        Self { role, publisher: None, subscriber: None }
    }

    /// What one end sees of what both see.
    pub(super) fn expects(&self, both: Expects) -> Expects {
        Expects {
            acknowledgement: both.acknowledgement && self.role.publishes(),
            payload: both.payload.filter(|_| self.role.subscribes()),
        }
    }

    /// Makes the connections that the role asks for, the subscriber's first.
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

    /// Closes what is there.
    pub(super) fn close(&mut self) {
        (self.publisher, self.subscriber) = (None, None);
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
            (Some(only), None) | (None, Some(only)) => Readiness::Sockets(only.watched(), None),
            (None, None) => Readiness::At(u64::MAX),
        }
    }
}
