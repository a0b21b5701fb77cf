//! Idle partitions: their segments are closed after some time, and compaction removes what it should.

#![expect(clippy::unwrap_used, reason = "tests report failures by panicking")]

use tailrace_log::{HashSecret, KeyMap, LogConfig, LogStore, Unhurried};
use tailrace_records::{BatchBuilder, BatchOptions};
use tailrace_replication::{CompactionPolicy, Durability, Policy, Solo};
use tailrace_sim::{CrashMode, SimDisk};
use tailrace_types::TimestampMs;

use crate::common;
use crate::common::committed::{Isolation, consume};
use crate::common::trio::Trio;

const POLICY: Policy = Policy {
    durability: Durability::Strict,
    producer_expiration_ms: i64::MAX,
    timestamp_type: tailrace_records::TimestampType::CreateTime,
};
const LAG_MS: i64 = 1000;
const COMPACTION: CompactionPolicy =
    CompactionPolicy { min_lag_ms: 0, max_lag_ms: LAG_MS, delete_retention_ms: 500, io_bytes: 1000 };

fn config() -> LogConfig {
    LogConfig { segment_ms: LAG_MS, ..LogConfig::default() }
}

fn open(disk: &SimDisk, now: i64) -> Solo<SimDisk> {
    let store = LogStore::new(disk.clone(), 4);
    let (dir, identity) = (common::dir(), common::identity());
    Solo::open(&store, &dir, &identity, config(), POLICY, TimestampMs(now)).unwrap().0
}

fn append(core: &mut Solo<SimDisk>, value: Option<&[u8]>, timestamp: i64, now: i64) {
    if core.needs_epoch() {
        core.begin_epoch().unwrap();
    }
    let mut builder = BatchBuilder::new(BatchOptions::default());
    builder.push(TimestampMs(timestamp), Some(b"key"), value, &[]).unwrap();
    let (header, bytes) = builder.build_with_header();
    core.append(&header, &bytes, TimestampMs(now)).unwrap();
    let ticket = core.begin_sync(false).unwrap();
    let result = ticket.run();
    core.finish_sync(&ticket, &result);
}

/// Closes the segment if that is due, and runs a round if there is a reason for one, as the server does.
/// Returns true if a round ran.
fn upkeep(core: &mut Solo<SimDisk>, now: i64) -> bool {
    let now = TimestampMs(now);
    assert_eq!(core.reader().log().is_closing_due(now), core.close_old_segment(now));
    assert!(!core.close_old_segment(now), "the segment was closed twice");
    let cleanable = core.reader().cleanable(&COMPACTION, now);
    if !(cleanable.expired || (cleanable.dirty_bytes > 0 && cleanable.overdue_ms > 0)) {
        return false;
    }
    let mut map = KeyMap::new(1 << 16, 0.9, HashSecret([1, 2]));
    let mut round = core.begin_compaction(&COMPACTION, now).unwrap().expect("there is something to compact");
    round.index(&mut map, &mut Unhurried).unwrap();
    while let Some(rewritten) = round.rewrite_next(&map, &mut Unhurried).unwrap() {
        let trim = core.install_compacted(rewritten).unwrap().ok().unwrap();
        let result = trim.run();
        core.finish_trim(&trim, &result);
        result.unwrap();
    }
    true
}

#[test]
fn a_deleted_key_is_gone_from_a_quiet_partition_in_time() {
    // With and without restarts, and with skewed timestamps.
    for (restarts, skew) in [(false, 0), (true, 0), (false, 1_000_000), (true, -900_000)] {
        let mut disk = common::disk(1);
        let begin = 1_000_000;
        let mut core = open(&disk, begin);
        append(&mut core, Some(b"value"), begin + skew, begin);
        append(&mut core, None, begin + skew, begin);
        let mut rounds = 0;
        for now in (begin..begin + 5000).step_by(50) {
            if restarts && now % 1000 == 600 {
                drop(core);
                disk = disk.crash(CrashMode::LoseAll);
                core = open(&disk, now);
            }
            rounds += i32::from(upkeep(&mut core, now));
            let found = consume(&core.reader(), Isolation::Committed);
            let age = now - begin;
            if age <= LAG_MS {
                assert_eq!(found.len(), 2, "too early, after {age} ms");
            } else if age <= LAG_MS + 500 {
                assert!(found.len() == 1 && found[0].value.is_none(), "after {age} ms: {found:?}");
            } else if age > LAG_MS + 600 {
                assert_eq!(found, [], "after {age} ms");
            }
            assert_eq!(core.reader().log().segment_count(), 1, "after {age} ms");
        }
        assert!(rounds == 2 || (restarts && rounds <= 8), "{rounds} rounds");
        append(&mut core, Some(b"new"), begin, begin + 6000);
        assert_eq!(core.reader().log().segment_count(), 2, "an append starts the next segment");
        assert_eq!(consume(&core.reader(), Isolation::Committed).len(), 1);
    }
}

#[test]
fn an_idle_partition_has_no_work() {
    let disk = common::disk(1);
    let mut core = open(&disk, 1000);
    assert!(!upkeep(&mut core, i64::MAX / 2), "nothing was ever appended");
    append(&mut core, Some(b"value"), 1000, 1000);
    for now in [1000, 1500, 2000] {
        assert!(!core.reader().log().is_closing_due(TimestampMs(now)), "at {now}");
    }
    // It is closed at once, and old enough to be compacted.
    assert!(upkeep(&mut core, 2001));
    let read = disk.stats().bytes_read;
    for now in (3000..1_000_000).step_by(1000) {
        assert!(!upkeep(&mut core, now), "at {now}");
    }
    assert_eq!(disk.stats().bytes_read, read);
}

/// The leader and the followers each close their own segment, without a message. The next append starts a new
/// segment on each.
#[test]
fn each_replica_closes_its_own_segment() {
    let mut trio = Trio::with(&config());
    trio.lead(1);
    common::trio::append(trio.at(1), "first").unwrap();
    trio.talk(|_, _| false);
    trio.beat(1, 2, |_, _| false);
    let begun = common::trio::NOW.0;
    for id in 1..=3 {
        let replica = trio.at(id);
        assert!(!replica.close_old_segment(TimestampMs(begun + LAG_MS)), "replica {id}: too early");
        assert!(replica.close_old_segment(TimestampMs(begun + LAG_MS + 1)), "replica {id}");
        assert!(!replica.close_old_segment(TimestampMs(begun + LAG_MS + 1)), "replica {id}");
        assert!(replica.take_messages().is_empty());
        assert!(replica.begin_compaction(&COMPACTION, TimestampMs(begun + 2000)).unwrap().is_some());
    }
    common::trio::append(trio.at(1), "second").unwrap();
    trio.talk(|_, _| false);
    for id in 1..=3 {
        assert_eq!(trio.at(id).reader().log().segment_count(), 2, "replica {id}");
        assert_eq!(trio.at(id).reader().log_end().get(), 2, "replica {id}");
    }
}
