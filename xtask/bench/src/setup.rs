//! The preparations of every comparison: programs, folders, and the number of the run.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use xtask::run::{self, root, target};

const FOLDER: &str = "docs/benchmarks";
const RAW_FOLDER: &str = "docs/benchmarks/raw";
/// Quick runs have a separate folder, so that none of their figures replaces a real one.
const QUICK_FOLDER: &str = "docs/benchmarks/raw/quick";

/// Returns the program to measure: the given one, or else one that it builds.
pub(super) fn binary(given: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(path) = given {
        return fs::canonicalize(path).map_err(|error| format!("{}: {error}", path.display()));
    }
    run::cargo(&["build", "--release", "--package", "tailrace"])?;
    Ok(target().join("release/tailrace"))
}

/// Builds one of the Go programs of interop/go.
pub(super) fn go_program(name: &str) -> Result<PathBuf, String> {
    let folder = root().join("interop/go");
    let target = format!("target/{name}");
    let mut go = std::process::Command::new("go");
    go.args(["build", "-o", &target, &format!("./{name}")]).current_dir(&folder);
    run::run(&mut go)?;
    Ok(folder.join(target))
}

/// The folders of the report and of the raw file.
pub(super) fn folders(out: Option<&Path>, quick: bool) -> (PathBuf, PathBuf) {
    match out {
        Some(folder) => (folder.to_owned(), folder.to_owned()),
        None if quick => (root().join(QUICK_FOLDER), root().join(QUICK_FOLDER)),
        None => (root().join(FOLDER), root().join(RAW_FOLDER)),
    }
}

/// The number of a new run: nanoseconds since 1970, so that later runs have larger numbers.
pub(super) fn run_number() -> Result<u64, String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| error.to_string())?;
    u64::try_from(now.as_nanos()).map_err(|error| error.to_string())
}
