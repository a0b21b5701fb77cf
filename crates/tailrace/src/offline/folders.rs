//! Finds partitions in a data folder, and detects whether a server is using it.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use tailrace_cli::failure::{Failure, plain};
use tailrace_log::LOCK_FILE;

/// Returns the partition folders: `dir` itself, or those in it, sorted by name.
pub(super) fn partitions(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    if is_partition(dir)? {
        return Ok(vec![dir.to_owned()]);
    }
    let mut found = Vec::new();
    for path in children(dir)? {
        // Ours and Kafka's folders that are being deleted, or ours that were set aside as damaged.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let leaving = [".deleted", "-delete", ".damaged"].iter().any(|end| name.ends_with(end));
        if path.is_dir() && !leaving && is_partition(&path)? {
            found.push(path);
        }
    }
    match found.is_empty() {
        true => Err(format!(
            "{} holds no partition: name a data folder, or a folder such as orders-0 in it",
            dir.display()
        )
        .into()),
        false => Ok(found),
    }
}

/// Reports whether the folder has a partition's metadata, or segments.
fn is_partition(dir: &Path) -> Result<bool, Failure> {
    let is_mark = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name == "partition.meta")
            || path.extension().is_some_and(|extension| extension == "log")
    };
    Ok(children(dir)?.iter().any(is_mark))
}

fn children(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = |error: std::io::Error| format!("cannot list {}: {}", dir.display(), plain(&error));
    let entries = std::fs::read_dir(dir).map_err(failed)?;
    let paths: Result<Vec<_>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths = paths.map_err(failed)?;
    paths.sort();
    Ok(paths)
}

/// Reports whether a server holds the lock of the data folder that `dir` is or is in.
pub(super) fn is_in_use(dir: &Path) -> bool {
    [Some(dir), dir.canonicalize().ok().as_deref().and_then(Path::parent)]
        .into_iter()
        .flatten()
        .filter_map(|dir| File::open(dir.join(LOCK_FILE)).ok())
        .any(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// The approximate size of the segments in a partition's folder. Files that cannot be read do not count.
pub(super) fn log_bytes(dir: &Path) -> u64 {
    let files = children(dir).unwrap_or_default().into_iter();
    let logs = files.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
    logs.filter_map(|path| path.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// The last part of a path, for display.
pub(super) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
