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
