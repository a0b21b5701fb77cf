//! The system under test as a child process: starts it, waits for it, restarts it within a run, and stops it.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tailrace_cli::failure::{Failure, plain};

use crate::systems::addresses;

/// How long a server may take to stop before it is killed.
const GRACE: Duration = Duration::from_secs(15);

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Placeholder in a plan for the host that a server listens on.
pub(super) const HOST: &str = "{host}";

/// The host of a server that needs no network of its own.
pub(super) const LOOPBACK: &str = "127.0.0.1";

/// How to start the system under test, and how to check that it is ready.
#[derive(Clone, Debug)]
pub(super) struct ServerPlan {
    pub(super) command: Vec<String>,
    /// `HOST:PORT`, or several separated by commas, that accept connections when the server is ready.
    pub(super) ready: String,
    pub(super) patience: Duration,
}

impl ServerPlan {
    /// The same plan on this host, with its command after `prefix`.
    pub(super) fn on(&self, host: &str, prefix: Vec<String>) -> Self {
        let command = self.command.iter().map(|word| word.replace(HOST, host));
        Self {
            command: prefix.into_iter().chain(command).collect(),
            ready: self.ready.replace(HOST, host),
            ..*self
        }
    }
}

/// A running server. It is stopped when dropped.
#[derive(Debug)]
pub(super) struct Server {
    plan: ServerPlan,
    log: PathBuf,
    child: Mutex<Child>,
    pid: Arc<AtomicU32>,
}

impl Server {
    /// Starts it, with its output in `log`, and waits until it accepts connections or `stop` is set.
    pub(super) fn start(plan: &ServerPlan, log: &Path, stop: &AtomicBool) -> Result<Self, Failure> {
        if accepts(&plan.ready) {
            return Err(format!(
                "something listens at {} already, before the server was started",
                plan.ready
            )
            .into());
        }
        File::create(log).map_err(|error| format!("cannot write {}: {}", log.display(), plain(&error)))?;
        let child = spawn(plan, log)?;
        let pid = Arc::new(AtomicU32::new(child.id()));
        let server = Self { plan: plan.clone(), log: log.to_owned(), child: Mutex::new(child), pid };
        server.await_readiness(stop)?;
        Ok(server)
    }

    /// Its process id, which changes with [`Server::start_again`].
    pub(super) fn pid(&self) -> Arc<AtomicU32> {
        Arc::clone(&self.pid)
    }

    /// Sends a signal to it and to its process group.
    pub(super) fn signal(&self, signal: Signal) -> Result<(), Failure> {
        Ok(kill_process_group(Pid::from_child(&self.child.lock()), signal)?)
    }

    /// Starts it again with the same command after it was ended, and waits until it accepts connections or
    /// `stop` is set.
    pub(super) fn start_again(&self, stop: &AtomicBool) -> Result<(), Failure> {
        let program = &self.plan.command[0];
        let deadline = Instant::now() + GRACE;
        while self.child.lock().try_wait()?.is_none() {
            wait(stop, deadline).map_err(|reason| format!("{program} has not ended{reason}"))?;
        }
        RUNNING.lock().remove(&self.pid.load(Ordering::Relaxed));
        let child = spawn(&self.plan, &self.log)?;
        self.pid.store(child.id(), Ordering::Relaxed);
        *self.child.lock() = child;
        self.await_readiness(stop)
    }

    fn await_readiness(&self, stop: &AtomicBool) -> Result<(), Failure> {
        let (program, log) = (&self.plan.command[0], self.log.display());
        let deadline = Instant::now() + self.plan.patience;
        while !accepts(&self.plan.ready) {
            if let Ok(Some(status)) = self.child.lock().try_wait() {
                return Err(format!("{program} ended before it was ready ({status}); see {log}").into());
            }
            wait(stop, deadline).map_err(|reason| {
                format!("{program} does not listen at {}{reason}; see {log}", self.plan.ready)
            })?;
        }
        Ok(())
    }
}

/// Process groups of servers that were started and not waited for yet.
static RUNNING: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Kills all servers that were started, before the program ends at once.
pub(super) fn kill_servers() {
    for group in RUNNING.lock().iter().filter_map(|pid| Pid::from_raw(i32::try_from(*pid).ok()?)) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.child.lock());
        RUNNING.lock().remove(&self.pid.load(Ordering::Relaxed));
    }
}

fn end(child: &mut Child) {
    let pid = Pid::from_child(child);
    // A plan may have stopped it with SIGSTOP, and a stopped process does not end. If it has ended by itself,
    // there is nothing to do.
    let _ = kill_process_group(pid, Signal::CONT);
    let _ = kill_process(pid, Signal::TERM);
    let deadline = Instant::now() + GRACE;
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() >= deadline {
            let _ = kill_process_group(pid, Signal::KILL);
            let _ = child.wait();
            return;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Starts the command, with its output appended to `log`.
fn spawn(plan: &ServerPlan, log: &Path) -> Result<Child, Failure> {
    let program = &plan.command[0];
    let out = OpenOptions::new()
        .append(true)
        .open(log)
        .map_err(|error| format!("cannot write {}: {}", log.display(), plain(&error)))?;
    let wrong = |error: io::Error| format!("cannot start {program}: {}", plain(&error));
    let errors = out.try_clone().map_err(wrong)?;
    // A process group of its own: Ctrl-C is for the plan, which then stops the server.
    let child = Command::new(program)
        .args(&plan.command[1..])
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(errors)
        .process_group(0)
        .spawn()
        .map_err(wrong)?;
    RUNNING.lock().insert(child.id());
    Ok(child)
}

/// Waits a little. Returns why it gives up if the deadline has passed or `stop` is set.
fn wait(stop: &AtomicBool, deadline: Instant) -> Result<(), &'static str> {
    if stop.load(Ordering::Relaxed) {
        return Err(": the wait was interrupted");
    }
    if Instant::now() >= deadline {
        return Err(" in time");
    }
    std::thread::sleep(POLL_INTERVAL);
    Ok(())
}

/// Reports whether all of these addresses accept connections.
fn accepts(list: &str) -> bool {
    addresses(list).all(accepts_one)
}

fn accepts_one(address: &str) -> bool {
    let Ok(mut candidates) = address.to_socket_addrs() else { return false };
    candidates.any(|candidate| TcpStream::connect_timeout(&candidate, Duration::from_millis(500)).is_ok())
}
