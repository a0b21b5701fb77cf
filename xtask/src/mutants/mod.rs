//! `cargo xtask mutants`: plants bugs, one at a time, and reports those that no test or simulator notices.
//!
//! The bugs go into a copy of the tree (`target/mutants/tree`) with its own target folder, so that work in
//! the original can go on meanwhile. A bug counts as noticed if the code compiles, and if its test or
//! simulator fails every time with the bug and passes without it.
//!
//! Mutants by operators (`--operators`) are another program, in `xtask/mutants`.

mod listed;
mod tree;

pub(crate) use listed::run;
