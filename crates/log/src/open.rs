//! Opening a log: the part that the checkpoint covers, and recovery of the rest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Release};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tailrace_types::{Offset, RaftIndex, TimestampMs};

use crate::checkpoint_file::{CheckpointFile, SnapshotContent};
use crate::config::{LogConfig, PartitionIdentity};
use crate::damage::{Damage, DamageMap, DamagedRange};
use crate::disk::{Disk, OpenMode, read_file, remove_if_there};
use crate::entries::SideFile;
use crate::error::{IoContext, LogError};
use crate::folder::claim;
use crate::format::checkpoint::{self, Checkpoint};
use crate::format::names::{self, Kind};
use crate::format::segment_header::SegmentHeader;
use crate::format::{FormatError, snapshot};
use crate::listing::{Listing, SegmentName};
use crate::log::Log;
use crate::reader::{LogReader, SegmentList};
use crate::recover::{Recovering, Tail};
use crate::recovery::{Origin, Recovery};
use crate::reserved::Reserved;
use crate::scan::{BatchScanner, Scanned};
use crate::sections::Sections;
use crate::segment::{LenOf, Segment};
use crate::store::LogStore;

impl<D: Disk> Log<D> {
    /// Opens the log in `dir`. Creates it if it does not exist, and recovers it if the last stop was not
    /// clean. Blocks on the disk. On return everything in the log is durable. A new folder becomes durable
    /// with the first sync.
    ///
    /// # Errors
    /// [`LogError::Damaged`]: durable bytes are missing or wrong. Nothing was truncated, and the partition
    /// should stay offline. [`LogError::NewerFormat`], [`LogError::IdentityMismatch`], and the disk's errors.
    pub fn open(
        store: &LogStore<D>,
        dir: &Path,
        identity: &PartitionIdentity,
        config: LogConfig,
        now: TimestampMs,
    ) -> Result<(Self, Recovery), LogError> {
        Self::open_from(store, dir, identity, config, now, Origin::Fresh)
    }

    fn open_from(
        store: &LogStore<D>,
        dir: &Path,
        identity: &PartitionIdentity,
        config: LogConfig,
        now: TimestampMs,
        origin: Origin,
    ) -> Result<(Self, Recovery), LogError> {
        let disk = store.disk();
        let mut recovery = Recovery::default();
        let created = claim(disk, dir, identity, &mut recovery.notes)?;
        recovery.created = created;
        let mut listing = Listing::read(disk, dir)?;
        listing.remove_leftovers(disk, dir)?;
        let dir: Arc<Path> = dir.into();
        let (checkpoint, mut origin) = load_checkpoint(disk, &dir, identity, origin, &mut recovery)?;
        listing.revive(disk, &dir, checkpoint.as_ref(), origin == Origin::Fresh)?;
        if origin != Origin::Unknown {
            listing.remove_orphans(disk, &dir, checkpoint.as_ref())?;
        }
        let compacted = settle(disk, &dir, &mut listing, checkpoint.as_ref(), &mut recovery)?;
        if origin == Origin::Fresh && (!compacted.is_empty() || listing.lost_its_beginning(disk, &dir)?) {
            // There was a checkpoint once: compaction writes one, and so does removing the start of a log.
            let path = dir.join(names::CHECKPOINT);
            recovery.notes.push(format!("{} is missing: the whole log is read", path.display()));
            origin = Origin::Unknown;
        }
        let (side, torn) = SideFile::load(disk, &dir)?;
        if torn > 0 {
            recovery.notes.push(format!("the side file had {torn} torn bytes at its end"));
        }
        let known = known_segments(disk, &dir, &listing, checkpoint.as_ref(), &mut recovery)?;
        let mut recovering =
            Recovering { store, dir: &dir, side: &side, recovery: &mut recovery, now, origin, compacted };
        let start = recovering.begin(checkpoint.as_ref(), &listing)?;
        let tail = recovering.run(start, known, &listing)?;
        let recovered = Recovered { checkpoint, side, side_was_whole: torn == 0, tail, created };
        let log = assemble(store, &dir, identity, config, recovered, &listing);
        log.finish_open(&listing, recovery)
    }

    /// Makes the recovered log durable, and finds the snapshot.
    fn finish_open(
        mut self,
        listing: &Listing,
        mut recovery: Recovery,
    ) -> Result<(Self, Recovery), LogError> {
        let disk = self.reader.store.disk().clone();
        let beyond = self.side.cut(&disk, self.next_raft_index)?;
        if beyond > 0 {
            recovery.notes.push(format!("{beyond} entries beyond the end of the log were removed"));
        }
        recovery.clean &= beyond == 0 && self.side_was_whole;
        if !self.side_was_whole {
            self.side.rewrite(&disk)?;
            self.side_was_whole = true;
        }
        let end = self.log_end().offset();
        let (usable, beyond) = listing.snapshots.split_at(listing.snapshots.partition_point(|s| *s <= end));
        for offset in beyond {
            remove_if_there(&disk, &names::path(&self.reader.dir, *offset, Kind::Snapshot))?;
        }
        if !beyond.is_empty() {
            // If such a snapshot came back after the log got other batches there, it would be taken for the
            // state after these.
            disk.sync_dir(&self.reader.dir).context("sync", &self.reader.dir)?;
        }
        self.reader.checkpoint.lock().snapshots = usable.to_vec();
        recovery.snapshot = self.snapshot(end, &mut recovery.notes)?;
        self.reader.checkpoint.lock().newest =
            recovery.snapshot.as_ref().map(|(offset, sections)| SnapshotContent::of(*offset, sections));
        if !recovery.clean {
            // Removed segments must not come back next to what is appended from here on.
            disk.sync_dir(&self.reader.dir).context("sync", &self.reader.dir)?;
            self.sync()?;
            match self.checkpoint(None) {
                // The data is synced, and the next start reads it again. A full disk must not keep readers
                // out.
                Err(error) if error.is_no_space() => recovery.notes.push(error.to_string()),
                other => drop(other?),
            }
        }
        self.durable_end = end.into();
        self.note_damage(&mut recovery)?;
        // A full disk must not keep readers out. The file is written later.
        self.reader.save_damage().or_else(unless_full)?;
        Ok((self, recovery))
    }

    /// Puts out of service what recovery found damaged and what was known to be damaged before. Such a
    /// segment takes no more appends.
    fn note_damage(&mut self, recovery: &mut Recovery) -> Result<(), LogError> {
        for range in &recovery.damaged {
            self.reader.damage.add(range);
        }
        let list = self.reader.segments.load_full();
        for (base, damage) in &recovery.cut_short {
            let Some(segment) = list.iter().find(|segment| segment.base_offset == *base) else { continue };
            let rows = self.reader.rows_beyond(segment, damage.position);
            for (from, upto) in rows.unwrap_or_else(|_| vec![(segment.base_offset, segment.end_offset())]) {
                self.reader.damage.add(&DamagedRange::found(from, upto, damage.clone()));
            }
        }
        self.reader.load_damage(&mut recovery.notes)?;
        recovery.damaged = self.reader.damaged();
        let is_damaged = |active: &mut Arc<Segment<D>>| {
            self.reader.damage.within(active.base_offset, active.end_offset()).is_some()
        };
        self.active.take_if(is_damaged);
        Ok(())
    }

    /// Returns the newest usable snapshot at `upto` or below: the state after all batches below its offset.
    /// Adds the problems of newer snapshots to `notes`.
    ///
    /// # Errors
    /// The disk's errors, and [`LogError::NewerFormat`].
    pub fn snapshot(
        &self,
        upto: Offset,
        notes: &mut Vec<String>,
    ) -> Result<Option<(Offset, Sections)>, LogError> {
        let there = self.reader.checkpoint.lock().snapshots.clone();
        // After an older snapshot, the end of a transaction that is open in it may be missing, due to
        // compaction or because the segments were removed.
        let oldest = self.reader.compacted_end().max(self.reader.first_kept());
        let usable = there.partition_point(|s| *s < oldest)..there.partition_point(|s| *s <= upto);
        self.newest_snapshot(there.get(usable).unwrap_or_default(), notes)
    }

    fn newest_snapshot(
        &self,
        usable: &[Offset],
        notes: &mut Vec<String>,
    ) -> Result<Option<(Offset, Sections)>, LogError> {
        for &offset in usable.iter().rev() {
            let path = names::path(&self.reader.dir, offset, Kind::Snapshot);
            let file = read_file(self.reader.store.disk(), &path, snapshot::FILE_BYTES_MAX);
            let Some(file) = file.context("read", &path)? else { continue };
            match snapshot::decode(&file.into(), offset) {
                Ok(sections) => return Ok(Some((offset, sections))),
                Err(error @ FormatError::Newer(_)) => return Err(error.in_file(&path)),
                Err(error) => notes.push(format!("{} was skipped: {error}", path.display())),
            }
        }
        Ok(None)
    }
}

fn unless_full(error: LogError) -> Result<(), LogError> {
    if error.is_no_space() { Ok(()) } else { Err(error) }
}

/// Removes the files that do not count because of compaction. Without a checkpoint, returns the headers of
/// the segments that count.
fn settle<D: Disk>(
    disk: &D,
    dir: &Arc<Path>,
    listing: &mut Listing,
    checkpoint: Option<&Checkpoint>,
    recovery: &mut Recovery,
) -> Result<BTreeMap<Offset, SegmentHeader>, LogError> {
    let (stale, headers) = match checkpoint {
        Some(checkpoint) => (listing.settle_by(checkpoint), BTreeMap::new()),
        None => listing.settle_alone(disk, dir)?,
    };
    // As far as the checkpoint tells, their replacement is whole. Otherwise they are kept.
    let is_covered = match checkpoint {
        Some(checkpoint) => is_all_there(disk, dir, checkpoint)?,
        None => false,
    };
    for SegmentName { base, generation } in stale {
        let segment = Segment::<D>::of_generation(dir, base, generation);
        let what = format!("segment {base} (generation {generation}) was left over by compaction");
        if is_covered || !has_batches(disk, &segment)? {
            crate::trim::remove_segment_files(disk, &segment)?;
            recovery.notes.push(what);
        } else {
            let aside = set_aside(disk, &segment)?;
            recovery.notes.push(format!("{what}; it is kept as {}, to be removed by hand", aside.display()));
        }
    }
    Ok(headers)
}

/// True if no segment that the checkpoint lists is shorter than listed.
fn is_all_there<D: Disk>(disk: &D, dir: &Arc<Path>, checkpoint: &Checkpoint) -> Result<bool, LogError> {
    for entry in &checkpoint.segments {
        let path = Segment::<D>::from_entry(dir, entry).path(Kind::Log);
        match disk.len(&path) {
            Ok(len) if len >= u64::from(entry.bytes) => {}
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(LogError::io("read the length of", &path, error));
            }
            Ok(_) | Err(_) => return Ok(false),
        }
    }
    Ok(true)
}

/// True if a `.log` starts with a whole batch.
fn has_batches<D: Disk>(disk: &D, segment: &Segment<D>) -> Result<bool, LogError> {
    let path = segment.path(Kind::Log);
    let log = disk.open(&path, OpenMode::Read).context("open", &path)?;
    let len = log.len_of(&path)?;
    Ok(matches!(BatchScanner::new(&log, 0, len).next().context("read", &path)?, Scanned::Batch { .. }))
}

/// Renames a `.log` so that it no longer counts but is not deleted either. Removes its index and header.
/// Returns the new name.
fn set_aside<D: Disk>(disk: &D, segment: &Segment<D>) -> Result<PathBuf, LogError> {
    let path = segment.path(Kind::Log);
    let aside = names::with_suffix(&path, names::ASIDE_SUFFIX);
    disk.rename(&path, &aside).context("rename", &path)?;
    for kind in [Kind::Header, Kind::Index] {
        remove_if_there(disk, &segment.path(kind))?;
    }
    crate::disk::sync_parent(disk, &path)?;
    Ok(aside)
}

fn load_checkpoint<D: Disk>(
    disk: &D,
    dir: &Path,
    identity: &PartitionIdentity,
    origin: Origin,
    recovery: &mut Recovery,
) -> Result<(Option<Checkpoint>, Origin), LogError> {
    let path = dir.join(names::CHECKPOINT);
    let Some(bytes) = read_file(disk, &path, checkpoint::BYTES_MAX).context("read", &path)? else {
        return Ok((None, origin));
    };
    match Checkpoint::decode(&bytes) {
        Ok(found) if found.topic_id == identity.topic_id => Ok((Some(found), Origin::Checkpoint)),
        Ok(found) => {
            let reason = format!("it belongs to topic id {}, not {}", found.topic_id, identity.topic_id);
            Err(LogError::damaged(&path, 12, reason))
        }
        Err(error @ FormatError::Newer(_)) => Err(error.in_file(&path)),
        Err(error) => {
            let note = format!("{} is unreadable ({error}): the whole log is read", path.display());
            recovery.notes.push(note);
            Ok((None, Origin::Unknown))
        }
    }
}

/// Returns the segments that the checkpoint lists. The missing part of an incomplete segment is damaged.
fn known_segments<D: Disk>(
    disk: &D,
    dir: &Arc<Path>,
    listing: &Listing,
    checkpoint: Option<&Checkpoint>,
    recovery: &mut Recovery,
) -> Result<SegmentList<D>, LogError> {
    let Some(checkpoint) = checkpoint else { return Ok(Vec::new()) };
    let mut known = Vec::with_capacity(checkpoint.segments.len());
    for entry in &checkpoint.segments {
        let segment = Segment::from_entry(dir, entry);
        let path = segment.path(Kind::Log);
        let (found, reason) = match disk.len(&path) {
            Ok(found) => {
                (found, format!("it has {found} bytes, the checkpoint says {} are durable", entry.bytes))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                // Its rows tell what it contained, and it is rebuilt under its name.
                disk.open(&path, OpenMode::Create).context("create", &path)?;
                (0, "the checkpoint lists it, but it is missing".to_owned())
            }
            Err(error) => return Err(LogError::io("read the length of", &path, error)),
        };
        if found < u64::from(entry.bytes) {
            recovery.cut_short.push((entry.base_offset, Damage { file: path, position: found, reason }));
        }
        known.push(Arc::new(segment));
    }
    remove_trimmed(disk, dir, listing, checkpoint, recovery)?;
    Ok(known)
}

/// Removes segments older than those in the checkpoint, whose removal had started.
fn remove_trimmed<D: Disk>(
    disk: &D,
    dir: &Arc<Path>,
    listing: &Listing,
    checkpoint: &Checkpoint,
    recovery: &mut Recovery,
) -> Result<(), LogError> {
    let first = checkpoint.segments.first().map_or(checkpoint.end_offset, |s| s.base_offset);
    for &base in listing.segments.iter().filter(|base| **base < checkpoint.end_offset) {
        if base < first {
            let segment = Segment::<D>::new(dir, base, RaftIndex(0), TimestampMs::NONE);
            crate::trim::remove_segment_files(disk, &segment)?;
            recovery.notes.push(format!("segment {base} was being removed, and is removed now"));
        } else if !checkpoint.segments.iter().any(|s| s.base_offset == base) {
            let path = names::path(dir, base, Kind::Log);
            return Err(LogError::damaged(
                &path,
                0,
                "it is within the log, but the checkpoint does not list it",
            ));
        }
    }
    Ok(())
}

/// What recovery has found in the folder.
struct Recovered<D: Disk> {
    checkpoint: Option<Checkpoint>,
    side: SideFile,
    side_was_whole: bool,
    tail: Tail<D>,
    /// True if the folder was just created.
    created: bool,
}

fn assemble<D: Disk>(
    store: &LogStore<D>,
    dir: &Arc<Path>,
    identity: &PartitionIdentity,
    config: LogConfig,
    recovered: Recovered<D>,
    listing: &Listing,
) -> Log<D> {
    let Recovered { checkpoint, side, side_was_whole, tail, created } = recovered;
    let log_start = checkpoint.as_ref().map_or(tail.first_offset, |c| c.log_start).min(tail.next_offset);
    // A segment that was rewritten or copied takes no more appends: its header says where it ends.
    let active = tail.segments.last().filter(|segment| segment.generation == 0).cloned();
    let reader = LogReader {
        store: store.clone(),
        dir: Arc::clone(dir),
        identity: identity.clone(),
        segments: ArcSwap::from_pointee(tail.segments),
        epochs: ArcSwap::from_pointee(tail.epochs.0.clone()),
        log_start: AtomicI64::new(log_start.0),
        log_end: AtomicI64::new(tail.next_offset.0),
        first_dirty: AtomicI64::new(checkpoint.as_ref().map_or(0, |c| c.first_dirty.0)),
        close_after_ms: AtomicI64::new(config.close_after_ms()),
        generation: AtomicU64::new(0),
        appended_bytes: AtomicU64::new(0),
        rolls: AtomicU64::new(0),
        damage: DamageMap::default(),
        folder_synced: AtomicBool::new(false),
        checkpoint: Mutex::new(CheckpointFile { written: checkpoint, ..CheckpointFile::default() }),
    };
    // A checkpoint exists only if the folder's name was synced before it.
    let folder_synced = !created && listing.has_identity && reader.checkpoint.lock().written.is_some();
    reader.folder_synced.store(folder_synced, Release);
    Log {
        reader: Arc::new(reader),
        config,
        side,
        epochs: tail.epochs,
        next_raft_index: tail.next_raft_index,
        last_epoch: tail.last_epoch,
        durable_end: tail.durable_offset.into(),
        poisoned: None,
        active,
        reserved: Reserved::default(),
        plan_sequence: AtomicU64::new(0),
        compaction: std::sync::Weak::new(),
        side_was_whole,
    }
}
