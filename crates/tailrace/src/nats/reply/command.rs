//! Replies by a program, which gets the request on standard input and writes the reply to standard output.

use std::process::Stdio;
use std::time::Duration;

use tailrace_cli::failure::plain;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

/// A request for a program.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) command: String,
    pub(super) subject: Vec<u8>,
    pub(super) payload: Vec<u8>,
    pub(super) timeout: Duration,
    /// Largest reply.
    pub(super) bytes_max: usize,
}

impl Job {
    /// Runs the program with `sh -c`. Kills it after the timeout.
    pub(super) async fn run(self) -> Result<Vec<u8>, String> {
        let timeout = self.timeout;
        let late = Err(format!("the command did not end within {timeout:?}"));
        tokio::time::timeout(timeout, self.answer()).await.unwrap_or(late)
    }

    async fn answer(self) -> Result<Vec<u8>, String> {
        let mut child = Command::new("sh")
            .arg("-c")
            .arg(&self.command)
            .env("NATS_REQUEST_SUBJECT", String::from_utf8_lossy(&self.subject).replace('\0', ""))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("the command cannot be started: {}", plain(&error)))?;
        let failed = |error: std::io::Error| format!("cannot talk to the command: {}", plain(&error));
        let (mut stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let payload = self.payload;
        let write = async move {
            if let Some(stdin) = &mut stdin {
                // A program need not read its input.
                let _ = stdin.write_all(&payload).await;
            }
        };
        let read = async {
            let mut answer = Vec::new();
            if let Some(stdout) = stdout {
                let mut stdout = stdout.take(self.bytes_max as u64 + 1);
                stdout.read_to_end(&mut answer).await.map_err(failed)?;
            }
            Ok::<_, String>(answer)
        };
        let ((), answer) = tokio::join!(write, read);
        let answer = answer?;
        if answer.len() > self.bytes_max {
            return Err(format!("the command's answer has more than {} bytes", self.bytes_max));
        }
        let status = child.wait().await.map_err(failed)?;
        if status.success() { Ok(answer) } else { Err(format!("the command failed: {status}")) }
    }
}
