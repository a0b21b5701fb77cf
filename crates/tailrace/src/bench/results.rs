//! Results of runs, read back: `result.json` in folders.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::failure::{Failure, plain};

/// How deep the runs of a plan lie in its folder: SYSTEM/WORKLOAD/round-N.
pub(super) const PLAN_DEPTH: u32 = 3;

/// The result in a folder, or those in the folders in it, as deep as that.
pub(super) fn load(folder: &Path, depth: u32) -> Result<Vec<Value>, Failure> {
    let mut files = Vec::new();
    find(folder, depth, &mut files)?;
    if files.is_empty() {
        return Err(format!("{} holds no result.json, nor do the folders in it", folder.display()).into());
    }
    let mut runs = Vec::new();
    for path in files {
        let bytes = std::fs::read(&path).map_err(|error| wrong(&path, &error))?;
        let run: Value = serde_json::from_slice(&bytes)
            .map_err(|error| format!("{} is no result: {error}", path.display()))?;
        if run["valid"] != true || run["interrupted"] == true {
            return Err(format!(
                "{} is of a run that was invalid or interrupted: leave it out",
                path.display()
            )
            .into());
        }
        runs.push(run);
    }
    Ok(runs)
}

fn find(folder: &Path, depth: u32, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let own = folder.join("result.json");
    if own.exists() {
        files.push(own);
        return Ok(());
    }
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| wrong(folder, &error))? {
        let path = entry.map_err(|error| wrong(folder, &error))?.path();
        if path.is_dir() {
            folders.push(path);
        }
    }
    folders.sort();
    if depth > 0 {
        for inner in folders {
            find(&inner, depth - 1, files)?;
        }
    }
    Ok(())
}

/// Whether all runs have the same values of these keys.
pub(super) fn check_alike<'a>(
    keys: &[&str],
    runs: impl IntoIterator<Item = &'a Value> + Clone,
) -> Result<(), Failure> {
    let Some(first) = runs.clone().into_iter().next() else { return Ok(()) };
    for key in keys {
        for run in runs.clone() {
            if run[key] != first[key] {
                return Err(
                    format!("the runs are not alike: {key} is {} and {}", first[key], run[key]).into()
                );
            }
        }
    }
    Ok(())
}

fn wrong(path: &Path, error: &std::io::Error) -> String {
    format!("cannot read {}: {}", path.display(), plain(error))
}
