//! File and folder names.

use std::path::{Path, PathBuf};

use tailrace_types::Offset;

pub(crate) const IDENTITY: &str = "partition.meta";
pub(crate) const CHECKPOINT: &str = "checkpoint";
pub(crate) const ENTRIES: &str = "entries";
pub(crate) const DELETED_SUFFIX: &str = ".deleted";
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

/// `00000000000000004711.log` in `dir`.
pub(crate) fn path(dir: &Path, offset: Offset, kind: Kind) -> PathBuf {
    dir.join(format!("{:020}.{}", offset.0, kind.suffix()))
}

/// `path` with `suffix` added to its name.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The offset and kind in a file name, `None` for any other file.
pub(crate) fn parse(name: &str) -> Option<(Offset, Kind)> {
    let (digits, suffix) = name.split_once('.')?;
    if digits.len() != 20 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let kind =
        [Kind::Log, Kind::Index, Kind::Header, Kind::Snapshot].into_iter().find(|k| k.suffix() == suffix)?;
    Some((Offset(digits.parse().ok()?), kind))
}
