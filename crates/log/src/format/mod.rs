//! Every byte that the log writes, as docs/format.md describes it. No I/O here: bytes in, values out.

pub(crate) mod bytes;
pub(crate) mod checkpoint;
pub(crate) mod damage;
pub(crate) mod entry;
pub(crate) mod identity;
pub(crate) mod names;
pub(crate) mod row;
pub(crate) mod segment_header;
pub(crate) mod snapshot;

/// Newest version of the files of our own. A file is written in the oldest version that can say what it has to: only compaction needs
/// version 2, in a checkpoint and in the headers of the segments it wrote, and only several sections need version 3, in a snapshot.
pub const FORMAT_VERSION: u32 = SECTIONS_VERSION;

/// Newest version of all files but snapshots.
const COMPACTION_VERSION: u32 = 2;

/// The version of snapshots with sections.
const SECTIONS_VERSION: u32 = 3;

/// Why bytes are not what they should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FormatError {
    /// Written by a newer tailrace: its version.
    Newer(u32),
    /// Position and reason.
    Damaged(u64, String),
}

impl FormatError {
    pub(crate) fn damaged(position: u64, reason: impl Into<String>) -> Self {
        Self::Damaged(position, reason.into())
    }

    /// Adds the file's name.
    pub(crate) fn in_file(self, file: &std::path::Path) -> crate::LogError {
        match self {
            Self::Newer(found) => {
                crate::LogError::NewerFormat { file: file.to_owned(), found, supported: FORMAT_VERSION }
            }
            Self::Damaged(position, reason) => crate::LogError::damaged(file, position, reason),
        }
    }
}

impl std::fmt::Display for FormatError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Newer(found) => write!(f, "format version {found}, known up to {FORMAT_VERSION}"),
            Self::Damaged(position, reason) => write!(f, "at byte {position}: {reason}"),
        }
    }
}

/// No version is ever above: what says so is damaged.
const VERSIONS_MAX: u32 = 255;

/// Reads `bytes` with `decode`. Where the version is one that nobody knows and all is right with a known one in its place, a bit of the
/// version was flipped: the file is damaged, and not of a newer tailrace.
pub(crate) fn told_from_newer<T>(
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, FormatError>,
) -> Result<T, FormatError> {
    let result = decode(bytes);
    let Err(FormatError::Newer(found)) = result else { return result };
    let mut copy = bytes.to_vec();
    let is_whole_with = |version: u32| {
        copy[8..12].copy_from_slice(&version.to_le_bytes());
        decode(&copy).is_ok()
    };
    if (1..=FORMAT_VERSION).any(is_whole_with) {
        return Err(FormatError::damaged(
            8,
            format!("format version {found}, and the checksum of an older one"),
        ));
    }
    result
}

/// Checks magic and version, which lead every file.
pub(crate) fn check_lead(bytes: &[u8], magic: &[u8; 8]) -> Result<(), FormatError> {
    check_lead_upto(bytes, magic, COMPACTION_VERSION)
}

/// The same of a kind of file whose newest version is `newest`.
fn check_lead_upto(bytes: &[u8], magic: &[u8; 8], newest: u32) -> Result<(), FormatError> {
    let Some(found) = bytes.get(..12) else {
        return Err(FormatError::damaged(0, format!("{} bytes, too short for a head", bytes.len())));
    };
    if &found[..8] != magic {
        return Err(FormatError::damaged(0, "wrong magic"));
    }
    let version = bytes::u32_at(found, 8);
    if version > VERSIONS_MAX {
        return Err(FormatError::damaged(8, format!("format version {version}")));
    }
    if version > newest {
        return Err(FormatError::Newer(version));
    }
    if version == 0 {
        return Err(FormatError::damaged(8, "format version 0"));
    }
    Ok(())
}
