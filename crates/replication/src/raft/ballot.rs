//! What a replica must not forget besides its log: its vote, its term, and who belongs to the group.
//!
//! One small file with two slots, written in turn: a torn write leaves the other. docs/format.md names every byte.

use std::io::IoSlice;
use std::path::{Path, PathBuf};

use raft::eraftpb::ConfState;
use tailrace_log::{Disk, DiskFile, LogError, OpenMode, read_full_at};

const MAGIC: &[u8; 8] = b"TRBALLOT";
const VERSION: u32 = 1;
/// Each slot is a page of its own.
const SLOT_BYTES: usize = 4096;
const FIXED_BYTES: usize = 64;
const CRC_BYTES: usize = 4;

/// The most replicas of one group, learners included.
pub const REPLICAS_MAX: usize = 64;

/// Name of the file in the partition's folder.
pub(crate) const FILE: &str = "ballot";

/// What is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ballot {
    /// This replica. Never 0, never used again once the disk was lost.
    pub(crate) replica: u64,
    pub(crate) term: u64,
    /// 0 for none.
    pub(crate) vote: u64,
    /// Raft index up to which entries were known to be committed, and applied, when this was written.
    pub(crate) commit: u64,
    /// The members as of `commit`.
    pub(crate) members: ConfState,
}

/// The file.
#[derive(Debug)]
pub(crate) struct BallotFile {
    path: PathBuf,
    written: u64,
}

impl BallotFile {
    /// Reads the newer of the slots. `None` if there is no file.
    pub(crate) fn open<D: Disk>(disk: &D, dir: &Path) -> Result<(Self, Option<Ballot>), LogError> {
        let path = dir.join(FILE);
        let mut file = Self { path, written: 0 };
        let exists = disk.exists(&file.path).map_err(|error| LogError::io("look for", &file.path, error))?;
        if !exists {
            return Ok((file, None));
        }
        let mut bytes = vec![0; 2 * SLOT_BYTES];
        let opened =
            disk.open(&file.path, OpenMode::Read).map_err(|e| LogError::io("open", &file.path, e))?;
        let read = read_full_at(&opened, &mut bytes, 0).map_err(|e| LogError::io("read", &file.path, e))?;
        bytes.truncate(read);
        if let Some(found) = bytes.chunks(SLOT_BYTES).filter_map(version).find(|found| *found != VERSION) {
            let reason = format!("format version {found}, expected {VERSION}: written by another tailrace");
            return Err(LogError::damaged(&file.path, 8, reason));
        }
        let newest = bytes.chunks(SLOT_BYTES).filter_map(decode).max_by_key(|(number, _)| *number);
        // The file gets its name when both slots are whole, so at least one always is.
        let Some((number, ballot)) = newest else {
            return Err(LogError::damaged(&file.path, 0, "neither of the two slots is whole".to_owned()));
        };
        file.written = number;
        Ok((file, Some(ballot)))
    }

    /// Makes `ballot` durable. Blocks.
    ///
    /// # Errors
    /// The disk's. What the file holds is then the old or the new ballot.
    ///
    /// # Panics
    /// With more than [`REPLICAS_MAX`] members.
    pub(crate) fn write<D: Disk>(&mut self, disk: &D, ballot: &Ballot) -> Result<(), LogError> {
        let number = self.written + 1;
        let slot = encode(number, ballot);
        if self.written == 0 {
            tailrace_log::replace_file(disk, &self.path, &[IoSlice::new(&slot), IoSlice::new(&slot)])?;
        } else {
            let file = disk.open(&self.path, OpenMode::Write);
            let file = file.map_err(|error| LogError::io("open", &self.path, error))?;
            let position = (number % 2) * SLOT_BYTES as u64;
            let written = file.write_all_at(&[IoSlice::new(&slot)], position);
            written.map_err(|error| LogError::io("write", &self.path, error))?;
            file.sync_data().map_err(|error| LogError::io("sync", &self.path, error))?;
        }
        self.written = number;
        Ok(())
    }
}

fn encode(number: u64, ballot: &Ballot) -> Vec<u8> {
    let members = &ballot.members;
    let lists = [&members.voters, &members.learners, &members.voters_outgoing, &members.learners_next];
    let mut slot = Vec::with_capacity(SLOT_BYTES);
    slot.extend_from_slice(MAGIC);
    slot.extend_from_slice(&VERSION.to_le_bytes());
    slot.extend_from_slice(&u32::from(members.auto_leave).to_le_bytes());
    for value in [number, ballot.replica, ballot.term, ballot.vote, ballot.commit] {
        slot.extend_from_slice(&value.to_le_bytes());
    }
    for list in lists {
        assert!(list.len() <= REPLICAS_MAX, "a group of {} replicas", list.len());
        slot.extend_from_slice(&(list.len() as u16).to_le_bytes());
    }
    for id in lists.into_iter().flatten() {
        slot.extend_from_slice(&id.to_le_bytes());
    }
    slot.resize(SLOT_BYTES - CRC_BYTES, 0);
    slot.extend_from_slice(&crc32c::crc32c(&slot).to_le_bytes());
    slot
}

/// The version of a whole slot.
fn version(slot: &[u8]) -> Option<u32> {
    let (body, crc) = slot.split_at_checked(SLOT_BYTES - CRC_BYTES)?;
    let whole = slot.len() == SLOT_BYTES && crc32c::crc32c(body).to_le_bytes() == crc && &body[..8] == MAGIC;
    whole.then(|| u32_at(body, 8))
}

/// `None` if the slot is not whole.
fn decode(slot: &[u8]) -> Option<(u64, Ballot)> {
    if version(slot)? != VERSION {
        return None;
    }
    let body = &slot[..SLOT_BYTES - CRC_BYTES];
    let mut at = FIXED_BYTES;
    let mut list = |count_at: usize| {
        let count = u16::from_le_bytes([body[count_at], body[count_at + 1]]) as usize;
        let ids = body.get(at..at + count * 8)?.chunks_exact(8).map(|id| u64_at(id, 0)).collect();
        at += count * 8;
        Some(ids)
    };
    let members = ConfState {
        voters: list(56)?,
        learners: list(58)?,
        voters_outgoing: list(60)?,
        learners_next: list(62)?,
        auto_leave: u32_at(body, 12) != 0,
        ..ConfState::default()
    };
    let ballot = Ballot {
        replica: u64_at(body, 24),
        term: u64_at(body, 32),
        vote: u64_at(body, 40),
        commit: u64_at(body, 48),
        members,
    };
    Some((u64_at(body, 16), ballot))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ballot(term: u64) -> Ballot {
        let mut members = ConfState::default();
        (members.voters, members.learners) = (vec![1, 2, 3], vec![7]);
        (members.voters_outgoing, members.auto_leave) = (vec![1, 2, 9], true);
        Ballot { replica: 2, term, vote: 3, commit: 40, members }
    }

    #[test]
    fn a_slot_comes_back_and_no_damaged_one_does() {
        let slot = encode(5, &ballot(9));
        assert_eq!(slot.len(), SLOT_BYTES);
        assert_eq!(decode(&slot), Some((5, ballot(9))));
        for at in [0, 8, 30, 57, 70, SLOT_BYTES - 1] {
            let mut damaged = slot.clone();
            damaged[at] ^= 1;
            assert_eq!(decode(&damaged), None, "byte {at}");
        }
        assert_eq!(decode(&slot[..SLOT_BYTES - 1]), None);
    }

    #[test]
    fn the_newer_slot_counts_and_a_torn_one_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let disk = tailrace_log::RealDisk;
        let (mut file, none) = BallotFile::open(&disk, folder.path()).unwrap();
        assert_eq!(none, None);
        for term in 1..=5 {
            file.write(&disk, &ballot(term)).unwrap();
            let (_, found) = BallotFile::open(&disk, folder.path()).unwrap();
            assert_eq!(found, Some(ballot(term)));
        }
        let path = folder.path().join(FILE);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[SLOT_BYTES + 100] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(BallotFile::open(&disk, folder.path()).unwrap().1, Some(ballot(4)));
        bytes[8] = 2;
        let crc = crc32c::crc32c(&bytes[..SLOT_BYTES - CRC_BYTES]);
        bytes[SLOT_BYTES - CRC_BYTES..SLOT_BYTES].copy_from_slice(&crc.to_le_bytes());
        std::fs::write(&path, bytes).unwrap();
        let newer = BallotFile::open(&disk, folder.path()).unwrap_err().to_string();
        assert!(newer.contains("format version 2, expected 1"), "{newer}");
    }
}
