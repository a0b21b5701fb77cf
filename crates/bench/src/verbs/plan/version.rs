//! The version, or the commit, of a system under test, from a command of the plan.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tailrace_cli::failure::{Failure, plain};

use crate::verbs::secrets;

/// Timeout of the command. Kafka's, which starts a JVM, takes about two seconds.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Bytes of output to read. A pipe holds as much, so the command never waits for its reader.
const OUTPUT_BYTES_MAX: u64 = 65_536;

/// The first line that the command prints, on standard output or else on standard error (like `java
/// -version`).
pub(super) fn ask(what: &str, command: &[String], stop: &AtomicBool) -> Result<String, Failure> {
    let shown = secrets::words(command).join(" ");
    let mut child = Command::new(&command[0])
        .args(&command[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot ask for the {what} with '{shown}': {}", plain(&error)))?;
    let deadline = Instant::now() + COMMAND_TIMEOUT;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            _ if Instant::now() >= deadline || stop.load(Ordering::Relaxed) => {
                let _ = child.kill();
                let _ = child.wait();
                if stop.load(Ordering::Relaxed) {
                    return Err(format!("interrupted while '{shown}' was to tell the {what}").into());
                }
                return Err(format!("'{shown}' reported no {what} within {COMMAND_TIMEOUT:?}").into());
            }
            _ => std::thread::sleep(POLL_INTERVAL),
        }
    };
    if !status.success() {
        return Err(format!("'{shown}' reported no {what}: it ended with {status}").into());
    }
    let mut bytes = Vec::new();
    if let (Some(output), Some(errors)) = (child.stdout.take(), child.stderr.take()) {
        output.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes)?;
        bytes.push(b'\n');
        errors.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes)?;
    }
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    Ok(line.ok_or_else(|| format!("'{shown}' reported no {what}: it printed nothing"))?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask_now(command: &[&str]) -> Result<String, Failure> {
        let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        ask("version", &command, &AtomicBool::new(false))
    }

    fn shell(script: &str) -> Result<String, Failure> {
        ask_now(&["sh", "-c", script])
    }

    #[test]
    fn the_first_line_counts() {
        assert_eq!(shell("echo; echo ' nats-server: v2.15.2'; echo more").unwrap(), "nats-server: v2.15.2");
        assert_eq!(shell("echo 'openjdk version 17' >&2").unwrap(), "openjdk version 17");
        for (script, words) in [("echo 1; exit 3", "exit status: 3"), ("true", "printed nothing")] {
            let error = shell(script).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        let secret = ask_now(&["false", "--password", "hush"]).unwrap_err().to_string();
        assert!(secret.starts_with("'false --password ***' reported no version"), "{secret}");
        let error = ask_now(&["/nonexistent/server"]).unwrap_err().to_string();
        let sleep = ["sleep".to_owned(), "600".to_owned()];
        let stopped = ask("commit", &sleep, &AtomicBool::new(true)).unwrap_err().to_string();
        assert_eq!(stopped, "interrupted while 'sleep 600' was to tell the commit");
        assert!(error.starts_with("cannot ask for the version with '/nonexistent/server'"), "{error}");
    }
}
