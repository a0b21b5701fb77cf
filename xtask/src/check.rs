//! `cargo xtask check`: every check of the sources that does not run what they build.

use std::process::Command;
use std::time::Instant;

use crate::tools::{CARGO_DENY, CARGO_MACHETE, TYPOS};
use crate::{codegen, docs};
use xtask::run::{self, root};

/// One check.
struct Step {
    name: &'static str,
    /// Takes a few seconds at most, given what everyday builds leave in the target folder.
    is_quick: bool,
    run: fn() -> Result<(), String>,
}

const STEPS: [Step; 9] = [
    Step {
        name: "format",
        is_quick: true,
        run: || run::cargo(&["fmt", "--all", "--check"]).map_err(|_| "run cargo fmt --all".to_owned()),
    },
    Step { name: "documents", is_quick: true, run: || docs::run(&["--check".to_owned()]) },
    Step { name: "spelling", is_quick: true, run: spelling },
    Step { name: "lints", is_quick: false, run: lints },
    Step { name: "structure", is_quick: false, run: || run::cargo(&["test", "--quiet", "-p", "xtask"]) },
    Step { name: "generated code", is_quick: false, run: generated_code },
    Step { name: "unused dependencies", is_quick: false, run: unused_dependencies },
    Step { name: "licences and sources", is_quick: false, run: licences },
    Step { name: "documentation of crates", is_quick: false, run: documentation },
];

pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let steps: Vec<&Step> = match arguments {
        [] => STEPS.iter().collect(),
        [flag] if flag == "--quick" => STEPS.iter().filter(|step| step.is_quick).collect(),
        [flag] if flag == "--list" => {
            STEPS.iter().for_each(|step| println!("{}", step.name));
            return Ok(());
        }
        [flag, names @ ..] if flag == "--without" => {
            let left_out = names.iter().map(|name| named(name)).collect::<Result<Vec<_>, _>>()?;
            STEPS.iter().filter(|step| left_out.iter().all(|left| left.name != step.name)).collect()
        }
        names => names.iter().map(|name| named(name)).collect::<Result<_, _>>()?,
    };
    let (mut failures, mut again) = (Vec::new(), Vec::new());
    for step in steps {
        let began = Instant::now();
        println!("-- {}", step.name);
        let result = (step.run)();
        println!(
            "-- {}: {} ({:.1} s)",
            step.name,
            if result.is_ok() { "ok" } else { "FAILED" },
            began.elapsed().as_secs_f64()
        );
        if let Err(reason) = result {
            failures.push(format!("{}: {reason}", step.name));
            again.push(format!("'{}'", step.name));
        }
    }
    if failures.is_empty() {
        return Ok(());
    }
    Err(format!("{}\nagain: cargo xtask check {}", failures.join("\n"), again.join(" ")))
}

fn named(name: &str) -> Result<&'static Step, String> {
    let names = STEPS.map(|step| format!("'{}'", step.name)).join(", ");
    let usage = || format!("there is no step '{name}', only {names}");
    STEPS.iter().find(|step| step.name == name).ok_or_else(usage)
}

fn lints() -> Result<(), String> {
    run::cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])
}

fn spelling() -> Result<(), String> {
    let typos = TYPOS.locate()?;
    run::run(Command::new(typos).current_dir(root()))
        .map_err(|_| "correct it, or add the word to _typos.toml".to_owned())
}

/// Needs Kafka's client library, which a contributor need not have. CI insists on it.
fn generated_code() -> Result<(), String> {
    if std::env::var_os("CI").is_none() && !codegen::is_possible() {
        println!("skipped: no kafka-clients jar and no Maven to get it with. CI does this step.");
        return Ok(());
    }
    codegen::run(&["--check".to_owned()])
}

fn unused_dependencies() -> Result<(), String> {
    run::run(
        Command::new(CARGO_MACHETE.locate()?)
            .args(["--with-metadata", "crates", "xtask"])
            .current_dir(root()),
    )
}

/// Checks licences, sources and bans, and advisories if their database has been fetched.
fn licences() -> Result<(), String> {
    let program = CARGO_DENY.locate()?;
    let deny = |checks: &[&str]| {
        run::run(
            Command::new(&program)
                .args(["--log-level", "error", "--all-features", "check"])
                .args(checks)
                .current_dir(root()),
        )
    };
    deny(&["bans", "licenses", "sources"])?;
    let database = std::env::home_dir().unwrap_or_default().join(".cargo/advisory-dbs");
    if !database.is_dir() {
        println!("advisories: skipped: {} does not exist; `cargo deny fetch` gets it", database.display());
        return Ok(());
    }
    deny(&["--disable-fetch", "advisories"])
}

fn documentation() -> Result<(), String> {
    let mut doc = Command::new("cargo");
    doc.args(["doc", "--workspace", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "-D warnings");
    run::run(doc.current_dir(root()))
}
