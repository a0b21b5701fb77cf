//! What the verbs of the command line share, whichever crate they are in: how they end ([`failure`]), what they print
//! ([`output`]), and the small texts that people type and read ([`text`]).
//!
//! Deliberately not here: verbs, and whatever needs a runtime, a socket or a file.

pub mod failure;
pub mod output;
pub mod text;
