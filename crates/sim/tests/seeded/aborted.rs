//! Aborted transactions whose marker compaction has removed. Readers must not skip anything because of them,
//! before or after a start, whatever the folder's snapshot of the producers says.

#![expect(clippy::unwrap_used, reason = "tests report failures by panicking")]

use std::io::IoSlice;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tailrace_log::{
    Compaction, Disk, DiskFile, HashSecret, KeyMap, LogConfig, LogStore, OpenMode, Reach, Unhurried,
    VerifyReads,
};
use tailrace_records::{BatchBuilder, BatchHeader, BatchOptions};
use tailrace_replication::inspect::check_aborted;
use tailrace_replication::{CompactionPolicy, Durability, Policy, Producers, Solo, TransactionMarker};
use tailrace_sim::{CrashMode, Effect, Rule, SimDisk};
use tailrace_types::{Offset, ProducerEpoch, ProducerId, TimestampMs};

use crate::common;
use crate::common::committed::{Isolation, consume};

const NOW: i64 = 1_000_000;
const POLICY: Policy = Policy {
    durability: Durability::Strict,
    producer_expiration_ms: i64::MAX,
    timestamp_type: tailrace_records::TimestampType::CreateTime,
};

struct Partition {
    disk: SimDisk,
    core: Option<Solo<SimDisk>>,
    now: i64,
    sequence: i32,
    /// Reads check the disk first.
    verifies: bool,
}

impl Partition {
    fn new() -> Self {
        Self::with(false)
    }

    fn with(verifies: bool) -> Self {
        let mut partition = Self { disk: common::disk(1), core: None, now: NOW, sequence: 0, verifies };
        partition.open();
        partition
    }

    fn open(&mut self) {
        // The transactions fit in one segment. Each of the other batches gets its own.
        let config = LogConfig { segment_bytes: 600, preallocate_bytes: 0, ..LogConfig::default() };
        let store = LogStore::new(self.disk.clone(), 8);
        if self.verifies {
            store.set_verify_reads(VerifyReads::Always);
        }
        let (dir, now) = (common::dir(), TimestampMs(self.now));
        let (mut core, _) = Solo::open(&store, &dir, &common::identity(), config, POLICY, now).unwrap();
        core.begin_epoch().unwrap();
        self.core = Some(core);
    }

    fn core(&mut self) -> &mut Solo<SimDisk> {
        self.core.as_mut().unwrap()
    }

    fn append(&mut self, key: &str, transactional: bool) -> Offset {
        let (producer, sequence) = if transactional { (7, self.sequence) } else { (-1, -1) };
        self.sequence += i32::from(transactional);
        let mut builder = BatchBuilder::new(BatchOptions {
            producer_id: ProducerId(producer),
            producer_epoch: ProducerEpoch(if transactional { 0 } else { -1 }),
            base_sequence: sequence,
            transactional,
            ..BatchOptions::default()
        });
        let value = vec![b'v'; if transactional || key == "small" { 5 } else { 500 }];
        builder.push(TimestampMs(self.now), Some(key.as_bytes()), Some(&value), &[]).unwrap();
        let (header, bytes): (BatchHeader, Bytes) = builder.build_with_header();
        let now = TimestampMs(self.now);
        let guard = self.core().begin_verification(&header, false, now);
        let appended = self.core().append_verified(&header, &bytes, Some(guard), now).unwrap();
        self.sync(false);
        appended.base_offset
    }

    fn end(&mut self, committed: bool) {
        let marker = TransactionMarker {
            producer_id: ProducerId(7),
            producer_epoch: ProducerEpoch(0),
            coordinator_epoch: 0,
            committed,
            epochs_are_bumped: false,
        };
        let now = TimestampMs(self.now);
        self.core().append_marker(&marker, now).unwrap();
        self.sync(false);
    }

    fn sync(&mut self, checkpoint: bool) {
        let ticket = self.core().begin_sync(checkpoint).unwrap();
        let result = ticket.run();
        self.core().finish_sync(&ticket, &result);
        result.unwrap();
    }

    fn compact(&mut self) {
        self.compact_with(true);
    }

    fn begin_round(&mut self) -> (Compaction<SimDisk>, KeyMap) {
        let policy = CompactionPolicy {
            min_lag_ms: 0,
            max_lag_ms: i64::MAX,
            delete_retention_ms: 100,
            io_bytes: 1000,
        };
        let now = TimestampMs(self.now);
        let mut map = KeyMap::new(1 << 16, 0.9, HashSecret([1, 2]));
        let mut round =
            self.core().begin_compaction(&policy, now).unwrap().expect("there is something to compact");
        round.index(&mut map, &mut Unhurried).unwrap();
        (round, map)
    }

    /// Runs a round. Without `carry_out`, replaced segments count for readers, but the disk does not learn of
    /// the replacement.
    fn compact_with(&mut self, carry_out: bool) {
        let (mut round, map) = self.begin_round();
        while let Some(rewritten) = round.rewrite_next(&map, &mut Unhurried).unwrap() {
            let trim = self.core().install_compacted(rewritten).unwrap().ok().unwrap();
            if carry_out {
                let result = trim.run();
                self.core().finish_trim(&trim, &result);
                result.unwrap();
            }
        }
    }

    /// The producer aborts `a`, then commits `c0` and `c1`. The first round removes the record of `a`, the
    /// second sets the marker's delete horizon, which then passes.
    fn expire_the_marker(&mut self) {
        self.append("a", true);
        self.end(false);
        for key in ["c0", "c1"] {
            self.append(key, true);
            self.end(true);
        }
        for n in 0..2 {
            self.append(&format!("other-{n}"), false);
        }
        self.compact();
        self.append("more", false);
        self.compact();
        self.now += 1000;
        self.append("still more", false);
        self.sync(true);
        assert_eq!(self.core().producers().aborted().len(), 1, "the marker was removed too early");
    }

    /// Removes the marker in a third round. Nothing is appended between the last checkpoint and that round.
    /// Returns the snapshots as they were before it.
    fn lose_the_marker(&mut self) -> Vec<(PathBuf, Vec<u8>)> {
        self.expire_the_marker();
        let before =
            self.snapshots().into_iter().map(|path| (path.clone(), self.disk.content(&path).unwrap()));
        let before = before.collect();
        self.compact();
        assert!(self.core().producers().aborted().is_empty(), "the marker was not removed");
        before
    }

    /// Damages the abort marker on the disk, and repairs the segment from a copy whose marker compaction has
    /// removed.
    fn mend_without_the_marker(&mut self) {
        let marker = self.core().producers().aborted().iter().next().unwrap().last_offset;
        let names = self.disk.read_dir(&common::dir()).unwrap().into_iter().map(|entry| entry.name);
        let path =
            names.filter(|name| name.ends_with(".log")).map(|name| common::dir().join(name)).min().unwrap();
        let content = self.disk.content(&path).unwrap();
        let number = |at: usize, length: usize| {
            content[at..at + length].iter().fold(0_i64, |number, byte| number << 8 | i64::from(*byte))
        };
        let mut at = 0;
        while number(at, 8) != marker.get() {
            at += 12 + number(at + 8, 4) as usize;
        }
        let last = at + 11 + number(at + 8, 4) as usize;
        let file = self.disk.open(&path, OpenMode::Write).unwrap();
        file.write_all_at(&[IoSlice::new(&[content[last] ^ 1])], last as u64).unwrap();
        let mut patch = self.core().begin_patch(Offset(0)).unwrap().unwrap();
        let mut holes = 0;
        while !patch.is_whole() {
            patch.copy_own(1000).unwrap();
            if patch.wanted().is_some() {
                patch.push_hole().unwrap();
                holes += 1;
            }
        }
        assert_eq!(holes, 1, "only the marker is damaged");
        let trim = self.core().install_compacted(patch.finish().unwrap()).unwrap().ok().unwrap();
        let result = trim.run();
        self.core().finish_trim(&trim, &result);
        result.unwrap();
    }

    fn keys(&mut self) -> Vec<String> {
        consume(&self.core().reader(), Isolation::Committed)
            .into_iter()
            .map(|record| String::from_utf8(record.key).unwrap())
            .collect()
    }

    fn stop(&mut self) {
        self.core.take().unwrap().close().unwrap();
    }

    fn kill(&mut self, mode: CrashMode) {
        self.core = None;
        self.disk = self.disk.crash(mode);
    }

    fn snapshots(&self) -> Vec<PathBuf> {
        let names = self.disk.read_dir(&common::dir()).unwrap().into_iter().map(|entry| entry.name);
        names.filter(|name| name.ends_with(".snapshot")).map(|name| common::dir().join(name)).collect()
    }

    /// Returns how many transactions the newest snapshot lists as aborted.
    fn listed(&self) -> usize {
        let newest = self.snapshots().pop().unwrap();
        let payload = &self.disk.content(&newest).unwrap()[32..];
        Producers::from_snapshot(payload).unwrap().aborted().len()
    }

    /// Puts back older snapshots, as if a round had not rewritten them.
    fn put_back(&self, snapshots: &[(PathBuf, Vec<u8>)]) {
        for (path, content) in snapshots {
            let file = self.disk.open(path, OpenMode::Truncate).unwrap();
            file.write_all_at(&[IoSlice::new(content)], 0).unwrap();
            file.sync_all().unwrap();
        }
        self.disk.sync_dir(&common::dir()).unwrap();
    }
}

const ALL: [&str; 6] = ["c0", "c1", "other-0", "other-1", "more", "still more"];

/// Found in a soak test with three nodes: for the duration of one answer, a repaired replica reported an
/// abort whose marker the others no longer had.
#[test]
fn committed_records_stay_visible_when_a_segment_is_mended_from_a_copy_without_the_marker() {
    let mut partition = Partition::new();
    partition.expire_the_marker();
    let reader = partition.core().reader();
    partition.mend_without_the_marker();
    assert!(partition.core().producers().aborted().is_empty());
    assert_eq!(reader.aborted().iter().count(), 0, "readers still see the aborted transaction");
    assert_eq!(partition.keys(), ALL);
    partition.stop();
    partition.open();
    assert_eq!(partition.keys(), ALL);
}

#[test]
fn committed_records_stay_visible_when_compaction_has_removed_an_abort_marker() {
    for clean in [true, false] {
        let mut partition = Partition::new();
        partition.lose_the_marker();
        assert_eq!(partition.keys(), ALL);
        assert_eq!(partition.listed(), 0, "the round did not write the snapshot");
        if clean {
            partition.stop();
        } else {
            partition.kill(CrashMode::LoseAll);
        }
        partition.open();
        assert_eq!(partition.keys(), ALL, "clean: {clean}");
        let aborted = partition.core().reader().aborted_transactions(Offset(0), Offset(i64::MAX));
        assert_eq!(aborted, [], "clean: {clean}");
    }
}

#[test]
fn a_folder_whose_snapshot_lists_an_aborted_transaction_without_a_marker_heals_at_a_start() {
    let mut partition = Partition::new();
    let before = partition.lose_the_marker();
    partition.stop();
    assert_eq!(check_aborted(&partition.disk, &common::dir()).unwrap(), []);
    partition.put_back(&before);
    assert_eq!(partition.listed(), 1);
    let problems = check_aborted(&partition.disk, &common::dir()).unwrap();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        problems[0].is_recoverable && problems[0].reason.contains("its marker at offset 1 "),
        "{problems:?}"
    );
    partition.open();
    assert_eq!(partition.keys(), ALL);
    partition.stop();
    assert_eq!(partition.listed(), 0, "the stop wrote the current list");
    assert_eq!(check_aborted(&partition.disk, &common::dir()).unwrap(), []);
    partition.open();
    assert_eq!(partition.keys(), ALL);
}

/// A full disk kept replacements from becoming durable, and then the power fails between a snapshot and its
/// checkpoint. The crash brings the aborted record back. So a marker that a round removed because of such a
/// replacement must not be forgotten.
#[test]
fn a_round_builds_on_nothing_that_a_crash_takes_back() {
    let mut partition = Partition::new();
    partition.append("a", true);
    partition.end(false);
    partition.append("c0", true);
    partition.end(true);
    for n in 0..3 {
        partition.append(&format!("other-{n}"), false);
    }
    partition.sync(true);
    partition.compact_with(false);
    partition.append("more", false);
    partition.compact_with(false);
    partition.now += 1000;
    partition.append("still more", false);
    partition.compact_with(false);
    assert!(partition.core().producers().aborted().is_empty(), "the marker was not removed");
    let (kind, path_ends) = (None, "checkpoint.tmp".to_owned());
    partition.disk.add_rule(Rule { kind, path_ends, after: 0, times: u64::MAX, effect: Effect::Eio });
    let ticket = partition.core().begin_sync(true).unwrap();
    assert!(ticket.run().is_err());
    partition.kill(CrashMode::KeepAll);
    partition.open();
    assert_eq!(partition.keys(), ["c0", "other-0", "other-1", "other-2", "more", "still more"]);
}

/// The log start has passed a marker that came after the newest checkpoint. Whether its segment still exists
/// or not, the transaction is over.
#[test]
fn the_end_of_a_transaction_is_known_after_the_log_start_has_passed_it() {
    for (segments_go, committed) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut partition = Partition::new();
        partition.append("a", true);
        partition.sync(true);
        partition.end(committed);
        let after = partition.append("small", false);
        for n in 0..3 {
            partition.append(&format!("other-{n}"), false);
        }
        let to = if segments_go { Offset(after.get() + 1) } else { after };
        let trim = partition.core().advance_log_start(to).unwrap();
        assert_eq!(!trim.segments().is_empty(), segments_go);
        let result = trim.run();
        partition.core().finish_trim(&trim, &result);
        partition.kill(CrashMode::LoseAll);
        partition.open();
        let reader = partition.core().reader();
        assert_eq!(
            reader.last_stable_offset().get(),
            reader.high_watermark().get(),
            "{segments_go} {committed}"
        );
        assert_eq!(partition.core().producers().get(ProducerId(7)).unwrap().last_sequence(), 0);
        partition.append("b", true);
    }
}

/// The segment with the marker is removed while a reader looks at the disk. The earlier list of aborted
/// transactions would hide what the producer has committed since.
#[test]
fn a_read_that_is_overtaken_by_the_exchange_of_its_segment_begins_again() {
    let mut partition = Partition::with(true);
    partition.expire_the_marker();
    let (mut round, map) = partition.begin_round();
    let rewritten = round.rewrite_next(&map, &mut Unhurried).unwrap().expect("the segment with the marker");
    let reader = partition.core().reader();
    let waiting = Arc::new(Mutex::new(partition.core.take().map(|core| (core, rewritten))));
    let exchange = Arc::clone(&waiting);
    partition.disk.observe(move |_| {
        let Some((mut core, rewritten)) = exchange.lock().unwrap().take() else { return };
        let trim = core.install_compacted(rewritten).unwrap().ok().unwrap();
        let result = trim.run();
        core.finish_trim(&trim, &result);
        assert!(core.producers().aborted().is_empty(), "the marker was not removed");
    });
    let (from, upto) = (reader.log_start(), reader.last_stable_offset());
    assert_eq!(reader.aborted_transactions(from, upto).len(), 1);
    let (_, aborted) = reader.read_committed(Reach::Disk, from, upto, 1 << 20, true).unwrap().unwrap();
    assert!(waiting.lock().unwrap().is_none(), "the read did not use the disk");
    assert_eq!(aborted, []);
}
