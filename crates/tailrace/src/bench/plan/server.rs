//! The system under test as a child process: started, waited for, and stopped.

use std::fs::File;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::format::ServerPlan;
use crate::failure::{Failure, plain};

/// How long a server may take to stop before it is killed.
const GRACE: Duration = Duration::from_secs(15);

const LOOK: Duration = Duration::from_millis(20);

/// A running server. It is stopped when dropped.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
}

impl Server {
    /// Starts it, with its output in `log`, and waits until it accepts connections.
    pub(super) fn start(plan: &ServerPlan, log: &Path) -> Result<Self, Failure> {
        if accepts(&plan.ready) {
            return Err(format!(
                "something listens at {} already, before the server was started",
                plan.ready
            )
            .into());
        }
        let program = &plan.command[0];
        let wrong = |error: &io::Error| format!("cannot start {program}: {}", plain(error));
        let out = File::create(log)
            .map_err(|error| format!("cannot write {}: {}", log.display(), plain(&error)))?;
        let errors = out.try_clone().map_err(|error| wrong(&error))?;
        // A process group of its own: Ctrl-C is for the plan, which then stops the server.
        let child = Command::new(program)
            .args(&plan.command[1..])
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(errors)
            .process_group(0)
            .spawn()
            .map_err(|error| wrong(&error))?;
        let mut server = Self { child };
        let deadline = Instant::now() + plan.patience;
        while !accepts(&plan.ready) {
            if let Ok(Some(status)) = server.child.try_wait() {
                return Err(
                    format!("{program} ended before it was ready ({status}); see {}", log.display()).into()
                );
            }
            if Instant::now() >= deadline {
                let (ready, patience) = (&plan.ready, plan.patience);
                return Err(format!(
                    "{program} does not listen at {ready} after {patience:?}; see {}",
                    log.display()
                )
                .into());
            }
            std::thread::sleep(LOOK);
        }
        Ok(server)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = Pid::from_child(&self.child);
        // A plan may have stopped it, and who is stopped does not end. It may have ended by itself; then there is nothing to do.
        let _ = kill_process_group(pid, Signal::CONT);
        let _ = kill_process(pid, Signal::TERM);
        let deadline = Instant::now() + GRACE;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(LOOK);
        }
    }
}

fn accepts(address: &str) -> bool {
    let Ok(mut candidates) = address.to_socket_addrs() else { return false };
    candidates.any(|candidate| TcpStream::connect_timeout(&candidate, Duration::from_millis(500)).is_ok())
}
