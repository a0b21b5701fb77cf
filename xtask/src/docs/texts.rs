//! The text files of the repository.

use std::fs;
use std::path::PathBuf;

use xtask::run::{self, root};

/// A text file that git tracks or would add.
pub(super) struct Text {
    /// The path from the root of the workspace.
    pub(super) path: PathBuf,
    pub(super) content: String,
}

impl Text {
    pub(super) fn has_extension(&self, extension: &str) -> bool {
        self.path.extension().is_some_and(|found| found == extension)
    }
}

/// Reads all text files that git tracks or would add.
pub(super) fn tracked() -> Result<Vec<Text>, String> {
    // Git also lists deleted files and the binary files of corpora. Skip both.
    let read = |name: &str| {
        let content = fs::read_to_string(root().join(name)).ok()?;
        Some(Text { path: name.into(), content })
    };
    Ok(run::tracked()?.iter().filter_map(|name| read(name)).collect())
}

/// Lines outside fenced code, with their numbers, which start at 1.
pub(super) fn prose_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some((at + 1, line))
    })
}
