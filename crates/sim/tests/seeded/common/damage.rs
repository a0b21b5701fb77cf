//! A damaged log: what it serves, what a scrub finds, and an earlier copy.

use std::io::IoSlice;
use std::path::PathBuf;

use tailrace_log::{Damage, Disk, DiskFile, LogError, OpenMode, Scrubbed, Unhurried};
use tailrace_sim::SimDisk;
use tailrace_types::Offset;

use super::{SimLog, dir};

/// Returns the batches that are served, and the offset of each one that is not.
pub(crate) fn served(log: &SimLog) -> (Vec<i64>, Vec<i64>) {
    let (reader, mut at) = (log.reader(), Offset(0));
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    while at < log.log_end().offset() {
        match reader.read(at, log.log_end().offset(), 1, true) {
            Ok(Some(slice)) => {
                assert!(
                    tailrace_records::verify_crc(&slice.read().unwrap()),
                    "a read returned a damaged batch"
                );
                good.push(slice.base_offset.0);
                at = slice.next_offset;
            }
            Ok(None) => panic!("nothing at {at}, and no error"),
            Err(LogError::Damaged { .. }) => {
                bad.push(at.0);
                at = reader.damaged().iter().find(|range| range.holds(at)).unwrap().end_offset;
            }
            Err(error) => panic!("{error}"),
        }
    }
    (good, bad)
}

/// Scrubs all segments, as the server does, and rebuilds damaged indexes. Returns the damage found.
pub(crate) fn scrub_segments(log: &mut SimLog) -> Vec<Damage> {
    let (reader, mut found) = (log.reader(), Vec::new());
    for target in reader.scrub_targets() {
        if let Scrubbed::Damaged { log: damaged, index } = reader.scrub(&target, &mut Unhurried).unwrap() {
            found.extend(damaged);
            if index.is_some() {
                log.repair_index(target.base_offset()).unwrap();
            }
            found.extend(index);
        }
    }
    found
}

/// Makes a second copy of the folder on the same disk.
pub(crate) fn copy(disk: &SimDisk) -> PathBuf {
    let other = dir().with_file_name("copy-0");
    disk.create_dir(&other).unwrap();
    for entry in disk.read_dir(&dir()).unwrap() {
        let file = disk.open(&other.join(&entry.name), OpenMode::Truncate).unwrap();
        let content = disk.content(&dir().join(&entry.name)).unwrap();
        file.write_all_at(&[IoSlice::new(&content)], 0).unwrap();
    }
    other
}
