//! The simulator of replicated partitions, over many seeds.

use std::process::Command;

use crate::run::{self, root};

const USAGE: &str = "usage: cargo xtask sim [--seeds N] [--seed FIRST] [--storm MILLISECONDS]";

pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let (mut first, mut seeds, mut storm_ms) = (None, None, 4000_u64);
    let mut rest = arguments.iter();
    while let Some(name) = rest.next() {
        let value = rest.next().and_then(|value| value.parse().ok()).ok_or(USAGE)?;
        match name.as_str() {
            "--seeds" => seeds = Some(value),
            "--seed" => first = Some(value),
            "--storm" => storm_ms = value,
            _ => return Err(USAGE.to_owned()),
        }
    }
    // A single seed is one to replay.
    let seeds: u64 = seeds.unwrap_or(if first.is_some() { 1 } else { 200 });
    let numbers = [first.unwrap_or(0), seeds, storm_ms].map(|number: u64| number.to_string());
    println!("commit {}", commit());
    let program = ["run", "--release", "--quiet", "-p", "tailrace-sim", "--example", "campaign", "--"];
    run::run(Command::new("cargo").args(program).args(numbers).current_dir(root()))
}

fn commit() -> String {
    let output = Command::new("git")
        .args(["describe", "--always", "--dirty", "--abbrev=12"])
        .current_dir(root())
        .output();
    let text = output.ok().filter(|output| output.status.success()).map(|output| output.stdout);
    text.map_or_else(|| "unknown".to_owned(), |text| String::from_utf8_lossy(&text).trim().to_owned())
}
