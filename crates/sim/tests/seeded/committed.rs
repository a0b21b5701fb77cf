//! One partition with everything at once, against a plain model: producers with transactions that commit,
//! abort and stay open over restarts, plain producers, compaction whose markers and tombstones expire,
//! DeleteRecords and retention, checkpoints, clean stops, power failures, failing and full disks. After every
//! start and every round, a consumer of each isolation level reads everything, skips as Kafka's clients do,
//! and must get what the model says. docs/simulation.md has more.
//!
//! `TAILRACE_SEEDS=n` runs that many seeds, `TAILRACE_SEED=n` replays one.

#![expect(clippy::unwrap_used, reason = "tests report failures by panicking")]

use std::cell::Cell;
use std::collections::BTreeMap;

use tailrace_log::{Disk, HashSecret, KeyMap, LogConfig, LogStore, Trim, Unhurried, inspect};
use tailrace_records::{BatchBuilder, BatchOptions};
use tailrace_replication::inspect::check_aborted;
use tailrace_replication::{
    AppendError, CompactionPolicy, Durability, Policy, Solo, SyncOutcome, TransactionMarker,
};
use tailrace_sim::{CrashMode, Effect, Rng, Rule, SimDisk};
use tailrace_types::{Offset, ProducerEpoch, ProducerId, TimestampMs};

use crate::common;
use crate::common::committed::{Consumed, Isolation, consume};

const SEEDS: u64 = 200;
const STEPS: usize = 150;
const POLICY: Policy = Policy {
    durability: Durability::Strict,
    producer_expiration_ms: i64::MAX,
    timestamp_type: tailrace_records::TimestampType::CreateTime,
};
/// This producer has no transactions. Those in the range below have nothing else.
const IDEMPOTENT: i64 = 5;
const TRANSACTIONAL: std::ops::RangeInclusive<i64> = 11..=14;

/// Counts of what the runs reached. Each must be above zero, or the mix proves nothing about it.
#[derive(Debug, Default)]
struct Counters {
    rounds: Cell<u64>,
    interrupted: Cell<u64>,
    abort_markers_removed: Cell<u64>,
    stops: Cell<u64>,
    crashes: Cell<u64>,
    failures: Cell<u64>,
    full: Cell<u64>,
    trims: Cell<u64>,
    closed: Cell<u64>,
    open_over_a_start: Cell<u64>,
}

fn count(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}

#[derive(Clone, Debug)]
struct Appended {
    offset: i64,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
    transaction: Option<usize>,
}

/// A producer's transaction, as far as its records and its marker are in the log.
#[derive(Clone, Copy, Debug)]
struct Transaction {
    producer: i64,
    first: i64,
    /// The offset of its marker, and whether it commits.
    end: Option<(i64, bool)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Producer {
    epoch: i16,
    sequence: i32,
    open: Option<usize>,
}

struct World<'c> {
    rng: Rng,
    disk: SimDisk,
    config: LogConfig,
    policy: CompactionPolicy,
    now: i64,
    keys: u64,
    /// Each transaction has its own epoch.
    bumps_epochs: bool,
    core: Option<Solo<SimDisk>>,
    records: Vec<Appended>,
    transactions: Vec<Transaction>,
    producers: BTreeMap<i64, Producer>,
    values: u64,
    /// Rounds have covered everything below, in part or in full.
    cleaned_to: i64,
    /// Everything below must survive a crash.
    committed: i64,
    /// Replacements of segments that could not become durable for lack of space.
    unfinished: Vec<Trim<SimDisk>>,
    /// The disk is about to fail.
    fails: bool,
    counters: &'c Counters,
}

impl<'c> World<'c> {
    fn new(seed: u64, counters: &'c Counters) -> Self {
        let mut rng = Rng::new(seed);
        let disk = common::disk(rng.next_u64());
        let config = LogConfig {
            segment_bytes: [500, 900, 2000][rng.below(3) as usize],
            preallocate_bytes: [0, 1024][rng.below(2) as usize],
            retention_ms: None,
            retention_bytes: rng.percent(20).then_some(6000),
            segment_ms: if rng.percent(50) { i64::MAX } else { 300 },
            ..LogConfig::default()
        };
        let policy = CompactionPolicy {
            min_lag_ms: 0,
            max_lag_ms: if config.segment_ms == i64::MAX { i64::MAX } else { 300 },
            delete_retention_ms: [0, 50, 400][rng.below(3) as usize],
            io_bytes: 1000,
        };
        let (keys, bumps_epochs) = (rng.between(2, 12), rng.percent(50));
        let mut world = Self {
            rng,
            disk,
            config,
            policy,
            now: 1_000_000,
            keys,
            bumps_epochs,
            core: None,
            records: Vec::new(),
            transactions: Vec::new(),
            producers: BTreeMap::new(),
            values: 0,
            cleaned_to: 0,
            committed: 0,
            unfinished: Vec::new(),
            fails: false,
            counters,
        };
        world.open();
        world
    }

    fn core(&mut self) -> &mut Solo<SimDisk> {
        self.core.as_mut().unwrap()
    }

    fn open(&mut self) {
        self.unfinished.clear();
        let store = LogStore::new(self.disk.clone(), 4);
        let (config, now) = (self.config.clone(), TimestampMs(self.now));
        let (mut core, _) =
            Solo::open(&store, &common::dir(), &common::identity(), config, POLICY, now).unwrap();
        core.begin_epoch().unwrap();
        self.core = Some(core);
        self.adopt();
        self.check();
    }

    /// Removes from the model what the log has lost. Nothing committed may be lost.
    fn adopt(&mut self) {
        let core = self.core.as_ref().unwrap();
        let end = core.reader().log_end().get();
        assert!(end >= self.committed, "the log ends at {end}, but {} was committed", self.committed);
        self.records.retain(|record| record.offset < end);
        self.producers.clear();
        for transaction in &mut self.transactions {
            transaction.end = transaction.end.filter(|(marker, _)| *marker < end);
            if transaction.first >= end {
                // It never happened, and other records may get its offsets.
                transaction.first = i64::MAX;
            }
        }
        for (id, state) in core.producers().iter() {
            let sequence = if state.last_sequence() < 0 { 0 } else { state.last_sequence() + 1 };
            self.producers.insert(id.get(), Producer { epoch: state.epoch.get(), sequence, open: None });
        }
        for (number, transaction) in self.transactions.iter().enumerate() {
            if transaction.first < end && transaction.end.is_none() {
                let producer = self.producers.get_mut(&transaction.producer);
                let producer = producer
                    .unwrap_or_else(|| panic!("{transaction:?} is open, but its producer is forgotten"));
                producer.open = Some(number);
                count(&self.counters.open_over_a_start);
            }
        }
    }

    fn step(&mut self) {
        self.now += self.rng.between(0, 100) as i64;
        match self.rng.below(24) {
            0..=9 => self.append(),
            10..=13 => self.end_transaction(),
            14..=16 => self.sync(),
            17..=19 => {
                let now = TimestampMs(self.now);
                if self.core().close_old_segment(now) {
                    count(&self.counters.closed);
                }
                self.compact();
            }
            20 => self.delete_records(),
            21 => self.retain(),
            22 if self.rng.percent(60) => self.restart(),
            22 => self.fill_up(),
            _ => self.check(),
        }
        self.committed = self.committed.max(self.core().reader().high_watermark().get());
    }

    fn append(&mut self) {
        let id = match self.rng.below(10) {
            0..=2 => -1,
            3 => IDEMPOTENT,
            _ => self.rng.between(*TRANSACTIONAL.start() as u64, *TRANSACTIONAL.end() as u64) as i64,
        };
        let transactional = TRANSACTIONAL.contains(&id);
        let producer = self.producers.get(&id).copied().unwrap_or_default();
        let mut builder = BatchBuilder::new(BatchOptions {
            producer_id: ProducerId(id),
            producer_epoch: ProducerEpoch(if id < 0 { -1 } else { producer.epoch }),
            base_sequence: if id < 0 { -1 } else { producer.sequence },
            transactional,
            ..BatchOptions::default()
        });
        let mut records = Vec::new();
        for _ in 0..self.rng.between(1, 3) {
            let key = format!("k{}", self.rng.below(self.keys)).into_bytes();
            self.values += 1;
            let padding = "x".repeat(self.rng.below(60) as usize);
            let value = (!self.rng.percent(15)).then(|| format!("{}{padding}", self.values).into_bytes());
            builder.push(TimestampMs(self.now), Some(&key), value.as_deref(), &[]).unwrap();
            records.push((key, value));
        }
        let (header, bytes) = builder.build_with_header();
        let now = TimestampMs(self.now);
        let bumps = self.bumps_epochs && producer.sequence == 0;
        let core = self.core.as_mut().unwrap();
        let guard = core.begin_verification_if_needed(&header, bumps, now);
        let base = match core.append_verified(&header, &bytes, guard, now) {
            Ok(appended) => appended.base_offset.get(),
            Err(AppendError::Full) => return,
            Err(error) => panic!("producer {id} was refused: {error}"),
        };
        let transaction = transactional.then(|| {
            producer.open.unwrap_or_else(|| {
                self.transactions.push(Transaction { producer: id, first: base, end: None });
                self.transactions.len() - 1
            })
        });
        for (offset, (key, value)) in (base..).zip(records) {
            self.records.push(Appended { offset, key, value, transaction });
        }
        if id >= 0 {
            let sequence = producer.sequence + header.record_count;
            self.producers.insert(id, Producer { sequence, open: transaction, ..producer });
        }
    }

    fn end_transaction(&mut self) {
        let open: Vec<_> =
            self.producers.iter().filter(|(_, p)| p.open.is_some()).map(|(id, _)| *id).collect();
        if open.is_empty() {
            return;
        }
        let id = open[self.rng.below(open.len() as u64) as usize];
        let mut producer = self.producers[&id];
        let committed = self.rng.percent(50);
        let marker = TransactionMarker {
            producer_id: ProducerId(id),
            producer_epoch: ProducerEpoch(producer.epoch + i16::from(self.bumps_epochs)),
            coordinator_epoch: 0,
            committed,
            epochs_are_bumped: self.bumps_epochs,
        };
        let now = TimestampMs(self.now);
        let at = match self.core().append_marker(&marker, now) {
            Ok(appended) => appended.base_offset.get(),
            Err(AppendError::Full) => return,
            Err(error) => panic!("the marker of producer {id} was refused: {error}"),
        };
        let transaction = producer.open.take().unwrap();
        self.transactions[transaction].end = Some((at, committed));
        if self.bumps_epochs {
            (producer.epoch, producer.sequence) = (producer.epoch + 1, 0);
        }
        self.producers.insert(id, producer);
    }

    fn sync(&mut self) {
        let checkpoint = self.rng.percent(40);
        let Some(ticket) = self.core().begin_sync(checkpoint) else { return };
        match self.rng.below(4) {
            0 => self.append(),
            1 => self.end_transaction(),
            _ => {}
        }
        let result = ticket.run();
        if self.core().finish_sync(&ticket, &result) == SyncOutcome::Halted {
            self.crash();
        }
    }

    /// Runs a compaction round, perhaps not to its end. The disk may fail at any operation, and the power
    /// after that.
    fn compact(&mut self) {
        self.fails = self.rng.percent(15);
        if self.fails {
            let after = self.rng.below(60);
            let rule =
                Rule { kind: None, path_ends: String::new(), after, times: u64::MAX, effect: Effect::Eio };
            self.disk.add_rule(rule);
        }
        let whole = self.round();
        self.fails = false;
        self.disk.clear_rules();
        match whole {
            Ok(true) => self.check(),
            Ok(false) => {}
            Err(()) => {
                count(&self.counters.failures);
                self.crash();
            }
        }
    }

    /// Returns false if nothing was done. An error comes from the disk, and the log cannot be used any more.
    fn round(&mut self) -> Result<bool, ()> {
        let (policy, now) = (self.policy, TimestampMs(self.now));
        let mut round = match self.core().begin_compaction(&policy, now) {
            Ok(Some(round)) => round,
            Ok(None) | Err(AppendError::Full) => return Ok(false),
            Err(_) => return Err(()),
        };
        let mut map = KeyMap::new(1 << 16, 0.9, HashSecret([self.rng.next_u64(), 7]));
        let ends_early = self.rng.percent(20);
        if let Err(error) = round.index(&mut map, &mut Unhurried) {
            return if error.is_no_space() { Ok(false) } else { Err(()) };
        }
        self.cleaned_to = self.cleaned_to.max(round.end().get());
        loop {
            let rewritten = match round.rewrite_next(&map, &mut Unhurried) {
                Ok(Some(rewritten)) => rewritten,
                Ok(None) => break,
                Err(error) if error.is_no_space() => return Ok(true),
                Err(_) => return Err(()),
            };
            self.between();
            let removed = rewritten.removed_aborts().len() as u64;
            let removals = &self.counters.abort_markers_removed;
            removals.set(removals.get() + removed);
            match self.core().install_compacted(rewritten).map_err(|_| ())? {
                Ok(trim) => {
                    self.between();
                    self.carry_out(trim)?;
                }
                Err(discarded) => discarded.run(),
            }
            if ends_early && self.rng.percent(50) {
                count(&self.counters.interrupted);
                return Ok(true);
            }
        }
        count(&self.counters.rounds);
        Ok(true)
    }

    /// What others do during a round.
    fn between(&mut self) {
        match self.rng.below(12) {
            // If a write fails, the model does not know what was stored.
            0..=2 if self.fails => {}
            0 => self.append(),
            1 => self.end_transaction(),
            2 => self.check(),
            3 => {
                if let Some(ticket) = self.core().begin_sync(true) {
                    let result = ticket.run();
                    self.core().finish_sync(&ticket, &result);
                }
            }
            _ => {}
        }
    }

    fn carry_out(&mut self, trim: Trim<SimDisk>) -> Result<(), ()> {
        let result = trim.run();
        self.core().finish_trim(&trim, &result);
        match result {
            Ok(()) => Ok(()),
            Err(error) if error.is_no_space() => {
                self.unfinished.push(trim);
                Ok(())
            }
            Err(_) => Err(()),
        }
    }

    /// Nothing of an undecided transaction is deleted: whether it is remembered would then depend on the
    /// snapshots that exist.
    fn delete_records(&mut self) {
        let reader = self.core().reader();
        let (start, stable) = (reader.log_start().get(), reader.last_stable_offset().get());
        let room = (stable - start).min(8);
        if room <= 0 {
            return;
        }
        let to = Offset(start + self.rng.between(1, room as u64) as i64);
        let Ok(trim) = self.core().advance_log_start(to) else { return };
        self.carry_out(trim).unwrap();
        count(&self.counters.trims);
    }

    fn retain(&mut self) {
        let reader = self.core().reader();
        if reader.last_stable_offset() < reader.log_end().offset() {
            return;
        }
        let now = TimestampMs(self.now);
        let Ok(Some(trim)) = self.core().retain(now) else { return };
        self.carry_out(trim).unwrap();
        count(&self.counters.trims);
    }

    fn restart(&mut self) {
        if self.rng.percent(50) {
            count(&self.counters.stops);
            self.core.take().unwrap().close().unwrap();
            self.committed = self.records.last().map_or(0, |record| record.offset + 1).max(self.committed);
            self.open();
        } else {
            self.crash();
        }
    }

    fn crash(&mut self) {
        count(&self.counters.crashes);
        self.committed = self.committed.max(self.core().reader().high_watermark().get());
        self.core = None;
        let mode = [CrashMode::LoseAll, CrashMode::KeepAll, CrashMode::Random][self.rng.below(3) as usize];
        self.disk = self.disk.crash(mode);
        self.open();
    }

    /// Takes some steps on a full disk, which may end with a power failure.
    fn fill_up(&mut self) {
        count(&self.counters.full);
        self.disk.set_space(Some(self.disk.used_bytes() + self.rng.below(1500)));
        for _ in 0..self.rng.between(1, 8) {
            match self.rng.below(6) {
                0..=1 => self.append(),
                2 => self.end_transaction(),
                3 => self.delete_records(),
                _ => drop(self.round()),
            }
        }
        self.disk.set_space(None);
        if self.core().halted().is_some() || self.rng.percent(40) {
            return self.crash();
        }
        for trim in std::mem::take(&mut self.unfinished) {
            self.carry_out(trim).unwrap();
        }
        self.check();
    }

    fn check(&mut self) {
        let reader = self.core().reader();
        let (start, stable) = (reader.log_start().get(), reader.last_stable_offset().get());
        let high_watermark = reader.high_watermark().get();
        self.check_stable(start, stable, high_watermark);
        let committed = consume(&reader, Isolation::Committed);
        self.check_consumed(&committed, Isolation::Committed, (start, stable));
        let uncommitted = consume(&reader, Isolation::Uncommitted);
        self.check_consumed(&uncommitted, Isolation::Uncommitted, (start, high_watermark));
    }

    fn check_stable(&self, start: i64, stable: i64, high_watermark: i64) {
        let undecided = |t: &&Transaction| t.end.is_none_or(|(marker, _)| marker >= high_watermark);
        let end = self.core.as_ref().unwrap().reader().log_end().get();
        let there = self.transactions.iter().filter(|t| t.first < end);
        let first = there.filter(undecided).map(|t| t.first).min().unwrap_or(high_watermark);
        assert_eq!(stable, first.max(start).min(high_watermark), "the last stable offset");
    }

    /// Checks that a consumer got from `start` to `end` what the model has there, except for what compaction
    /// may have removed.
    fn check_consumed(&self, consumed: &[Consumed], isolation: Isolation, (start, end): (i64, i64)) {
        assert!(consumed.is_sorted_by(|a, b| a.offset < b.offset), "{isolation:?}: out of order");
        let visible = |record: &&Appended| isolation == Isolation::Uncommitted || self.is_committed(record);
        let there = self.records.iter().filter(|record| (start..end).contains(&record.offset));
        let wanted: Vec<_> = there.filter(visible).collect();
        for found in consumed {
            let at = wanted.binary_search_by_key(&found.offset, |record| record.offset);
            let same = at.is_ok_and(|at| wanted[at].key == found.key && wanted[at].value == found.value);
            assert!(same, "{isolation:?}: offset {} is not for this consumer: {found:?}", found.offset);
        }
        let last: BTreeMap<&[u8], i64> = wanted
            .iter()
            .filter(|record| self.is_committed(record))
            .map(|record| (record.key.as_slice(), record.offset))
            .collect();
        for record in wanted {
            let may_be_gone = record.offset < self.cleaned_to
                && (last.get(record.key.as_slice()) != Some(&record.offset) || record.value.is_none());
            let is_there = consumed.binary_search_by_key(&record.offset, |found| found.offset).is_ok();
            assert!(may_be_gone || is_there, "{isolation:?}: {record:?} is invisible");
        }
    }

    fn is_committed(&self, record: &Appended) -> bool {
        record
            .transaction
            .is_none_or(|number| self.transactions[number].end.is_some_and(|(_, commits)| commits))
    }

    /// Checks that the folder without its snapshots has the same content, and that all checks pass.
    fn finish(&mut self) {
        self.core.take().unwrap().close().unwrap();
        let report = inspect::verify_dir(&self.disk, &common::dir()).unwrap();
        assert!(report.is_sound(), "{report:?}");
        let problems = check_aborted(&self.disk, &common::dir()).unwrap();
        assert!(problems.is_empty(), "{problems:?}");
        for entry in self.disk.read_dir(&common::dir()).unwrap() {
            if entry.name.ends_with(".snapshot") {
                self.disk.remove_file(&common::dir().join(&entry.name)).unwrap();
            }
        }
        self.committed = 0;
        self.open();
    }
}

fn run(seed: u64, counters: &Counters) {
    let mut world = World::new(seed, counters);
    for _ in 0..STEPS {
        world.step();
    }
    world.finish();
}

#[test]
fn consumers_get_what_was_committed_through_compaction_restarts_and_a_faulty_disk() {
    let counters = Counters::default();
    if let Ok(seed) = std::env::var("TAILRACE_SEED") {
        return run(seed.parse().unwrap(), &counters);
    }
    let seeds = std::env::var("TAILRACE_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    for seed in 0..seeds {
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(seed, &counters)));
        if let Err(panic) = ended {
            eprintln!("failed with TAILRACE_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
    println!("{counters:?}");
    let c = &counters;
    let faults = [&c.stops, &c.crashes, &c.failures, &c.full, &c.trims, &c.open_over_a_start];
    let rounds = [&c.rounds, &c.interrupted, &c.abort_markers_removed, &c.closed];
    let mut all = faults.into_iter().chain(rounds);
    assert!(all.all(|counter| counter.get() > seeds / 10), "{counters:?}");
}
