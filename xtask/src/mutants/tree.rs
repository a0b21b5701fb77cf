//! The copy of the tree in which bugs are planted.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::run::root;

/// Tests that have not ended after so many seconds have noticed something: none take a third of it in the tree as it is.
const TEST_SECONDS_MAX: &str = "900";

/// The same of a simulator and hundreds of seeds.
const SIMULATION_SECONDS_MAX: &str = "7200";

/// Unoptimised, the hundreds of seeds would take hours.
const CAMPAIGN: [&str; 7] = ["--quiet", "--profile", "sim", "-p", "tailrace-sim", "--example", "campaign"];

/// The campaign says so when all seeds have passed.
const NOT_NOTICED: &str = "NOT NOTICED";

/// Nothing ends what is compiled.
const NEVER: &str = "0";

/// `timeout` says so by this status.
const TIMED_OUT: i32 = 124;

/// Address space of what is run, in KiB: a bug may ask for memory without an end.
const ADDRESS_SPACE_KIB: &str = "20000000";

/// What became of a bug.
pub(super) enum Outcome {
    /// By what.
    Noticed(String),
    Survived,
    /// Nothing was tried.
    Unusable(String),
    /// What was tried says nothing of the bug: it fails without it, or not every time, or did not come to an end.
    Undecided(String),
}

/// What was seen while a bug was planted.
pub(super) enum Look {
    Told(Outcome),
    /// A simulator's first seed that failed.
    Seed {
        simulator: &'static str,
        seed: u64,
        anomaly: String,
    },
}

pub(super) struct Tree {
    path: PathBuf,
    /// What tests say without a bug, by their arguments: `Err` has the reason why they cannot judge one.
    sound: RefCell<HashMap<String, Result<(), String>>>,
}

impl Tree {
    /// Copies what git knows, or would add, of this tree. A file that is the same is left as it is, so that cargo builds little.
    pub(super) fn copy() -> Result<Self, String> {
        let (from, to) = (root(), root().join("target/mutants/tree"));
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(&from)
            .output()
            .map_err(|error| format!("git: {error}"))?;
        let names = String::from_utf8(listed.stdout).map_err(|error| error.to_string())?;
        let mut kept = HashSet::new();
        for name in names.split('\0').filter(|name| !name.is_empty()) {
            // One that was deleted is listed as well.
            let Ok(content) = fs::read(from.join(name)) else { continue };
            let path = to.join(name);
            write_if_changed(&path, &content).map_err(|error| format!("{name}: {error}"))?;
            kept.insert(path);
        }
        remove_others(&to, &kept).map_err(|error| format!("{}: {error}", to.display()))?;
        Ok(Self { path: to, sound: RefCell::default() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A file's text; its path is from the root of the workspace.
    pub(super) fn read(&self, file: &Path) -> Result<String, String> {
        fs::read_to_string(self.path.join(file)).map_err(|error| format!("{}: {error}", file.display()))
    }

    /// Looks while the file has this text, and gives it the old one again.
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

    /// Whether tests can judge a bug: they pass without one, and there are some. To be asked while no bug is planted.
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

    /// Plants a bug, looks, and asks the simulator, if it noticed, whether its seed passes without the bug.
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
                        "seed {seed} of {simulator} fails without it, too"
                    )));
                }
                Ok(Outcome::Noticed(format!("seed {seed}: {anomaly}")))
            }
        }
    }

    /// Plays seeds of a simulator, from 0 on.
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
            // An assertion in a place where nothing catches it, or memory without an end.
            None => Look::Told(Outcome::Noticed(format!("{simulator} ended with {:?}", looked.status))),
        })
    }

    /// Runs tests twice: one that fails now and then has noticed nothing. The arguments are those of `cargo test`.
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
            Outcome::Undecided(format!("failed once of two times: {}", tested.what_failed()))
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

fn write_if_changed(path: &Path, content: &[u8]) -> std::io::Result<()> {
    if fs::read(path).is_ok_and(|before| before == content) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, content)
}

/// A test that is gone from the tree would be found in the copy.
fn remove_others(folder: &Path, kept: &HashSet<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            remove_others(&path, kept)?;
        } else if !kept.contains(&path) && path.file_name().is_some_and(|name| name != "Cargo.lock") {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// What a program said, and its status.
struct Said {
    status: Option<i32>,
    text: String,
}

impl Said {
    fn is_fine(&self) -> bool {
        self.status == Some(0)
    }

    /// The first test that failed, as it says so itself.
    fn what_failed(&self) -> String {
        let is_telling = |line: &&str| line.ends_with("--- FAILED") || line.contains("panicked at");
        let told = self.text.lines().find(is_telling);
        told.map_or_else(|| format!("it ended with {:?}", self.status), str::to_owned)
    }

    /// `seed N: ANOMALY`, as the campaign prints it.
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

/// How many tests ran, by `running N tests` of each binary.
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
