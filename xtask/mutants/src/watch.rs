//! Runs a program of tests with a mutant, and ends it as soon as a test has failed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

/// The environment variable with the number of the chosen mutant.
pub(crate) const CHOSEN: &str = "TAILRACE_PLANTED";

/// The environment variable with the file that gets the numbers of the mutants whose code runs.
pub(crate) const REACHED: &str = "TAILRACE_PLANTED_REACHED";

/// The limits of a process: its address space in KiB, and the length of a file that it writes in blocks of
/// 512 bytes. A mutant may allocate, or write, without end.
pub(crate) const LIMITS: &str = "ulimit -v 8000000; ulimit -f 4000000; ulimit -c 0; exec \"$@\"";

/// How a run ended.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum End {
    Passed,
    /// The test that failed, or during which the program died.
    Failed(String),
    /// The test that did not end.
    Endless(String),
}

/// What to run.
pub(crate) struct Run<'a> {
    pub(crate) program: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) tests: &'a [&'a str],
    pub(crate) limit: Duration,
}

/// What a program is told about mutants.
pub(crate) enum Told<'a> {
    Chosen(usize),
    WriteReached(&'a Path),
}

/// Runs tests one after the other. `scratch` is for their temporary files.
pub(crate) fn run(run: &Run<'_>, told: &Told<'_>, scratch: &Path) -> Result<End, String> {
    let temporary = Temporary::new(scratch)?;
    let mut command = Command::new("sh");
    command
        .args(["-c", LIMITS, "sh"])
        .arg(&run.program)
        .args(["--exact", "--test-threads=1"])
        .args(run.tests)
        .current_dir(&run.folder)
        .env("CARGO_MANIFEST_DIR", &run.folder)
        .env("RUST_BACKTRACE", "0")
        // A mutant must meet the same cases each time, and leave no note of them in the tree.
        .env("PROPTEST_RNG_SEED", "1")
        .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1")
        .env("TMPDIR", &temporary.0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0);
    match told {
        Told::Chosen(mutant) => command.env(CHOSEN, mutant.to_string()),
        Told::WriteReached(file) => command.env(REACHED, file),
    };
    let child = command.spawn().map_err(|error| format!("{}: {error}", run.program.display()))?;
    watch(child, run.limit)
}

fn watch(mut child: Child, limit: Duration) -> Result<End, String> {
    let (failures, heard) = mpsc::channel();
    let output = child.stdout.take();
    let reader = thread::spawn(move || output.map_or_else(String::new, |output| listen(output, &failures)));
    let seen = heard.recv_timeout(limit);
    // Processes that a test has started may hold the output open.
    kill(&child);
    let status = child.wait().map_err(|error| error.to_string())?;
    drop(heard);
    let last = reader.join().unwrap_or_default();
    Ok(match seen {
        Ok(test) => End::Failed(test),
        Err(RecvTimeoutError::Timeout) => End::Endless(last),
        Err(RecvTimeoutError::Disconnected) if last == PASSED => End::Passed,
        Err(RecvTimeoutError::Disconnected) => End::Failed(format!("{last} ({status})")),
    })
}

/// What `listen` returns if all tests have passed.
const PASSED: &str = "test result: ok";

/// Reads what libtest prints, sends the name of a test that failed, and returns the last name or `PASSED`.
fn listen(output: impl std::io::Read, failures: &Sender<String>) -> String {
    let mut last = String::new();
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        if let Some((name, _)) = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ")) {
            name.trim_end_matches(" - should panic").clone_into(&mut last);
        }
        if line.ends_with("FAILED") {
            // Nobody may listen any more.
            drop(failures.send(last.clone()));
        }
        if line.starts_with(PASSED) {
            return PASSED.to_owned();
        }
    }
    last
}

fn kill(child: &Child) {
    let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(group) = group {
        // It may have ended.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}

/// A folder for temporary files, which is removed in the end. Tests that are killed leave theirs.
struct Temporary(PathBuf);

impl Temporary {
    fn new(scratch: &Path) -> Result<Self, String> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let path = scratch.join(NEXT.fetch_add(1, Ordering::Relaxed).to_string());
        fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, seconds: u64) -> End {
        let child = Command::new("sh")
            .args(["-c", script])
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("a shell");
        watch(child, Duration::from_secs(seconds)).expect("a result")
    }

    #[test]
    fn a_failure_ends_the_program_and_its_children() {
        let script = "echo 'test a::b - should panic ... FAILED'; sleep 600 & wait";
        assert_eq!(shell(script, 300), End::Failed("a::b".to_owned()));
    }

    #[test]
    fn a_test_that_prints_is_known_by_its_name() {
        let script = "echo 'test a ... ok'; echo 'test b ... words'; echo FAILED; sleep 600";
        assert_eq!(shell(script, 300), End::Failed("b".to_owned()));
    }

    #[test]
    fn a_program_that_does_not_end_is_told_apart() {
        assert_eq!(shell("printf 'test a ... '; sleep 600", 1), End::Endless("a".to_owned()));
    }

    #[test]
    fn a_program_passes_or_dies() {
        let passed = "echo 'test a ... ok'; echo 'test result: ok. 1 passed'";
        assert_eq!(shell(passed, 300), End::Passed);
        let End::Failed(how) = shell("printf 'test a ... '; kill -9 $$", 300) else { panic!("it passed") };
        assert!(how.starts_with("a (signal: 9"), "{how}");
    }
}
