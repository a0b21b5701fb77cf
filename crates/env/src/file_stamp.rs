//! Whether a file that belongs to the operator (a certificate, keys, claims) was replaced or written to.
//!
//! Such files are read with std, and simulated nodes have none. Files of the node itself are on its disk.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Identity of a file's content. A different one means that the file was replaced or written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    inode: u64,
    modified_s: i64,
    modified_ns: i64,
    bytes: u64,
}

impl FileStamp {
    /// Looks at a file, with one stat(2) call. `None` if there is none, or it may not be looked at.
    pub fn of(path: &Path) -> Option<Self> {
        let found = std::fs::metadata(path).ok()?;
        Some(Self {
            inode: found.ino(),
            modified_s: found.mtime(),
            modified_ns: found.mtime_nsec(),
            bytes: found.len(),
        })
    }
}
