//! What can go wrong between a coordinator and its agents.

use std::io;

use thiserror::Error;

use crate::error::BenchError;

/// See each.
#[derive(Debug, Error)]
pub enum RemoteError {
    /// A key that cannot be used.
    #[error("key file {path}: {reason}")]
    Key {
        /// Its file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A frame longer than it may be here.
    #[error("a frame of {bytes} bytes: expected at most {bytes_max}")]
    FrameTooLong {
        /// What it has.
        bytes: u64,
        /// What it may have.
        bytes_max: usize,
    },
    /// The connection cannot be made, or broke.
    #[error("connection failed: {0}")]
    Connection(#[from] io::Error),
    /// TLS found fault with what came.
    #[error("TLS failed: {0}")]
    Tls(#[from] rustls::Error),
    /// The other end closed the connection.
    #[error("the connection was closed")]
    Closed,
    /// The other end said nothing for too long.
    #[error("nothing was heard for {seconds} s")]
    Silent {
        /// How long.
        seconds: u64,
    },
    /// The other end does not have the key, or somebody stands between the two.
    #[error("{who} does not have the same key, or somebody stands in between")]
    WrongKey {
        /// Which end.
        who: &'static str,
    },
    /// The other end is another version.
    #[error("versions differ: {own} here, {other} there")]
    WrongVersion {
        /// This end's.
        own: String,
        /// The other end's.
        other: String,
    },
    /// The other end says why not.
    #[error("{0}")]
    Refused(String),
    /// Something that the protocol does not allow here.
    #[error("expected {expected}, found {found}")]
    Protocol {
        /// What should have come.
        expected: &'static str,
        /// What came, shortened.
        found: String,
    },
    /// A certificate could not be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(String),
    /// The run itself.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// An agent failed before the start.
    #[error("agent {agent}: {reason}")]
    Agent {
        /// Its address.
        agent: String,
        /// Why.
        reason: String,
    },
    /// What was asked for is not possible with agents.
    #[error("{0}")]
    Unsupported(String),
}
