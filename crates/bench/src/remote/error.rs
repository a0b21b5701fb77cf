//! Errors between a coordinator and its agents.

use std::io;

use thiserror::Error;

use crate::error::BenchError;

/// An error of a run over agents.
#[derive(Debug, Error)]
pub enum RemoteError {
    /// An unusable key.
    #[error("key file {path}: {reason}")]
    Key {
        /// The key file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A frame above the size limit.
    #[error("a frame of {bytes} bytes: expected at most {bytes_max}")]
    FrameTooLong {
        /// Its size.
        bytes: u64,
        /// The limit.
        bytes_max: usize,
    },
    /// The connection could not be made, or broke.
    #[error("connection failed: {0}")]
    Connection(#[from] io::Error),
    /// A TLS error.
    #[error("TLS failed: {0}")]
    Tls(#[from] rustls::Error),
    /// The other end closed the connection.
    #[error("the connection was closed")]
    Closed,
    /// The other end sent nothing for too long.
    #[error("nothing was heard for {seconds} s")]
    Silent {
        /// The time without any data.
        seconds: u64,
    },
    /// The other end does not have the key, or there is a man in the middle.
    #[error("{who} does not have the same key, or there is a man in the middle")]
    WrongKey {
        /// Which end.
        who: &'static str,
    },
    /// The other end has a different version.
    #[error("versions differ: {own} here, {other} there")]
    WrongVersion {
        /// This end's version.
        own: String,
        /// The other end's version.
        other: String,
    },
    /// The other end's reason for refusing.
    #[error("{0}")]
    Refused(String),
    /// A message that the protocol does not allow here.
    #[error("expected {expected}, found {found}")]
    Protocol {
        /// The expected message.
        expected: &'static str,
        /// The message found, shortened.
        found: String,
    },
    /// A certificate could not be created.
    #[error("cannot create a certificate: {0}")]
    Certificate(String),
    /// An error of the run itself.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// An agent failed before the start.
    #[error("agent {agent}: {reason}")]
    Agent {
        /// The agent's address.
        agent: String,
        /// The reason.
        reason: String,
    },
    /// The request is not possible with agents.
    #[error("{0}")]
    Unsupported(String),
}
