//! The keys of tokens in a file, which is read again when it changes.
//!
//! Like the files of TLS it is read with std: it belongs to the operator, not to the node, and a simulated
//! node has none.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use tailrace_env::file_stamp::FileStamp;
use tailrace_env::time::Duration;
use tailrace_identity::oauth::Jwks;

use super::token_keys::{KEYS_BYTES_MAX, TokenKeysError};

/// Interval between checks for a changed file. A check is one stat(2) call.
pub(super) const RELOAD_INTERVAL: Duration = Duration::from_secs(10);

/// The file.
pub(super) struct KeyFile {
    path: PathBuf,
    /// The file that was last read, used or not. `None` if there was none. Held while it is read.
    last_read: Mutex<Option<FileStamp>>,
}

impl KeyFile {
    /// Reads the file for the first time.
    pub(super) fn open(path: &str) -> Result<(Self, Jwks), TokenKeysError> {
        let path = PathBuf::from(path);
        let last_read = Mutex::new(FileStamp::of(&path));
        let keys = read(&path)?;
        Ok((Self { path, last_read }, keys))
    }

    /// Reads the file if it has changed, and passes on what it found. Others wait meanwhile.
    pub(super) fn refresh(&self, found: impl FnOnce(Result<Jwks, TokenKeysError>)) {
        let mut last_read = self.last_read.lock();
        let current = FileStamp::of(&self.path);
        if current != *last_read {
            *last_read = current;
            found(read(&self.path));
        }
    }
}

fn read(path: &Path) -> Result<Jwks, TokenKeysError> {
    let failed = |error| TokenKeysError::Read { path: path.to_owned(), error };
    let mut json = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    // One byte more than a set may have, so that the error says what is wrong.
    let most = u64::try_from(KEYS_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    file.take(most).read_to_end(&mut json).map_err(failed)?;
    Jwks::parse(&json).map_err(|error| TokenKeysError::Content { from: path.display().to_string(), error })
}
