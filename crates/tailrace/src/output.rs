//! Standard output of the short verbs. Never `println!`, which panics when the reader has left.

use std::io::{self, Write as _};

use serde::Serialize;

use crate::failure::Failure;

/// Writes `text` as it is.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Writes a JSON value, indented, on lines of its own.
pub(crate) fn print_json<T: Serialize>(value: &T) -> Result<(), Failure> {
    print(&format!("{}\n", serde_json::to_string_pretty(value).map_err(|error| error.to_string())?))
}
