//! The copy of the tree in which bugs are planted.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::run::root;

/// Tests that have not ended after so many seconds have noticed something: none take a third of it in the tree as it is.
const TEST_SECONDS_MAX: &str = "900";

/// The same of a simulator and hundreds of seeds.
const SIMULATION_SECONDS_MAX: &str = "7200";

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
}

pub(super) struct Tree(PathBuf);

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
        Ok(Self(to))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// A file's text; its path is from the root of the workspace.
    pub(super) fn read(&self, file: &Path) -> Result<String, String> {
        fs::read_to_string(self.0.join(file)).map_err(|error| format!("{}: {error}", file.display()))
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
            fs::write(self.0.join(file), text).map_err(|error| format!("{}: {error}", file.display()))
        };
        write(text)?;
        let seen = look();
        write(&before)?;
        seen
    }

    /// Plays seeds of a simulator, from 0 on.
    pub(super) fn simulate(&self, simulator: &str, seeds: &str) -> Result<Outcome, String> {
        let example = ["--quiet", "-p", "tailrace-sim", "--example", "campaign"];
        let built = self.cargo(NEVER, "build", &example)?;
        if !built.is_fine() {
            return Ok(built.does_not_compile());
        }
        let campaign = ["--", "noticed", simulator, "0", seeds];
        let looked = self.cargo(SIMULATION_SECONDS_MAX, "run", &[&example[..], &campaign].concat())?;
        let line = looked.text.lines().find(|line| line.starts_with("seed ")).map(str::to_owned);
        Ok(match line {
            Some(line) => Outcome::Noticed(line),
            None if looked.status == Some(TIMED_OUT) => {
                Outcome::Noticed("the simulator does not end".to_owned())
            }
            None => Outcome::Survived,
        })
    }

    /// Runs tests: the arguments are those of `cargo test`.
    pub(super) fn test(&self, arguments: &[&str]) -> Result<Outcome, String> {
        let mut build = vec!["--quiet", "--no-run"];
        build.extend(arguments.iter().take_while(|argument| **argument != "--"));
        let built = self.cargo(NEVER, "test", &build)?;
        if !built.is_fine() {
            return Ok(built.does_not_compile());
        }
        let tested = self.cargo(TEST_SECONDS_MAX, "test", &[&["--quiet"], arguments].concat())?;
        if tested.is_fine() {
            return Ok(Outcome::Survived);
        }
        let failed =
            tested.text.lines().find(|line| line.ends_with("--- FAILED") || line.contains("panicked at"));
        let otherwise =
            if tested.status == Some(TIMED_OUT) { "the tests do not end" } else { "the tests failed" };
        Ok(Outcome::Noticed(failed.unwrap_or(otherwise).to_owned()))
    }

    fn cargo(&self, seconds_max: &str, task: &str, arguments: &[&str]) -> Result<Said, String> {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let output = Command::new("timeout")
            .args(["--kill-after=5", seconds_max, "sh", "-c"])
            .args([&format!("ulimit -v {ADDRESS_SPACE_KIB}; exec \"$@\""), "sh", &cargo, task])
            .args(arguments)
            .current_dir(&self.0)
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

    fn does_not_compile(self) -> Outcome {
        Outcome::Unusable(format!("it does not compile:\n{}", self.text))
    }
}
