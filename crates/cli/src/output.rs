//! Standard output of the short verbs, and the choice between text and JSON. It never uses `println!`, which
//! panics when the reader has gone.

use std::ffi::OsString;
use std::io::{self, Write as _};

use clap::ValueEnum;
use serde::Serialize;

use crate::failure::Failure;

/// Output format of results: the value of the option `--output`, for every verb that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the help of every verb would show it beside the value")]
pub enum Output {
    Text,
    Json,
}

/// Reports whether the arguments ask for JSON, when the command line cannot be parsed.
pub fn asks_for_json(words: &[OsString]) -> bool {
    let is_option = |word: &OsString| word == "-o" || word == "--output";
    let whole = ["-ojson", "-o=json", "--output=json"];
    words.iter().any(|word| whole.iter().any(|whole| word == whole))
        || words.windows(2).any(|pair| is_option(&pair[0]) && pair[1] == "json")
}

/// Writes `text` to standard output.
///
/// # Errors
/// A bare `io::Error` if standard output cannot be written, as [`report`](crate::failure::report) expects it.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Writes a JSON value, indented, on its own lines.
///
/// # Errors
/// As [`print()`], or the value cannot be serialized to JSON.
pub fn print_json<T: Serialize>(value: &T) -> Result<(), Failure> {
    print(&format!("{}\n", serde_json::to_string_pretty(value).map_err(|error| error.to_string())?))
}
