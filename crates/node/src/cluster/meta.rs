//! The file that names the node and its cluster, and a copy of it.
//!
//! One changed character could turn it into another node, another disk or another cluster. So it has a
//! checksum and is stored twice: a damaged file is rewritten from the other one. docs/format.md describes it.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use tailrace_log::{Disk, DiskFile, OpenMode};
use tailrace_types::usize_of;

use super::errors::ClusterError;
use super::format::FORMAT;
use crate::disk::NodeDisk;

/// File in the data folder that names the node, its cluster, and the format of the folder.
const META_FILE: &str = "tailrace.meta";

/// The copy.
const COPY_FILE: &str = "tailrace.meta.copy";

const CRC: &str = "crc";

/// A longer file is not one of these: a cluster of a thousand nodes takes a tenth of that.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Contents of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Meta {
    pub(super) format: u32,
    pub(super) node_id: i32,
    pub(super) cluster_id: String,
    /// The id of the folder until a cluster lets its node in. Random and made once: another id means another
    /// disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) directory: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cluster: Option<Membership>,
}

/// A node's place in a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Membership {
    /// The id of the folder, by which the cluster knows it.
    pub(super) directory: String,
    /// Its replica of the metadata log.
    pub(super) replica: u64,
    /// The founding members of the metadata log.
    pub(super) founders: Vec<u64>,
    /// The addresses of the nodes when this was written.
    pub(super) nodes: Vec<(i32, String)>,
}

/// The two files of one data folder.
#[derive(Clone, Debug)]
pub(super) struct MetaFiles {
    disk: NodeDisk,
    pub(super) path: PathBuf,
    copy: PathBuf,
}

/// State of one of the files.
enum MetaFound {
    Missing,
    /// Its checksum is right.
    Whole(Value),
    /// It has no checksum: an older build wrote it.
    Unchecked(Value),
    /// The reason.
    Damaged(String),
}

impl MetaFiles {
    pub(super) fn of(disk: &NodeDisk, data_dir: &Path) -> Self {
        let disk = disk.clone();
        Self { disk, path: data_dir.join(META_FILE), copy: data_dir.join(COPY_FILE) }
    }

    /// Reads the contents. `None` for a new folder. Rewrites a damaged or missing file from the other one.
    ///
    /// # Errors
    /// [`ClusterError::NewerFormat`]. [`ClusterError::File`] if neither file is intact, or the disk fails.
    pub(super) fn read(&self) -> Result<Option<Meta>, ClusterError> {
        let read = |path| read(&self.disk, path).map_err(|error| self.failed("read", &error));
        let (value, must_write) = match judge(read(&self.path)?, read(&self.copy)?) {
            Verdict::New => return Ok(None),
            Verdict::Says(value) => (value, false),
            Verdict::SaysAndIsWritten { value, reason } => {
                if let Some(reason) = reason {
                    let file = self.path.display();
                    tracing::warn!(%file, %reason, "restoring the file that identifies the node from its copy");
                }
                (value, true)
            }
            Verdict::Lost(reason) => {
                let reason = format!("it is damaged ({reason}), and its copy is damaged or missing");
                return Err(self.failed("understand", &reason));
            }
        };
        if let Some(found) = format_of(&value).filter(|format| *format > FORMAT) {
            return Err(ClusterError::NewerFormat { path: self.path.clone(), found });
        }
        let meta = serde_json::from_value(value).map_err(|error| self.failed("understand", &error))?;
        if must_write {
            self.write(&meta)?;
        }
        Ok(Some(meta))
    }

    /// Writes both files, the copy first, so that it is never older. Durable on return.
    ///
    /// # Errors
    /// [`ClusterError::File`]
    pub(super) fn write(&self, meta: &Meta) -> Result<(), ClusterError> {
        let write = |path: &PathBuf| write_beside(&self.disk, path, meta);
        let written = [&self.copy, &self.path].into_iter().try_for_each(write);
        written.map_err(|error| self.failed("write", &error))
    }

    fn failed(&self, action: &'static str, error: &dyn std::fmt::Display) -> ClusterError {
        ClusterError::File { action, path: self.path.clone(), error: error.to_string() }
    }
}

/// Verdict on both files together.
enum Verdict {
    New,
    Says(Value),
    /// The contents have to be written again. `reason`: what is wrong with the file, if the contents come
    /// from the copy.
    SaysAndIsWritten {
        value: Value,
        reason: Option<String>,
    },
    Lost(String),
}

fn judge(found: MetaFound, copy: MetaFound) -> Verdict {
    let copy = match copy {
        MetaFound::Whole(copy) => Some(copy),
        MetaFound::Missing | MetaFound::Unchecked(_) | MetaFound::Damaged(_) => None,
    };
    match (found, copy) {
        (MetaFound::Missing, None) => Verdict::New,
        (MetaFound::Whole(value), Some(copy)) if value == copy => Verdict::Says(value),
        // An older build writes no checksum and does not know the copy, so the copy may be even older.
        (MetaFound::Whole(value) | MetaFound::Unchecked(value), _) => {
            Verdict::SaysAndIsWritten { value, reason: None }
        }
        (MetaFound::Missing, Some(value)) => {
            Verdict::SaysAndIsWritten { value, reason: Some("it is missing".to_owned()) }
        }
        (MetaFound::Damaged(reason), Some(value)) => {
            Verdict::SaysAndIsWritten { value, reason: Some(reason) }
        }
        (MetaFound::Damaged(reason), None) => Verdict::Lost(reason),
    }
}

fn read(disk: &NodeDisk, path: &Path) -> io::Result<MetaFound> {
    let bytes = match disk.len(path) {
        Ok(bytes) => bytes.min(FILE_BYTES_MAX),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(MetaFound::Missing),
        Err(error) => return Err(error),
    };
    let mut content = vec![0; usize_of(bytes)];
    let read = disk.open(path, OpenMode::Read)?.read_at(&mut content, 0)?;
    Ok(parse(&content[..read]))
}

fn parse(bytes: &[u8]) -> MetaFound {
    let mut value: Value = match serde_json::from_slice(bytes) {
        Ok(value) => value,
        Err(error) => return MetaFound::Damaged(error.to_string()),
    };
    let Some(fields) = value.as_object_mut().filter(|fields| fields.contains_key("format")) else {
        return MetaFound::Damaged("it has no format".to_owned());
    };
    match fields.remove(CRC) {
        None => MetaFound::Unchecked(value),
        Some(stored) if stored.as_u64() == Some(checksum(&value).into()) => MetaFound::Whole(value),
        Some(stored) => {
            MetaFound::Damaged(format!("its checksum is {}, expected {stored}", checksum(&value)))
        }
    }
}

/// Covers the fields in the order of their names, without whitespace. So a build that does not know all
/// fields computes the same checksum.
fn checksum(value: &Value) -> u32 {
    crc32c::crc32c(value.to_string().as_bytes())
}

fn format_of(value: &Value) -> Option<u32> {
    u32::try_from(value.get("format")?.as_u64()?).ok()
}

/// Writes a new file beside the old one and renames it, so that a crash leaves either the old file or the new
/// one.
fn write_beside(disk: &NodeDisk, path: &Path, meta: &Meta) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let beside = path.with_file_name(name);
    let mut value = serde_json::to_value(meta).map_err(io::Error::other)?;
    let crc = checksum(&value);
    if let Some(fields) = value.as_object_mut() {
        fields.insert(CRC.to_owned(), crc.into());
    }
    let text = serde_json::to_string_pretty(&value).map_err(io::Error::other)?;
    let file = disk.open(&beside, OpenMode::Truncate)?;
    file.write_all_at(&[IoSlice::new(text.as_bytes()), IoSlice::new(b"\n")], 0)?;
    file.sync_all()?;
    disk.rename(&beside, path)?;
    disk.sync_dir(path.parent().unwrap_or(Path::new(".")))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use tailrace_runtime::disk::LocalDisk;

    use super::super::format::FORMAT_ALONE;
    use super::*;

    fn meta() -> Meta {
        Meta {
            format: FORMAT,
            node_id: 2,
            cluster_id: "19JJudW5QUKkX-neJPf80Q".to_owned(),
            directory: None,
            cluster: Some(Membership {
                directory: "5Fk5tTIEmsP_7yaGqo2fiA".to_owned(),
                replica: 12_884_901_890,
                founders: vec![4_294_967_297],
                nodes: vec![(1, "127.0.0.1:1".to_owned()), (2, "127.0.0.1:2".to_owned())],
            }),
        }
    }

    fn files() -> (TempDir, MetaFiles) {
        let folder = TempDir::new().unwrap();
        let files = MetaFiles::of(&NodeDisk::new(LocalDisk::default()), folder.path());
        assert_eq!(files.read().unwrap(), None);
        files.write(&meta()).unwrap();
        (folder, files)
    }

    /// Holds whichever bit of either file changes, and wherever either is truncated.
    #[test]
    fn one_of_the_two_files_is_enough() {
        let (_folder, files) = files();
        let whole = std::fs::read(&files.path).unwrap();
        assert_eq!(std::fs::read(&files.copy).unwrap(), whole);
        let says = |path: &Path, bytes: &[u8]| {
            let (damaged, other) = (parse(bytes), parse(&whole));
            let verdict = if path == files.path { judge(damaged, other) } else { judge(other, damaged) };
            match verdict {
                Verdict::Says(value) | Verdict::SaysAndIsWritten { value, .. } => {
                    serde_json::from_value::<Meta>(value).ok()
                }
                Verdict::New | Verdict::Lost(_) => None,
            }
        };
        for path in [&files.path, &files.copy] {
            for at in 0..whole.len() {
                for bit in 0..8 {
                    let mut bytes = whole.clone();
                    bytes[at] ^= 1 << bit;
                    assert_eq!(says(path, &bytes), Some(meta()), "{path:?} byte {at} bit {bit}");
                }
                assert_eq!(says(path, &whole[..at]), Some(meta()), "{path:?} cut at {at}");
            }
            let mut bytes = whole.clone();
            bytes[30] ^= 1;
            std::fs::write(path, &bytes).unwrap();
            assert_eq!(files.read().unwrap(), Some(meta()));
            assert_eq!(std::fs::read(path).unwrap(), whole, "it is written again");
            std::fs::remove_file(path).unwrap();
            assert_eq!(files.read().unwrap(), Some(meta()));
            assert_eq!(std::fs::read(path).unwrap(), whole, "it is written again");
        }
    }

    #[test]
    fn with_both_damaged_nothing_is_guessed() {
        let (_folder, files) = files();
        let mut bytes = std::fs::read(&files.path).unwrap();
        let at = bytes.iter().position(|byte| *byte == b'J').unwrap();
        bytes[at] = b'K';
        std::fs::write(&files.path, &bytes).unwrap();
        std::fs::write(&files.copy, &bytes).unwrap();
        let error = files.read().unwrap_err().to_string();
        assert!(error.contains("tailrace.meta") && error.contains("damaged"), "{error}");
        assert_eq!(std::fs::read(&files.path).unwrap(), bytes, "nothing was changed");
    }

    #[test]
    fn older_builds_write_one_file_without_a_checksum_and_newer_ones_are_recognised() {
        let (_folder, files) = files();
        let older = Meta { node_id: 2, cluster: None, format: FORMAT_ALONE, ..meta() };
        std::fs::write(&files.path, serde_json::to_string_pretty(&older).unwrap()).unwrap();
        assert_eq!(files.read().unwrap(), Some(older.clone()), "the copy is older");
        assert_eq!(files.read().unwrap(), Some(older));
        let mut newer = serde_json::json!({"format": 3, "node_id": 2, "cluster_id": "x", "seal": "abc"});
        newer["crc"] = checksum(&newer).into();
        std::fs::write(&files.path, newer.to_string()).unwrap();
        assert!(matches!(files.read(), Err(ClusterError::NewerFormat { found: 3, .. })));
        assert_eq!(std::fs::read_to_string(&files.path).unwrap(), newer.to_string());
    }

    /// A newer build keeps the checksum, so several damaged bytes are not mistaken for a newer format.
    #[test]
    fn a_file_that_looks_newer_with_a_wrong_checksum_is_damaged() {
        let (_folder, files) = files();
        let whole = std::fs::read_to_string(&files.path).unwrap();
        let changed =
            whole.replace("\"format\": 2", "\"format\": 9").replace("\"node_id\": 2", "\"node_id\": 7");
        assert_ne!(changed, whole);
        std::fs::write(&files.path, changed).unwrap();
        assert_eq!(files.read().unwrap(), Some(meta()));
        assert_eq!(std::fs::read_to_string(&files.path).unwrap(), whole);
    }
}
