//! Measures the subject matchers of tailrace. `cargo xtask bench subjects` runs it and compares it with
//! nats-server's sublist.
//!
//! One process measures one algorithm in one part of the benchmark and prints a JSON line for each
//! measurement (`line::Line`). The Go program in `go/` has the same command line and works on the same
//! patterns and subjects ([`workload`]). Both print checksums of the texts and of the matches, which must be
//! compared before anything else. Nothing here is pinned to a core, no figure is corrected, and no verdict is
//! given: ratios and targets are left to xtask.

pub mod classic;
pub mod line;
pub mod measure;
pub mod options;
pub mod parts;
pub mod random;
pub mod systems;
pub mod table;
pub mod workload;

use classic::{CsTrie, InvertedBitmap, Naive, OptimizedBitmap, Trie};
use options::Options;
use parts::HeapBytes;
use systems::{System, Tailrace};

/// The body of the programs.
///
/// # Errors
/// What is wrong with the arguments.
pub fn run(arguments: &[String], heap: HeapBytes) -> Result<(), String> {
    let options = Options::parse(arguments)?;
    match options.system.as_str() {
        Tailrace::NAME => parts::run::<Tailrace>(&options, heap),
        "naive" => parts::run::<Naive<u64>>(&options, heap),
        "inverted-bitmap" => parts::run::<InvertedBitmap<u64>>(&options, heap),
        "optimized-bitmap" => parts::run::<OptimizedBitmap<u64>>(&options, heap),
        "cs-trie" => parts::run::<CsTrie<u64>>(&options, heap),
        "trie" => parts::run::<Trie<u64>>(&options, heap),
        other => Err(format!("no algorithm '{other}'")),
    }
}
