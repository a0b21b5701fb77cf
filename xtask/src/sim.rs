//! `cargo xtask sim`: runs the simulator over many seeds, with nodes as they ship, with one replicated
//! partition, or with deliberate bugs.

use std::process::Command;

use xtask::run::{self, root};

const USAGE: &str =
    "usage: cargo xtask sim [--nodes | --group | --bugs] [--seeds N] [--seed FIRST] [--storm MILLISECONDS] \
                     [--without NUMBERS | --only NUMBERS]
       cargo xtask sim --nodes --seed N [--storm MILLISECONDS] [--without NUMBERS | --only NUMBERS] --trace";

#[derive(Default)]
struct Options {
    kinds: Vec<&'static str>,
    first: Option<u64>,
    seeds: Option<u64>,
    storm_ms: Option<u64>,
    /// The selection of faults: `without` or `only`, and their numbers.
    mask: Vec<String>,
    /// Print the faults of one run, the requests and responses of its clients, and the logs of its nodes.
    trace: bool,
}

pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let options = parse(arguments).ok_or(USAGE)?;
    println!("commit {}", commit());
    let mut failed = Vec::new();
    for kind in &options.kinds {
        // `--seed` without `--seeds` replays that one seed.
        let seeds = options.seeds.unwrap_or(if options.first.is_some() { 1 } else { 200 });
        let storm_ms = options.storm_ms.unwrap_or(match *kind {
            "group" => 4_000,
            _ => 5_000,
        });
        let [first, seeds, storm_ms] =
            [options.first.unwrap_or(0), seeds, storm_ms].map(|number| number.to_string());
        let program =
            ["run", "--profile", "sim", "--quiet", "-p", "tailrace-sim", "--example", "campaign", "--"];
        let mut campaign = Command::new("cargo");
        campaign.args(program).current_dir(root());
        if options.trace {
            campaign.args(["trace", *kind, &first, &storm_ms, "debug"]);
        } else {
            campaign.args([*kind, &first, &seeds, &storm_ms]);
        }
        campaign.args(&options.mask);
        if let Err(error) = run::run(&mut campaign) {
            failed.push(error);
        }
    }
    failed.into_iter().next().map_or(Ok(()), Err)
}

fn parse(arguments: &[String]) -> Option<Options> {
    let mut options = Options::default();
    let mut rest = arguments.iter();
    while let Some(name) = rest.next() {
        match name.as_str() {
            "--nodes" => options.kinds.push("nodes"),
            "--group" => options.kinds.push("group"),
            "--bugs" => options.kinds.push("bugs"),
            "--seeds" => options.seeds = Some(rest.next()?.parse().ok()?),
            "--seed" => options.first = Some(rest.next()?.parse().ok()?),
            "--storm" => options.storm_ms = Some(rest.next()?.parse().ok()?),
            "--trace" => options.trace = true,
            "--without" | "--only" => options.mask = vec![name[2..].to_owned(), rest.next()?.clone()],
            _ => return None,
        }
    }
    if options.trace && (options.kinds != ["nodes"] || options.first.is_none()) {
        return None;
    }
    if options.kinds.is_empty() {
        options.kinds = vec!["nodes", "group"];
    }
    Some(options)
}

fn commit() -> String {
    let output = Command::new("git")
        .args(["describe", "--always", "--dirty", "--abbrev=12"])
        .current_dir(root())
        .output();
    let text = output.ok().filter(|output| output.status.success()).map(|output| output.stdout);
    text.map_or_else(|| "unknown".to_owned(), |text| String::from_utf8_lossy(&text).trim().to_owned())
}
