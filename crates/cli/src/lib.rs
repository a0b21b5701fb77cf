//! Shared parts of all command-line verbs, whichever crate they are in: how they end ([`failure`]), what they
//! print ([`output`]), and small texts such as times and sizes ([`text`]).
//!
//! Deliberately not here: the verbs themselves, and anything that needs a runtime, a socket or a file.

pub mod failure;
pub mod output;
pub mod text;
