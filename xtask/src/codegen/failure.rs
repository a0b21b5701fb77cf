//! What a failure with a file says.

use std::io;
use std::path::Path;

pub(super) fn failure(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}
