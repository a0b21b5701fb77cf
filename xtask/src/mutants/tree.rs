//! The copy of the tree in which bugs are planted.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use xtask::copy;
use xtask::run::root;

/// Tests that run for longer than this count as having noticed the bug. Without a bug, none takes a third of
/// it.
const TEST_SECONDS_MAX: &str = "900";

/// The limit for a simulator with hundreds of seeds. A simulator that runs for longer leaves the bug
/// undecided.
const SIMULATION_SECONDS_MAX: &str = "7200";

/// An optimised build: without optimisation, the hundreds of seeds would take hours.
const CAMPAIGN: [&str; 7] = ["--quiet", "--profile", "sim", "-p", "tailrace-sim", "--example", "campaign"];

/// The campaign prints this when all seeds have passed.
const NOT_NOTICED: &str = "NOT NOTICED";

/// No time limit, for builds.
const NEVER: &str = "0";

/// The exit status of `timeout` when the limit was reached.
const TIMED_OUT: i32 = 124;

/// The limit of a process's address space, in KiB: a bug may allocate without end.
const ADDRESS_SPACE_KIB: &str = "20000000";

/// The verdict on a bug.
pub(super) enum Outcome {
    /// With the failure that noticed it.
    Noticed(String),
    Survived,
    /// The bug could not be planted, or the code does not compile with it.
    Unusable(String),
    /// The result says nothing about the bug: the test or simulator also fails without it, fails only
    /// sometimes, or did not end in time.
    Undecided(String),
}

/// An observation while a bug was planted.
pub(super) enum Look {
    Told(Outcome),
    /// The first seed of a simulator that failed.
    Seed {
        simulator: &'static str,
        seed: u64,
        anomaly: String,
    },
}

pub(super) struct Tree {
    path: PathBuf,
    /// The results of tests without a bug, by their arguments. `Err` says why these tests cannot judge a bug.
    sound: RefCell<HashMap<String, Result<(), String>>>,
}

impl Tree {
    /// Copies the files of this tree that git tracks or would add. Files that have not changed are left
    /// alone, so that cargo rebuilds little.
    pub(super) fn copy() -> Result<Self, String> {
        let to = root().join("target/mutants/tree");
        copy::tree(&to, |_, content| Ok(Some(content)))?;
        Ok(Self { path: to, sound: RefCell::default() })
    }

    /// Reads a file. Its path is relative to the root of the workspace.
    pub(super) fn read(&self, file: &Path) -> Result<String, String> {
        fs::read_to_string(self.path.join(file)).map_err(|error| format!("{}: {error}", file.display()))
    }

    /// Runs `look` while the file has this text, then restores the old text.
    pub(super) fn with<T>(
        &self,
        file: &Path,
        text: &str,
        look: impl FnOnce() -> Result<T, String>,
    ) -> Result<T, String> {
        let before = self.read(file)?;
        let write = |text: &str| {
            fs::write(self.path.join(file), text).map_err(|error| format!("{}: {error}", file.display()))
        };
        write(text)?;
        let seen = look();
        write(&before)?;
        seen
    }

    /// Checks that tests can judge a bug: there are some, and they pass without it. Call this while no bug is
    /// planted.
    pub(super) fn can_judge(&self, arguments: &[&str]) -> Result<(), String> {
        let name = arguments.join(" ");
        if let Some(known) = self.sound.borrow().get(&name) {
            return known.clone();
        }
        let tested = self.cargo(TEST_SECONDS_MAX, "test", &[&["--quiet"], arguments].concat())?;
        let verdict = match tests_run(&tested.text) {
            _ if !tested.is_fine() => Err(format!("{name}: fails without a bug: {}", tested.what_failed())),
            0 => Err(format!("{name}: there is no such test")),
            _ => Ok(()),
        };
        self.sound.borrow_mut().insert(name, verdict.clone());
        verdict
    }

    /// Plants a bug and runs `look`. If a simulator noticed the bug, checks that the same seed passes without
    /// it.
    pub(super) fn judge(
        &self,
        file: &Path,
        planted: &str,
        look: impl FnOnce() -> Result<Look, String>,
    ) -> Result<Outcome, String> {
        match self.with(file, planted, look)? {
            Look::Told(outcome) => Ok(outcome),
            Look::Seed { simulator, seed, anomaly } => {
                if self.campaign(simulator, seed, 1)?.failing_seed().is_some() {
                    return Ok(Outcome::Undecided(format!(
                        "seed {seed} of {simulator} also fails without the bug"
                    )));
                }
                Ok(Outcome::Noticed(format!("seed {seed}: {anomaly}")))
            }
        }
    }

    /// Runs seeds of a simulator, from 0 on.
    pub(super) fn simulate(&self, simulator: &'static str, seeds: u64) -> Result<Look, String> {
        let built = self.cargo(NEVER, "build", &CAMPAIGN)?;
        if !built.is_fine() {
            return Ok(Look::Told(built.does_not_compile()));
        }
        let looked = self.campaign(simulator, 0, seeds)?;
        Ok(match looked.failing_seed() {
            Some((seed, anomaly)) => Look::Seed { simulator, seed, anomaly },
            None if looked.status == Some(TIMED_OUT) => {
                let reason = format!("{simulator} takes more than {SIMULATION_SECONDS_MAX} s");
                Look::Told(Outcome::Undecided(reason))
            }
            None if looked.text.contains(NOT_NOTICED) => Look::Told(Outcome::Survived),
            // An assertion that nothing caught, or endless allocation.
            None => Look::Told(Outcome::Noticed(format!("{simulator} ended with {:?}", looked.status))),
        })
    }

    /// Runs `cargo test` with these arguments, and runs it again if it fails: a test that fails only
    /// sometimes has noticed nothing.
    pub(super) fn test(&self, arguments: &[&str]) -> Result<Look, String> {
        let mut build = vec!["--quiet", "--no-run"];
        build.extend(arguments.iter().take_while(|argument| **argument != "--"));
        let built = self.cargo(NEVER, "test", &build)?;
        if !built.is_fine() {
            return Ok(Look::Told(built.does_not_compile()));
        }
        let run = || self.cargo(TEST_SECONDS_MAX, "test", &[&["--quiet"], arguments].concat());
        let tested = run()?;
        let outcome = if tested.is_fine() {
            Outcome::Survived
        } else if tested.status == Some(TIMED_OUT) {
            Outcome::Noticed("the tests do not end".to_owned())
        } else if run()?.is_fine() {
            Outcome::Undecided(format!("failed in one of two runs: {}", tested.what_failed()))
        } else {
            Outcome::Noticed(tested.what_failed())
        };
        Ok(Look::Told(outcome))
    }

    fn campaign(&self, simulator: &str, first: u64, seeds: u64) -> Result<Said, String> {
        let (first, seeds) = (first.to_string(), seeds.to_string());
        let campaign = ["--", "noticed", simulator, &first, &seeds];
        self.cargo(SIMULATION_SECONDS_MAX, "run", &[&CAMPAIGN[..], &campaign].concat())
    }

    fn cargo(&self, seconds_max: &str, task: &str, arguments: &[&str]) -> Result<Said, String> {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let output = Command::new("timeout")
            .args(["--kill-after=5", seconds_max, "sh", "-c"])
            .args([&format!("ulimit -v {ADDRESS_SPACE_KIB}; exec \"$@\""), "sh", &cargo, task])
            .args(arguments)
            .current_dir(&self.path)
            .env("CARGO_TARGET_DIR", root().join("target/mutants/target"))
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("timeout could not be started: {error}"))?;
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Ok(Said { status: output.status.code(), text: text.join("\n") })
    }
}

/// The output of a program, and its exit status.
struct Said {
    status: Option<i32>,
    text: String,
}

impl Said {
    fn is_fine(&self) -> bool {
        self.status == Some(0)
    }

    /// The line that names the first failed test or panic.
    fn what_failed(&self) -> String {
        let is_telling = |line: &&str| line.ends_with("--- FAILED") || line.contains("panicked at");
        let told = self.text.lines().find(is_telling);
        told.map_or_else(|| format!("it ended with {:?}", self.status), str::to_owned)
    }

    /// The first failed seed and its anomaly. The campaign prints them as `seed N: ANOMALY`.
    fn failing_seed(&self) -> Option<(u64, String)> {
        self.text.lines().find_map(|line| {
            let (seed, anomaly) = line.strip_prefix("seed ")?.split_once(": ")?;
            Some((seed.parse().ok()?, anomaly.to_owned()))
        })
    }

    fn does_not_compile(self) -> Outcome {
        Outcome::Unusable(format!("it does not compile:\n{}", self.text))
    }
}

/// The number of tests that ran: the sum over the `running N tests` lines of all binaries.
fn tests_run(text: &str) -> usize {
    let counts = text
        .lines()
        .filter_map(|line| line.strip_prefix("running ")?.split(' ').next()?.parse::<usize>().ok());
    counts.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Said {
        Said { status: Some(101), text: text.to_owned() }
    }

    #[test]
    fn tests_are_counted_over_all_binaries() {
        assert_eq!(tests_run("\nrunning 0 tests\n\nok\n\nrunning 12 tests\n......\nrunning 1 test\n"), 13);
        assert_eq!(tests_run("test result: ok. 0 passed; 0 failed\n"), 0);
    }

    #[test]
    fn a_seed_is_read_as_the_campaign_prints_it() {
        let found = said("warning\nseed 24: an offset has two contents: 7\n").failing_seed();
        assert_eq!(found, Some((24, "an offset has two contents: 7".to_owned())));
        assert_eq!(said("NOT NOTICED by 500 seeds\n").failing_seed(), None);
    }

    #[test]
    fn the_test_that_failed_is_named() {
        let text = "running 2 tests\nF.\nthread 'roll' panicked at src/roll.rs:3:5:\nleft: 1\n";
        assert_eq!(said(text).what_failed(), "thread 'roll' panicked at src/roll.rs:3:5:");
        assert_eq!(said("").what_failed(), "it ended with Some(101)");
    }
}
