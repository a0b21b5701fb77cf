//! All replicas that were ever started in a data folder: a small file beside their folders.
//!
//! A replica's own folder records what it has voted and acknowledged. If that folder was removed by hand
//! while the node was down, nothing in it could tell, and a new replica under the same id would vote and
//! acknowledge as if it had forgotten nothing. The journal tells. docs/format.md describes the file.

use std::collections::HashMap;
use std::io::IoSlice;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use tailrace_log::{Disk, DiskFile, LogError, OpenMode, read_file, replace_file};
use tailrace_types::{PartitionId, RaftGroup, ReplicaId, TopicId};

use crate::disk::NodeDisk;

const FILE: &str = "replicas.journal";
const MAGIC: &[u8; 8] = b"TRREPLI\n";
const VERSION: u32 = 1;
const HEAD_BYTES: usize = 16;
const RECORD_BYTES: usize = 32;
const CRC_AT: usize = 28;

/// Maximum bytes of a journal that is read: 8 million replicas.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// The journal of one data folder.
#[derive(Debug)]
pub(crate) struct Journal {
    disk: NodeDisk,
    path: PathBuf,
    /// The next record overwrites one that an error or a panic left half written.
    state: Mutex<JournalState>,
}

#[derive(Debug, Default)]
struct JournalState {
    /// The newest replica of each group.
    known: HashMap<RaftGroup, ReplicaId>,
    /// What is wrong with the file.
    damage: Option<String>,
    /// Length of the file. 0 if it does not exist.
    bytes: u64,
}

impl Journal {
    /// Reads the journal, if it exists. Skips a torn end and any damaged record. Such a record is written
    /// again when its replica is opened. It is missed only if the replica is gone as well. Blocks.
    ///
    /// # Errors
    /// The disk's error, or [`LogError::NewerFormat`].
    pub(crate) fn open(disk: &NodeDisk, data_dir: &Path) -> Result<Self, LogError> {
        let path = data_dir.join(FILE);
        let read =
            read_file(disk, &path, FILE_BYTES_MAX).map_err(|error| LogError::io("read", &path, error))?;
        let state = match read {
            Some(bytes) => decode(&bytes, &path)?,
            None => JournalState::default(),
        };
        let journal = Self { disk: disk.clone(), path, state: Mutex::new(state) };
        let damage = journal.state.lock().damage.take();
        if let Some(damage) = &damage {
            tracing::error!(
                file = %journal.path.display(), %damage,
                "the journal of replicas is damaged: missing folders of replicas may go unnoticed"
            );
        }
        journal.shorten(damage.is_some())?;
        Ok(journal)
    }

    /// Returns the newest replica of a group that was started here.
    pub(crate) fn known(&self, group: RaftGroup) -> Option<ReplicaId> {
        self.state.lock().known.get(&group).copied()
    }

    /// Records a replica durably before it takes part in anything. Its own folder is already durable. Blocks.
    ///
    /// # Errors
    /// The disk's error.
    pub(crate) fn note(&self, group: RaftGroup, replica: ReplicaId) -> Result<(), LogError> {
        let mut state = self.state.lock();
        if state.known.get(&group) == Some(&replica) {
            return Ok(());
        }
        if state.bytes == 0 {
            replace_file(&self.disk, &self.path, &[IoSlice::new(&head())])?;
            state.bytes = HEAD_BYTES as u64;
        }
        let failed = |action| move |error| LogError::io(action, &self.path, error);
        let file = self.disk.open(&self.path, OpenMode::Write).map_err(failed("open"))?;
        let record = encode(group, replica);
        file.write_all_at(&[IoSlice::new(&record)], state.bytes).map_err(failed("write"))?;
        file.sync_data().map_err(failed("sync"))?;
        state.bytes += RECORD_BYTES as u64;
        state.known.insert(group, replica);
        Ok(())
    }

    /// Rewrites the file if most of it is obsolete, or if `must`.
    fn shorten(&self, must: bool) -> Result<(), LogError> {
        let mut state = self.state.lock();
        let needed = HEAD_BYTES + state.known.len() * RECORD_BYTES;
        if !must && state.bytes <= 2 * needed as u64 {
            return Ok(());
        }
        let mut bytes = head().to_vec();
        for (group, replica) in &state.known {
            bytes.extend_from_slice(&encode(*group, *replica));
        }
        replace_file(&self.disk, &self.path, &[IoSlice::new(&bytes)])?;
        state.bytes = bytes.len() as u64;
        Ok(())
    }
}

fn head() -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(MAGIC);
    head[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let crc = crc32c::crc32c(&head[..12]);
    head[12..].copy_from_slice(&crc.to_le_bytes());
    head
}

fn encode(group: RaftGroup, replica: ReplicaId) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[..16].copy_from_slice(&group.topic.0);
    record[16..20].copy_from_slice(&group.partition.0.to_le_bytes());
    record[20..CRC_AT].copy_from_slice(&replica.0.to_le_bytes());
    let crc = crc32c::crc32c(&record[..CRC_AT]);
    record[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    record
}

fn decode(bytes: &[u8], path: &Path) -> Result<JournalState, LogError> {
    let (head, records) = bytes.split_at(bytes.len().min(HEAD_BYTES));
    let head_is_whole = head.len() == HEAD_BYTES
        && head[..8] == *MAGIC
        && crc32c::crc32c(&head[..12]).to_le_bytes() == head[12..];
    if head_is_whole {
        let found = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        if found > VERSION {
            return Err(LogError::NewerFormat { file: path.to_owned(), found, supported: VERSION });
        }
    }
    let is_whole = |record: &[u8]| {
        record.len() == RECORD_BYTES && crc32c::crc32c(&record[..CRC_AT]).to_le_bytes() == record[CRC_AT..]
    };
    let good = records.chunks(RECORD_BYTES).take_while(|record| is_whole(record)).count();
    // Each record was synced before the next was written.
    let is_torn = !records.chunks(RECORD_BYTES).skip(good + 1).any(is_whole);
    let damage = match (head_is_whole, is_torn) {
        (true, true) => None,
        (false, _) => Some("the head is not whole".to_owned()),
        (true, false) => Some(format!("wrong checksum at byte {}", HEAD_BYTES + good * RECORD_BYTES)),
    };
    let mut known = HashMap::new();
    for record in records.chunks(RECORD_BYTES).filter(|record| is_whole(record)) {
        let mut topic = [0; 16];
        topic.copy_from_slice(&record[..16]);
        let partition = i32::from_le_bytes([record[16], record[17], record[18], record[19]]);
        let mut replica = [0; 8];
        replica.copy_from_slice(&record[20..CRC_AT]);
        let group = RaftGroup { topic: TopicId(topic), partition: PartitionId(partition) };
        known.insert(group, ReplicaId(u64::from_le_bytes(replica)));
    }
    Ok(JournalState { known, damage, bytes: (HEAD_BYTES + good * RECORD_BYTES) as u64 })
}

#[cfg(test)]
mod tests {
    use tailrace_types::NodeId;
    use tempfile::TempDir;

    use super::*;

    fn group(number: i32) -> RaftGroup {
        RaftGroup { topic: TopicId([7; 16]), partition: PartitionId(number) }
    }

    fn replica(incarnation: u32) -> ReplicaId {
        ReplicaId::new(NodeId(3), incarnation)
    }

    fn open(folder: &TempDir) -> Result<Journal, LogError> {
        Journal::open(&NodeDisk::new(tailrace_log::RealDisk), folder.path())
    }

    #[test]
    fn what_was_noted_is_known_after_a_start_and_the_newest_counts() {
        let folder = TempDir::new().unwrap();
        let journal = open(&folder).unwrap();
        assert_eq!(journal.known(group(0)), None);
        for incarnation in 1..=9 {
            journal.note(group(0), replica(incarnation)).unwrap();
            journal.note(group(0), replica(incarnation)).unwrap();
        }
        journal.note(group(1), replica(1)).unwrap();
        let path = folder.path().join(FILE);
        assert_eq!(std::fs::read(&path).unwrap().len(), HEAD_BYTES + 10 * RECORD_BYTES);
        for _ in 0..2 {
            let journal = open(&folder).unwrap();
            assert_eq!(
                (journal.known(group(0)), journal.known(group(1))),
                (Some(replica(9)), Some(replica(1)))
            );
        }
        assert_eq!(
            std::fs::read(&path).unwrap().len(),
            HEAD_BYTES + 2 * RECORD_BYTES,
            "obsolete records are gone"
        );
    }

    #[test]
    fn a_torn_end_and_damaged_records_are_left_out() {
        let folder = TempDir::new().unwrap();
        let journal = open(&folder).unwrap();
        (0..3).for_each(|number| journal.note(group(number), replica(1)).unwrap());
        let path = folder.path().join(FILE);
        let whole = std::fs::read(&path).unwrap();
        for end in HEAD_BYTES + 2 * RECORD_BYTES..whole.len() {
            std::fs::write(&path, &whole[..end]).unwrap();
            let journal = open(&folder).unwrap();
            assert_eq!((journal.known(group(1)), journal.known(group(2))), (Some(replica(1)), None));
        }
        for at in [0, 9, 13, HEAD_BYTES + 1, HEAD_BYTES + RECORD_BYTES + 25] {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            std::fs::write(&path, damaged).unwrap();
            let journal = open(&folder).unwrap();
            assert_eq!(journal.known(group(2)), Some(replica(1)), "byte {at}");
            journal.note(group(0), replica(1)).unwrap();
            journal.note(group(1), replica(1)).unwrap();
            let journal = open(&folder).unwrap();
            assert!((0..3).all(|number| journal.known(group(number)) == Some(replica(1))), "byte {at}");
        }
        let mut newer = whole;
        newer[8] = 2;
        let crc = crc32c::crc32c(&newer[..12]).to_le_bytes();
        newer[12..16].copy_from_slice(&crc);
        std::fs::write(&path, newer).unwrap();
        assert!(matches!(open(&folder), Err(LogError::NewerFormat { found: 2, .. })));
    }
}
