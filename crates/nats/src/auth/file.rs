//! Reads the file of users from the disk. `tailrace_identity` parses its content.

use std::io::Read;
use std::path::{Path, PathBuf};

use tailrace_identity::{Users, UsersFileError};

use super::clock::now_s;
use super::error::AuthError;

/// Largest file of users that is accepted.
const USERS_FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Adds the file's users to `users`. Blocks.
///
/// # Errors
/// If the file cannot be read, or its content is invalid.
pub(super) fn load(users: &mut Users, path: PathBuf) -> Result<(), AuthError> {
    let text = match read(&path) {
        Ok(text) => text,
        Err(error) => return Err(AuthError::Read { path, error }),
    };
    warn_if_open(&path);
    users.read_at(&text, now_s()).map_err(|UsersFileError { line, reason }| AuthError::File {
        path,
        line,
        reason,
    })
}

pub(super) fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let read = std::fs::File::open(path)?.take(USERS_FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if read as u64 > USERS_FILE_BYTES_MAX {
        return Err(std::io::Error::other(format!("the file has more than {USERS_FILE_BYTES_MAX} bytes")));
    }
    Ok(text)
}

fn warn_if_open(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    if std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o007 != 0) {
        tracing::warn!(path = %path.display(), "every user of this machine may read or change the file of NATS users");
    }
}
