//! `entries`: the side file.

use bytes::Bytes;
use tailrace_types::{LeaderEpoch, Offset, RaftIndex};

use super::bytes::{Writer, i32_at, i64_at, u32_at, u64_at};
use super::{COMPACTION_VERSION, FormatError, check_lead};
use crate::config::ENTRY_BYTES_MAX;

const MAGIC: &[u8; 8] = b"TRENTRY\n";
pub(crate) const HEAD_BYTES: usize = 16;
const FIXED_BYTES: usize = 28;

/// An entry that takes a raft index and no offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its raft index.
    pub raft_index: RaftIndex,
    /// Its leader epoch.
    pub leader_epoch: LeaderEpoch,
    /// The log end when it was appended. The entry comes before the batch at this offset.
    pub offset: Offset,
    /// Opaque payload of the caller.
    pub payload: Bytes,
}

pub(crate) fn encode_head() -> Vec<u8> {
    Writer::with_lead(MAGIC, HEAD_BYTES).sealed()
}

impl Entry {
    /// `payload` has at most [`ENTRY_BYTES_MAX`] bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let payload_bytes = (self.payload.len() as u32).to_le_bytes();
        let body = Writer::default()
            .u64(self.raft_index.0)
            .i32(self.leader_epoch.0)
            .i64(self.offset.0)
            .raw(&self.payload)
            .0;
        let crc = crc32c::crc32c_append(crc32c::crc32c(&payload_bytes), &body);
        Writer::default().raw(&payload_bytes).u32(crc).raw(&body).0
    }

    /// Returns the record at the start of `bytes` and its length. `None` if it is torn or damaged.
    fn decode(bytes: &Bytes) -> Option<(Self, usize)> {
        if bytes.len() < FIXED_BYTES {
            return None;
        }
        let payload_bytes = u32_at(bytes, 0) as usize;
        let end = FIXED_BYTES + payload_bytes;
        if payload_bytes > ENTRY_BYTES_MAX || bytes.len() < end {
            return None;
        }
        let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..4]), &bytes[8..end]);
        if crc != u32_at(bytes, 4) {
            return None;
        }
        let entry = Self {
            raft_index: RaftIndex(u64_at(bytes, 8)),
            leader_epoch: LeaderEpoch(i32_at(bytes, 16)),
            offset: Offset(i64_at(bytes, 20)),
            payload: Bytes::copy_from_slice(&bytes[FIXED_BYTES..end]),
        };
        Some((entry, end))
    }
}

/// The content of a side file.
#[derive(Debug, Default)]
pub(crate) struct EntryFile {
    pub(crate) entries: Vec<Entry>,
    /// Bytes up to the end of the last good record.
    pub(crate) good_bytes: u64,
}

/// How many bytes after a bad record are searched for another one.
const SEARCH_BYTES_MAX: usize = 8192;

/// True if there is a whole record after the bad one at the start of `rest`. Each record was synced before
/// the next was written, so this is damage and no torn end.
fn is_followed(rest: &Bytes, last: Option<&Entry>) -> bool {
    let look = 1..rest.len().min(SEARCH_BYTES_MAX);
    let mut found = look.filter_map(|at| Entry::decode(&rest.slice(at..)));
    found.any(|(entry, _)| entry.raft_index.0 > last.map_or(0, |last| last.raft_index.0))
}

/// Returns the entries before the first torn or damaged record, whatever the head says.
pub(crate) fn leading(file: &[u8]) -> Vec<Entry> {
    let mut rest = Bytes::copy_from_slice(file.get(HEAD_BYTES..).unwrap_or_default());
    let mut entries: Vec<Entry> = Vec::new();
    while let Some((entry, bytes)) = Entry::decode(&rest) {
        if entries.last().is_some_and(|last| last.raft_index >= entry.raft_index) {
            break;
        }
        entries.push(entry);
        rest = rest.slice(bytes..);
    }
    entries
}

/// Reads records up to a torn end.
pub(crate) fn decode_file(file: &Bytes) -> Result<EntryFile, FormatError> {
    check_lead(file, MAGIC, 12, COMPACTION_VERSION)?;
    let mut found = EntryFile { entries: Vec::new(), good_bytes: HEAD_BYTES as u64 };
    let mut rest = file.slice(HEAD_BYTES..);
    while let Some((entry, bytes)) = Entry::decode(&rest) {
        if found.entries.last().is_some_and(|last| last.raft_index >= entry.raft_index) {
            break;
        }
        found.entries.push(entry);
        found.good_bytes += bytes as u64;
        rest = rest.slice(bytes..);
    }
    if is_followed(&rest, found.entries.last()) {
        return Err(FormatError::damaged(
            found.good_bytes,
            "a record with a wrong checksum, and others behind it",
        ));
    }
    Ok(found)
}
