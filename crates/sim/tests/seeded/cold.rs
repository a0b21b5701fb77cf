//! Reads that are limited to memory, of data that is not in memory.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common::{append, batch, disk, open, small_segments};
use tailrace_log::{LogError, Reach};
use tailrace_types::Offset;

/// The disk reports that it would have to wait, or reads less than there is, or nothing.
#[test]
fn what_is_not_in_memory_is_left_to_who_goes_to_the_disk_and_is_not_damaged() {
    let (mut at_hand, mut elsewhere) = (0, 0);
    for seed in 0..20 {
        let disk = disk(seed);
        let (mut log, _) = open(&disk, &small_segments()).unwrap();
        for number in 0..60 {
            append(&mut log, &batch(2, 100, number, number as u8)).unwrap();
        }
        let (reader, end) = (log.reader(), log.log_end().offset());
        let read = |reach, from| {
            let slice = reader.read_within(reach, from, end, 1_000, true)?;
            Ok::<_, LogError>(slice.expect("there are more records").next_offset)
        };
        for percent in [0, 30, 100] {
            disk.set_cold(percent);
            let mut at = Offset(0);
            while at < end {
                let found = read(Reach::Disk, at).unwrap();
                match read(Reach::Memory, at) {
                    Ok(next) => {
                        assert_eq!(next, found);
                        at_hand += 1;
                    }
                    Err(LogError::NotAtHand) => elsewhere += 1,
                    Err(error) => panic!("seed {seed}, {percent} %, at {at}: {error}"),
                }
                at = found;
            }
        }
        assert!(reader.damaged().is_empty());
        assert!(reader.damaged_indexes().is_empty(), "seed {seed}");
        assert!(disk.stats().would_wait > 0);
    }
    assert!(at_hand > 0 && elsewhere > 0, "{at_hand} {elsewhere}");
}
