//! The error message for a failed file operation.

use std::io;
use std::path::Path;

pub(super) fn failure(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}
