//! How a verb ends: the text on standard error and the exit status. This is the only module that knows the
//! statuses, and the only one that writes error messages.

use std::io::{self, ErrorKind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

/// Why a verb failed. Its text is one line that tells the user what to do.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Exit statuses. Scripts depend on them: docs/cli.md lists all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// The verb could not do what it was asked to do, or found a problem.
    Failed = 1,
    /// The command line was wrong.
    Usage = 2,
    /// `bench run` had no failure, but measured nothing.
    NothingMeasured = 3,
    /// SIGINT ended the verb early. It is the status that a shell reports for that signal.
    Interrupted = 130,
    /// SIGTERM ended the verb early.
    Terminated = 143,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status as u8)
    }
}

/// Wrong usage that shows only when the arguments are checked together.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Usage(String);

/// Makes a failure that ends with the status of wrong usage.
pub fn usage(text: impl Into<String>) -> Failure {
    Box::new(Usage(text.into()))
}

/// True if `-o json` was given. Standard error then holds one JSON object per line.
static JSON: AtomicBool = AtomicBool::new(false);

/// Switches standard error to JSON.
pub fn speak_json() {
    JSON.store(true, Ordering::Relaxed);
}

/// Reports whether [`speak_json`] was called.
pub fn speaks_json() -> bool {
    JSON.load(Ordering::Relaxed)
}

/// Prints the reason of a failure, and returns the exit status.
///
/// A bare `io::Error` comes from standard output: code that works with sockets and files wraps its errors. If
/// the reader of standard output has gone (`| head`), that is not a failure.
pub fn report(failure: &Failure) -> ExitCode {
    let (text, status) = match failure.downcast_ref::<io::Error>() {
        Some(error) if error.kind() == ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
        Some(error) => (format!("cannot write to standard output: {}", plain(error)), Status::Failed),
        None if failure.is::<Usage>() => (failure.to_string(), Status::Usage),
        None => (failure.to_string(), Status::Failed),
    };
    complain_with(&text, status);
    status.into()
}

/// Prints an error on a line of standard error, for a verb that continues and ends with [`Status::Failed`].
pub fn complain(text: &str) {
    complain_with(text, Status::Failed);
}

/// Prints an error, with the status that the verb will end with.
pub fn complain_with(text: &str, status: Status) {
    say(text, |text| json!({ "error": text, "status": status as u8 }));
}

/// Prints a note, which is not a failure, on a line of standard error.
pub fn note(text: &str) {
    say(text, |text| json!({ "note": text }));
}

/// Prints a note without the program's name: a summary, or the progress of a running verb.
pub fn tell(text: &str) {
    if speaks_json() {
        return note(text);
    }
    use io::Write as _;
    let _ = writeln!(io::stderr(), "{text}");
}

/// Prints a verb's own object on a line of standard error, for JSON output while standard output holds
/// records.
pub fn tell_object(object: &serde_json::Value) {
    use io::Write as _;
    let _ = writeln!(io::stderr(), "{object}");
}

/// Writes a line to standard error. A failure to write it is ignored.
fn say(text: &str, object: impl FnOnce(&str) -> serde_json::Value) {
    use io::Write as _;
    let text = text.replace('\n', " ");
    let line = if speaks_json() { object(&text).to_string() } else { format!("tailrace: {text}") };
    let _ = writeln!(io::stderr(), "{line}");
}

/// Returns the system's text for an error without the error number, for use within a sentence.
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    let mut letters = text[..end].chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}
