//! What shows that the subject matcher is right, beyond its ordinary tests: models, an interpreter that knows undefined behaviour, a detector of data
//! races, long histories, and matchers that are broken on purpose, which the tests must find.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::run::{self, root};

const PACKAGE: [&str; 2] = ["-p", "tailrace-subjects"];
const USAGE: &str = "usage: cargo xtask prove subjects [--full | --miri]";

/// How much of everything.
struct Effort {
    /// Runs of each model under each scheduler.
    model_runs: &'static str,
    lookups: &'static str,
    histories: &'static str,
    stress_seconds: &'static str,
    /// Run what needs a nightly toolchain, and what is long in any case.
    full: bool,
}

const QUICK: Effort =
    Effort { model_runs: "100", lookups: "500000", histories: "500", stress_seconds: "3", full: false };
const FULL: Effort =
    Effort { model_runs: "1000", lookups: "12000000", histories: "5000", stress_seconds: "20", full: true };

pub(crate) fn prove(arguments: &[String]) -> Result<(), String> {
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["subjects"] => prove_with(&QUICK),
        ["subjects", "--full"] => prove_with(&FULL),
        // Apart, for it takes longer than all the rest.
        ["subjects", "--miri"] => miri(),
        _ => Err(USAGE.to_owned()),
    }
}

fn prove_with(effort: &Effort) -> Result<(), String> {
    models(effort, "")?;
    histories(effort)?;
    broken_histories("conflict")?;
    broken_histories("stamp")?;
    if effort.full {
        let models = |what: &str| broken(effort, "--cfg shuttle", what, "transitions");
        ["conflict", "stamp"].into_iter().try_for_each(models)?;
        // What is dropped matters to a lookup that sleeps through two moves of a table: no schedule is likely to do that.
        broken(effort, "", "dropped", "steps")?;
        thread_sanitizer()?;
    }
    Ok(())
}

/// Cargo with flags for the compiler, in a folder of its own so that nothing else is built anew.
fn cargo(folder: &str, flags: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    command.current_dir(root()).args(arguments).env("CARGO_TARGET_DIR", target.join(folder));
    if !flags.is_empty() {
        command.env("RUSTFLAGS", flags);
    }
    command
}

fn test<'a>(options: &[&'a str]) -> Vec<&'a str> {
    [&["test"], &PACKAGE[..], options].concat()
}

fn models(effort: &Effort, flags: &str) -> Result<(), String> {
    println!("models, {} runs of each under each scheduler", effort.model_runs);
    let arguments = test(&["--lib", "--quiet", "transitions", "--", "--test-threads=2"]);
    let mut command = cargo("shuttle", &format!("--cfg shuttle {flags}"), &arguments);
    run::run(command.env("TAILRACE_MODEL_RUNS", effort.model_runs))
}

fn histories(effort: &Effort) -> Result<(), String> {
    println!("histories, {} lookups; {} s of stress", effort.lookups, effort.stress_seconds);
    let mut options = vec!["--release", "--quiet"];
    for name in ["linearizability", "linearizability_anomalies", "memory", "stress"] {
        options.extend(["--test", name]);
    }
    options.extend(["--", "--nocapture", "--test-threads=1"]);
    let mut command = Command::new("cargo");
    command.current_dir(root()).args(test(&options)).env("TAILRACE_PROVE_LOOKUPS", effort.lookups);
    command.env("TAILRACE_PROVE_HISTORIES", effort.histories);
    run::run(command.env("TAILRACE_PROVE_SECONDS", effort.stress_seconds))
}

/// The test itself fails if it finds nothing in a broken matcher.
fn broken_histories(what: &str) -> Result<(), String> {
    println!("histories of a matcher without its `{what}`, where something must be found");
    let options =
        ["--release", "--quiet", "--test", "linearizability_anomalies", "combination", "--", "--nocapture"];
    let mut command = cargo("broken", &format!("--cfg tailrace_broken=\"{what}\""), &test(&options));
    run::run(command.env("TAILRACE_PROVE_LOOKUPS", "2000000"))
}

/// Some test must fail.
fn broken(effort: &Effort, flags: &str, what: &str, tests: &str) -> Result<(), String> {
    println!("{tests} of a matcher without its `{what}`, of which some must fail");
    let flags = format!("{flags} --cfg tailrace_broken=\"{what}\"");
    run::run(&mut cargo("broken", &flags, &test(&["--lib", "--quiet", "--no-run"])))?;
    let mut command = cargo("broken", &flags, &test(&["--lib", "--quiet", tests, "--", "--test-threads=2"]));
    command.env("TAILRACE_MODEL_RUNS", effort.model_runs).stdout(Stdio::null()).stderr(Stdio::null());
    match command.status() {
        Ok(status) if !status.success() => Ok(()),
        Ok(_) => Err(format!("none of {tests} notices that `{what}` is broken")),
        Err(error) => Err(format!("cargo could not be started: {error}")),
    }
}

/// Whether the nightly toolchain has a component.
fn has(component: &str) -> bool {
    let listed = Command::new("rustup").args(["+nightly", "component", "list", "--installed"]).output();
    listed.is_ok_and(|listed| String::from_utf8_lossy(&listed.stdout).contains(component))
}

fn miri() -> Result<(), String> {
    if !has("miri") {
        println!("SKIPPED Miri: rustup +nightly component add miri rust-src");
        return Ok(());
    }
    // Leaks: crossbeam-epoch keeps its last garbage for ever; tests/memory.rs counts drops instead. Borrows and provenance: crossbeam-epoch
    // 0.9 breaks the rules of stacked borrows and of strict provenance when a thread registers, before any code of ours.
    let flags =
        "-Zmiri-disable-isolation -Zmiri-ignore-leaks -Zmiri-permissive-provenance -Zmiri-tree-borrows";
    let tests = ["tuple_space", "memory", "linearizability", "linearizability_anomalies"];
    let tests = tests.iter().flat_map(|name| ["--test", name]);
    let arguments: Vec<&str> =
        ["+nightly", "miri", "test", "--lib"].into_iter().chain(PACKAGE).chain(tests).collect();
    println!("Miri");
    run::run(cargo("miri", "", &arguments).env("MIRIFLAGS", flags))
}

fn thread_sanitizer() -> Result<(), String> {
    if !has("rust-src") {
        println!("SKIPPED ThreadSanitizer: rustup +nightly component add rust-src");
        return Ok(());
    }
    println!("ThreadSanitizer");
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let target = ["--target", &triple, "-Zbuild-std", "--release"];
    let what = ["--test", "linearizability", "--test", "linearizability_anomalies", "--test", "stress"];
    let arguments = [&["+nightly", "test"], &PACKAGE[..], &target, &what].concat();
    let mut command = cargo("tsan", SANITIZER_FLAGS, &arguments);
    run::run(command.env("TAILRACE_PROVE_LOOKUPS", "1000000").env("TAILRACE_PROVE_SECONDS", "20"))
}

const SANITIZER_FLAGS: &str = "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer";
