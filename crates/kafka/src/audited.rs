//! What handlers tell the audit log: changes by clients that take no command of the controller.

use std::fmt::Display;

use tailrace_kafka_wire::ErrorCode;
use tailrace_node::access::{ChangeEnd, OpenChange};

use crate::context::Context;

/// A change of several parts, such as partitions. It is done if one of them is.
pub(crate) struct Audited {
    change: OpenChange,
    is_done: bool,
    failed: Option<ErrorCode>,
}

impl Context {
    /// Begins a change that the audit log records. The client has been asked for its right.
    pub(crate) fn audited(&self, change: &dyn Display) -> Audited {
        Audited::new(self.node().open_change(self.caller(), change))
    }

    /// The same for a change that an ordinary client may make, too. The audit log bounds it.
    pub(crate) fn audited_common(&self, change: &dyn Display) -> Audited {
        Audited::new(self.node().open_common_change(self.caller(), change))
    }
}

impl Audited {
    fn new(change: OpenChange) -> Self {
        Self { change, is_done: false, failed: None }
    }

    /// Adds what became of a part.
    pub(crate) fn part(&mut self, part: &dyn Display, code: ErrorCode) {
        match code {
            ErrorCode::None => self.change.add(part),
            code => self.change.add(&format_args!("{part}: {}", code.name())),
        }
        self.became(code);
    }

    /// Adds a detail.
    pub(crate) fn add(&mut self, detail: &dyn Display) {
        self.change.add(detail);
    }

    /// Adds what became of a part without its name.
    pub(crate) fn became(&mut self, code: ErrorCode) {
        match code {
            ErrorCode::None => self.is_done = true,
            code => self.failed = self.failed.or(Some(code)),
        }
    }

    /// Records the change, of whose parts all are known.
    pub(crate) fn end(self) {
        let end = match self.failed {
            Some(code) if !self.is_done => end_of(code),
            _ => {
                if self.is_done {
                    ChangeEnd::Done
                } else {
                    ChangeEnd::Unchanged
                }
            }
        };
        self.change.end(end);
    }

    /// Records the change with its only outcome.
    pub(crate) fn end_with(mut self, code: ErrorCode) {
        self.became(code);
        self.end();
    }
}

fn end_of(code: ErrorCode) -> ChangeEnd<'static> {
    match code {
        ErrorCode::None => ChangeEnd::Done,
        ErrorCode::ElectionNotNeeded => ChangeEnd::Unchanged,
        // It may have been stored.
        ErrorCode::UnknownServerError
        | ErrorCode::RequestTimedOut
        | ErrorCode::KafkaStorageError
        | ErrorCode::NotEnoughReplicasAfterAppend => ChangeEnd::Unknown(code.name()),
        code => ChangeEnd::Refused(code.name()),
    }
}
