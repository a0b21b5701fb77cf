//! A real full disk. Nothing acknowledged is lost, and a transaction is complete or invisible, with or
//! without kill -9. The server resumes by itself once there is room. The disk is a file system of a few
//! megabytes, which only root may mount.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cluster::{Node, eventually, three};
use crate::support::{Server, Wire, http_get, until};
use tailrace_kafka_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use tailrace_kafka_wire::messages::{EndTxnRequest, InitProducerIdRequest, ProduceRequest};
use tailrace_kafka_wire::{ErrorCode, Records};
use tailrace_records::{BatchBuilder, BatchOptions};
use tailrace_types::{ProducerEpoch, ProducerId, TimestampMs};

/// A tmpfs of its own, unmounted on drop.
struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    /// Mounts a disk. `None`, after a line that says so, if this process may not mount.
    fn mount(bytes: u64) -> Option<Self> {
        let disk = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::create_dir(disk.path()).unwrap();
        let options = format!("size={bytes}");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tailrace-test"])
            .arg(disk.path())
            .output();
        let refused = match mount {
            Ok(output) if output.status.success() => return Some(disk),
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        println!("SKIPPED: no small disk can be mounted here, which needs root: {refused}");
        None
    }

    /// The data folder of a server: the whole disk.
    fn path(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    fn filler(&self) -> PathBuf {
        self.path().join("filler")
    }

    /// Takes `bytes` away, or all that is left if that is less.
    fn fill(&self, bytes: usize) {
        let mut file = File::options().append(true).create(true).open(self.filler()).unwrap();
        for _ in 0..bytes / 4096 {
            match file.write_all(&[0; 4096]) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn make_room(&self) {
        std::fs::remove_file(self.filler()).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a server that is still shutting down may have files open.
        let _ = Command::new("umount").arg("-l").arg(self.path()).output();
    }
}

/// The warnings of `/healthz`, which must succeed on a full disk.
fn warnings(server: &Server) -> Vec<String> {
    let answer = http_get(&server.http, "/healthz");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let page: serde_json::Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(page["status"], "ok", "{answer}");
    let warnings = page["warnings"].as_array().map_or(&[][..], Vec::as_slice);
    warnings.iter().map(|warning| warning.as_str().unwrap().to_owned()).collect()
}

#[track_caller]
fn tells_of_the_full_disk(server: &Server, disk: &SmallDisk) {
    let told = warnings(server);
    let wanted = format!("the disk of {} is full: writes are refused, ", disk.path().display());
    assert!(told.iter().any(|warning| warning.starts_with(&wanted)), "{told:?}");
}

fn metric(server: &Server, name: &str) -> f64 {
    let page = http_get(&server.http, "/metrics");
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0.0, |value| value.parse().unwrap())
}

fn start(disk: &Path, more: &[&str]) -> Server {
    // The disk is small: with the default threshold of a gigabyte the warning would never end.
    let base = ["tailrace.disk.free.warning.bytes=65536", "tailrace.segment.preallocate.bytes=65536"];
    let set: Vec<&str> = base.iter().chain(more).flat_map(|setting| ["--set", setting]).collect();
    Server::start(disk, &set)
}

/// Sends a batch to a partition, and returns the error code.
fn send(
    wire: &mut Wire,
    (topic, partition): (&str, i32),
    options: BatchOptions,
    records: &[(String, String)],
) -> i16 {
    let mut builder = BatchBuilder::new(options);
    for (key, value) in records {
        builder.push(TimestampMs(1000), Some(key.as_bytes()), Some(value.as_bytes()), &[]).unwrap();
    }
    let data = PartitionProduceData {
        index: partition,
        records: Records::Bytes(builder.build()),
        ..Default::default()
    };
    let topic = TopicProduceData { name: topic.to_owned(), partition_data: vec![data], ..Default::default() };
    let request =
        ProduceRequest { acks: -1, timeout_ms: 10_000, topic_data: vec![topic], ..Default::default() };
    wire.call(12, &request).responses[0].partition_responses[0].error_code
}

const REFUSED: i16 = ErrorCode::KafkaStorageError as i16;

/// Produces batches of ten records from `next` on until the disk is full, and records what was acknowledged.
/// One in four records replaces an earlier one.
fn produce_until_full(server: &Server, next: &mut usize, content: &mut BTreeMap<String, String>) {
    let mut wire = Wire::connect(server);
    for _ in 0..10_000 {
        let number = *next..*next + 10;
        let key = |n: usize| format!("key-{}", if n.is_multiple_of(4) { n / 2 } else { n });
        let records: Vec<_> = number.map(|n| (key(n), format!("{n} {}", "x".repeat(2000)))).collect();
        *next += 10;
        match send(&mut wire, ("table", 0), BatchOptions::default(), &records) {
            0 => content.extend(records),
            code => return assert_eq!(code, REFUSED),
        }
    }
    panic!("the disk is never full");
}

/// The topic's newest value for each key.
fn table(server: &Server) -> BTreeMap<String, String> {
    let text = server.consume_text("table", &["-f", r"%k=%v\n"]);
    text.lines()
        .map(|line| line.split_once('=').unwrap())
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .collect()
}

#[test]
fn compaction_on_a_full_disk_loses_nothing_and_goes_on() {
    let Some(disk) = SmallDisk::mount(32 << 20) else { return };
    disk.fill(12 << 20);
    // Compaction is slow, so that the disk fills up in the middle of a round.
    let slow = ["log.cleaner.backoff.ms=50", "log.cleaner.io.max.bytes.per.second=4000000"];
    let server = start(&disk.path(), &slow);
    let settings = ["cleanup.policy=compact", "segment.bytes=1048576", "min.cleanable.dirty.ratio=0.01"];
    let configs: Vec<&str> = settings.iter().flat_map(|setting| ["--config", setting]).collect();
    server.output(&[&["topic", "create", "table", "--partitions", "1"], &configs[..]].concat());
    let (mut next, mut content) = (0, BTreeMap::new());
    produce_until_full(&server, &mut next, &mut content);
    tells_of_the_full_disk(&server, &disk);
    until("compaction finds no space", || metric(&server, "tailrace_compaction_failures_total") > 0.0);
    assert!(table(&server) == content, "after the disk was full");
    server.kill();

    // Startup removes the files of the unfinished round, so there may be a little room again.
    let server = start(&disk.path(), &slow);
    assert!(table(&server) == content, "after kill -9 on a full disk");
    produce_until_full(&server, &mut next, &mut content);
    tells_of_the_full_disk(&server, &disk);
    assert!(table(&server) == content, "after more was produced");
    server.kill();

    let server = start(&disk.path(), &["log.cleaner.backoff.ms=50"]);
    disk.fill(12 << 20);
    assert!(table(&server) == content, "after another kill -9");
    disk.make_room();
    let before = server.consume("table", &["-f", "%o\n"]).len();
    let shrunk = || server.consume("table", &["-f", "%o\n"]).len() < before;
    until("compaction goes on", || metric(&server, "tailrace_compactions_total") > 0.0 && shrunk());
    let last = [("key-1".to_owned(), "the last".to_owned())];
    assert_eq!(send(&mut Wire::connect(&server), ("table", 0), BatchOptions::default(), &last), 0);
    content.extend(last);
    assert!(table(&server) == content, "after there was room");
    until("the warning ends", || warnings(&server).is_empty());
    assert_eq!(server.stop(), Some(0));
}

/// A topic that is created on a full disk is online as soon as there is room, even if its server starts while
/// the disk is still full.
#[test]
fn a_topic_that_was_created_on_a_full_disk_is_online_when_there_is_room() {
    let Some(disk) = SmallDisk::mount(16 << 20) else { return };
    let server = start(&disk.path(), &[]);
    server.create("before", 1);
    disk.fill(16 << 20);
    // Room for the metadata is reserved.
    let created = (0..3).filter(|n| {
        let topic = format!("t{n}");
        let output = server.run(&["topic", "create", &topic, "--partitions", "3"]);
        output.status.success()
    });
    let created = created.count();
    assert!(created > 0, "no topic could be created");
    server.kill();

    let server = start(&disk.path(), &["tailrace.checkpoint.interval.ms=100"]);
    let health = || http_get(&server.http, "/healthz");
    assert!(health().contains("is offline"), "{}", health());
    // While nothing changes, errors are not repeated.
    let said = || std::fs::read_to_string(disk.path().with_extension("stderr")).unwrap();
    let errors = || said().lines().filter(|line| line.contains("ERROR")).count();
    let before = errors();
    assert!(before > 0, "{}", said());
    // No error must be repeated meanwhile. There is no event to wait for.
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(errors(), before, "{}", said());
    disk.make_room();
    until("all partitions are online", || health().starts_with("HTTP/1.1 200"));
    for number in 0..created {
        server.produce(&format!("t{number}"), &[], b"a\nb\n");
    }
    assert!(!said().contains("a sync failed"), "{}", said());
    assert_eq!(server.stop(), Some(0));
}

/// The disk of one of three nodes is full, and its replica of the metadata log has stopped. It votes again as
/// soon as there is room.
#[test]
fn a_metadata_log_that_found_no_room_goes_on_when_there_is_some() {
    let Some(disk) = SmallDisk::mount(160 << 20) else { return };
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(disk.path(), dir.path().join("node3")).unwrap();
    let mut nodes = three(dir.path());
    nodes[&1].server.output(&["topic", "create", "t"]);
    disk.fill(160 << 20);
    let health = |node: &Node| http_get(&node.server.http, "/healthz");
    let mut changes = 0;
    while !health(&nodes[&3]).contains("the metadata log accepts no writes") {
        changes += 1;
        assert!(changes < 300, "the disk is never full");
        let list: Vec<_> = (0..4_000).map(|partition| format!("{}:1", partition + changes)).collect();
        let list = format!("leader.replication.throttled.replicas={}", list.join(","));
        nodes[&1].server.output(&["topic", "alter", "t", "--config", &list]);
    }
    assert!(health(&nodes[&3]).starts_with("HTTP/1.1 503"), "{}", health(&nodes[&3]));
    disk.make_room();
    eventually("the third node is well", || health(&nodes[&3]).starts_with("HTTP/1.1 200"));
    nodes.remove(&1).unwrap().server.kill();
    // Without the third node there is no majority.
    nodes[&2].server.output(&["topic", "create", "after"]);
    eventually("it follows", || nodes[&3].server.output(&["topic", "list"]).contains("after"));
    for node in nodes.into_values() {
        assert_eq!(node.server.stop(), Some(0));
    }
}

/// How a transaction ended, as far as its producer knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Committed,
    /// The commit was requested, and not acknowledged.
    Unknown,
    /// No commit was requested.
    Refused,
}

/// A transactional producer. Each of its transactions has one record in each of two partitions.
struct Producer {
    transactional_id: String,
    /// The producer id and epoch, if it has them.
    producer: Option<(i64, i16)>,
}

impl Producer {
    fn new(number: usize) -> Self {
        Self { transactional_id: format!("payments-{number}"), producer: None }
    }

    /// Returns the error code.
    fn init(&mut self, wire: &mut Wire) -> i16 {
        let request = InitProducerIdRequest {
            transactional_id: Some(self.transactional_id.clone()),
            transaction_timeout_ms: 60_000,
            ..Default::default()
        };
        let answer = wire.call(5, &request);
        self.producer = (answer.error_code == 0).then_some((answer.producer_id, answer.producer_epoch));
        answer.error_code
    }

    fn send(&self, wire: &mut Wire, partition: i32, value: &str) -> i16 {
        let (id, epoch) = self.producer.unwrap();
        let mut builder = BatchBuilder::new(BatchOptions {
            producer_id: ProducerId(id),
            producer_epoch: ProducerEpoch(epoch),
            base_sequence: 0,
            transactional: true,
            ..Default::default()
        });
        builder.push(TimestampMs(1000), None, Some(value.as_bytes()), &[]).unwrap();
        let records = Records::Bytes(builder.build());
        let data = PartitionProduceData { index: partition, records, ..Default::default() };
        let topic = TopicProduceData {
            name: "payments".to_owned(),
            partition_data: vec![data],
            ..Default::default()
        };
        let request = ProduceRequest {
            transactional_id: Some(self.transactional_id.clone()),
            acks: -1,
            timeout_ms: 10_000,
            topic_data: vec![topic],
            ..Default::default()
        };
        wire.call(12, &request).responses[0].partition_responses[0].error_code
    }

    /// Returns the error code. The next transaction has the next epoch.
    fn end(&mut self, wire: &mut Wire, committed: bool) -> i16 {
        let (producer_id, producer_epoch) = self.producer.unwrap();
        let transactional_id = self.transactional_id.clone();
        let request =
            EndTxnRequest { transactional_id, producer_id, producer_epoch, committed, ..Default::default() };
        let answer = wire.call(5, &request);
        self.producer = (answer.error_code == 0).then_some((answer.producer_id, answer.producer_epoch));
        answer.error_code
    }
}

/// Three producers that take turns, and the known outcomes of their transactions.
struct Payments {
    producers: Vec<Producer>,
    ends: Vec<End>,
    /// Number of error responses, by request.
    refusals: BTreeMap<&'static str, usize>,
}

impl Payments {
    fn new() -> Self {
        Self { producers: (0..3).map(Producer::new).collect(), ends: Vec::new(), refusals: BTreeMap::new() }
    }

    fn note(&mut self, request: &'static str, code: i16) -> bool {
        *self.refusals.entry(request).or_default() += usize::from(code != 0);
        code == 0
    }

    /// Runs one transaction of the next producer. Its records have about this many bytes.
    fn pay(&mut self, wire: &mut Wire, bytes: usize) -> End {
        let number = self.ends.len();
        let mut producer = std::mem::replace(&mut self.producers[number % 3], Producer::new(number % 3));
        let end = self.transact(wire, &mut producer, &format!("{number} {}", "x".repeat(bytes)));
        self.producers[number % 3] = producer;
        self.ends.push(end);
        end
    }

    fn transact(&mut self, wire: &mut Wire, producer: &mut Producer, value: &str) -> End {
        if producer.producer.is_none() {
            let code = producer.init(wire);
            if !self.note("init", code) {
                return End::Refused;
            }
        }
        for partition in 0..2 {
            let code = producer.send(wire, partition, value);
            if !self.note("produce", code) {
                let code = producer.end(wire, false);
                self.note("end", code);
                return End::Refused;
            }
        }
        let code = producer.end(wire, true);
        if self.note("end", code) { End::Committed } else { End::Unknown }
    }

    fn refused(&self, request: &str) -> usize {
        self.refusals.get(request).copied().unwrap_or(0)
    }

    /// Checks that each transaction is complete or invisible, and visible if its commit was acknowledged.
    /// `settled`: all transactions have ended, so that no decided one can be hidden behind an open one.
    fn check(&self, server: &Server, settled: bool) {
        let read = |partition: &str| -> BTreeSet<usize> {
            let text = server.consume_text("payments", &["--partition", partition]);
            text.lines().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect()
        };
        let seen = [read("0"), read("1")];
        let with = |end: End| self.ends.iter().enumerate().filter(move |(_, e)| **e == end).map(|(n, _)| n);
        for number in with(End::Refused) {
            assert!(!seen.iter().any(|seen| seen.contains(&number)), "{number} was never committed");
        }
        if settled {
            assert_eq!(seen[0], seen[1], "transactions that are visible in one partition");
            assert!(
                with(End::Committed).all(|number| seen[0].contains(&number)),
                "a committed one is missing"
            );
        }
    }
}

#[test]
fn transactions_on_a_full_disk_are_whole_or_not_visible() {
    let Some(disk) = SmallDisk::mount(16 << 20) else { return };
    let few = ["transaction.state.log.num.partitions=2", "offsets.topic.num.partitions=1"];
    let server = start(&disk.path(), &few);
    server.create("payments", 2);
    let mut payments = Payments::new();
    let mut wire = Wire::connect(&server);
    for _ in 0..6 {
        assert_eq!(payments.pay(&mut wire, 100), End::Committed, "{:?}", payments.refusals);
    }
    payments.check(&server, true);

    disk.fill(16 << 20);
    // Small transactions use up the reserve first, then each kind of request does.
    let mut tries = 0;
    until("records and transactional state are refused", || {
        tries += 1;
        payments.pay(&mut wire, if tries % 2 == 0 { 20_000 } else { 10 });
        payments.refused("produce") > 3 && payments.refused("end") + payments.refused("init") > 3
    });
    tells_of_the_full_disk(&server, &disk);
    payments.check(&server, false);
    drop(wire);
    server.kill();

    let server = start(&disk.path(), &few);
    let mut wire = Wire::connect(&server);
    payments.check(&server, false);
    for _ in 0..12 {
        payments.pay(&mut wire, 5000);
    }
    payments.check(&server, false);
    drop(wire);
    server.kill();

    let server = start(&disk.path(), &few);
    disk.make_room();
    let mut wire = Wire::connect(&server);
    for _ in 0..3 {
        until("transactions are committed again", || payments.pay(&mut wire, 100) == End::Committed);
    }
    let ended = || !server.output(&["txn", "list", "-o", "json"]).contains("Prepare");
    until("the markers of all transactions are written", ended);
    payments.check(&server, true);
    until("the warning ends", || warnings(&server).is_empty());
    assert_eq!(server.stop(), Some(0));
}
