//! Damage to one, two or three copies of a partition, in the same and in different places, running and
//! stopped: what each replica serves at once, and what is whole in the end. The table in docs/guarantees.md,
//! "Several replicas", is a short form of this one.
#![expect(clippy::unwrap_used, reason = "tests report failures by panicking")]

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use tailrace_log::{LogConfig, LogError, Scrubbed, Unhurried};
use tailrace_replication::raft::{Replica, Role};
use tailrace_sim::{CrashMode, SimDisk};
use tailrace_types::Offset;

use crate::common::trio::{NOW, Trio, append, open_with, options};

/// Three replicas with 20 batches of one record each at the offsets 0 to 19, in one segment. A cell lists the
/// offsets at which the batches of a copy are damaged (`-`: nowhere, `log`: its `.log` is emptied). The last
/// column lists what no replica serves in the end.
const TABLE: &str = "
    5     | -     | -     | -
    -     | 5     | -     | -
    -     | 0     | -     | -
    -     | 19    | -     | -
    5,6,9 | -     | -     | -
    5     | 5     | -     | -
    5     | 9     | -     | -
    -     | 5     | 5     | -
    -     | 5     | 9     | -
    5     | 9     | 13    | -
    5     | 5     | 9     | -
    5,9   | 9,13  | 5,13  | -
    log   | -     | -     | -
    -     | log   | -     | -
    -     | log   | log   | -
    log   | log   | -     | -
    log   | 5     | 9     | -
    5     | 5     | 5     | 5
    5     | 5,9   | 5,13  | 5
    log   | 5     | 5,9   | 5
    log   | log   | 5     | 5
";

const BATCHES: i64 = 20;

fn offsets(cell: &str) -> Vec<i64> {
    match cell {
        "-" => Vec::new(),
        "log" => (0..BATCHES).collect(),
        some => some.split(',').map(|offset| offset.parse().unwrap()).collect(),
    }
}

fn trio() -> Trio {
    let mut trio = Trio::new();
    trio.lead(1);
    for number in 0..BATCHES {
        append(trio.at(1), &format!("batch {number:02}")).unwrap();
        trio.talk(|_, _| false);
    }
    trio.beat(1, 3, |_, _| false);
    for id in 1..=3 {
        let ticket = trio.at(id).begin_sync(true).unwrap();
        let result = ticket.run();
        trio.at(id).finish_sync(&ticket, &result, NOW);
    }
    trio
}

fn log_file() -> PathBuf {
    Path::new("/data/t-0").join(format!("{:020}.log", 0))
}

fn damage(disk: &SimDisk, cell: &str) {
    let bytes = disk.content(&log_file()).unwrap();
    let batches: Vec<_> = tailrace_records::split_batches(&bytes).map_while(Result::ok).collect();
    let batch_bytes = batches[0].1.len();
    assert_eq!(batches.len() as i64, BATCHES);
    if cell == "log" {
        return disk.damage(&log_file(), Vec::clear);
    }
    for offset in offsets(cell) {
        disk.damage(&log_file(), |bytes| bytes[offset as usize * batch_bytes + 65] ^= 1);
    }
}

fn scrub(replica: &mut Replica<SimDisk>) {
    let reader = replica.reader();
    replica.scrub_files().unwrap();
    for target in reader.log().scrub_targets() {
        if let Scrubbed::Damaged { index: Some(_), .. } = reader.log().scrub(&target, &mut Unhurried).unwrap()
        {
            replica.repair_index(target.base_offset()).unwrap();
        }
    }
}

/// Returns which of the first twenty records a replica does not serve. Each of them must be refused by name,
/// and the others must be right.
fn lost(replica: &Replica<SimDisk>) -> Vec<i64> {
    let (reader, mut lost) = (replica.reader(), Vec::new());
    for offset in 0..BATCHES {
        match reader.log().read(Offset(offset), Offset(BATCHES), 1, true) {
            Ok(Some(slice)) => {
                let bytes = slice.read().unwrap();
                assert!(tailrace_records::verify_crc(&bytes), "a read returned a damaged batch");
                if slice.base_offset != Offset(offset) {
                    lost.push(offset);
                } else {
                    let text = format!("batch {offset:02}");
                    assert!(bytes.windows(text.len()).any(|found| found == text.as_bytes()), "{text}");
                }
            }
            Ok(None) => lost.push(offset),
            Err(LogError::Damaged { .. }) => lost.push(offset),
            Err(error) => panic!("{error}"),
        }
    }
    lost
}

fn play(cells: [&str; 3], end: &str, restart: bool) {
    let mut trio = trio();
    if restart {
        trio.disks = trio.disks.iter().map(|disk| disk.crash(CrashMode::LoseAll)).collect();
    }
    for (disk, cell) in trio.disks.iter().zip(cells) {
        damage(disk, cell);
    }
    if restart {
        let open = |(id, disk)| open_with(disk, LogConfig::default(), options(id, &[1, 2, 3])).unwrap();
        trio.replicas = (1..).zip(&trio.disks).map(open).collect();
    }
    for (id, cell) in (1..).zip(cells) {
        scrub(trio.at(id));
        assert_eq!(
            lost(trio.at(id)),
            offsets(cell),
            "replica {id} serves everything but the damaged batches"
        );
    }
    for _ in 0..1200 {
        for id in 1..=3 {
            trio.at(id).tick(NOW);
        }
        trio.talk(|_, _| false);
    }
    for id in 1..=3 {
        assert_eq!(trio.at(id).beyond_repair(), None, "replica {id}");
        assert_eq!(trio.at(id).halted(), None, "replica {id}");
        assert_eq!(lost(trio.at(id)), offsets(end), "replica {id} at the end");
        let known: Vec<_> = trio.at(id).damaged().iter().map(|range| range.base_offset.0).collect();
        assert_eq!(known, offsets(end), "replica {id} reports it");
    }
    let leader = (1..=3).find(|id| trio.at(*id).role() == Role::Leader).unwrap();
    let appended = append(trio.at(leader), "goes on").unwrap();
    trio.talk(|_, _| false);
    assert_eq!(appended.base_offset, Offset(BATCHES), "no offset is assigned twice");
    let disks: Vec<_> = trio.disks.iter().map(|disk| disk.crash(CrashMode::LoseAll)).collect();
    for (id, disk) in (1..).zip(&disks) {
        let replica = open_with(disk, LogConfig::default(), options(id, &[1, 2, 3])).unwrap();
        assert_eq!(lost(&replica), offsets(end), "replica {id} after a power failure");
    }
}

#[test]
fn damage_to_one_two_or_three_copies() {
    let mut wrong = Vec::new();
    for row in TABLE.lines().map(str::trim).filter(|row| !row.is_empty()) {
        let columns: Vec<_> = row.split('|').map(str::trim).collect();
        let [first, second, third, end] = columns[..] else { panic!("{row}") };
        for restart in [false, true] {
            let played = catch_unwind(|| play([first, second, third], end, restart));
            if let Err(panic) = played {
                let said = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                wrong.push(format!("{row}, restarted {restart}: {said}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
