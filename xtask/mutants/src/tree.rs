//! The copy of the tree in which the mutants are.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;
use xtask::copy;
use xtask::run::target;

/// The crate on which all rooms depend, and the function that is added to it.
const LIBRARY: &str = "crates/types/src/lib.rs";
const CHOOSING: &str = include_str!("planted.txt");

/// Added to the copy's manifest: lints deny what mutants do, and what chooses must be quick.
const LINTS: &str = "warnings = \"allow\"\nunsafe_code = \"allow\"\n";
const PROFILE: &str = "\n[profile.dev.package.tailrace-types]\nopt-level = 3\n";

pub(crate) struct Tree {
    path: PathBuf,
}

/// A message of cargo, with the parts that matter here.
#[derive(Deserialize)]
pub(crate) struct Message {
    pub(crate) reason: String,
    pub(crate) executable: Option<PathBuf>,
    pub(crate) manifest_path: Option<PathBuf>,
    pub(crate) profile: Option<Profile>,
    pub(crate) message: Option<Diagnostic>,
}

#[derive(Deserialize)]
pub(crate) struct Profile {
    pub(crate) test: bool,
}

#[derive(Deserialize)]
pub(crate) struct Diagnostic {
    pub(crate) level: String,
    pub(crate) message: String,
    pub(crate) spans: Vec<Span>,
}

#[derive(Deserialize)]
pub(crate) struct Span {
    pub(crate) file_name: String,
    pub(crate) byte_start: usize,
    pub(crate) byte_end: usize,
    pub(crate) is_primary: bool,
}

/// What cargo said.
pub(crate) struct Said {
    pub(crate) is_fine: bool,
    pub(crate) messages: Vec<Message>,
    pub(crate) errors: String,
}

impl Tree {
    /// Copies the files that git tracks or would add, except those that are `planted`: they are written
    /// later. Files that have not changed keep their time, so that cargo builds little.
    pub(crate) fn copy(planted: &HashSet<&str>) -> Result<Self, String> {
        let tree = Self { path: target().join("mutants/tree") };
        copy::tree(&tree.path, |name, mut content| {
            if name == LIBRARY {
                content.extend_from_slice(CHOOSING.as_bytes());
            } else if name == "Cargo.toml" {
                content = manifest(&String::from_utf8_lossy(&content))?.into_bytes();
            }
            Ok((!planted.contains(name)).then_some(content))
        })?;
        Ok(tree)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file, if it has another content.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> Result<(), String> {
        copy::write(&self.path.join(name), content)
    }

    /// Runs cargo in the copy. It shares the target folder of the original: both need the same packages of
    /// others.
    pub(crate) fn cargo(&self, task: &str, arguments: &[&str]) -> Result<Said, String> {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let output = Command::new(cargo)
            .args([task, "--quiet", "--message-format=json"])
            .args(arguments)
            .current_dir(&self.path)
            .env("CARGO_TARGET_DIR", target())
            .env("CARGO_INCREMENTAL", "0")
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("cargo could not be started: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let messages = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok(Said { is_fine: output.status.success(), messages, errors })
    }
}

impl Said {
    /// The errors of the compiler.
    pub(crate) fn diagnostics(&self) -> impl Iterator<Item = &Diagnostic> {
        self.messages
            .iter()
            .filter_map(|said| said.message.as_ref())
            .filter(|message| message.level == "error")
    }

    /// All errors as a text.
    pub(crate) fn text(&self) -> String {
        let errors: Vec<&str> = self.diagnostics().map(|error| error.message.as_str()).collect();
        format!("{}\n{}", errors.join("\n"), self.errors.trim())
    }
}

/// The manifest of the copy.
fn manifest(text: &str) -> Result<String, String> {
    let without = text.replace("= \"deny\"", "= \"allow\"").replace("unsafe_code = \"allow\"\n", "");
    let (before, lints) = without.split_once("[workspace.lints.rust]\n").ok_or("Cargo.toml has no lints")?;
    Ok(format!("{before}[workspace.lints.rust]\n{LINTS}{lints}{PROFILE}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use xtask::run::root;

    use super::*;

    #[test]
    fn the_copy_denies_nothing() {
        let text = fs::read_to_string(root().join("Cargo.toml")).expect("a manifest");
        let changed = manifest(&text).expect("a manifest with lints");
        assert!(!changed.contains("\"deny\""));
        let changed: toml::Value = toml::from_str(&changed).expect("TOML");
        let allowed = changed["workspace"]["lints"]["rust"]["warnings"].as_str();
        assert_eq!(allowed, Some("allow"));
    }
}
