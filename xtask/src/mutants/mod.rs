//! Plants bugs, one at a time, and says which of them nobody notices.
//!
//! They are planted in a copy of the tree (`target/mutants/tree`), which has a target folder of its own, so that work goes
//! on beside it. A bug counts as noticed if everything compiles, what is to notice it fails every time, and passes without
//! the bug.

mod listed;
mod operators;
mod tree;

pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    match arguments.split_first() {
        Some((first, rest)) if first == "--operators" => operators::run(rest),
        _ => listed::run(arguments),
    }
}
