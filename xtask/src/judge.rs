//! `cargo xtask judge`: has the histories of simulated runs checked by adya, a third-party port of Jepsen's
//! Elle.

use std::path::Path;
use std::process::Command;

use crate::tools::ADYA;
use xtask::run::{self, root};

const USAGE: &str = "usage: cargo xtask judge [--seeds N] [--seed FIRST]";

pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let (mut first, mut seeds) = ("0", "20");
    let mut rest = arguments.iter();
    while let Some(name) = rest.next() {
        let value = rest.next().filter(|value| value.parse::<u64>().is_ok()).ok_or(USAGE)?;
        match name.as_str() {
            "--seed" => first = value,
            "--seeds" => seeds = value,
            _ => return Err(USAGE.to_owned()),
        }
    }
    let histories = root().join("target/histories");
    let adya = ADYA.locate()?;
    let _ = std::fs::remove_dir_all(&histories);
    std::fs::create_dir_all(&histories).map_err(|error| format!("{}: {error}", histories.display()))?;
    let mut campaign = Command::new("cargo");
    campaign.args([
        "run",
        "--profile",
        "sim",
        "--quiet",
        "-p",
        "tailrace-sim",
        "--example",
        "campaign",
        "--",
    ]);
    run::run(campaign.current_dir(root()).arg("histories").arg(&histories).args([first, seeds]))?;
    judge(&adya, &histories)
}

/// Checks the histories one at a time, so that an error can name the history.
fn judge(adya: &Path, histories: &Path) -> Result<(), String> {
    let files = std::fs::read_dir(histories).map_err(|error| error.to_string())?;
    let mut judged = 0;
    for file in files {
        let path = file.map_err(|error| error.to_string())?.path();
        let mut check = Command::new(adya);
        check.args(["check", "-m", "rw-register", "--wfr-keys", "-c", "strict-serializable"]);
        let output = check.arg(&path).output().map_err(|error| format!("adya does not run: {error}"))?;
        if !output.status.success() {
            let told = String::from_utf8_lossy(&output.stdout);
            return Err(format!("{} is not strictly serializable:\n{told}", path.display()));
        }
        judged += 1;
    }
    println!("{judged} histories are strictly serializable");
    if judged == 0 { Err("the campaign wrote no histories".to_owned()) } else { Ok(()) }
}
