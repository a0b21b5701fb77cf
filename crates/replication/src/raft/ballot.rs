//! The state that a replica must keep besides its log: its vote, its term, and the members of its group.
//!
//! One small file with two slots, written in turn: a torn write leaves the other slot intact. docs/format.md
//! describes every byte.

use std::io::IoSlice;
use std::path::{Path, PathBuf};

use raft::eraftpb::ConfState;
use tailrace_log::{Damage, Disk, DiskFile, LogError, OpenMode, read_full_at};
use tailrace_types::{Offset, ReplicaId};

const MAGIC: &[u8; 8] = b"TRBALLOT";
const VERSION: u32 = 2;
/// Each slot is one page.
const SLOT_BYTES: usize = 4096;
/// In version 1, the members followed here.
const FIXED_BYTES_1: usize = 64;
const FIXED_BYTES: usize = 128;
const CRC_BYTES: usize = 4;

/// The most replicas of one group, learners included.
pub(crate) const REPLICAS_MAX: usize = 64;

/// The most ids in all lists of a [`ConfState`]. Tailrace changes one member at a time, so that at most two
/// of the lists are ever filled.
pub(super) const IDS_MAX: usize = 2 * REPLICAS_MAX;

const _: () =
    assert!(FIXED_BYTES + 2 * IDS_MAX * 8 + CRC_BYTES <= SLOT_BYTES, "a slot holds both lists of members");

/// Name of the file in the partition's folder.
pub(crate) const FILE: &str = "ballot";

/// The state that the file keeps.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ballot {
    /// The id of this replica. Never 0, and never used again once the disk was lost.
    pub(crate) replica: u64,
    pub(crate) term: u64,
    /// 0 for no vote.
    pub(crate) vote: u64,
    /// The raft index up to which entries were known to be committed and applied when this was written.
    pub(crate) commit: u64,
    /// The members as of `commit`.
    pub(crate) members: ConfState,
    /// Everything up to here is snapshot: the log may lack any of these entries. At most `commit`.
    pub(crate) start: Point,
    /// Set while a copy is about to replace the log, or has just done so: the end of the copy, and the
    /// members there.
    pub(crate) installing: Option<(Point, ConfState)>,
    /// The log starts at this offset or below, unless an entry of the log says otherwise. `None` in a ballot
    /// of an earlier build.
    pub(crate) log_start: Option<Offset>,
    /// Compaction has covered at least everything below this offset.
    pub(crate) first_dirty: Offset,
}

impl Ballot {
    /// # Panics
    /// If the term went back from `term`, or if the `vote` given in that term has changed.
    pub(super) fn assert_follows(&self, term: u64, vote: u64) {
        let now = (self.term, self.vote);
        assert!(now.0 >= term, "the term went back from {term} to {}", now.0);
        assert!(now.0 > term || vote == 0 || now.1 == vote, "term {term} has votes for {vote} and {}", now.1);
    }

    /// Records that the copy has replaced the log.
    pub(super) fn finish_installing(&mut self) {
        if let Some((end, members)) = self.installing.take() {
            (self.start, self.commit, self.members) = (end, end.index, members);
        }
    }
}

/// A raft index and the term of the entry there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) index: u64,
    pub(crate) term: u64,
}

/// Returns the lists of a [`ConfState`] in the order in which they are stored and sent.
pub(super) fn lists(members: &ConfState) -> [&Vec<u64>; 4] {
    [&members.voters, &members.learners, &members.voters_outgoing, &members.learners_next]
}

/// Builds a [`ConfState`] from lists in that order.
pub(super) fn from_lists([voters, learners, outgoing, next]: [Vec<u64>; 4], auto_leave: bool) -> ConfState {
    ConfState {
        voters,
        learners,
        voters_outgoing: outgoing,
        learners_next: next,
        auto_leave,
        ..ConfState::default()
    }
}

/// Returns the replica that owns the folder `dir`. `None` if the folder is empty, or if its partition has
/// only ever had a single replica.
///
/// # Errors
/// The disk's errors. [`LogError::Damaged`] if the ballot file is damaged.
pub fn owner<D: Disk>(disk: &D, dir: &Path) -> Result<Option<ReplicaId>, LogError> {
    Ok(BallotFile::open(disk, dir)?.1.map(|ballot| ReplicaId(ballot.replica)))
}

/// The ballot file.
#[derive(Debug)]
pub(crate) struct BallotFile {
    path: PathBuf,
    written: u64,
}

impl BallotFile {
    /// Reads the newer slot. `None` if there is no file.
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
        if let Some(found) = bytes.chunks(SLOT_BYTES).filter_map(version).find(|found| *found > VERSION) {
            let reason = format!("format version {found}; this tailrace reads up to {VERSION}");
            return Err(LogError::damaged(&file.path, 8, reason));
        }
        let newest = bytes.chunks(SLOT_BYTES).filter_map(decode).max_by_key(|(number, _)| *number);
        // The file gets its name once both slots are whole, so at least one always is.
        let Some((number, ballot)) = newest else {
            return Err(LogError::damaged(&file.path, 0, "neither of the two slots is whole".to_owned()));
        };
        file.written = number;
        Ok((file, Some(ballot)))
    }

    /// Returns the damage if one of the slots differs from what was written. `ballot` is the last ballot
    /// written.
    pub(crate) fn differs<D: Disk>(&self, disk: &D, ballot: &Ballot) -> Option<Damage> {
        let mut bytes = vec![0; 2 * SLOT_BYTES];
        let read = disk.open(&self.path, OpenMode::Read);
        let read = read.and_then(|opened| read_full_at(&opened, &mut bytes, 0));
        bytes.truncate(read.unwrap_or(0));
        let last = usize::from(self.written % 2 == 1);
        let slots: Vec<_> = bytes.chunks(SLOT_BYTES).map(decode).collect();
        let is_last = matches!(slots.get(last), Some(Some((number, found))) if *number == self.written && found == ballot);
        let is_whole = slots.len() == 2 && slots.iter().all(Option::is_some);
        let reason = "its slots differ from what was last written".to_owned();
        (!is_last || !is_whole).then(|| Damage { file: self.path.clone(), position: 0, reason })
    }

    /// Makes `ballot` durable. Blocks.
    ///
    /// # Errors
    /// The disk's errors. The file then holds either the old or the new ballot.
    ///
    /// # Panics
    /// If there are more than [`REPLICAS_MAX`] members.
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
    let none = (Point::default(), ConfState::default());
    let (end, later) = ballot.installing.as_ref().unwrap_or(&none);
    let states = [&ballot.members, later];
    let mut slot = Vec::with_capacity(SLOT_BYTES);
    slot.extend_from_slice(MAGIC);
    slot.extend_from_slice(&VERSION.to_le_bytes());
    let auto_leave = u32::from(states[0].auto_leave) | u32::from(states[1].auto_leave) << 1;
    slot.extend_from_slice(&auto_leave.to_le_bytes());
    for value in [number, ballot.replica, ballot.term, ballot.vote, ballot.commit] {
        slot.extend_from_slice(&value.to_le_bytes());
    }
    put_counts(&mut slot, states[0]);
    for value in [ballot.start.index, ballot.start.term, end.index, end.term] {
        slot.extend_from_slice(&value.to_le_bytes());
    }
    put_counts(&mut slot, states[1]);
    let log_start = ballot.log_start.map_or(0, |offset| offset.get() + 1);
    slot.extend_from_slice(&log_start.to_le_bytes());
    slot.extend_from_slice(&ballot.first_dirty.get().to_le_bytes());
    slot.resize(FIXED_BYTES, 0);
    for id in states.into_iter().flat_map(lists).flatten() {
        slot.extend_from_slice(&id.to_le_bytes());
    }
    slot.resize(SLOT_BYTES - CRC_BYTES, 0);
    slot.extend_from_slice(&crc32c::crc32c(&slot).to_le_bytes());
    slot
}

fn put_counts(slot: &mut Vec<u8>, members: &ConfState) {
    let lists = lists(members);
    let all: usize = lists.iter().map(|list| list.len()).sum();
    assert!(all <= IDS_MAX, "a group of {all} replicas");
    for list in lists {
        slot.extend_from_slice(&(list.len() as u16).to_le_bytes());
    }
}

/// Returns the version of a slot. `None` if the slot is not whole.
fn version(slot: &[u8]) -> Option<u32> {
    let (body, crc) = slot.split_at_checked(SLOT_BYTES - CRC_BYTES)?;
    let whole = slot.len() == SLOT_BYTES && crc32c::crc32c(body).to_le_bytes() == crc && &body[..8] == MAGIC;
    whole.then(|| u32_at(body, 8))
}

/// `None` if the slot is not whole.
fn decode(slot: &[u8]) -> Option<(u64, Ballot)> {
    let version = version(slot)?;
    let body = &slot[..SLOT_BYTES - CRC_BYTES];
    let is_first = version < VERSION;
    let mut at = if is_first { FIXED_BYTES_1 } else { FIXED_BYTES };
    let mut state = |counts_at: usize, auto_leave: bool| {
        let mut list = |number: usize| {
            let count_at = counts_at + 2 * number;
            let count = u16::from_le_bytes([body[count_at], body[count_at + 1]]) as usize;
            let ids = body.get(at..at + count * 8)?.chunks_exact(8).map(|id| u64_at(id, 0)).collect();
            at += count * 8;
            Some(ids)
        };
        Some(from_lists([list(0)?, list(1)?, list(2)?, list(3)?], auto_leave))
    };
    let flags = u32_at(body, 12);
    let members = state(56, flags & 1 != 0)?;
    let mut ballot = Ballot {
        replica: u64_at(body, 24),
        term: u64_at(body, 32),
        vote: u64_at(body, 40),
        commit: u64_at(body, 48),
        members,
        ..Ballot::default()
    };
    if !is_first {
        ballot.start = Point { index: u64_at(body, 64), term: u64_at(body, 72) };
        let end = Point { index: u64_at(body, 80), term: u64_at(body, 88) };
        let later = state(96, flags & 2 != 0)?;
        ballot.installing = (end.index > 0).then_some((end, later));
        ballot.first_dirty = i64::try_from(u64_at(body, 112)).map_or(Offset(0), Offset);
        ballot.log_start =
            i64::try_from(u64_at(body, 104)).ok().filter(|next| *next > 0).map(|next| Offset(next - 1));
    }
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

    #[test]
    #[should_panic(expected = "the term went back from 4 to 3")]
    fn the_term_does_not_go_back() {
        Ballot { term: 3, ..Ballot::default() }.assert_follows(4, 0);
    }

    #[test]
    #[should_panic(expected = "term 4 has votes for 1 and 2")]
    fn a_term_has_one_vote() {
        Ballot { term: 4, vote: 2, ..Ballot::default() }.assert_follows(4, 1);
    }

    #[test]
    fn a_vote_is_given_once_in_each_term() {
        Ballot { term: 4, vote: 2, ..Ballot::default() }.assert_follows(4, 0);
        Ballot { term: 5, vote: 0, ..Ballot::default() }.assert_follows(4, 1);
    }

    fn ballot(term: u64) -> Ballot {
        let mut members = ConfState::default();
        (members.voters, members.learners) = (vec![1, 2, 3], vec![7]);
        (members.voters_outgoing, members.auto_leave) = (vec![1, 2, 9], true);
        let mut later = ConfState::default();
        (later.voters, later.learners_next) = (vec![4, 5], vec![6]);
        let installing = Some((Point { index: 90, term }, later));
        Ballot {
            replica: 2,
            term,
            vote: 3,
            commit: 40,
            members,
            start: Point { index: 30, term: 1 },
            installing,
            log_start: Some(Offset(0)),
            first_dirty: Offset(17),
        }
    }

    #[test]
    fn a_slot_of_the_first_version_is_read() {
        let mut ballot = ballot(7);
        (ballot.start, ballot.installing) = (Point::default(), None);
        (ballot.log_start, ballot.first_dirty) = (None, Offset(0));
        let mut slot = encode(3, &ballot);
        slot[8] = 1;
        let members = slot[FIXED_BYTES..FIXED_BYTES + 56].to_vec();
        slot[FIXED_BYTES_1..].fill(0);
        slot[FIXED_BYTES_1..FIXED_BYTES_1 + 56].copy_from_slice(&members);
        let crc = crc32c::crc32c(&slot[..SLOT_BYTES - CRC_BYTES]);
        slot[SLOT_BYTES - CRC_BYTES..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(decode(&slot), Some((3, ballot)));
    }

    #[test]
    fn the_largest_group_fits() {
        let mut members = ConfState::default();
        (members.voters, members.learners) = ((1..=64).collect(), (65..=128).collect());
        let installing = Some((Point { index: 9, term: 8 }, members.clone()));
        let ballot = Ballot { members, installing, ..Ballot::default() };
        assert_eq!(decode(&encode(1, &ballot)), Some((1, ballot)));
    }

    #[test]
    fn a_slot_comes_back_and_no_damaged_one_does() {
        let slot = encode(5, &ballot(9));
        assert_eq!(slot.len(), SLOT_BYTES);
        assert_eq!(decode(&slot), Some((5, ballot(9))));
        for at in [0, 8, 30, 57, 70, 100, 130, SLOT_BYTES - 1] {
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
        bytes[8] = 3;
        let crc = crc32c::crc32c(&bytes[..SLOT_BYTES - CRC_BYTES]);
        bytes[SLOT_BYTES - CRC_BYTES..SLOT_BYTES].copy_from_slice(&crc.to_le_bytes());
        std::fs::write(&path, bytes).unwrap();
        let newer = BallotFile::open(&disk, folder.path()).unwrap_err().to_string();
        assert!(newer.contains("format version 3; this tailrace reads up to 2"), "{newer}");
    }
}
