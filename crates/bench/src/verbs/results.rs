//! Results of runs, read back: `result.json` in folders.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tailrace_cli::failure::{Failure, plain};
use tailrace_cli::text::table::Table;

use crate::recorder::Mishaps;
use crate::verdict::{Verdict, VerdictKind};

/// Most different headlines to show for a set.
const HEADLINES_SHOWN: usize = 5;

/// Depth of the runs in a plan's folder: SYSTEM/WORKLOAD/round-N.
pub(super) const PLAN_DEPTH: u32 = 3;

/// Loads the result in a folder, or the results in its subfolders down to this depth.
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
            .map_err(|error| format!("{} is not a result: {error}", path.display()))?;
        let verdict = Verdict::of_result(&run);
        if matches!(
            verdict.kind(),
            VerdictKind::Invalid | VerdictKind::Interrupted | VerdictKind::NothingMeasured
        ) {
            let (path, headline) = (path.display(), verdict.headline());
            return Err(format!(
                "{path}: {headline}; leave it out, or run it again (a plan's own command does)"
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

/// A table of sets of runs, a row each: how many runs, what went wrong in them, and how many are doubtful.
/// Below it, why those are doubtful.
pub(super) fn worth(sets: &[(&str, &[Value])]) -> String {
    let mut head = vec!["", "RUNS"];
    head.extend(Mishaps::COLUMNS);
    head.push("VALID");
    let mut table = Table::new(0, &head);
    let mut reasons = String::new();
    for (name, runs) in sets {
        let mut mishaps = Mishaps::default();
        let (mut doubtful, mut headlines) = (0, Vec::new());
        for run in *runs {
            mishaps.add(&Mishaps::of_result(run));
            let verdict = Verdict::of_result(run);
            doubtful += usize::from(verdict.kind() == VerdictKind::Doubtful);
            if !verdict.reasons().is_empty() && !headlines.contains(&verdict.headline()) {
                headlines.push(verdict.headline());
            }
        }
        let mut cells = vec![(*name).to_owned(), runs.len().to_string()];
        cells.extend(mishaps.cells());
        cells.push(if doubtful == 0 { "all".to_owned() } else { format!("all, {doubtful} doubtful") });
        table.row(cells);
        for headline in headlines.iter().take(HEADLINES_SHOWN) {
            reasons.push_str(&format!("{name}: {headline}\n"));
        }
        if let Some(more) = headlines.len().checked_sub(HEADLINES_SHOWN).filter(|more| *more > 0) {
            reasons.push_str(&format!("{name}: and {more} more\n"));
        }
    }
    format!("{}{}\n{reasons}", table.render(), Mishaps::LEGEND)
}

/// Checks that all runs have the same values for these keys.
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
