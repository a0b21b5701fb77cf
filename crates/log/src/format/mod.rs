//! Every byte that the log writes, as documented in docs/format.md. No I/O here: bytes in, values out.

pub(crate) mod bytes;
pub(crate) mod checkpoint;
pub(crate) mod damage;
pub(crate) mod entry;
pub(crate) mod identity;
pub(crate) mod names;
pub(crate) mod row;
pub(crate) mod segment_header;
pub(crate) mod snapshot;

/// The newest version of tailrace's own files. Each file is written in the oldest version that suffices. Only
/// compaction needs version 2, in a checkpoint and in the headers of its segments, and only several sections
/// need version 3, in a snapshot.
pub const FORMAT_VERSION: u32 = SECTIONS_VERSION;

/// The newest version of all files except snapshots.
const COMPACTION_VERSION: u32 = 2;

/// The version of snapshots with sections.
const SECTIONS_VERSION: u32 = 3;

/// The reason why bytes are not a valid file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FormatError {
    /// Written by a newer tailrace. Holds its version.
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
            Self::Newer(found) => {
                write!(f, "format version {found}; this tailrace reads up to {FORMAT_VERSION}")
            }
            Self::Damaged(position, reason) => write!(f, "at byte {position}: {reason}"),
        }
    }
}

/// Checks the start of every file: the magic, the checksum at `crc_at` over everything before it, and a
/// version of at most `newest`. Returns the version. The checksum is checked before the version, because
/// corrupt bytes say nothing about a newer tailrace.
pub(crate) fn check_lead(
    bytes: &[u8],
    magic: &[u8; 8],
    crc_at: usize,
    newest: u32,
) -> Result<u32, FormatError> {
    let version = version_of(bytes, magic)?;
    let Some(stored) = bytes.get(crc_at..crc_at + 4) else {
        return Err(FormatError::damaged(0, format!("{} bytes, too short", bytes.len())));
    };
    if bytes::u32_at(stored, 0) != crc32c::crc32c(&bytes[..crc_at]) {
        return Err(FormatError::damaged(crc_at as u64, "wrong checksum"));
    }
    match version {
        0 => Err(FormatError::damaged(8, "format version 0")),
        newer if newer > newest => Err(FormatError::Newer(newer)),
        known => Ok(known),
    }
}

/// Like [`check_lead`], for a file that ends with a checksum of everything before.
pub(crate) fn check_sealed(bytes: &[u8], magic: &[u8; 8]) -> Result<u32, FormatError> {
    check_lead(bytes, magic, bytes.len().saturating_sub(4).max(12), COMPACTION_VERSION)
}

/// A file that ends with a checksum, as a build of another version might have written it.
#[cfg(test)]
fn resealed(mut file: Vec<u8>, version: u32) -> Vec<u8> {
    let crc_at = file.len() - 4;
    file[8..12].copy_from_slice(&version.to_le_bytes());
    let crc = crc32c::crc32c(&file[..crc_at]);
    file[crc_at..].copy_from_slice(&crc.to_le_bytes());
    file
}

/// Returns the version at the start of `bytes`, unchecked.
pub(crate) fn version_of(bytes: &[u8], magic: &[u8; 8]) -> Result<u32, FormatError> {
    let Some(found) = bytes.get(..12) else {
        return Err(FormatError::damaged(0, format!("{} bytes, too short for a head", bytes.len())));
    };
    if &found[..8] != magic {
        return Err(FormatError::damaged(0, "wrong magic"));
    }
    Ok(bytes::u32_at(found, 8))
}
