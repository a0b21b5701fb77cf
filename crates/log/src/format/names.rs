//! File and folder names.

use std::path::{Path, PathBuf};

use tailrace_types::Offset;

pub(crate) const IDENTITY: &str = "partition.meta";
pub(crate) const CHECKPOINT: &str = "checkpoint";
pub(crate) const ENTRIES: &str = "entries";
pub(crate) const DAMAGE: &str = "damage";
/// Suffix of a `.log` that no longer counts but may hold the only copy of some batches.
pub(crate) const ASIDE_SUFFIX: &str = ".aside";
pub(crate) const DELETED_SUFFIX: &str = ".deleted";
/// Suffix of folders that were set aside.
pub(crate) const FOLDER_ASIDE_SUFFIX: &str = ".damaged";
pub(crate) const TEMPORARY_SUFFIX: &str = ".tmp";

/// The files that are named by an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Log,
    Index,
    Header,
    Snapshot,
}

impl Kind {
    fn suffix(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Index => "index",
            Self::Header => "header",
            Self::Snapshot => "snapshot",
        }
    }
}

/// Returns `00000000000000004711.log` in `dir`.
pub(crate) fn path(dir: &Path, offset: Offset, kind: Kind) -> PathBuf {
    dir.join(format!("{:020}.{}", offset.0, kind.suffix()))
}

/// Returns `path` with `suffix` appended to its name.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Returns `00000000000000004711.2.log` in `dir`: the output of the second compaction of a segment.
/// Generation 0 is the segment as appended, whose name has no generation.
pub(crate) fn path_of(dir: &Path, offset: Offset, generation: u32, kind: Kind) -> PathBuf {
    match generation {
        0 => path(dir, offset, kind),
        _ => dir.join(format!("{:020}.{generation}.{}", offset.0, kind.suffix())),
    }
}

/// Returns the offset, generation and kind in a file name. `None` for any other file.
pub(crate) fn parse(name: &str) -> Option<(Offset, u32, Kind)> {
    let (digits, rest) = name.split_once('.')?;
    let (generation, suffix) = match rest.split_once('.') {
        // Accepts only the canonical spelling.
        Some((text, suffix)) => {
            (text.parse().ok().filter(|g: &u32| *g > 0 && g.to_string() == text)?, suffix)
        }
        None => (0, rest),
    };
    if digits.len() != 20 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let kind =
        [Kind::Log, Kind::Index, Kind::Header, Kind::Snapshot].into_iter().find(|k| k.suffix() == suffix)?;
    Some((Offset(digits.parse().ok()?), generation, kind))
}
