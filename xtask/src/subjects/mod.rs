//! `cargo xtask prove subjects`: evidence beyond ordinary tests that the subject matcher is right. It
//! consists of models, Miri, ThreadSanitizer, long histories, and deliberately broken matchers whose bugs the
//! tests must find.

mod reached;

use std::process::{Command, Stdio};

use xtask::run::{self, root, target};

const PACKAGE: [&str; 2] = ["-p", "tailrace-subjects"];

/// How much of each to run.
struct Effort {
    /// Runs of each model under each scheduler.
    model_runs: &'static str,
    lookups: &'static str,
    histories: &'static str,
    stress_seconds: &'static str,
    /// Whether to include the checks that need a nightly toolchain or always take long.
    full: bool,
}

const QUICK: Effort =
    Effort { model_runs: "100", lookups: "500000", histories: "500", stress_seconds: "3", full: false };
const FULL: Effort =
    Effort { model_runs: "1000", lookups: "12000000", histories: "5000", stress_seconds: "20", full: true };

pub(crate) fn prove(options: &[&str]) -> Option<Result<(), String>> {
    match options {
        [] => Some(prove_with(&QUICK)),
        ["--full"] => Some(prove_with(&FULL)),
        // Separate, because it takes longer than all the rest.
        ["--miri"] => Some(miri()),
        _ => None,
    }
}

fn prove_with(effort: &Effort) -> Result<(), String> {
    models(effort)?;
    histories(effort)?;
    if effort.full {
        broken_histories("conflict")?;
        broken_histories("stamp")?;
        let models = |(what, tests)| broken(effort, "--cfg shuttle", what, tests);
        let all = [
            ("conflict", "models::transitions"),
            ("stamp", "models::transitions"),
            ("moved", "models::memory"),
        ];
        all.into_iter().try_for_each(models)?;
        // `dropped` affects only a lookup that sleeps through two moves of a table. A random schedule is
        // unlikely to produce that.
        broken(effort, "", "dropped", "steps")?;
        thread_sanitizer()?;
        miri_churn()?;
    }
    Ok(())
}

/// Cargo with flags for the compiler, in a separate target folder so that other builds stay valid.
pub(crate) fn cargo(folder: &str, flags: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root()).args(arguments).env("CARGO_TARGET_DIR", target().join(folder));
    if !flags.is_empty() {
        command.env("RUSTFLAGS", flags);
    }
    command
}

fn test<'a>(options: &[&'a str]) -> Vec<&'a str> {
    [&["test"], &PACKAGE[..], options].concat()
}

/// Runs all models, then checks what they have reached.
fn models(effort: &Effort) -> Result<(), String> {
    println!("models, {} runs of each under each scheduler", effort.model_runs);
    let told = target().join("shuttle").join("reached.txt");
    let _ = std::fs::remove_file(&told);
    let arguments = test(&["--lib", "--quiet", "models::", "--", "--test-threads=2"]);
    let mut command = cargo("shuttle", "--cfg shuttle", &arguments);
    run::run(command.env("TAILRACE_MODEL_RUNS", effort.model_runs).env("TAILRACE_MODEL_REACHED", &told))?;
    let text = std::fs::read_to_string(&told).map_err(|error| format!("{}: {error}", told.display()))?;
    // Some collisions happen in one run of a thousand, so only a full run asks for them.
    reached::judge(&root(), &text, effort.full)
}

fn histories(effort: &Effort) -> Result<(), String> {
    println!("histories, {} lookups; {} s of stress", effort.lookups, effort.stress_seconds);
    let mut options = vec!["--release", "--quiet"];
    for name in ["linearizability", "linearizability_anomalies", "memory", "churn", "stress"] {
        options.extend(["--test", name]);
    }
    options.extend(["--", "--nocapture", "--test-threads=1"]);
    let mut command = Command::new("cargo");
    command.current_dir(root()).args(test(&options)).env("TAILRACE_PROVE_LOOKUPS", effort.lookups);
    command.env("TAILRACE_PROVE_HISTORIES", effort.histories);
    run::run(command.env("TAILRACE_PROVE_SECONDS", effort.stress_seconds))
}

/// Runs the histories of a broken matcher. The test itself fails if it finds no anomaly.
fn broken_histories(what: &str) -> Result<(), String> {
    println!("histories of a matcher without its `{what}`: the test must find an anomaly");
    let options =
        ["--release", "--quiet", "--test", "linearizability_anomalies", "combination", "--", "--nocapture"];
    let mut command = cargo("broken", &format!("--cfg tailrace_broken=\"{what}\""), &test(&options));
    run::run(command.env("TAILRACE_PROVE_LOOKUPS", "2000000"))
}

/// Runs tests of a broken matcher, of which at least one must fail.
fn broken(effort: &Effort, flags: &str, what: &str, tests: &str) -> Result<(), String> {
    println!("{tests} of a matcher without its `{what}`: at least one must fail");
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

/// Fails unless the nightly toolchain has these components: a check that is skipped proves nothing.
fn need(components: &[&str]) -> Result<(), String> {
    let listed = Command::new("rustup").args(["+nightly", "component", "list", "--installed"]).output();
    let listed = listed.map_err(|error| format!("rustup could not be started: {error}"))?;
    let listed = String::from_utf8_lossy(&listed.stdout);
    let is_there = |component: &&str| listed.lines().any(|line| line.starts_with(*component));
    if components.iter().all(is_there) {
        return Ok(());
    }
    let components = components.join(" ");
    Err(format!("rustup toolchain install nightly; rustup component add --toolchain nightly {components}"))
}

fn miri() -> Result<(), String> {
    let tests = ["tuple_space", "memory", "linearizability", "linearizability_anomalies", "churn", "stress"];
    let tests = tests.iter().flat_map(|name| ["--test", name]);
    println!("Miri");
    run_miri(PACKAGE, &["--lib"].into_iter().chain(tests).collect::<Vec<_>>(), "")?;
    println!("Miri, the classical algorithms");
    run_miri(["-p", "tailrace-subjects-bench"], &["--lib", "classic::"], "")
}

/// Runs threads at one table under Miri. Where the language allows it, Miri lets a load see the value of an
/// older store, and each seed gives another order of steps.
fn miri_churn() -> Result<(), String> {
    for seed in 0..MIRI_SEEDS {
        println!("Miri, churn of seed {seed}, {MIRI_SECONDS} s");
        run_miri(PACKAGE, &["--test", "churn"], &format!("-Zmiri-seed={seed} -Zmiri-preemption-rate=0.05"))?;
    }
    Ok(())
}

const MIRI_SEEDS: u32 = 3;
const MIRI_SECONDS: &str = "60";

fn run_miri(package: [&str; 2], tests: &[&str], flags: &str) -> Result<(), String> {
    need(&["miri", "rust-src"])?;
    // Leaks: crossbeam-epoch never frees its last garbage, so tests/memory.rs counts drops instead. Borrows
    // and provenance: crossbeam-epoch 0.9 breaks the rules of stacked borrows and of strict provenance when a
    // thread registers, before any code of ours runs.
    let all = "-Zmiri-disable-isolation -Zmiri-ignore-leaks -Zmiri-permissive-provenance -Zmiri-tree-borrows";
    let arguments = [&["+nightly", "miri", "test"], &package[..], tests].concat();
    let mut command = cargo("miri", "", &arguments);
    run::run(command.env("MIRIFLAGS", format!("{all} {flags}")).env("TAILRACE_PROVE_SECONDS", MIRI_SECONDS))
}

fn thread_sanitizer() -> Result<(), String> {
    need(&["rust-src"])?;
    println!("ThreadSanitizer");
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let target = ["--target", &triple, "-Zbuild-std", "--release"];
    let tests = ["linearizability", "linearizability_anomalies", "churn", "stress"];
    let tests = tests.iter().flat_map(|name| ["--test", name]).collect::<Vec<_>>();
    let arguments = [&["+nightly", "test"], &PACKAGE[..], &target, &tests].concat();
    let mut command = cargo("tsan", SANITIZER_FLAGS, &arguments);
    run::run(command.env("TAILRACE_PROVE_LOOKUPS", "1000000").env("TAILRACE_PROVE_SECONDS", "20"))
}

const SANITIZER_FLAGS: &str = "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer";
