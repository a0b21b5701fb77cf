//! `cargo xtask mutants`: plants bugs, one at a time, and reports those that no test or simulator notices.
//!
//! The bugs go into a copy of the tree (`target/mutants/tree`) with its own target folder, so that work in
//! the original can go on meanwhile. A bug counts as noticed if the code compiles, and if its test or
//! simulator fails every time with the bug and passes without it.

mod listed;
mod tree;

use crate::program_of;

pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    match arguments.split_first() {
        Some((first, rest)) if first == "--operators" => program_of("xtask-mutants", rest),
        _ => listed::run(arguments),
    }
}
