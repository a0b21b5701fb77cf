//! A message on its way, which may go to another subject than its own: what consumers deliver.

use tailrace_nats_wire::Message;

/// A message, and where it goes if that is not its own subject. Receivers see its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Letter<'a> {
    pub(crate) message: &'a Message<'a>,
    pub(crate) at: Option<&'a [u8]>,
}

impl<'a> Letter<'a> {
    /// One that goes to its own subject.
    pub(crate) fn of(message: &'a Message<'a>) -> Self {
        Self { message, at: None }
    }

    /// The subject to which it goes.
    pub(crate) fn to(&self) -> &'a [u8] {
        self.at.unwrap_or(self.message.subject)
    }
}
