//! Partitions in version 1 of the format, which tailrace wrote before it had compaction. The test builds them
//! byte by byte from docs/format.md. This tailrace opens them and keeps their version, until compaction
//! raises it.

use std::path::{Path, PathBuf};

use crate::common::local_disk;
use crate::common::rig::{eventually, now};
use crate::common::{Client, TestServer};
use bytes::Bytes;
use tailrace_kafka_wire::messages::IncrementalAlterConfigsRequest;
use tailrace_kafka_wire::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use tailrace_log::{RealDisk, inspect};
use tailrace_records::{BatchBuilder, BatchHeader, BatchOptions};
use tailrace_types::{LeaderEpoch, Offset, TimestampMs};

const TOPIC: &str = "old";

/// What a crash, or a person, may have left of a partition.
const INTACT: i32 = 0;
const WITHOUT_INDEX: i32 = 1;
const WITHOUT_CHECKPOINT: i32 = 2;
const PARTITIONS: i32 = 3;

/// Concatenated little-endian numbers.
#[derive(Default)]
struct Bin(Vec<u8>);

impl Bin {
    fn file(magic: &[u8; 8]) -> Self {
        Self(magic.to_vec()).u32(1)
    }

    fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn u16(self, value: u16) -> Self {
        self.raw(&value.to_le_bytes())
    }

    fn u32(self, value: u32) -> Self {
        self.raw(&value.to_le_bytes())
    }

    fn i32(self, value: i32) -> Self {
        self.raw(&value.to_le_bytes())
    }

    fn u64(self, value: u64) -> Self {
        self.raw(&value.to_le_bytes())
    }

    fn i64(self, value: i64) -> Self {
        self.raw(&value.to_le_bytes())
    }

    fn zeros_to(mut self, bytes: usize) -> Self {
        self.0.resize(bytes, 0);
        self
    }

    fn sealed(self) -> Vec<u8> {
        let crc = crc32c::crc32c(&self.0);
        self.u32(crc).0
    }
}

/// A batch in the log: its raft index, its header, and its bytes.
struct Batch {
    raft_index: u64,
    header: BatchHeader,
    bytes: Bytes,
}

/// Builds records with these keys from `offset` on. Each value names its offset.
fn batch(raft_index: u64, epoch: i32, offset: i64, keys: &[&str]) -> Batch {
    let (base_offset, leader_epoch) = (Offset(offset), LeaderEpoch(epoch));
    let mut builder = BatchBuilder::new(BatchOptions { base_offset, leader_epoch, ..Default::default() });
    for (key, at) in keys.iter().zip(offset..) {
        let time = TimestampMs(now().0 - 1_000 + at);
        builder
            .push(time, Some(key.as_bytes()), Some(value(at).as_bytes()), &[])
            .expect("the record fits into the batch");
    }
    let (header, bytes) = builder.build_with_header();
    Batch { raft_index, header, bytes }
}

fn value(offset: i64) -> String {
    format!("written long ago at {offset}")
}

fn records_from(offsets: impl IntoIterator<Item = i64>) -> Vec<(i64, Vec<u8>)> {
    offsets.into_iter().map(|offset| (offset, value(offset).into_bytes())).collect()
}

fn index(base: i64, batches: &[&Batch]) -> Vec<u8> {
    let mut file = Bin::file(b"TRINDEX\n").u32(64).i64(base).zeros_to(60).sealed();
    let (mut position, mut running) = (0_u32, i64::MIN);
    for batch in batches {
        let header = &batch.header;
        running = running.max(header.max_timestamp.0);
        let length = u32::try_from(batch.bytes.len()).expect("a small batch");
        let row = Bin::default()
            .u64(batch.raft_index)
            .i64(header.max_timestamp.0)
            .i64(running)
            .i32(header.leader_epoch.0)
            .u32(u32::try_from(header.base_offset.0 - base).expect("a small delta"))
            .i32(header.last_offset_delta)
            .i32(header.record_count)
            .u32(position)
            .u32(length)
            .u32(position)
            .u16(header.attributes.0.cast_unsigned())
            .u16(0)
            .u32(header.crc)
            .0;
        let crc = crc32c::crc32c_append(crc32c::crc32c(&row), &base.to_le_bytes());
        file.extend(Bin(row).u32(crc).0);
        position += length;
    }
    file
}

fn segment_header(base: i64, first_raft_index: u64, created: i64) -> Vec<u8> {
    let head = Bin::file(b"TRSEGMT\n").u32(0).i64(base).u64(first_raft_index).i64(created);
    head.zeros_to(60).sealed()
}

/// Encodes a leader's entry, which takes a raft index and no offset.
fn entry(raft_index: u64, epoch: i32, offset: i64) -> Vec<u8> {
    let body = Bin::default().u64(raft_index).i32(epoch).i64(offset).0;
    let crc = crc32c::crc32c_append(crc32c::crc32c(&0_u32.to_le_bytes()), &body);
    Bin::default().u32(0).u32(crc).raw(&body).0
}

/// Encodes a row of the checkpoint's table of segments.
fn segment_entry(base: i64, batches: &[&Batch], created: i64) -> Vec<u8> {
    let (first, last) = (batches[0], batches[batches.len() - 1]);
    let max = batches.iter().map(|batch| batch.header.max_timestamp.0).max().expect("a batch");
    let bytes: usize = batches.iter().map(|batch| batch.bytes.len()).sum();
    Bin::default()
        .i64(base)
        .u64(first.raft_index)
        .i64(last.header.last_offset().0 + 1)
        .i64(max)
        .i64(first.header.max_timestamp.0)
        .i64(created)
        .i64(created)
        .u32(u32::try_from(bytes).expect("a small segment"))
        .u32(u32::try_from(batches.len()).expect("a small number"))
        .0
}

/// Writes offsets 0 to 8 in two segments and two epochs. The last batch was appended after the checkpoint and
/// has no row.
fn build(folder: &Path, id: [u8; 16], partition: i32) {
    std::fs::remove_dir_all(folder).expect("the folder exists");
    std::fs::create_dir(folder).expect("the folder can be created");
    let write =
        |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).expect("the file can be written");
    let name_bytes = u16::try_from(TOPIC.len()).expect("short");
    let identity = Bin::file(b"TRPARTN\n").raw(&id).i32(partition).u16(name_bytes).raw(TOPIC.as_bytes());
    write("partition.meta", &identity.sealed());

    let entries = Bin(Bin::file(b"TRENTRY\n").sealed()).raw(&entry(1, 0, 0)).raw(&entry(4, 1, 5));
    write("entries", &entries.0);
    let (a, b) = (batch(2, 0, 0, &["a", "b", "c"]), batch(3, 0, 3, &["a", "b"]));
    let (c, d) = (batch(5, 1, 5, &["c", "d"]), batch(6, 1, 7, &["d", "e"]));
    let created = now().0 - 10_000;
    write("00000000000000000000.log", &[&a.bytes[..], &b.bytes].concat());
    write("00000000000000000000.header", &segment_header(0, 2, created));
    write("00000000000000000005.log", &[&c.bytes[..], &d.bytes].concat());
    write("00000000000000000005.header", &segment_header(5, 5, created));
    if partition != WITHOUT_INDEX {
        write("00000000000000000000.index", &index(0, &[&a, &b]));
        write("00000000000000000005.index", &index(5, &[&c]));
    }
    if partition != WITHOUT_CHECKPOINT {
        let checkpoint = Bin::file(b"TRCKPNT\n")
            .raw(&id)
            .i64(0)
            .i64(7)
            .u64(6)
            .u32(2)
            .u32(2)
            .raw(&segment_entry(0, &[&a, &b], created))
            .raw(&segment_entry(5, &[&c], created))
            .i32(0)
            .i64(0)
            .i32(1)
            .i64(5);
        write("checkpoint", &checkpoint.sealed());
    }
}

/// Returns the files of a partition that have a version, with that version.
fn versions(folder: &Path) -> Vec<(String, u32)> {
    let paths =
        std::fs::read_dir(folder).expect("the folder exists").map(|entry| entry.expect("an entry").path());
    let mut found: Vec<_> = paths
        .filter(|path| path.extension().is_none_or(|extension| extension != "log"))
        .map(|path: PathBuf| {
            let bytes = std::fs::read(&path).expect("a readable file");
            let version = u32::from_le_bytes(bytes[8..12].try_into().expect("four bytes"));
            (path.file_name().expect("a name").to_string_lossy().into_owned(), version)
        })
        .collect();
    found.sort();
    found
}

async fn alter(client: &mut Client, key: &str, value: &str) {
    let config =
        AlterableConfig { name: key.to_owned(), value: Some(value.to_owned()), ..Default::default() };
    let resource = AlterConfigsResource {
        resource_type: 2,
        resource_name: TOPIC.to_owned(),
        configs: vec![config],
        ..Default::default()
    };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    assert_eq!(client.call(1, &request).await.responses[0].error_code, 0);
}

#[tokio::test]
async fn partitions_of_version_1_are_read_kept_and_brought_to_version_2_by_compaction() {
    let mut server = TestServer::on(local_disk(), &[("log.cleaner.backoff.ms", "20")]).await;
    let settings = [
        ("cleanup.policy", "compact"),
        ("internal.segment.bytes", "700"),
        // Nothing is ever dirty enough for this ratio.
        ("min.cleanable.dirty.ratio", "1.0"),
    ];
    let id = server.connect().await.create_topic(TOPIC, PARTITIONS, &settings).await;
    server.stop().await;
    let folder = |server: &TestServer, partition| server.data_dir().join(format!("{TOPIC}-{partition}"));
    for partition in 0..PARTITIONS {
        build(&folder(&server, partition), id, partition);
    }
    let verified = inspect::verify_dir(&RealDisk, &folder(&server, INTACT)).expect("a readable partition");
    assert!(verified.is_sound(), "{verified:?}");

    // Open, recover, and close: everything is there, and an older tailrace could still read the files.
    for _ in 0..2 {
        server.begin(local_disk()).await;
        let mut client = server.connect().await;
        for partition in 0..PARTITIONS {
            assert_eq!(client.read_all(TOPIC, partition, 0).await, records_from(0..9), "{partition}");
        }
        assert_eq!(server.get("/healthz").await.0, 200);
        server.stop().await;
        for partition in 0..PARTITIONS {
            let versions = versions(&folder(&server, partition));
            assert!(versions.len() >= 7, "{versions:?}");
            assert!(versions.iter().all(|(_, version)| *version == 1), "{versions:?}");
        }
    }

    // New records are appended after the old ones, and compaction treats old and new alike.
    server.begin(local_disk()).await;
    let mut client = server.connect().await;
    for partition in 0..PARTITIONS {
        for offset in (9..39).step_by(3) {
            let at = now().0;
            assert_eq!(client.produce(TOPIC, partition, &[at, at, at]).await, offset, "{partition}");
        }
    }
    alter(&mut client, "min.cleanable.dirty.ratio", "0.01").await;
    for partition in [INTACT, WITHOUT_INDEX, WITHOUT_CHECKPOINT] {
        let is_compacted = || async {
            let mut client = server.connect().await;
            client.read_all(TOPIC, partition, 0).await.iter().filter(|(offset, _)| *offset < 9).count() == 5
        };
        eventually("the old segments are compacted", is_compacted).await;
    }
    for _ in 0..2 {
        server.stop().await;
        for partition in 0..PARTITIONS {
            let versions = versions(&folder(&server, partition));
            assert!(versions.contains(&("checkpoint".to_owned(), 2)), "{versions:?}");
            assert!(versions.contains(&("partition.meta".to_owned(), 1)), "{versions:?}");
        }
        server.begin(local_disk()).await;
        let mut client = server.connect().await;
        for partition in 0..PARTITIONS {
            let left = client.read_all(TOPIC, partition, 0).await;
            // The last records of keys a to e remain, and at least the last of the new ones.
            assert_eq!(left[..5], records_from([3, 4, 5, 7, 8]), "{partition}");
            assert_eq!(left.last().expect("new records").0, 38, "{partition}");
        }
        assert_eq!(server.metric("tailrace_compaction_uncleanable_partitions").await, 0.0);
    }
    server.stop().await;
}
