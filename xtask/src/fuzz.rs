//! Fuzzing: every target under fuzz/, one after the other, from what is under fuzz/seeds/ and what earlier runs have found.

use std::process::Command;

use crate::run::{self, root};

const SECONDS: &str = "60";

fn run_targets(seconds: &str) -> Result<(), String> {
    let listed = Command::new("cargo").args(["+nightly", "fuzz", "list"]).current_dir(root()).output();
    let listed = listed.map_err(|error| format!("cargo +nightly fuzz could not be started: {error}"))?;
    if !listed.status.success() {
        return Err(
            "needs nightly Rust and cargo-fuzz: rustup toolchain install nightly; cargo install cargo-fuzz"
                .into(),
        );
    }
    for target in String::from_utf8_lossy(&listed.stdout).lines() {
        let limit = format!("-max_total_time={seconds}");
        let mut command = Command::new("cargo");
        command.args(["+nightly", "fuzz", "run", target]).args(corpora(target)?);
        command.args(["--", limit.as_str(), "-timeout=10", "-rss_limit_mb=1024"]);
        run::run(command.current_dir(root()))?;
    }
    Ok(())
}

/// Where a target begins: what it has found is written to the first folder, the seeds are only read.
fn corpora(target: &str) -> Result<Vec<String>, String> {
    let found = format!("fuzz/corpus/{target}");
    std::fs::create_dir_all(root().join(&found)).map_err(|error| format!("{found}: {error}"))?;
    let seeds = format!("fuzz/seeds/{target}");
    let has_seeds = root().join(&seeds).is_dir();
    Ok(std::iter::once(found).chain(has_seeds.then_some(seeds)).collect())
}

pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    match arguments {
        [] => run_targets(SECONDS),
        [seconds] if seconds.parse::<u32>().is_ok() => run_targets(seconds),
        _ => Err("usage: cargo xtask fuzz [SECONDS]".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs no seeds: it makes its own log from the bytes that it is given.
    const WITHOUT_SEEDS: &str = "log_recovery";

    #[test]
    fn every_target_has_seeds() {
        let names = |folder: &str| -> Vec<String> {
            let entries = std::fs::read_dir(root().join(folder)).expect("it is in the repository");
            let paths = entries.map(|entry| entry.expect("it can be read").path());
            paths
                .map(|path| path.file_stem().expect("it has a name").to_string_lossy().into_owned())
                .collect()
        };
        let targets = names("fuzz/fuzz_targets");
        assert!(targets.len() > 1, "{targets:?}");
        for target in targets.iter().filter(|target| *target != WITHOUT_SEEDS) {
            assert!(!names(&format!("fuzz/seeds/{target}")).is_empty(), "{target} has no seeds");
        }
        for folder in names("fuzz/seeds") {
            assert!(targets.contains(&folder), "fuzz/seeds/{folder} belongs to no target");
        }
    }
}
