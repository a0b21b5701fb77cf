//! The text files of the repository.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::run::root;

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
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .map_err(|error| format!("git: {error}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let names = String::from_utf8(output.stdout).map_err(|error| format!("git ls-files: {error}"))?;
    // Git also lists deleted files and the binary files of corpora. Skip both.
    let read = |name: &str| {
        let content = fs::read_to_string(root().join(name)).ok()?;
        Some(Text { path: name.into(), content })
    };
    Ok(names.split_terminator('\0').filter_map(read).collect())
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
