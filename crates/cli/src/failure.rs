//! How a verb ends: what is said on standard error, and the exit status. The only place that knows the statuses, and the only one
//! that writes complaints.

use std::io::{self, ErrorKind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

/// Why a verb failed. Its text is one line that says what to do.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Exit statuses. Scripts depend on them: docs/cli.md lists all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// It could not do what it was asked to, or found something wrong.
    Failed = 1,
    /// The command line itself was wrong.
    Usage = 2,
    /// Of `bench run`: nothing went wrong, and there is no result.
    NothingMeasured = 3,
    /// SIGINT ended it before it was done; what a shell shows for that signal.
    Interrupted = 130,
    /// SIGTERM did.
    Terminated = 143,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status as u8)
    }
}

/// Wrong usage that only shows once the arguments are looked at together.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Usage(String);

/// A failure that ends with the status of wrong usage.
pub fn usage(text: impl Into<String>) -> Failure {
    Box::new(Usage(text.into()))
}

/// Standard error holds JSON, an object per line: `-o json` was asked for.
static JSON: AtomicBool = AtomicBool::new(false);

/// From now on everything is said in JSON.
pub fn speak_json() {
    JSON.store(true, Ordering::Relaxed);
}

/// True after [`speak_json`].
pub fn speaks_json() -> bool {
    JSON.load(Ordering::Relaxed)
}

/// Says why, and yields the exit status.
///
/// A bare `io::Error` comes from standard output: errors of sockets and files are wrapped by those who met them. If
/// whoever read standard output has left (`| head`), there is nothing to complain about.
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

/// What went wrong, on a line of standard error; for a verb that goes on and ends with [`Status::Failed`].
pub fn complain(text: &str) {
    complain_with(text, Status::Failed);
}

/// What went wrong, and the status that the verb ends with.
pub fn complain_with(text: &str, status: Status) {
    say(text, |text| json!({ "error": text, "status": status as u8 }));
}

/// Something that is worth knowing and no failure, on a line of standard error.
pub fn note(text: &str) {
    say(text, |text| json!({ "note": text }));
}

/// The same without the program's name in front: a summary, or what a verb shows of itself while it runs.
pub fn tell(text: &str) {
    if speaks_json() {
        return note(text);
    }
    use io::Write as _;
    let _ = writeln!(io::stderr(), "{text}");
}

/// An object of a verb's own on a line of standard error, where JSON is asked for and standard output holds records.
pub fn tell_object(object: &serde_json::Value) {
    use io::Write as _;
    let _ = writeln!(io::stderr(), "{object}");
}

/// That standard error cannot be written is nothing to die of.
fn say(text: &str, object: impl FnOnce(&str) -> serde_json::Value) {
    use io::Write as _;
    let text = text.replace('\n', " ");
    let line = if speaks_json() { object(&text).to_string() } else { format!("tailrace: {text}") };
    let _ = writeln!(io::stderr(), "{line}");
}

/// What the system said, without its error number, for use within a sentence.
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    let mut letters = text[..end].chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}
