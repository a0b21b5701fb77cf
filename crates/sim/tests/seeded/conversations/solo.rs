//! A partition with a single replica.
//!
//! | step | what it does |
//! |---|---|
//! | `open [relaxed] [flush=RECORDS] [flush-ms=MS] [segment=BYTES] [expiry=MS]` | must come first |
//! | `append TEXT...` | one record for each word, after `as=ID/EPOCH`, `seq=N`, `txn`, `guarded` |
//! | `verify as=ID/EPOCH seq=N` | begins to verify with the coordinator (KIP-890), for a `guarded` append |
//! | `commit as=ID/EPOCH [by=N]`, `abort ...` | a marker of the coordinator of generation N |
//! | `sync`, `checkpoint` | syncs everything that is written; writes a checkpoint, too |
//! | `due` | whether a sync is due in a relaxed topic, by records or by age |
//! | `pass MS` | time passes |
//! | `power`, `kill`, `stop`, `start` | power failure, end of the process, clean stop; start |
//! | `full`, `room`, `broken` | the disk is full, has room again, fails to sync |
//! | `trim OFFSET`, `retain` | DeleteRecords; retention |
//! | `read`, `producers` | the content of the log; what is known of producers |

use std::path::Path;

use bytes::Bytes;
use tailrace_log::{LogConfig, LogStore};
use tailrace_records::{
    BatchBuilder, BatchHeader, BatchOptions, DecodedBatch, EndTransactionMarker, split_batches,
};
use tailrace_replication::{
    AppendError, Appended, Durability, Policy, ProducerState, Solo, TransactionMarker, VerificationGuard,
};
use tailrace_sim::{CrashMode, Effect, OpKind, Rule, SimDisk};
use tailrace_types::{Offset, ProducerEpoch, ProducerId, TimestampMs};

use super::{Partner, conversations};
use crate::common::trio::{STRICT, disk, identity};

conversations!(Partition::new(), "solo": durability, relaxed, producers, transactions, verification, expiry, disks, beginnings);

struct Partition {
    disk: SimDisk,
    config: LogConfig,
    policy: Policy,
    /// `None` while it is not running.
    solo: Option<Solo<SimDisk>>,
    guard: Option<VerificationGuard>,
    now: TimestampMs,
}

impl Partner for Partition {
    fn say(&mut self, line: &str) -> Vec<String> {
        let words: Vec<&str> = line.split(' ').collect();
        self.say_words(words[0], &words[1..])
    }
}

impl Partition {
    fn new() -> Self {
        let config = LogConfig { retention_ms: None, ..LogConfig::default() };
        Self { disk: disk(), config, policy: STRICT, solo: None, guard: None, now: TimestampMs(1_000_000) }
    }

    fn solo(&mut self) -> &mut Solo<SimDisk> {
        self.solo.as_mut().expect("the partition is open")
    }

    fn say_words(&mut self, verb: &str, words: &[&str]) -> Vec<String> {
        match verb {
            "open" => {
                self.configure(words);
                self.start()
            }
            "start" => self.start(),
            "append" => self.append(words),
            "verify" => {
                let (header, _) = batch(&options(words), &["x"]);
                let now = self.now;
                self.guard = Some(self.solo().begin_verification(&header, true, now));
                Vec::new()
            }
            "commit" | "abort" => self.end_transaction(verb == "commit", words),
            "sync" | "checkpoint" => self.sync(verb == "checkpoint"),
            "due" => {
                let now = self.now;
                let solo = self.solo();
                vec![format!("by records: {}, by age: {}", solo.sync_due(), solo.flush_ms_due(now))]
            }
            "pass" => {
                self.now = TimestampMs(self.now.0 + words[0].parse::<i64>().unwrap());
                Vec::new()
            }
            "power" => self.end(CrashMode::LoseAll),
            "kill" => self.end(CrashMode::KeepAll),
            "stop" => {
                let closed = self.solo.take().unwrap().close();
                closed.err().map(|error| error.to_string()).into_iter().collect()
            }
            "full" => {
                self.disk.set_space(Some(self.disk.used_bytes()));
                Vec::new()
            }
            "room" => {
                self.disk.set_space(None);
                Vec::new()
            }
            "broken" => {
                let (kind, path_ends) = (Some(OpKind::SyncData), ".log".to_owned());
                self.disk.add_rule(Rule { kind, path_ends, after: 0, times: 1, effect: Effect::Eio });
                Vec::new()
            }
            "trim" => {
                let trim = self.solo().advance_log_start(Offset(words[0].parse().unwrap())).unwrap();
                self.finish(&trim)
            }
            "retain" => {
                let now = self.now;
                match self.solo().retain(now).unwrap() {
                    Some(trim) => self.finish(&trim),
                    None => vec!["nothing to do".to_owned()],
                }
            }
            "read" => self.read(),
            "producers" => self.solo().producers().iter().map(|(id, state)| describe(id, state)).collect(),
            other => panic!("unknown verb {other}"),
        }
    }

    fn configure(&mut self, words: &[&str]) {
        for word in words {
            if let Some(bytes) = word.strip_prefix("segment=") {
                self.config.segment_bytes = bytes.parse().unwrap();
                self.config.retention_bytes = Some(self.config.segment_bytes);
            } else if let Some(ms) = word.strip_prefix("expiry=") {
                self.policy.producer_expiration_ms = ms.parse().unwrap();
            } else if *word == "relaxed" {
                self.policy.durability = Durability::Relaxed { flush_messages: None, flush_ms: None };
            } else {
                let Durability::Relaxed { flush_messages, flush_ms } = &mut self.policy.durability else {
                    panic!("{word}: only for a relaxed topic")
                };
                match word.split_once('=') {
                    Some(("flush", records)) => *flush_messages = Some(records.parse().unwrap()),
                    Some(("flush-ms", ms)) => *flush_ms = Some(ms.parse().unwrap()),
                    _ => panic!("{word}: unknown"),
                }
            }
        }
    }

    fn start(&mut self) -> Vec<String> {
        let (store, dir) = (LogStore::new(self.disk.clone(), 4), Path::new("/data/t-0"));
        match Solo::open(&store, dir, &identity(), self.config.clone(), self.policy, self.now) {
            Ok((solo, _)) => {
                self.solo = Some(solo);
                Vec::new()
            }
            Err(error) => vec![error.to_string()],
        }
    }

    fn end(&mut self, mode: CrashMode) -> Vec<String> {
        self.solo = None;
        self.guard = None;
        self.disk = self.disk.crash(mode);
        Vec::new()
    }

    fn append(&mut self, words: &[&str]) -> Vec<String> {
        let texts: Vec<&str> = words.iter().copied().filter(|word| !is_option(word)).collect();
        let (header, bytes) = batch(&options(words), &texts);
        let guard = self.guard.filter(|_| words.contains(&"guarded"));
        let now = self.now;
        if self.solo().needs_epoch()
            && let Err(error) = self.solo().begin_epoch()
        {
            return vec![format!("refused: {error}")];
        }
        let appended = self.solo().append_verified(&header, &bytes, guard, now);
        vec![told(appended)]
    }

    fn end_transaction(&mut self, committed: bool, words: &[&str]) -> Vec<String> {
        let BatchOptions { producer_id, producer_epoch, .. } = options(words);
        let by = words.iter().find_map(|word| word.strip_prefix("by="));
        let coordinator_epoch = by.map_or(0, |epoch| epoch.parse().unwrap());
        let (epochs_are_bumped, now) = (words.contains(&"bumped"), self.now);
        let marker = TransactionMarker {
            producer_id,
            producer_epoch,
            coordinator_epoch,
            committed,
            epochs_are_bumped,
        };
        if self.solo().needs_epoch()
            && let Err(error) = self.solo().begin_epoch()
        {
            return vec![format!("refused: {error}")];
        }
        vec![told(self.solo().append_marker(&marker, now))]
    }

    fn sync(&mut self, checkpoint: bool) -> Vec<String> {
        let Some(ticket) = self.solo().begin_sync(checkpoint) else {
            return vec!["nothing to do".to_owned()];
        };
        let result = ticket.run();
        self.solo().finish_sync(&ticket, &result);
        result.err().map(|error| error.to_string()).into_iter().collect()
    }

    fn finish(&mut self, trim: &tailrace_log::Trim<SimDisk>) -> Vec<String> {
        let result = trim.run();
        self.solo().finish_trim(trim, &result);
        vec![format!("log start {}", self.solo().reader().log_start())]
    }

    fn read(&mut self) -> Vec<String> {
        let reader = self.solo().reader();
        let (start, end) = (reader.log_start(), reader.log_end());
        let (committed, stable) = (reader.high_watermark(), reader.last_stable_offset());
        let mut out =
            vec![format!("offsets {start}-{end}, committed below {committed}, stable below {stable}")];
        let aborted = reader.aborted_transactions(start, end.offset());
        out.extend(aborted.iter().map(|t| format!("aborted {} from {}", t.producer_id, t.first_offset)));
        let mut at = start;
        while let Some(slice) = reader.log().read(at, end.offset(), 1 << 20, true).unwrap() {
            for item in split_batches(&slice.read().unwrap()) {
                let (header, bytes) = item.unwrap();
                out.push(format!("{} {}", header.base_offset, content(&header, bytes)));
            }
            at = slice.next_offset;
        }
        out
    }
}

fn content(header: &BatchHeader, bytes: &[u8]) -> String {
    let marker = header.attributes.is_control().then(|| EndTransactionMarker::read(bytes).unwrap().unwrap());
    let what = match marker {
        Some(marker) if marker.committed => "commit".to_owned(),
        Some(_) => "abort".to_owned(),
        None => {
            let batch = DecodedBatch::new(bytes, 1 << 20).unwrap();
            let values = batch.records().map(|record| record.unwrap().value.unwrap_or_default());
            values.map(String::from_utf8_lossy).collect::<Vec<_>>().join(" ")
        }
    };
    let of = match header.producer_id {
        ProducerId::NONE => String::new(),
        id => format!(" of {id}/{}", header.producer_epoch),
    };
    format!("{what}{of} (epoch {})", header.leader_epoch)
}

fn describe(id: ProducerId, state: &ProducerState) -> String {
    let open = match state.current_transaction {
        Some(since) => format!(", open since {since}"),
        None => String::new(),
    };
    format!("{id}/{} last sequence {}{open}", state.epoch, state.last_sequence())
}

fn told(appended: Result<Appended, AppendError>) -> String {
    match appended {
        Ok(Appended { base_offset, duplicate: Some(_), .. }) => format!("stored before, at {base_offset}"),
        Ok(Appended { base_offset, .. }) => format!("at {base_offset}"),
        Err(error) => format!("refused: {error}"),
    }
}

fn is_option(word: &str) -> bool {
    word.contains('=') || ["txn", "guarded", "bumped"].contains(&word)
}

fn options(words: &[&str]) -> BatchOptions {
    let mut options = BatchOptions { transactional: words.contains(&"txn"), ..BatchOptions::default() };
    for word in words {
        if let Some((id, epoch)) = word.strip_prefix("as=").and_then(|producer| producer.split_once('/')) {
            options.producer_id = ProducerId(id.parse().unwrap());
            options.producer_epoch = ProducerEpoch(epoch.parse().unwrap());
        }
        if let Some(sequence) = word.strip_prefix("seq=") {
            options.base_sequence = sequence.parse().unwrap();
        }
    }
    options
}

fn batch(options: &BatchOptions, texts: &[&str]) -> (BatchHeader, Bytes) {
    let mut builder = BatchBuilder::new(*options);
    for text in texts {
        builder.push(TimestampMs(1), None, Some(text.as_bytes()), &[]).unwrap();
    }
    let bytes = builder.build();
    (BatchHeader::parse(&bytes).unwrap(), bytes)
}
