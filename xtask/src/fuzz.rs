//! Fuzzing: every target under fuzz/, one after the other.

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
        let arguments =
            ["+nightly", "fuzz", "run", target, "--", limit.as_str(), "-timeout=10", "-rss_limit_mb=1024"];
        run::run(Command::new("cargo").args(arguments).current_dir(root()))?;
    }
    Ok(())
}

pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    match arguments {
        [] => run_targets(SECONDS),
        [seconds] if seconds.parse::<u32>().is_ok() => run_targets(seconds),
        _ => Err("usage: cargo xtask fuzz [SECONDS]".to_owned()),
    }
}
