//! `cargo xtask test`: runs the tests of `cargo test`, several test programs at a time, and shows where the
//! time went.
//!
//! Most tests wait for something, so running the programs one after the other would leave the processors
//! idle.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;
use std::{fs, io, thread};

use serde::Deserialize;
use serde_json::Value;

use xtask::run::{self, root, target};

const USAGE: &str = "usage: cargo xtask test [-p CRATE]...";

/// Test programs that run at a time.
const PROGRAMS: usize = 3;

/// Rows of each table.
const ROWS: usize = 12;

/// A test program that cargo built.
struct Program {
    /// `tailrace-log tests/segments.rs`.
    name: String,
    path: PathBuf,
    /// The folder of its package, where tests look for their files.
    folder: PathBuf,
}

/// The result of one test program.
struct Told {
    name: String,
    seconds: f64,
    passed: usize,
    ignored: usize,
    is_fine: bool,
    output: String,
}

pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let packages = packages(arguments)?;
    let began = Instant::now();
    let programs = build(&packages)?;
    let built = began.elapsed().as_secs_f64();
    let mut told = play(programs);
    let played = began.elapsed().as_secs_f64() - built;
    let documented = examples(&packages);
    let all = began.elapsed().as_secs_f64();
    told.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    tell(&told);
    let (passed, ignored): (usize, usize) =
        (told.iter().map(|told| told.passed).sum(), told.iter().map(|told| told.ignored).sum());
    println!(
        "built in {built:.0} s, tests {played:.0} s, examples in documentation {:.0} s",
        all - built - played
    );
    let failed: Vec<&str> = told.iter().filter(|told| !told.is_fine).map(|told| told.name.as_str()).collect();
    println!(
        "{} programs: {passed} tests passed, {ignored} ignored, {} programs failed",
        told.len(),
        failed.len()
    );
    if !failed.is_empty() {
        return Err(format!("failed: {}", failed.join(", ")));
    }
    documented
}

/// The chosen packages, as arguments for cargo.
fn packages(arguments: &[String]) -> Result<Vec<&str>, String> {
    if arguments.is_empty() {
        return Ok(vec!["--workspace"]);
    }
    arguments.chunks(2).try_fold(Vec::new(), |mut packages, pair| match pair {
        [flag, name] if flag == "-p" => {
            packages.extend(["-p", name.as_str()]);
            Ok(packages)
        }
        _ => Err(USAGE.to_owned()),
    })
}

/// Runs the examples in the documentation of the chosen packages. Of the whole workspace, leaves out crates
/// without any: the compiler takes minutes to find none.
fn examples(packages: &[&str]) -> Result<(), String> {
    let cargo = |packages: &[&str]| run::cargo(&[&["test", "--quiet", "--doc"], packages].concat());
    if packages != ["--workspace"] {
        return cargo(packages);
    }
    let fences = ["--quiet", "--extended-regexp", "^ *//[/!] ```"];
    let crates = fs::read_dir(root().join("crates")).map_err(|error| format!("crates: {error}"))?;
    let mut with_examples = Vec::new();
    for entry in crates.flatten().filter(|entry| entry.path().join("src/lib.rs").exists()) {
        let mut grep = Command::new("grep");
        let found = grep.arg("--recursive").args(fences).arg(entry.path().join("src")).status();
        if found.map_err(|error| format!("grep: {error}"))?.success() {
            with_examples.push(format!("-ptailrace-{}", entry.file_name().to_string_lossy()));
        }
    }
    cargo(&with_examples.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The fields that matter here of a JSON message from cargo.
#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
}

#[derive(Deserialize)]
struct Target {
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

fn build(packages: &[&str]) -> Result<Vec<Program>, String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "--no-run", "--timings", "--quiet", "--message-format", "json-render-diagnostics"]);
    cargo.args(packages).current_dir(root()).stdout(Stdio::piped());
    let mut child = cargo.spawn().map_err(|error| format!("cargo: {error}"))?;
    let stdout = child.stdout.take().ok_or("cargo has no output")?;
    let lines: Result<Vec<String>, io::Error> = BufReader::new(stdout).lines().collect();
    let status = child.wait().map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("cargo test --no-run: {status}"));
    }
    let messages = lines.map_err(|error| error.to_string())?;
    Ok(messages.iter().filter_map(|line| program(&serde_json::from_str(line).ok()?)).collect())
}

/// `None` if the message is not about a test program.
fn program(message: &Message) -> Option<Program> {
    message.profile.as_ref().filter(|profile| profile.test)?;
    let folder = message.manifest_path.as_ref()?.parent()?.to_owned();
    let source = message.target.as_ref()?.src_path.strip_prefix(&folder).ok()?.display().to_string();
    let name = format!("{} {source}", folder.file_name()?.to_string_lossy());
    Some(Program { name, path: message.executable.clone()?, folder })
}

fn play(mut programs: Vec<Program>) -> Vec<Told> {
    // The seeds of the simulator take longer than anything else.
    programs.sort_by_key(|program| !program.name.starts_with("sim "));
    let (waiting, told) = (Mutex::new(VecDeque::from(programs)), Mutex::new(Vec::new()));
    let next = || waiting.lock().expect("no thread panics while it holds the lock").pop_front();
    thread::scope(|scope| {
        for _ in 0..PROGRAMS {
            scope.spawn(|| {
                while let Some(program) = next() {
                    let result = play_one(&program);
                    let mark = if result.is_fine { "ok" } else { "FAILED" };
                    println!("{}: {mark}, {} tests in {:.1} s", result.name, result.passed, result.seconds);
                    if !result.is_fine {
                        println!("{}", result.output);
                    }
                    told.lock().expect("no thread panics while it holds the lock").push(result);
                }
            });
        }
    });
    told.into_inner().expect("no thread panicked")
}

fn play_one(program: &Program) -> Told {
    let began = Instant::now();
    let mut command = Command::new(&program.path);
    // Benchmarks would not understand these arguments, but `cargo test` builds none in this workspace.
    command.args(["-Zunstable-options", "--report-time"]).env("RUSTC_BOOTSTRAP", "1");
    command.env("CARGO_MANIFEST_DIR", &program.folder).current_dir(&program.folder);
    let (output, is_fine) = match command.output() {
        Ok(output) => ([output.stdout, output.stderr].concat(), output.status.success()),
        Err(error) => (format!("{}: {error}", program.path.display()).into_bytes(), false),
    };
    let output = String::from_utf8_lossy(&output).into_owned();
    Told {
        name: program.name.clone(),
        seconds: began.elapsed().as_secs_f64(),
        passed: counted(&output, "passed"),
        ignored: counted(&output, "ignored"),
        is_fine,
        output,
    }
}

/// The number before a word in a test program's summary: `test result: ok. 3 passed; 0 failed; ...`.
fn counted(output: &str, word: &str) -> usize {
    let results = output.lines().filter_map(|line| line.strip_prefix("test result: "));
    let number = |result: &str| {
        let words: Vec<&str> = result.split([' ', ';']).collect();
        let at = words.iter().position(|found| *found == word)?;
        words.get(at.checked_sub(1)?)?.parse::<usize>().ok()
    };
    results.filter_map(number).sum::<usize>()
}

/// A test's name and seconds, from `test NAME ... ok <1.234s>`.
fn timed(line: &str) -> Option<(&str, f64)> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let seconds = rest.split_once('<')?.1.strip_suffix("s>")?.parse().ok()?;
    Some((name, seconds))
}

fn tell(told: &[Told]) {
    let timed_of = |told: &Told| {
        let lines: Vec<(String, f64)> = told
            .output
            .lines()
            .filter_map(timed)
            .map(|(name, seconds)| (format!("{}: {name}", told.name), seconds))
            .collect();
        lines
    };
    let tests: Vec<(String, f64)> = told.iter().flat_map(timed_of).collect();
    table("slowest tests", tests);
    table("slowest programs", told.iter().map(|told| (told.name.clone(), told.seconds)).collect());
    table(
        "slowest to compile",
        compiled(&target().join("cargo-timings/cargo-timing.html")).unwrap_or_default(),
    );
}

fn table(title: &str, mut rows: Vec<(String, f64)>) {
    rows.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    println!("{title}:");
    rows.iter().take(ROWS).for_each(|(name, seconds)| println!("  {seconds:7.1} s  {name}"));
}

/// The units that cargo compiled and the seconds each took, from the page of `--timings`. `None` if the page
/// does not have them.
fn compiled(page: &Path) -> Option<Vec<(String, f64)>> {
    let page = fs::read_to_string(page).ok()?;
    let data = page.split_once("const UNIT_DATA = ")?.1.split_once(";\n")?.0;
    let units: Vec<Value> = serde_json::from_str(data).ok()?;
    let row = |unit: &Value| {
        let name = format!("{}{}", unit.get("name")?.as_str()?, unit.get("target")?.as_str()?);
        Some((name, unit.get("duration")?.as_f64()?))
    };
    Some(units.iter().filter_map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_tells_is_counted() {
        let output = "test a::b ... ok <1.500s>\ntest c ... ignored\n\ntest result: ok. 1 passed; 0 failed; 1 ignored; 0 measured\n";
        assert_eq!((counted(output, "passed"), counted(output, "ignored")), (1, 1));
        assert_eq!(output.lines().filter_map(timed).collect::<Vec<_>>(), [("a::b", 1.5)]);
    }

    #[test]
    fn packages_are_named_one_by_one() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(packages(&[]).expect("all"), ["--workspace"]);
        assert_eq!(
            packages(&words("-p tailrace-log -p xtask")).expect("two"),
            ["-p", "tailrace-log", "-p", "xtask"]
        );
        assert!(packages(&words("tailrace-log")).is_err() && packages(&words("-p")).is_err());
    }
}
