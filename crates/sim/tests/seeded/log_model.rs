//! Random operations on a log over a faulty disk, against a simple model.
//!
//! Everything that a successful sync covered survives every crash, byte for byte and in order. Nothing torn
//! is ever readable, and reads equal the model. A failing seed is printed, and `TAILRACE_SEED=n cargo test -p
//! tailrace-sim --test seeded log_model` runs it alone. `TAILRACE_SEEDS=n` runs that many.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;
use crate::common::{NOW, SimLog, batch, open, small_segments, stamp, stamped};
use bytes::Bytes;
use tailrace_log::{LogConfig, LogError, PRODUCERS, Recovery, Sections};
use tailrace_sim::{CrashMode, Effect, OpKind, Rng, Rule, SimDisk};
use tailrace_types::{HighWatermark, LeaderEpoch, Offset, RaftIndex, TimestampMs};

const STEPS: u64 = 80;

#[derive(Clone, Debug)]
struct ModelBatch {
    base: Offset,
    next: Offset,
    index: RaftIndex,
    epoch: LeaderEpoch,
    bytes: Vec<u8>,
    timestamp: i64,
}

#[derive(Clone, Debug)]
struct ModelEntry {
    index: RaftIndex,
    epoch: LeaderEpoch,
}

/// What the log should contain.
#[derive(Clone, Debug)]
struct Model {
    batches: Vec<ModelBatch>,
    entries: Vec<ModelEntry>,
    log_start: Offset,
    /// The lowest log start that a crash may bring back.
    log_start_durable: Offset,
    /// Offsets below it were promised to be durable.
    promised: Offset,
    /// Recovery need not read offsets below it.
    checkpointed: Offset,
    end: Offset,
    next_index: RaftIndex,
    epoch: LeaderEpoch,
}

impl Model {
    fn new() -> Self {
        Self {
            batches: Vec::new(),
            entries: Vec::new(),
            log_start: Offset(0),
            log_start_durable: Offset(0),
            promised: Offset(0),
            checkpointed: Offset(0),
            end: Offset(0),
            next_index: RaftIndex(1),
            epoch: LeaderEpoch(1),
        }
    }

    fn truncate_from(&mut self, index: RaftIndex) {
        self.end = self.batches.iter().find(|b| b.index >= index).map_or(self.end, |b| b.base);
        self.batches.retain(|b| b.index < index);
        self.entries.retain(|e| e.index < index);
        self.next_index = self.next_index.min(index);
        let last = self.batches.last();
        let epochs = last.map(|b| b.epoch).into_iter().chain(self.entries.last().map(|e| e.epoch));
        self.epoch = epochs.max().unwrap_or(LeaderEpoch(1)).max(LeaderEpoch(1));
        self.promised = self.promised.min(self.end);
        self.checkpointed = self.checkpointed.min(self.end);
        self.log_start = self.log_start.min(self.end);
        self.log_start_durable = self.log_start_durable.min(self.end);
    }

    fn bytes_beyond_checkpoint(&self) -> u64 {
        self.batches.iter().filter(|b| b.base >= self.checkpointed).map(|b| b.bytes.len() as u64).sum()
    }
}

struct Run {
    rng: Rng,
    disk: SimDisk,
    log: Option<SimLog>,
    model: Model,
    config: LogConfig,
    timestamp: i64,
    /// A failed write may have left bytes beyond the end.
    failed_writes: bool,
    /// Batches whose append failed. Their fate is open: a crash may bring them back where nothing was
    /// promised.
    unknown: Vec<ModelBatch>,
    lying: bool,
}

type Outcome = Result<(), String>;

macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err(format!($($text)+));
        }
    };
}

fn text(error: LogError) -> String {
    format!("unexpected: {error}")
}

/// Returns what the log is given to keep: one section, or two.
fn sections_at(end: Offset) -> Sections {
    let sections = Sections::of(PRODUCERS, 1, format!("state at {end}"));
    if end.0 % 2 == 0 { sections } else { sections.with("more", 3, format!("more at {end}")) }
}

impl Run {
    fn new(seed: u64, lying: bool) -> Result<Self, String> {
        let mut rng = Rng::new(seed);
        let disk = common::disk(rng.next_u64());
        let config = LogConfig {
            segment_bytes: [512, 2048, 4096, 20_000][rng.below(4) as usize],
            preallocate_bytes: [0, 2048, 1 << 20][rng.below(3) as usize],
            ..small_segments()
        };
        let (log, _) = open(&disk, &config).map_err(text)?;
        let model = Model::new();
        Ok(Self {
            rng,
            disk,
            log: Some(log),
            model,
            config,
            timestamp: 1000,
            failed_writes: false,
            unknown: Vec::new(),
            lying,
        })
    }

    fn log(&mut self) -> &mut SimLog {
        self.log.as_mut().expect("open between steps")
    }

    fn step(&mut self) -> Outcome {
        let choice = self.rng.below(100);
        if number("TAILRACE_SEED").is_some() {
            println!("  choice {choice}");
        }
        match choice {
            0..=39 => self.append_some(),
            40..=43 => self.append_entry(),
            44..=53 => self.sync(),
            54..=57 => self.sync_late(),
            58..=63 => self.checkpoint(),
            64..=77 => self.read_somewhere(),
            78..=80 => self.trim(),
            81..=83 => self.truncate(),
            84..=86 => self.full_disk(),
            87..=90 => self.failing_disk(),
            91..=93 => self.close_and_open(),
            _ => self.crash(),
        }
    }

    fn new_batch(&mut self) -> Bytes {
        let records = self.rng.between(1, 5) as usize;
        let value_bytes = match self.rng.below(20) {
            0 => self.rng.between(3000, 12_000),
            1..=5 => self.rng.between(300, 1500),
            _ => self.rng.between(0, 200),
        };
        // Not always ascending.
        self.timestamp += self.rng.between(0, 20) as i64 - 5;
        let fill = self.rng.next_u64() as u8;
        batch(records, value_bytes as usize / records, self.timestamp, fill)
    }

    fn append_some(&mut self) -> Outcome {
        for _ in 0..self.rng.between(1, 6) {
            self.append().map_err(text)?;
        }
        Ok(())
    }

    fn append(&mut self) -> Result<(), LogError> {
        let bytes = self.new_batch();
        let epoch = LeaderEpoch(self.model.epoch.0 + i32::from(self.rng.percent(3)));
        let header = stamp(&bytes, self.model.end, epoch);
        let index = self.model.next_index;
        let batch = ModelBatch {
            base: header.base_offset,
            next: header.next_offset(),
            index,
            epoch,
            bytes: stamped(&header, &bytes),
            timestamp: header.max_timestamp.0,
        };
        match self.log().append(&header, index, &bytes, NOW) {
            Ok(appended) => assert_eq!(appended.log_end.offset(), header.next_offset()),
            Err(error) => {
                self.unknown.push(batch);
                return Err(error);
            }
        }
        self.model.batches.push(batch);
        self.model.end = header.next_offset();
        self.model.next_index.0 += 1;
        self.model.epoch = epoch;
        Ok(())
    }

    fn append_entry(&mut self) -> Outcome {
        let epoch = LeaderEpoch(self.model.epoch.0 + 1);
        let index = self.model.next_index;
        self.log().append_entry(index, epoch, b"leader").map_err(text)?;
        self.model.entries.push(ModelEntry { index, epoch });
        self.model.next_index.0 += 1;
        self.model.epoch = epoch;
        Ok(())
    }

    fn sync(&mut self) -> Outcome {
        let durable = self.log().sync().map_err(text)?;
        self.model.promised = self.model.end;
        ensure!(durable.offset() == self.model.end, "durable end {durable}, log end {}", self.model.end);
        Ok(())
    }

    /// A sync plan runs after more was appended. It promises only what was there when it was made.
    fn sync_late(&mut self) -> Outcome {
        let plan = self.log().sync_plan();
        let covers = self.model.end;
        self.append_some()?;
        plan.run().map_err(text)?;
        let durable = self.log().mark_durable(&plan);
        ensure!(plan.covers().offset() == covers, "the plan covers {}", plan.covers());
        self.model.promised = self.model.promised.max(covers);
        ensure!(durable.offset() >= covers && durable.offset() <= self.model.end, "durable end {durable}");
        Ok(())
    }

    fn checkpoint(&mut self) -> Outcome {
        let sections = self.rng.percent(60).then(|| sections_at(self.model.end));
        let plan = self.log().checkpoint_plan(sections);
        let (covers, log_start) = (self.model.end, self.model.log_start);
        if self.rng.percent(30) {
            self.append_some()?;
        }
        plan.run().map_err(text)?;
        self.log().mark_checkpointed(&plan);
        self.model.promised = self.model.promised.max(covers);
        self.model.checkpointed = covers;
        self.model.log_start_durable = log_start;
        Ok(())
    }

    fn read_somewhere(&mut self) -> Outcome {
        for _ in 0..10 {
            let (start, end) = (self.model.log_start.0, self.model.end.0);
            let from = Offset(start + self.rng.below((end - start + 1) as u64) as i64);
            let upto = Offset(start + self.rng.below((end - start + 1) as u64) as i64);
            let bytes_max = self.rng.below(8000);
            let at_least_one = self.rng.percent(50);
            self.check_read(from, upto, bytes_max, at_least_one)?;
        }
        let outside = Offset(self.model.end.0 + 1);
        let reader = self.log().reader();
        let refused = matches!(reader.read(outside, outside, 1, true), Err(LogError::OutOfRange { .. }));
        ensure!(refused, "a read beyond the end was not refused");
        self.check_time()
    }

    fn check_read(&mut self, from: Offset, upto: Offset, bytes_max: u64, at_least_one: bool) -> Outcome {
        let slice = self.log().reader().read(from, upto, bytes_max, at_least_one).map_err(text)?;
        let mut wanted = self.model.batches.iter().filter(|b| b.next > from && b.next <= upto).peekable();
        let first = wanted.peek().map(|b| b.bytes.len() as u64);
        let Some(slice) = slice else {
            let right = from >= upto || first.is_none_or(|bytes| bytes > bytes_max && !at_least_one);
            ensure!(right, "nothing read from {from} up to {upto} with {bytes_max} bytes");
            return Ok(());
        };
        let read = slice.read().map_err(|error| error.to_string())?;
        let all = wanted.map(|b| &b.bytes[..]).collect::<Vec<_>>().concat();
        ensure!(all.starts_with(&read), "wrong bytes read from {from} up to {upto}");
        let fits = read.len() as u64 <= bytes_max || (at_least_one && first == Some(read.len() as u64));
        ensure!(fits, "{} bytes read, at most {bytes_max} wanted", read.len());
        let last = self.model.batches.iter().find(|b| b.next == slice.next_offset);
        ensure!(last.is_some_and(|b| read.ends_with(&b.bytes)), "the slice ends at {}", slice.next_offset);
        Ok(())
    }

    fn check_time(&mut self) -> Outcome {
        let timestamp = self.timestamp - 200 + self.rng.below(250) as i64;
        let (start, end) = (self.model.log_start, self.model.end);
        let found = self.log().reader().offset_for_time(TimestampMs(timestamp), end).map_err(text)?;
        let records = self.model.batches.iter().flat_map(|b| {
            let count = b.next.0 - b.base.0;
            (0..count).map(move |i| (b.base.0 + i, b.timestamp - count + 1 + i))
        });
        let records = records.filter(|record| record.0 >= start.0);
        let wanted = records.clone().find(|record| record.1 >= timestamp);
        let found = found.map(|(offset, timestamp, _)| (offset.0, timestamp.0));
        ensure!(found == wanted, "time {timestamp}: found {found:?}, wanted {wanted:?}");
        let largest = records.clone().map(|r| r.1).max();
        let wanted = largest.and_then(|t| records.clone().find(|r| r.1 == t));
        let found = self.log().reader().max_timestamp(end).map_err(text)?.map(|(o, t, _)| (o.0, t.0));
        // The largest timestamp is in a batch that straddles the log start.
        let below = largest.is_none_or(|t| {
            self.model.batches.iter().any(|b| b.base < start && b.next > start && b.timestamp >= t)
        });
        ensure!(found == wanted || below, "max timestamp: found {found:?}, wanted {wanted:?}");
        Ok(())
    }

    fn trim(&mut self) -> Outcome {
        let trim = if self.rng.percent(50) {
            let (start, end) = (self.model.log_start.0, self.model.end.0);
            let to = Offset(start + self.rng.below((end - start + 1) as u64) as i64);
            Some(self.log().advance_log_start(to).map_err(text)?)
        } else {
            let config = LogConfig {
                retention_bytes: self.rng.percent(50).then_some(6000),
                retention_records: self.rng.percent(50).then_some(20),
                retention_ms: self.rng.percent(20).then_some(NOW.0 - self.timestamp),
                ..self.config.clone()
            };
            let high_watermark = HighWatermark(self.model.promised.0);
            let log = self.log();
            log.set_config(config);
            log.retain(high_watermark, NOW)
        };
        let Some(trim) = trim else { return Ok(()) };
        self.model.log_start = trim.log_start();
        ensure!(self.log().log_start() == trim.log_start(), "the log start did not move");
        let covers = self.model.end;
        if self.rng.percent(85) {
            trim.run().map_err(text)?;
            self.log().mark_checkpointed(trim.checkpoint());
            self.model.log_start_durable = self.model.log_start;
            self.model.promised = covers;
            self.model.checkpointed = covers;
        }
        Ok(())
    }

    /// The disk fails somewhere in a truncation. After a restart the log ends at the new end, at the old one,
    /// or in between.
    fn failing_truncation(&mut self) -> Outcome {
        let (start, end) = (self.model.log_start.0, self.model.end.0);
        let to = Offset(start + self.rng.below((end - start + 1) as u64) as i64);
        let after = self.rng.below(12);
        let rule = Rule { kind: None, path_ends: String::new(), after, times: u64::MAX, effect: Effect::Eio };
        self.disk.add_rule(rule);
        let result = self.log().truncate_to(to);
        let base = self.model.batches.iter().find(|b| b.next > to).map_or(self.model.end, |b| b.base);
        self.model.promised = self.model.promised.min(base);
        self.model.log_start_durable = self.model.log_start_durable.min(base);
        self.model.checkpointed = self.model.checkpointed.min(base);
        if result.is_ok() {
            self.disk.clear_rules();
            let index =
                self.model.batches.iter().find(|b| b.next > to).map_or(self.model.next_index, |b| b.index);
            self.model.truncate_from(index);
            return self.crash();
        }
        self.crash()
    }

    fn truncate(&mut self) -> Outcome {
        if self.rng.percent(30) && !self.lying {
            return self.failing_truncation();
        }
        let first = self.model.batches.first().map_or(self.model.next_index.0, |b| b.index.0);
        let index = if self.rng.percent(50) {
            // An offset in some existing batch.
            let (start, end) = (self.model.log_start.0, self.model.end.0);
            let to = Offset(start + self.rng.below((end - start + 1) as u64) as i64);
            self.log().truncate_to(to).map_err(text)?;
            self.model.batches.iter().find(|b| b.next > to).map_or(self.model.next_index, |b| b.index)
        } else {
            let live = self.model.batches.iter().find(|b| b.next > self.model.log_start);
            let first = live.map_or(self.model.next_index.0, |b| b.index.0).max(first);
            let index = RaftIndex(self.rng.between(first, self.model.next_index.0));
            self.log().truncate_from(index).map_err(text)?;
            index
        };
        if index < self.model.next_index {
            self.model.truncate_from(index);
            self.model.promised = self.model.end;
            self.model.checkpointed = self.model.end;
            self.model.log_start_durable = self.model.log_start;
        }
        self.check_ends()
    }

    /// ENOSPC refuses appends and nothing else. Afterwards appends work again.
    fn full_disk(&mut self) -> Outcome {
        let free = self.rng.below(3000);
        self.disk.set_space(Some(self.disk.used_bytes() + free));
        for _ in 0..6 {
            match self.append() {
                Ok(()) => {}
                Err(error) if error.is_no_space() => self.failed_writes = true,
                Err(error) => return Err(text(error)),
            }
        }
        self.check_ends()?;
        if self.rng.percent(20) {
            return self.crash();
        }
        self.disk.set_space(None);
        self.append().map_err(text)
    }

    /// An operation fails with EIO. From then on the log refuses writes but still reads, and a restart
    /// repairs it.
    fn failing_disk(&mut self) -> Outcome {
        let kinds = [
            OpKind::Write,
            OpKind::SyncData,
            OpKind::SyncAll,
            OpKind::SyncDir,
            OpKind::SetLen,
            OpKind::Rename,
        ];
        let kind = kinds[self.rng.below(6) as usize];
        let effect = if self.rng.percent(50) { Effect::ShortWriteEio } else { Effect::Eio };
        let effect = if kind == OpKind::Write { effect } else { Effect::Eio };
        let after = self.rng.below(3);
        self.disk.add_rule(Rule { kind: Some(kind), path_ends: String::new(), after, times: 1, effect });
        self.failed_writes = true;
        for _ in 0..4 {
            let promised = self.model.end;
            let failed = match self.rng.below(3) {
                0 => self.log().sync().map(|_| self.model.promised = promised).is_err(),
                1 => {
                    let done = self.log().checkpoint(None);
                    // The checkpoint may be there although the call failed in the end.
                    self.model.log_start_durable = self.model.log_start_durable.min(self.model.log_start);
                    done.map(|_| self.model.promised = promised).is_err()
                }
                _ => self.append().is_err(),
            };
            if failed {
                ensure!(self.log().poisoned().is_some(), "a failed {kind:?} did not poison");
                ensure!(
                    matches!(self.append(), Err(LogError::Poisoned { .. })),
                    "a poisoned log took an append"
                );
                self.check_content()?;
                break;
            }
        }
        self.disk.clear_rules();
        if self.log().poisoned().is_some() { self.crash() } else { Ok(()) }
    }

    fn close_and_open(&mut self) -> Outcome {
        let log = self.log.take().expect("open");
        log.close(Some(sections_at(self.model.end))).map_err(text)?;
        let (log, recovery) = open(&self.disk, &self.config).map_err(text)?;
        self.log = Some(log);
        ensure!(recovery.clean && recovery.bytes_read == 0, "unclean after a close: {recovery:?}");
        self.model.promised = self.model.end;
        self.model.checkpointed = self.model.end;
        self.model.log_start_durable = self.model.log_start;
        let has_snapshot = recovery.snapshot.as_ref().is_some_and(|(at, _)| *at == self.model.end);
        ensure!(
            has_snapshot || self.model.next_index.0 == 1,
            "what it was closed with is gone: {recovery:?}"
        );
        self.check_snapshot(&recovery)?;
        self.check_content()
    }

    fn crash(&mut self) -> Outcome {
        let mode = [CrashMode::LoseAll, CrashMode::KeepAll, CrashMode::Random, CrashMode::Random];
        let mode = mode[self.rng.below(4) as usize];
        self.log = None;
        self.disk = self.disk.crash(mode);
        if self.lying {
            lie(&self.disk);
        }
        if self.rng.percent(25) && !self.lying {
            self.interrupt_recovery()?;
        }
        let (log, recovery) =
            open(&self.disk, &self.config).map_err(|e| format!("after a crash ({mode:?}): {e}"))?;
        let end = log.log_end().offset();
        let bytes_max = self.model.bytes_beyond_checkpoint();
        self.log = Some(log);
        if number("TAILRACE_SEED").is_some() {
            println!("  crash {mode:?}: {recovery:?}");
        }
        let bounded = recovery.bytes_read <= bytes_max || self.failed_writes;
        ensure!(bounded, "recovery read {} bytes of {bytes_max} beyond the checkpoint", recovery.bytes_read);
        ensure!(
            end >= self.model.promised,
            "{end} is the end after a crash, {} was promised",
            self.model.promised
        );
        self.adopt(end)?;
        self.check_snapshot(&recovery)?;
        self.check_content()
    }

    /// The power or the disk fails again while the log is being opened.
    fn interrupt_recovery(&mut self) -> Outcome {
        let (after, effect) = (self.rng.below(25), Effect::Eio);
        self.disk.add_rule(Rule { kind: None, path_ends: String::new(), after, times: u64::MAX, effect });
        let opened = open(&self.disk, &self.config);
        if let Err(error @ LogError::Damaged { .. }) = opened {
            return Err(format!("an interrupted recovery found damage: {error}"));
        }
        // What recovery wrote counts as a failed write: its checkpoint may hold.
        self.disk = self.disk.crash(CrashMode::Random);
        Ok(())
    }

    /// Reduces the model to what a crash left, which must be a prefix.
    fn adopt(&mut self, end: Offset) -> Outcome {
        let start = self.log().log_start();
        let allowed =
            self.model.log_start_durable.min(end)..=self.model.log_start.max(self.model.log_start_durable);
        ensure!(allowed.contains(&start), "log start {start} after a crash, allowed {allowed:?}");
        self.adopt_unknown(end)?;
        let boundary =
            end == self.model.end || self.model.batches.iter().any(|b| b.base == end || b.next == end);
        ensure!(boundary, "the log ends at {end} after a crash, within a batch");
        self.model.log_start = start;
        self.model.log_start_durable = start;
        let next = self.log().next_raft_index();
        ensure!(next <= self.model.next_index, "next raft index {next} after a crash");
        self.model.truncate_from(next);
        ensure!(self.model.end == end, "ends at {end}, raft index {next} ends at {}", self.model.end);
        // Entries are synced when they are appended, so only those behind a lost batch may be gone.
        self.model.promised = end;
        self.model.checkpointed = end;
        self.model.epoch = self.model.epoch.max(self.log().last_epoch());
        self.failed_writes = false;
        Ok(())
    }

    /// If a batch whose append had failed is found, it replaces what was appended there later.
    fn adopt_unknown(&mut self, end: Offset) -> Outcome {
        let unknown = std::mem::take(&mut self.unknown);
        let reader = self.log().reader();
        for lost in unknown.into_iter().filter(|u| u.base < end) {
            let Ok(Some(slice)) = reader.read(lost.base, end, 0, true) else { continue };
            let read = slice.read().map_err(|error| error.to_string())?;
            if read != lost.bytes || self.model.batches.iter().any(|b| b.bytes == lost.bytes) {
                continue;
            }
            ensure!(lost.base >= self.model.promised, "a failed batch took the place of a promised one");
            let same = |b: &ModelBatch| b.base == lost.base && b.next == lost.next && b.index == lost.index;
            if let Some(at) = self.model.batches.iter().position(same) {
                self.model.batches[at] = lost;
                continue;
            }
            let at = self
                .model
                .batches
                .iter()
                .position(|b| b.base >= lost.base)
                .unwrap_or(self.model.batches.len());
            self.model.batches.truncate(at);
            self.model.entries.retain(|e| e.index < lost.index);
            self.model.next_index = RaftIndex(lost.index.0 + 1);
            self.model.end = lost.next;
            self.model.epoch = lost.epoch;
            self.model.batches.push(lost);
        }
        Ok(())
    }

    fn check_snapshot(&mut self, recovery: &Recovery) -> Outcome {
        if let Some((offset, sections)) = &recovery.snapshot {
            ensure!(*offset <= self.model.end, "a snapshot at {offset} beyond the end");
            ensure!(*sections == sections_at(*offset), "the snapshot at {offset} is another");
        }
        Ok(())
    }

    fn check_ends(&mut self) -> Outcome {
        let (end, next) = (self.model.end, self.model.next_index);
        let log = self.log();
        ensure!(log.log_end().offset() == end, "log end {}, wanted {end}", log.log_end());
        ensure!(log.next_raft_index() == next, "raft index {}, wanted {next}", log.next_raft_index());
        Ok(())
    }

    /// Checks that the whole log equals the model: bytes, headers, indexes, epochs, entries.
    fn check_content(&mut self) -> Outcome {
        self.check_ends()?;
        let start = self.log().log_start();
        ensure!(start == self.model.log_start, "log start {start}, wanted {}", self.model.log_start);
        let read = common::read_all(self.log(), start).map_err(text)?;
        let live: Vec<_> = self.model.batches.iter().filter(|b| b.next > start).cloned().collect();
        let wanted = live.iter().map(|b| &b.bytes[..]).collect::<Vec<_>>().concat();
        ensure!(read == wanted, "{} bytes in the log, {} wanted, or others", read.len(), wanted.len());
        let reader = self.log().reader();
        let found: Result<Vec<_>, _> = reader.headers(start).collect();
        let found = found.map_err(text)?;
        ensure!(found.len() == live.len(), "{} headers, {} wanted", found.len(), live.len());
        for ((row, header), batch) in found.iter().zip(&live) {
            ensure!(row.raft_index == batch.index, "raft index {} of {}", row.raft_index, batch.index);
            ensure!(
                header.base_offset == batch.base && header.leader_epoch == batch.epoch,
                "header {header:?}"
            );
            let epoch = reader.epoch_at(batch.base.max(start));
            ensure!(epoch == Some(batch.epoch), "epoch {epoch:?} at {}, wanted {}", batch.base, batch.epoch);
        }
        let entries: Vec<_> = self.log().entries().iter().map(|e| (e.raft_index, e.leader_epoch)).collect();
        let wanted: Vec<_> = self.model.entries.iter().map(|e| (e.index, e.epoch)).collect();
        ensure!(entries == wanted, "entries {entries:?}, wanted {wanted:?}");
        Ok(())
    }
}

/// Makes every sync of a `.log` report success and do nothing.
fn lie(disk: &SimDisk) {
    disk.add_rule(Rule {
        kind: Some(OpKind::SyncData),
        path_ends: ".log".into(),
        after: 0,
        times: u64::MAX,
        effect: Effect::Lie,
    });
}

fn run_seed(seed: u64, lying: bool) -> Outcome {
    let mut run = Run::new(seed, lying)?;
    if lying {
        lie(&run.disk);
    }
    for step in 0..STEPS {
        if number("TAILRACE_SEED").is_some() {
            let m = &run.model;
            println!(
                "step {step}: end {} start {} promised {} index {}",
                m.end, m.log_start, m.promised, m.next_index
            );
        }
        run.step().map_err(|error| format!("step {step}: {error}"))?;
    }
    run.check_content()?;
    run.crash()
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn what_was_synced_survives_every_crash() {
    if let Some(seed) = number("TAILRACE_SEED") {
        run_seed(seed, false).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        return;
    }
    for seed in 0..number("TAILRACE_SEEDS").unwrap_or(250) {
        run_seed(seed, false).unwrap_or_else(|error| panic!("TAILRACE_SEED={seed}: {error}"));
    }
}

/// Without this the test above would prove nothing.
#[test]
fn a_disk_that_lies_about_syncs_is_caught() {
    let caught = (0..40).filter(|seed| run_seed(*seed, true).is_err()).count();
    assert!(caught >= 30, "only {caught} of 40 seeds caught a disk that does not sync");
}

/// One sync is skipped among many that are done, right before a power failure.
#[test]
fn one_skipped_sync_is_caught() {
    let disk = common::disk(1);
    let (mut log, _) = open(&disk, &small_segments()).unwrap();
    common::append(&mut log, &batch(1, 100, 0, 1)).unwrap();
    log.sync().unwrap();
    common::append(&mut log, &batch(1, 100, 0, 2)).unwrap();
    disk.add_rule(Rule {
        kind: Some(OpKind::SyncData),
        path_ends: ".log".into(),
        after: 0,
        times: 1,
        effect: Effect::Lie,
    });
    let promised = log.sync().unwrap();
    let (log, _) = open(&disk.crash(CrashMode::LoseAll), &small_segments()).unwrap();
    assert_eq!(log.log_end().offset(), Offset(1));
    assert!(log.log_end().offset() < promised.offset(), "the disk lost data that a sync had promised");
}
