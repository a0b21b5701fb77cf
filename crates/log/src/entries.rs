//! The side file: entries that take a raft index and no offset. They are few and small, so they are kept in
//! memory.

use std::io::IoSlice;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use tailrace_types::RaftIndex;

use crate::damage::Damage;
use crate::disk::{Disk, DiskFile, OpenMode, read_file, replace_file, sync_parent};
use crate::error::{IoContext, LogError};
use crate::format::entry::{self, Entry};
use crate::format::{FormatError, names};

/// The largest side file that is read, in bytes. Each leader change takes 28 bytes and a small payload.
pub(crate) const FILE_BYTES_MAX: u64 = 256 << 20;

pub(crate) struct SideFile {
    path: PathBuf,
    entries: Vec<Entry>,
    bytes: u64,
    /// True if the file and its head exist.
    exists: bool,
}

impl SideFile {
    /// Reads the side file in `dir`. A torn end is skipped, and the second value is its length in bytes.
    pub(crate) fn load<D: Disk>(disk: &D, dir: &Path) -> Result<(Self, u64), LogError> {
        let path = dir.join(names::ENTRIES);
        let Some(file) = read_file(disk, &path, FILE_BYTES_MAX).context("read", &path)? else {
            return Ok((Self { path, entries: Vec::new(), bytes: 0, exists: false }, 0));
        };
        let file = Bytes::from(file);
        match entry::decode_file(&file) {
            Ok(found) => {
                let torn = file.len() as u64 - found.good_bytes;
                Ok((Self { path, entries: found.entries, bytes: found.good_bytes, exists: true }, torn))
            }
            // The file was torn by a crash during its creation. Nothing in it was ever synced.
            Err(FormatError::Damaged(..))
                if file.len() <= entry::HEAD_BYTES || file.iter().all(|&b| b == 0) =>
            {
                let torn = file.len() as u64;
                Ok((Self { path, entries: Vec::new(), bytes: 0, exists: false }, torn))
            }
            Err(error) => Err(error.in_file(&path)),
        }
    }

    /// Returns what is wrong with the file on disk, if it differs from memory.
    pub(crate) fn differs<D: Disk>(&self, disk: &D) -> Result<Option<Damage>, LogError> {
        if !self.exists {
            return Ok(None);
        }
        let dir = self.path.parent().unwrap_or(Path::new("."));
        let reason = match Self::load(disk, dir) {
            Ok((found, 0)) if found.entries == self.entries => return Ok(None),
            Ok(_) => "it does not hold the entries that were written".to_owned(),
            // The file was written by this very process.
            Err(error @ LogError::NewerFormat { .. }) => error.to_string(),
            Err(error) => match Damage::of(&error) {
                Some(damage) => return Ok(Some(damage)),
                None => return Err(error),
            },
        };
        Ok(Some(Damage { file: self.path.clone(), position: 0, reason }))
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the entry at `index`.
    pub(crate) fn at(&self, index: RaftIndex) -> Option<&Entry> {
        let at = self.entries.binary_search_by_key(&index, |e| e.raft_index).ok()?;
        Some(&self.entries[at])
    }

    /// Returns the first index from `index` on without an entry, which therefore belongs to a batch.
    pub(crate) fn next_free(&self, mut index: RaftIndex) -> RaftIndex {
        while self.at(index).is_some() {
            index.0 += 1;
        }
        index
    }

    /// Appends an entry and syncs. After [`LogError::NoSpace`] the file is unchanged. After any other error
    /// its state is unknown.
    pub(crate) fn append<D: Disk>(&mut self, disk: &D, entry: Entry) -> Result<(), LogError> {
        let file = disk.open(&self.path, OpenMode::Create).context("open", &self.path)?;
        let head = if self.exists { Vec::new() } else { entry::encode_head() };
        let record = entry.encode();
        let written = file.write_all_at(&[IoSlice::new(&head), IoSlice::new(&record)], self.bytes);
        if let Err(error) = written.context("write", &self.path) {
            if error.is_no_space() {
                file.set_len(self.bytes).context("shorten", &self.path)?;
            }
            return Err(error);
        }
        file.sync_data().context("sync", &self.path).map_err(LogError::lasting)?;
        if !self.exists {
            sync_parent(disk, &self.path)?;
        }
        self.exists = true;
        self.bytes += (head.len() + record.len()) as u64;
        self.entries.push(entry);
        Ok(())
    }

    /// Removes the entries from `index` on, durably.
    pub(crate) fn cut<D: Disk>(&mut self, disk: &D, index: RaftIndex) -> Result<usize, LogError> {
        let keep = self.entries.partition_point(|e| e.raft_index < index);
        let removed = self.entries.len() - keep;
        if removed > 0 {
            self.entries.truncate(keep);
            self.rewrite(disk)?;
        }
        Ok(removed)
    }

    /// Removes the entries below `index`, durably.
    pub(crate) fn cut_below<D: Disk>(&mut self, disk: &D, index: RaftIndex) -> Result<usize, LogError> {
        let removed = self.entries.partition_point(|e| e.raft_index < index);
        if removed > 0 {
            self.entries.drain(..removed);
            self.rewrite(disk)?;
        }
        Ok(removed)
    }

    /// Replaces the file with the entries in memory.
    pub(crate) fn rewrite<D: Disk>(&mut self, disk: &D) -> Result<(), LogError> {
        let mut file = entry::encode_head();
        for entry in &self.entries {
            file.extend_from_slice(&entry.encode());
        }
        replace_file(disk, &self.path, &[IoSlice::new(&file)])?;
        self.bytes = file.len() as u64;
        self.exists = true;
        Ok(())
    }
}
