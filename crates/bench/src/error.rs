//! Errors: facts, with what was expected and what was found.

use std::io;

use thiserror::Error;

/// An impossible schedule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ScheduleError {
    /// Not a number of messages per second.
    #[error(
        "'{text}' is not a rate: expected messages per second, for example 3000, 0.5, 250k or 1M, to three decimals"
    )]
    NoRate {
        /// The given text.
        text: String,
    },
    /// More than one message per nanosecond.
    #[error(
        "{per_second} messages per second are more than the 1,000,000,000 that a nanosecond clock can tell apart"
    )]
    RateTooHigh {
        /// The requested rate.
        per_second: u64,
    },
    /// A rate of 0 where messages are required.
    #[error("a rate of 0 sends nothing: expected at least 0.001 messages per second")]
    RateZero,
    /// A stretch whose length is zero or absurd.
    #[error("a stretch of {duration_ns} ns is empty, longer than 36 years, or too long a ramp for its rate")]
    StretchLength {
        /// The requested length.
        duration_ns: u64,
    },
    /// A series without stretches.
    #[error("a series of rates needs at least one stretch with messages")]
    NoStretches,
    /// A trace that is empty.
    #[error("a recorded trace needs at least one due time")]
    TraceEmpty,
    /// A due time before the previous one.
    #[error("line {line} of the trace is due at {due_ns} ns, before the line above it ({previous_ns} ns)")]
    TraceFalls {
        /// Counted from 1.
        line: usize,
        /// The due time in this line.
        due_ns: u64,
        /// The due time in the line above.
        previous_ns: u64,
    },
    /// A line that is not a due time.
    #[error("line {line} of the trace is '{text}': expected a whole number of nanoseconds since the start")]
    TraceLine {
        /// Counted from 1.
        line: usize,
        /// The text of the line.
        text: String,
    },
}

/// An error of a system under test, or of the connection to it.
#[derive(Debug, Error)]
pub enum RequesterError {
    /// The system cannot be reached.
    #[error("cannot connect to {address}: {error}")]
    Connect {
        /// Host and port.
        address: String,
        /// The system's error.
        error: io::Error,
    },
    /// The receiving end cannot listen there for connections.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// Host and port.
        address: String,
        /// The system's error.
        error: io::Error,
    },
    /// The connection broke.
    #[error("connection to {address} failed: {error}")]
    Connection {
        /// Host and port.
        address: String,
        /// The system's error.
        error: io::Error,
    },
    /// The other side closed the connection.
    #[error("{address} closed the connection")]
    Closed {
        /// Host and port.
        address: String,
    },
    /// The other side sent something that its protocol does not allow here.
    #[error("{address} sent an unexpected answer: expected {expected}, found {found}")]
    Protocol {
        /// Host and port.
        address: String,
        /// The expected answer.
        expected: &'static str,
        /// The answer found, shortened.
        found: String,
    },
    /// The other side did not answer in time.
    #[error("{address} did not answer within {timeout_ms} ms while {doing}")]
    Timeout {
        /// Host and port.
        address: String,
        /// The timeout.
        timeout_ms: u64,
        /// The operation that timed out.
        doing: &'static str,
    },
    /// The request is not possible with this system.
    #[error("{0}")]
    Unsupported(String),
}

/// A run that cannot start, or did not end properly.
#[derive(Debug, Error)]
pub enum BenchError {
    /// See [`ScheduleError`].
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// See [`RequesterError`].
    #[error(transparent)]
    Requester(#[from] RequesterError),
    /// An option is out of its range.
    #[error("{option} is {found}: expected {expected}")]
    Option {
        /// Its name.
        option: &'static str,
        /// The given value.
        found: u64,
        /// The allowed values.
        expected: String,
    },
    /// No system of that name can be measured.
    #[error("'{name}' is not a system that can be measured: expected one of {known}")]
    UnknownSystem {
        /// The given name.
        name: String,
        /// The available systems.
        known: String,
    },
    /// A file of results could not be written or read.
    #[error("{path}: {error}")]
    File {
        /// The path.
        path: String,
        /// The system's error.
        error: io::Error,
    },
    /// A file of results is not in the expected format.
    #[error("{path}: {reason}")]
    Format {
        /// The path.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A thread of the generator could not be started.
    #[error("cannot start a generator thread: {0}")]
    Thread(io::Error),
}
