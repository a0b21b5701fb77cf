//! `cargo xtask fuzz`: runs every target under fuzz/, one after the other. Each starts from its inputs under
//! fuzz/seeds/ and from those that earlier runs found.

use std::process::Command;

use xtask::run::{self, root};

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

/// The corpora of a target. The fuzzer writes new inputs to the first folder and only reads the second.
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

    /// Needs no seeds: it writes its own log, and its input only says how to damage it.
    const WITHOUT_SEEDS: &str = "log_recovery";

    #[test]
    fn every_target_has_seeds() {
        let names = |folder: &str| -> Vec<String> {
            let entries = std::fs::read_dir(root().join(folder)).expect("a folder of the repository");
            let paths = entries.map(|entry| entry.expect("a readable entry").path());
            paths.map(|path| path.file_stem().expect("a file name").to_string_lossy().into_owned()).collect()
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
