//! A keyed log with producers and transactions, and what compaction may do to it.
#![allow(dead_code, reason = "each test file uses some of it")]

use std::collections::{BTreeMap, HashMap};

use tailrace_log::{
    CompactionLimits, CompactionSettings, CompactionStats, HashSecret, KeyMap, LastOfProducer, LogConfig,
    LogError, Pace, Unhurried,
};
use tailrace_records::{BatchBuilder, BatchOptions, Compression, DecodedBatch, split_batches};
use tailrace_sim::{Rng, SimDisk};
use tailrace_types::{HighWatermark, Offset, ProducerEpoch, ProducerId, TimestampMs};

use super::{SimLog, append};

pub(crate) const DELETE_RETENTION_MS: i64 = 1000;

/// A record as it was appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) offset: i64,
    pub(crate) timestamp: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    /// The transaction, if any, which is open or whose end is known.
    pub(crate) transaction: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Open(i64),
    Committed,
    Aborted,
}

/// The log as it was written, and the log as it is now.
pub(crate) struct Keyed {
    pub(crate) rng: Rng,
    pub(crate) disk: SimDisk,
    pub(crate) config: LogConfig,
    pub(crate) log: Option<SimLog>,
    pub(crate) records: Vec<Record>,
    transactions: Vec<Outcome>,
    open: BTreeMap<i64, usize>,
    sequences: BTreeMap<i64, i32>,
    pub(crate) last_data: HashMap<i64, i64>,
    /// The prefix of all keys, and the number of keys.
    pub(crate) prefix: &'static str,
    pub(crate) keys: u64,
    pub(crate) now: i64,
    /// Everything below was cleaned at least once.
    pub(crate) cleaned_to: i64,
    pub(crate) min_lag_ms: i64,
}

impl Keyed {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let disk = super::disk(rng.next_u64());
        let config = LogConfig {
            segment_bytes: [2048, 4096, 9000][rng.below(3) as usize],
            preallocate_bytes: [0, 2048][rng.below(2) as usize],
            ..LogConfig::default()
        };
        let (log, _) = super::open(&disk, &config).unwrap();
        let keys = rng.between(3, 40);
        Self {
            rng,
            disk,
            config,
            log: Some(log),
            records: Vec::new(),
            transactions: Vec::new(),
            open: BTreeMap::new(),
            sequences: BTreeMap::new(),
            last_data: HashMap::new(),
            prefix: "key",
            keys,
            now: 10_000,
            cleaned_to: 0,
            min_lag_ms: 0,
        }
    }

    pub(crate) fn log(&mut self) -> &mut SimLog {
        self.log.as_mut().unwrap()
    }

    pub(crate) fn append_some(&mut self, batches: u64) {
        for _ in 0..batches {
            match self.rng.below(10) {
                0..=4 => self.append_batch(-1, false),
                5..=6 => {
                    let id = self.rng.between(1, 3) as i64;
                    self.append_batch(id, false);
                }
                7..=8 => {
                    let id = self.rng.between(11, 14) as i64;
                    self.append_batch(id, true);
                }
                _ => {
                    let id = self.rng.between(11, 14) as i64;
                    let commit = self.rng.percent(50);
                    self.end_transaction(id, commit);
                }
            }
            self.now += self.rng.between(0, 5) as i64;
        }
    }

    pub(crate) fn append_batch(&mut self, producer: i64, transactional: bool) {
        let compression = Compression::ALL[self.rng.below(5) as usize];
        let log_append_time = self.rng.percent(20).then_some(TimestampMs(self.now));
        let sequence = self.sequences.entry(producer).or_insert(0);
        let base_sequence = if producer < 0 { -1 } else { *sequence };
        let mut builder = BatchBuilder::new(BatchOptions {
            compression,
            log_append_time,
            producer_id: ProducerId(producer),
            producer_epoch: ProducerEpoch(if producer < 0 { -1 } else { 0 }),
            base_sequence,
            transactional,
            ..BatchOptions::default()
        });
        let count = self.rng.between(1, 8);
        *sequence += count as i32;
        let base = self.log.as_ref().unwrap().log_end().get();
        let transaction = transactional.then(|| match self.open.get(&producer) {
            Some(open) => *open,
            None => {
                self.transactions.push(Outcome::Open(base));
                self.open.insert(producer, self.transactions.len() - 1);
                self.transactions.len() - 1
            }
        });
        for number in 0..count as i64 {
            let key = (!self.rng.percent(3))
                .then(|| format!("{}-{}", self.prefix, self.rng.below(self.keys)).into_bytes());
            let fill = self.rng.below(60) as usize;
            let value = (!self.rng.percent(25)).then(|| self.rng.bytes(fill));
            let own = self.now - self.rng.below(20) as i64;
            builder.push(TimestampMs(own), key.as_deref(), value.as_deref(), &[(b"h", None)]).unwrap();
            let timestamp = log_append_time.map_or(own, |t| t.0);
            self.records.push(Record { offset: base + number, timestamp, key, value, transaction });
        }
        let header = append(self.log.as_mut().unwrap(), &builder.build()).unwrap();
        if producer >= 0 {
            self.last_data.insert(producer, header.last_offset().0);
        }
    }

    pub(crate) fn end_transaction(&mut self, producer: i64, commit: bool) {
        let Some(transaction) = self.open.remove(&producer) else { return };
        self.transactions[transaction] = if commit { Outcome::Committed } else { Outcome::Aborted };
        let mut builder = BatchBuilder::new(BatchOptions {
            producer_id: ProducerId(producer),
            producer_epoch: ProducerEpoch(0),
            transactional: true,
            control: true,
            ..BatchOptions::default()
        });
        let key = [0, 0, 0, u8::from(commit)];
        builder.push(TimestampMs(self.now), Some(&key), Some(&[0; 6]), &[]).unwrap();
        append(self.log.as_mut().unwrap(), &builder.build()).unwrap();
    }

    pub(crate) fn end_all_transactions(&mut self) {
        for producer in 11..=14 {
            let commit = self.rng.percent(50);
            self.end_transaction(producer, commit);
        }
    }

    /// Appends an entry without records, in a new epoch.
    pub(crate) fn append_entry(&mut self) {
        let log = self.log.as_mut().unwrap();
        let (index, epoch) = (log.next_raft_index(), log.last_epoch().0 + 1);
        log.append_entry(index, tailrace_types::LeaderEpoch(epoch), b"leader").unwrap();
    }

    /// Returns the offsets of the records that were not aborted.
    pub(crate) fn counting_offsets(&self) -> std::collections::BTreeSet<i64> {
        self.records.iter().filter(|r| self.counts(r)).map(|r| r.offset).collect()
    }

    pub(crate) fn stable(&self) -> i64 {
        let open = self.transactions.iter().filter_map(|t| match t {
            Outcome::Open(first) => Some(*first),
            _ => None,
        });
        open.min().unwrap_or(i64::MAX).min(self.log.as_ref().unwrap().log_end().get())
    }

    pub(crate) fn settings(&self) -> CompactionSettings {
        CompactionSettings {
            limits: CompactionLimits {
                stable: Offset(self.stable()),
                min_lag_ms: self.min_lag_ms,
                max_lag_ms: i64::MAX,
                now: TimestampMs(self.now),
            },
            committed: HighWatermark(self.log.as_ref().unwrap().log_end().get()),
            delete_retention_ms: DELETE_RETENTION_MS,
            io_bytes: 1500,
            producers: self
                .last_data
                .iter()
                .map(|(id, offset)| {
                    let last_data_offset = Some(Offset(*offset));
                    (ProducerId(*id), LastOfProducer { last_data_offset, epoch: ProducerEpoch(0) })
                })
                .collect(),
        }
    }

    /// Runs one round, to its end or to the first failure.
    pub(crate) fn clean(&mut self, map_bytes: usize) -> Result<Option<CompactionStats>, LogError> {
        let mut map = KeyMap::new(map_bytes, 0.9, HashSecret([self.rng.next_u64(), 7]));
        self.clean_with(&mut map, &mut Unhurried)
    }

    pub(crate) fn clean_with(
        &mut self,
        map: &mut KeyMap,
        pace: &mut impl Pace,
    ) -> Result<Option<CompactionStats>, LogError> {
        let settings = self.settings();
        let log = self.log.as_mut().unwrap();
        let Some(mut round) = log.begin_compaction(settings)? else { return Ok(None) };
        round.index(map, pace)?;
        while let Some(rewritten) = round.rewrite_next(map, pace)? {
            match log.install_compacted(rewritten, || None)? {
                Ok(trim) => {
                    trim.run()?;
                    log.mark_checkpointed(trim.checkpoint());
                }
                Err(discarded) => discarded.run(),
            }
        }
        self.cleaned_to = self.cleaned_to.max(round.end().get());
        Ok(Some(round.stats()))
    }

    /// Reports whether a reader of committed data must see the record, unless there is a later one of its
    /// key.
    fn counts(&self, record: &Record) -> bool {
        record.transaction.is_none_or(|t| self.transactions[t] != Outcome::Aborted)
    }

    /// Returns the records that are in the log now.
    pub(crate) fn read(&mut self) -> Vec<Record> {
        let log = self.log.as_ref().unwrap();
        let bytes = super::read_all(log, log.log_start()).unwrap();
        self.decode(&bytes)
    }

    /// Decodes the records of whole batches. Each must be one that was appended.
    pub(crate) fn decode(&self, bytes: &[u8]) -> Vec<Record> {
        let mut found: Vec<Record> = Vec::new();
        let mut next = -1;
        for batch in split_batches(bytes) {
            let (header, bytes) = batch.unwrap();
            assert!(header.base_offset.0 > next, "batch at {} after {next}", header.base_offset);
            next = header.last_offset().0;
            let batch = DecodedBatch::new(bytes, 1 << 20).unwrap();
            for record in batch.records() {
                let record = record.unwrap();
                if header.attributes.is_control() {
                    continue;
                }
                let at = self.records.binary_search_by_key(&record.offset.0, |r| r.offset);
                let original =
                    &self.records[at.unwrap_or_else(|_| panic!("offset {} is new", record.offset))];
                let same = original.key.as_deref() == record.key
                    && original.value.as_deref() == record.value
                    && original.timestamp == record.timestamp.0
                    && record.headers.count() == 1;
                assert!(same, "record {} changed: {original:?}, {record:?}", record.offset);
                assert!(
                    found.last().is_none_or(|last: &Record| last.offset < record.offset.0),
                    "records are out of order"
                );
                found.push(original.clone());
            }
        }
        found
    }

    /// Returns the last record below `end` of each key, not counting aborted ones.
    pub(crate) fn last_of_keys(&self, end: i64) -> BTreeMap<Vec<u8>, &Record> {
        let counting = self.records.iter().filter(|r| r.offset < end && self.counts(r));
        counting.filter_map(|r| Some((r.key.clone()?, r))).collect()
    }

    /// Checks what must always hold: the last record of each key is there, except for tombstones that were
    /// cleaned before.
    pub(crate) fn check_nothing_lost(&mut self) {
        let found = self.read();
        let there = |offset: i64| found.binary_search_by_key(&offset, |r| r.offset).is_ok();
        for (key, record) in self.last_of_keys(i64::MAX) {
            let may_go = record.value.is_none() && record.offset < self.cleaned_to;
            assert!(
                may_go || there(record.offset),
                "the last record of {key:?}, at {}, is lost",
                record.offset
            );
        }
        for record in self.records.iter().filter(|r| r.offset >= self.cleaned_to && self.counts(r)) {
            assert!(there(record.offset), "record {} was never compacted, but is lost", record.offset);
        }
    }

    /// Checks what must hold right after a whole round up to `cleaned_to`.
    pub(crate) fn check_clean(&mut self) {
        self.check_nothing_lost();
        let end = self.cleaned_to;
        let found = self.read();
        let last = self.last_of_keys(end);
        for record in found.iter().filter(|r| r.offset < end) {
            assert!(self.counts(record), "record {} was aborted, but still exists", record.offset);
            let key = record.key.as_ref().expect("compaction removes records without a key");
            assert_eq!(last[key].offset, record.offset, "an older record of {key:?} still exists");
        }
    }

    /// Checks that the next start can read the sequences and ends of producers from the log.
    pub(crate) fn check_producers(&mut self) {
        let reader = self.log().reader();
        let headers: Vec<_> = reader.headers(reader.log_start()).map(|found| found.unwrap().1).collect();
        for (producer, last) in &self.last_data {
            let batch = headers
                .iter()
                .rfind(|h| h.producer_id.0 == *producer && !h.attributes.is_control())
                .unwrap_or_else(|| panic!("no batch of producer {producer} is left"));
            assert_eq!(batch.last_offset().0, *last, "producer {producer}");
            assert_eq!(batch.next_sequence(), self.sequences[producer], "producer {producer}");
        }
    }
}
