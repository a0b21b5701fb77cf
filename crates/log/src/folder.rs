//! The partition's folder: identity, what lies in it, deletion.

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
    /// Gives segments whose `.log` is gone, and whose index still has rows, an empty one, so that recovery decides by these rows whether it
    /// had been durable. Of what a checkpoint covers it says itself what there is.
    pub(crate) fn revive<D: Disk>(
        &mut self,
        disk: &D,
        dir: &Path,
        checkpoint: Option<&Checkpoint>,
        is_fresh: bool,
    ) -> Result<(), LogError> {
        let first = self.segments.first().copied();
        // What retention was about to remove lies below the first segment.
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

    /// True if the log begins above 0, and something of it is known to have been synced: then what is missing was removed, and no power
    /// failure took its name.
    pub(crate) fn lost_its_beginning<D: Disk>(&self, disk: &D, dir: &Path) -> Result<bool, LogError> {
        let Some(first) = self.segments.first().copied().filter(|first| *first > Offset(0)) else {
            return Ok(false);
        };
        // A snapshot is written when the log up to its offset is durable.
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

    /// Removes what is left of segments that are gone; not of those that the checkpoint still lists.
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

/// The identity of the partition whose folder `dir` is. `None` if it has none.
///
/// # Errors
/// [`LogError::Damaged`] if it cannot be made out, [`LogError::NewerFormat`].
pub fn read_identity<D: Disk>(disk: &D, dir: &Path) -> Result<Option<PartitionIdentity>, LogError> {
    let path = dir.join(names::IDENTITY);
    match read_file(disk, &path, identity::BYTES_MAX).context("read", &path)? {
        Some(bytes) => identity::decode(&bytes).map(Some).map_err(|error| error.in_file(&path)),
        None => Ok(None),
    }
}

/// Makes sure that `dir` is there and belongs to `expected`. True if the folder or its identity was made; it is not
/// durable then.
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
        // A crash before the first sync leaves this. Where a checkpoint or an entry shows that it was synced, it is
        // damage.
        Some(Err(error)) if Listing::read(disk, dir)?.was_synced => {
            // The checkpoint says whose log this is, too.
            if checkpoint_owner(disk, dir)? != Some(expected.topic_id) {
                return Err(error.in_file(&path));
            }
            notes.push(format!("{} is written again: {error}", path.display()));
            replace_file(disk, &path, &[IoSlice::new(&identity::encode(expected))])?;
            return Ok(false);
        }
        Some(Err(_)) => {}
        None => {
            disk.create_dir(dir).context("create", dir)?;
            if Listing::read(disk, dir)?.was_synced {
                notes.push(format!("{} was missing and is written again", path.display()));
            }
        }
    }
    let file = disk.open(&path, OpenMode::Truncate).context("create", &path)?;
    file.write_all_at(&[IoSlice::new(&identity::encode(expected))], 0).context("write", &path)?;
    Ok(true)
}

/// The topic of the partition whose folder `dir` is, by its checkpoint. `None` if there is none that can be made out.
///
/// # Errors
/// What the disk says.
pub fn checkpoint_owner<D: Disk>(disk: &D, dir: &Path) -> Result<Option<TopicId>, LogError> {
    let path = dir.join(names::CHECKPOINT);
    let bytes = read_file(disk, &path, checkpoint::BYTES_MAX).context("read", &path)?;
    Ok(bytes.and_then(|bytes| Checkpoint::decode(&bytes).ok()).map(|checkpoint| checkpoint.topic_id))
}

/// Renames a partition's folder out of the way, durably, then removes it. `unique` tells this deletion from others of
/// the same folder name (the topic id does). A crash in between is finished by [`remove_leftovers`]. The log must have been
/// dropped; readers that hold slices keep their files.
///
/// # Errors
/// Once the folder is renamed the deletion is decided; an error then only leaves files for the next start.
pub fn delete_partition<D: Disk>(disk: &D, dir: &Path, unique: &str) -> Result<(), LogError> {
    let deleted = dir.with_file_name(deleted_name(dir, unique));
    disk.rename(dir, &deleted).context("rename", dir)?;
    sync_parent(disk, dir)?;
    disk.remove_dir(&deleted).context("remove", &deleted)
}

/// Begins with the old name, for the reader of a folder listing, but fits 255 bytes whatever the topic's name.
fn deleted_name(dir: &Path, unique: &str) -> String {
    format!("{}{unique}{DELETED_SUFFIX}", name_and_checksum(dir))
}

fn name_and_checksum(dir: &Path) -> String {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let start: String = name.chars().take(100).collect();
    format!("{start}.{:08x}.", crc32c::crc32c(name.as_bytes()))
}

/// Folders that are kept by [`set_aside`], the newest; of one partition one.
pub const KEPT_ASIDE_MAX: usize = 8;

/// Renames a partition's folder out of the way, durably, and keeps it for whoever wants to look at it: `orders-0` becomes
/// `orders-0.CHECKSUM.MILLISECONDS.damaged`. What was set aside before of the same partition is removed, and the oldest of all
/// beyond [`KEPT_ASIDE_MAX`]. The log must have been dropped. Returns the new path.
///
/// # Errors
/// What the disk says. Once the folder is renamed, a failure to remove an older one is no error.
pub fn set_aside<D: Disk>(disk: &D, dir: &Path, now: TimestampMs) -> Result<PathBuf, LogError> {
    let start = name_and_checksum(dir);
    // Twice within a millisecond, or a clock that went back.
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
        // What cannot be removed now is tried the next time.
        let _ = disk.remove_dir(old);
    }
    Ok(aside)
}

/// What [`set_aside`] has kept in a data folder, oldest first.
///
/// # Errors
/// What the disk says.
pub fn folders_aside<D: Disk>(disk: &D, data_dir: &Path) -> Result<Vec<PathBuf>, LogError> {
    let entries = disk.read_dir(data_dir).context("list", data_dir)?;
    let aside = entries.into_iter().filter(|e| e.is_dir && e.name.ends_with(FOLDER_ASIDE_SUFFIX));
    let mut paths: Vec<_> = aside.map(|e| data_dir.join(e.name)).collect();
    paths.retain(|path| set_aside_at(path).is_some());
    paths.sort_by_cached_key(|path| set_aside_at(path));
    Ok(paths)
}

/// The same of the partition whose folder is, or was, `dir`.
///
/// # Errors
/// What the disk says.
pub fn aside_of<D: Disk>(disk: &D, dir: &Path) -> Result<Vec<PathBuf>, LogError> {
    let start = name_and_checksum(dir);
    let is_of_it =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&start));
    let mut aside = folders_aside(disk, dir.parent().unwrap_or(dir))?;
    aside.retain(is_of_it);
    Ok(aside)
}

/// When a folder was set aside, by its name.
fn set_aside_at(path: &Path) -> Option<i64> {
    let name = path.file_name()?.to_str()?.strip_suffix(FOLDER_ASIDE_SUFFIX)?;
    name.rsplit('.').next()?.parse().ok()
}

/// True if there is something in a partition's folder that could be missed: a segment or a side file with bytes in it, or a ballot.
///
/// # Errors
/// What the disk says.
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

/// Removes partition folders whose deletion was begun, and returns their names. To be called at start, before any log
/// is opened.
///
/// # Errors
/// What the disk says.
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
