//! How a verb ends: what is said on standard error, and the exit status.

use std::io::{self, ErrorKind};
use std::process::ExitCode;

/// Why a verb failed. Its text is one line that says what to do.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Says why, and yields the exit status.
///
/// A bare `io::Error` comes from standard output: errors of sockets and files are wrapped by those who met them. If
/// whoever read standard output has left (`| head`), there is nothing to complain about.
pub(crate) fn report(failure: &Failure) -> ExitCode {
    match failure.downcast_ref::<io::Error>() {
        Some(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Some(error) => {
            complain(&format!("cannot write to standard output: {error}"));
            ExitCode::FAILURE
        }
        None => {
            complain(&failure.to_string());
            ExitCode::FAILURE
        }
    }
}

/// One line on standard error. That it cannot be written is nothing to die of.
pub(crate) fn complain(text: &str) {
    use io::Write as _;
    let _ = writeln!(io::stderr(), "tailrace: {}", text.replace('\n', " "));
}

/// What the system said, without its error number, for use within a sentence.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    let mut letters = text[..end].chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}
