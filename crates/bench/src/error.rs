//! What can be wrong: facts, with what was expected and what was found.

use std::io;

use thiserror::Error;

/// A schedule that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ScheduleError {
    /// Not a number of messages per second.
    #[error(
        "'{text}' is no rate: expected messages per second, for instance 3000, 0.5, 250k or 1M, to three decimals"
    )]
    NoRate {
        /// What was given.
        text: String,
    },
    /// More than one message per nanosecond.
    #[error(
        "{per_second} messages per second are more than the 1,000,000,000 that a clock of nanoseconds can tell apart"
    )]
    RateTooHigh {
        /// What was asked for.
        per_second: u64,
    },
    /// A rate of 0 where there must be messages.
    #[error("a rate of 0 sends nothing: expected at least 0.001 messages per second")]
    RateZero,
    /// A stretch of no or of absurd length.
    #[error("a stretch of {duration_ns} ns is empty, longer than 36 years, or too long a ramp for its rate")]
    StretchLength {
        /// What was asked for.
        duration_ns: u64,
    },
    /// A series without stretches.
    #[error("a series of rates needs at least one stretch with messages")]
    NoStretches,
    /// A trace that is empty.
    #[error("a recorded trace needs at least one due time")]
    TraceEmpty,
    /// A due time that lies before the one above it.
    #[error("line {line} of the trace is due at {due_ns} ns, before the line above it ({previous_ns} ns)")]
    TraceFalls {
        /// Counted from 1.
        line: usize,
        /// What stands there.
        due_ns: u64,
        /// What stands above it.
        previous_ns: u64,
    },
    /// A line that is no due time.
    #[error("line {line} of the trace is '{text}': expected nanoseconds since the beginning, a whole number")]
    TraceLine {
        /// Counted from 1.
        line: usize,
        /// What stands there.
        text: String,
    },
}

/// What a system under test, or the way to it, did wrong.
#[derive(Debug, Error)]
pub enum RequesterError {
    /// It cannot be reached.
    #[error("cannot connect to {address}: {error}")]
    Connect {
        /// Host and port.
        address: String,
        /// What the machine said.
        error: io::Error,
    },
    /// The receiving end cannot wait there for connections.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// Host and port.
        address: String,
        /// What the machine said.
        error: io::Error,
    },
    /// The connection broke.
    #[error("connection to {address} failed: {error}")]
    Connection {
        /// Host and port.
        address: String,
        /// What the machine said.
        error: io::Error,
    },
    /// It closed the connection.
    #[error("{address} closed the connection")]
    Closed {
        /// Host and port.
        address: String,
    },
    /// It said something that its protocol does not allow here.
    #[error("{address} answered wrongly: expected {expected}, found {found}")]
    Protocol {
        /// Host and port.
        address: String,
        /// What should have come.
        expected: &'static str,
        /// What came, shortened.
        found: String,
    },
    /// It did not answer in time.
    #[error("{address} did not answer within {timeout_ms} ms while {doing}")]
    Timeout {
        /// Host and port.
        address: String,
        /// How long was waited.
        timeout_ms: u64,
        /// What was being done.
        doing: &'static str,
    },
    /// What was asked for is not possible with this system.
    #[error("{0}")]
    Unsupported(String),
}

/// A run that cannot begin, or could not end properly.
#[derive(Debug, Error)]
pub enum BenchError {
    /// See [`ScheduleError`].
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// See [`RequesterError`].
    #[error(transparent)]
    Requester(#[from] RequesterError),
    /// An option out of its range.
    #[error("{option} is {found}: expected {expected}")]
    Option {
        /// Its name.
        option: &'static str,
        /// What was given.
        found: u64,
        /// What is possible.
        expected: String,
    },
    /// Nothing of that name can be measured.
    #[error("'{name}' is no system that can be measured: expected one of {known}")]
    UnknownSystem {
        /// What was given.
        name: String,
        /// What is there.
        known: String,
    },
    /// A file of results could not be written or read.
    #[error("{path}: {error}")]
    File {
        /// Which.
        path: String,
        /// What the machine said.
        error: io::Error,
    },
    /// A file of results is not what it should be.
    #[error("{path}: {reason}")]
    Format {
        /// Which.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A thread of the generator could not be started.
    #[error("cannot start a generator thread: {0}")]
    Thread(io::Error),
}
