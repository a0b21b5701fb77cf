//! The partition's folder: its identity, its content, and its deletion.

use std::io::IoSlice;
use std::path::{Path, PathBuf};

use tailrace_types::{Offset, TimestampMs, TopicId};

use crate::config::PartitionIdentity;
use crate::cut::newest_row;
use crate::disk::{Disk, DiskFile, OpenMode, read_file, remove_if_there, replace_file, sync_parent};
use crate::error::{IoContext, LogError};
use crate::format::checkpoint::{self, Checkpoint, SegmentEntry};
use crate::format::names::{self, DELETED_SUFFIX, FOLDER_ASIDE_SUFFIX, Kind};
use crate::format::{FormatError, identity};
use crate::listing::{Listing, SegmentName};

impl Listing {
    /// Creates an empty `.log` for segments that have lost it but still have index rows, so that recovery
    /// decides by these rows whether it had been durable. For segments that a checkpoint covers, the
    /// checkpoint itself decides.
    pub(crate) fn revive<D: Disk>(
        &mut self,
        disk: &D,
        dir: &Path,
        checkpoint: Option<&Checkpoint>,
        is_fresh: bool,
    ) -> Result<(), LogError> {
        let first = self.segments.first().copied();
        // Segments that retention was about to remove are below the first segment.
        let may_count = |base: Offset| match checkpoint {
            Some(checkpoint) => base >= checkpoint.end_offset,
            None => is_fresh || first.is_some_and(|first| base > first),
        };
        let mut revived = Vec::new();
        let appended = self.orphans.iter().filter(|(segment, _)| segment.generation == 0);
        for (SegmentName { base, .. }, name) in appended.filter(|(segment, _)| may_count(segment.base)) {
            let path = dir.join(name);
            if !matches!(names::parse(name), Some((_, 0, Kind::Index))) {
                continue;
            }
            let index = disk.open(&path, OpenMode::Read).context("open", &path)?;
            if newest_row(&index, *base, 0).context("read", &path)?.is_some() {
                let log = names::path(dir, *base, Kind::Log);
                disk.open(&log, OpenMode::Create).context("create", &log)?;
                revived.push(*base);
            }
        }
        self.orphans.retain(|(segment, _)| segment.generation > 0 || !revived.contains(&segment.base));
        self.segments.extend(revived);
        self.segments.sort_unstable();
        Ok(())
    }

    /// True if the log starts above 0 and there is evidence that something in it was synced. Then the missing
    /// segments were removed, and no power failure took their names.
    pub(crate) fn lost_its_beginning<D: Disk>(&self, disk: &D, dir: &Path) -> Result<bool, LogError> {
        let Some(first) = self.segments.first().copied().filter(|first| *first > Offset(0)) else {
            return Ok(false);
        };
        // A snapshot is written once the log up to its offset is durable.
        if self.snapshots.last().is_some_and(|last| *last > first) {
            return Ok(true);
        }
        for base in &self.segments {
            let path = names::path(dir, *base, Kind::Index);
            let index = match disk.open(&path, OpenMode::Read) {
                Ok(index) => index,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(LogError::io("open", &path, error)),
            };
            let newest = newest_row(&index, *base, 0).context("read", &path)?;
            if newest.is_some_and(|row| row.synced_bytes > 0) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes the remaining files of segments whose `.log` is gone, except segments that the checkpoint
    /// still lists.
    pub(crate) fn remove_orphans<D: Disk>(
        &self,
        disk: &D,
        dir: &Path,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<(), LogError> {
        let is_listed = |name: &SegmentName| {
            let is_it = |s: &SegmentEntry| (s.base_offset, s.generation) == (name.base, name.generation);
            checkpoint.is_some_and(|c| c.segments.iter().any(is_it))
        };
        let gone = self.orphans.iter().filter(|(segment, _)| !is_listed(segment));
        gone.map(|(_, name)| dir.join(name)).try_for_each(|path| remove_if_there(disk, &path))
    }
}

/// Returns the identity of the partition in the folder `dir`. `None` if it has none.
///
/// # Errors
/// [`LogError::Damaged`] if it is unreadable, and [`LogError::NewerFormat`].
pub fn read_identity<D: Disk>(disk: &D, dir: &Path) -> Result<Option<PartitionIdentity>, LogError> {
    let path = dir.join(names::IDENTITY);
    match read_file(disk, &path, identity::BYTES_MAX).context("read", &path)? {
        Some(bytes) => identity::decode(&bytes).map(Some).map_err(|error| error.in_file(&path)),
        None => Ok(None),
    }
}

/// Checks that `dir` exists and belongs to `expected`, and creates what is missing. Returns true if the
/// folder or its identity was created, in which case it is not durable yet.
pub(crate) fn claim<D: Disk>(
    disk: &D,
    dir: &Path,
    expected: &PartitionIdentity,
    notes: &mut Vec<String>,
) -> Result<bool, LogError> {
    let path = dir.join(names::IDENTITY);
    let bytes = read_file(disk, &path, identity::BYTES_MAX).context("read", &path)?;
    match bytes.as_deref().map(identity::decode) {
        Some(Ok(found)) if found == *expected => return Ok(false),
        Some(Ok(found)) => {
            let (expected, found) = (expected.to_string(), found.to_string());
            return Err(LogError::IdentityMismatch { file: path, expected, found });
        }
        Some(Err(error @ FormatError::Newer(_))) => return Err(error.in_file(&path)),
        // A crash before the first sync leaves this state. If a checkpoint or an entry shows that the file
        // was synced, it is damage.
        Some(Err(error)) if Listing::read(disk, dir)?.was_synced => {
            // The checkpoint also has the topic id.
            if checkpoint_owner(disk, dir)? != Some(expected.topic_id) {
                return Err(error.in_file(&path));
            }
            notes.push(format!("{} is rewritten: {error}", path.display()));
            replace_file(disk, &path, &[IoSlice::new(&identity::encode(expected))])?;
            return Ok(false);
        }
        Some(Err(_)) => {}
        None => {
            disk.create_dir(dir).context("create", dir)?;
            if Listing::read(disk, dir)?.was_synced {
                notes.push(format!("{} was missing and is rewritten", path.display()));
            }
        }
    }
    let file = disk.open(&path, OpenMode::Truncate).context("create", &path)?;
    file.write_all_at(&[IoSlice::new(&identity::encode(expected))], 0).context("write", &path)?;
    Ok(true)
}

/// Returns the topic of the partition in the folder `dir`, from its checkpoint. `None` if there is no
/// readable checkpoint.
///
/// # Errors
/// The disk's errors.
pub fn checkpoint_owner<D: Disk>(disk: &D, dir: &Path) -> Result<Option<TopicId>, LogError> {
    let path = dir.join(names::CHECKPOINT);
    let bytes = read_file(disk, &path, checkpoint::BYTES_MAX).context("read", &path)?;
    Ok(bytes.and_then(|bytes| Checkpoint::decode(&bytes).ok()).map(|checkpoint| checkpoint.topic_id))
}

/// Renames a partition's folder, durably, and then removes it. `unique` distinguishes this deletion from
/// others of the same folder name, as the topic id does. If a crash comes in between, [`remove_leftovers`]
/// finishes the deletion. The log must have been dropped. Readers that hold slices keep their files.
///
/// # Errors
/// The deletion is final once the folder is renamed. A later error only leaves files for the next start.
pub fn delete_partition<D: Disk>(disk: &D, dir: &Path, unique: &str) -> Result<(), LogError> {
    let deleted = dir.with_file_name(deleted_name(dir, unique));
    disk.rename(dir, &deleted).context("rename", dir)?;
    sync_parent(disk, dir)?;
    disk.remove_dir(&deleted).context("remove", &deleted)
}

/// The name starts with the old one, for people who list the folder, but fits 255 bytes whatever the topic's
/// name.
fn deleted_name(dir: &Path, unique: &str) -> String {
    format!("{}{unique}{DELETED_SUFFIX}", name_and_checksum(dir))
}

fn name_and_checksum(dir: &Path) -> String {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let start: String = name.chars().take(100).collect();
    format!("{start}.{:08x}.", crc32c::crc32c(name.as_bytes()))
}

/// The most folders kept by [`set_aside`]: the newest ones, one per partition.
pub const KEPT_ASIDE_MAX: usize = 8;

/// Renames a partition's folder, durably, and keeps it for inspection: `orders-0` becomes
/// `orders-0.CHECKSUM.MILLISECONDS.damaged`. Removes earlier folders set aside for the same partition, and
/// the oldest of all beyond [`KEPT_ASIDE_MAX`]. The log must have been dropped. Returns the new path.
///
/// # Errors
/// The disk's errors. Once the folder is renamed, a failure to remove an older one is no error.
pub fn set_aside<D: Disk>(disk: &D, dir: &Path, now: TimestampMs) -> Result<PathBuf, LogError> {
    let start = name_and_checksum(dir);
    // Covers two calls within a millisecond, and a clock that went back.
    let newest = aside_of(disk, dir)?.last().and_then(|path| set_aside_at(path)).unwrap_or(i64::MIN);
    let at = now.0.max(newest.saturating_add(1));
    let aside = dir.with_file_name(format!("{start}{at}{FOLDER_ASIDE_SUFFIX}"));
    disk.rename(dir, &aside).context("rename", dir)?;
    sync_parent(disk, dir)?;
    let parent = dir.parent().unwrap_or(dir);
    let of_partition = aside_of(disk, dir).unwrap_or_default();
    let all = folders_aside(disk, parent).unwrap_or_default();
    let beyond = all.len().saturating_sub(KEPT_ASIDE_MAX);
    for old in of_partition.iter().chain(&all[..beyond]).filter(|old| **old != aside) {
        // What cannot be removed now is retried the next time.
        let _ = disk.remove_dir(old);
    }
    Ok(aside)
}

/// Returns the folders that [`set_aside`] has kept in a data folder, oldest first.
///
/// # Errors
/// The disk's errors.
pub fn folders_aside<D: Disk>(disk: &D, data_dir: &Path) -> Result<Vec<PathBuf>, LogError> {
    let entries = disk.read_dir(data_dir).context("list", data_dir)?;
    let aside = entries.into_iter().filter(|e| e.is_dir && e.name.ends_with(FOLDER_ASIDE_SUFFIX));
    let mut paths: Vec<_> = aside.map(|e| data_dir.join(e.name)).collect();
    paths.retain(|path| set_aside_at(path).is_some());
    paths.sort_by_cached_key(|path| set_aside_at(path));
    Ok(paths)
}

/// Like [`folders_aside`], for the partition whose folder is or was `dir`.
///
/// # Errors
/// The disk's errors.
pub fn aside_of<D: Disk>(disk: &D, dir: &Path) -> Result<Vec<PathBuf>, LogError> {
    let start = name_and_checksum(dir);
    let is_of_it =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&start));
    let mut aside = folders_aside(disk, dir.parent().unwrap_or(dir))?;
    aside.retain(is_of_it);
    Ok(aside)
}

/// Returns when a folder was set aside, from its name.
fn set_aside_at(path: &Path) -> Option<i64> {
    let name = path.file_name()?.to_str()?.strip_suffix(FOLDER_ASIDE_SUFFIX)?;
    name.rsplit('.').next()?.parse().ok()
}

/// True if a partition's folder holds data that would be missed: a ballot, or a segment or side file that is
/// not empty.
///
/// # Errors
/// The disk's errors.
pub fn holds_data<D: Disk>(disk: &D, dir: &Path) -> Result<bool, LogError> {
    if !disk.exists(dir).context("look for", dir)? {
        return Ok(false);
    }
    for entry in disk.read_dir(dir).context("list", dir)? {
        let path = dir.join(&entry.name);
        let is_created_empty = entry.name == names::IDENTITY || entry.is_dir;
        if !is_created_empty && disk.len(&path).context("measure", &path)? > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes partition folders whose deletion was started, and returns their names. Call it at start, before
/// any log is opened.
///
/// # Errors
/// The disk's errors.
pub fn remove_leftovers<D: Disk>(disk: &D, data_dir: &Path) -> Result<Vec<String>, LogError> {
    let entries = disk.read_dir(data_dir).context("list", data_dir)?;
    let deleted: Vec<String> = entries
        .into_iter()
        .filter(|e| e.is_dir && e.name.ends_with(DELETED_SUFFIX))
        .map(|e| e.name)
        .collect();
    for name in &deleted {
        let path = data_dir.join(name);
        disk.remove_dir(&path).context("remove", &path)?;
    }
    Ok(deleted)
}
