//! Child processes that end with this process, however it ends.
//!
//! A child is first an instance of this program. It asks the kernel to send it SIGTERM when its parent dies,
//! and then executes the real program. So no child outlives an interrupted run, not even a run that was
//! killed with SIGKILL. The kernel regards the thread that started the child as its parent, so only the main
//! thread starts children.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{io, thread};

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};

/// The hidden task that executes another program in its place.
const BECOME: &str = "become";
/// Kafka takes several seconds to close its logs.
const GRACE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(5);

/// Runs the hidden task. Returns only if it fails.
pub(super) fn r#become(arguments: &[String]) -> Result<(), String> {
    let [program, arguments @ ..] = arguments else { return Err("become needs a program".to_owned()) };
    set_parent_process_death_signal(Some(Signal::TERM)).map_err(|error| format!("prctl: {error}"))?;
    Err(format!("{program}: {}", Command::new(program).args(arguments).exec()))
}

/// A command for `program` whose process ends with this one.
pub(super) fn command(program: &Path) -> Result<Command, String> {
    let me = std::env::current_exe().map_err(|error| format!("own path: {error}"))?;
    let mut command = Command::new(me);
    command.arg(BECOME).arg(program).stdin(Stdio::null());
    Ok(command)
}

pub(super) fn is_become(argument: &str) -> bool {
    argument == BECOME
}

/// A running child. Dropping it stops it.
pub(super) struct Running {
    name: String,
    child: Child,
}

impl Running {
    pub(super) fn start(name: &str, command: &mut Command) -> Result<Self, String> {
        let child = command.spawn().map_err(|error| format!("{name} could not be started: {error}"))?;
        Ok(Self { name: name.to_owned(), child })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The child's output pipe. `None` after the first call.
    pub(super) fn stdout(&mut self) -> Option<std::process::ChildStdout> {
        self.child.stdout.take()
    }

    /// Polls `ready` until it is true. Fails if the child ends first, or at the time limit.
    pub(super) fn until(&mut self, limit: Duration, mut ready: impl FnMut() -> bool) -> Result<(), String> {
        let end = Instant::now() + limit;
        while !ready() {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("{} exited early: {status}", self.name));
            }
            if Instant::now() > end {
                return Err(format!("{} was not ready within {} s", self.name, limit.as_secs()));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Sends SIGTERM, without waiting.
    pub(super) fn ask_to_stop(&self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Sends SIGTERM, then SIGKILL after the grace period.
    pub(super) fn stop(&mut self) -> Result<(), String> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| format!("{} has no pid", self.name))?;
        if let Ok(Some(_)) = self.child.try_wait() {
            return Ok(());
        }
        let _ = kill_process(pid, Signal::TERM);
        match wait(&mut self.child, GRACE) {
            Ok(_) => Ok(()),
            Err(_) => {
                let _ = self.child.kill();
                let _ = self.child.wait();
                Err(format!("{} did not stop within {} s and was killed", self.name, GRACE.as_secs()))
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Err(reason) = self.stop() {
            eprintln!("{reason}");
        }
    }
}

/// The status and the output of a measuring program that has ended.
pub(super) struct Finished {
    pub(super) status: ExitStatus,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// A running measuring program. Its output is small and goes to files, so that no pipe can fill up.
pub(super) struct Tool {
    running: Running,
    out: std::path::PathBuf,
    err: std::path::PathBuf,
}

impl Tool {
    pub(super) fn start(
        folder: &Path,
        name: &str,
        program: &Path,
        arguments: &[String],
    ) -> Result<Self, String> {
        let (out, err) = (folder.join(format!("{name}.out")), folder.join(format!("{name}.err")));
        let create = |path: &Path| File::create(path).map_err(|error| format!("{}: {error}", path.display()));
        let mut command = command(program)?;
        command.args(arguments).stdout(create(&out)?).stderr(create(&err)?);
        Ok(Self { running: Running::start(name, &mut command)?, out, err })
    }

    pub(super) fn finish(mut self, limit: Duration) -> Result<Finished, String> {
        let status = wait(&mut self.running.child, limit)
            .map_err(|error| format!("{}: {error} ({} s)", self.running.name, limit.as_secs()))?;
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        Ok(Finished { status, stdout: read(&self.out), stderr: read(&self.err) })
    }
}

fn wait(child: &mut Child, limit: Duration) -> io::Result<ExitStatus> {
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() > end {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "took too long"));
        }
        thread::sleep(POLL);
    }
}
