//! DescribeLogDirs (35): the data folder, the free space on its disk, and the sizes of its partitions.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;
use tailrace_env::task;

use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::describe_log_dirs_request::DescribeLogDirsRequest;
use tailrace_kafka_wire::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResponse, DescribeLogDirsResult, DescribeLogDirsTopic,
};

use crate::context::Context;
use crate::lookup::replica;
use tailrace_node::partitions::{Topic, TopicTable};
use tailrace_types::{i64_of, usize_of};

/// Partitions by topic. `None` means all.
pub(crate) type TopicsToDescribe = Option<BTreeMap<String, BTreeSet<i32>>>;

pub(crate) async fn handle(
    context: Arc<Context>,
    request: DescribeLogDirsRequest,
) -> DescribeLogDirsResponse {
    if let Err(code) = context.rights().cluster(Operation::Describe) {
        return DescribeLogDirsResponse { error_code: code.code(), ..Default::default() };
    }
    let wanted = request.topics.map(|topics| {
        let mut wanted: BTreeMap<String, BTreeSet<i32>> = BTreeMap::new();
        for topic in topics {
            wanted.entry(topic.topic).or_default().extend(topic.partitions);
        }
        wanted
    });
    // Querying the space on a disk may block.
    let described =
        task::spawn_blocking(move || describe(&context.node().topics(), context.node().data_dir(), wanted));
    match described.await {
        Ok(result) => DescribeLogDirsResponse { results: vec![result], ..Default::default() },
        Err(error) => {
            tracing::error!(%error, "describing the data folder panicked");
            let error_code = ErrorCode::UnknownServerError.code();
            DescribeLogDirsResponse { error_code, ..Default::default() }
        }
    }
}

fn describe(table: &TopicTable, data_dir: &Path, wanted: TopicsToDescribe) -> DescribeLogDirsResult {
    let topics: Vec<_> = match wanted {
        None => table.iter().filter_map(|topic| sizes(topic, 0..topic.image.partitions)).collect(),
        // Topics and partitions that do not exist are left out, as in Kafka.
        Some(wanted) => {
            let known =
                wanted.into_iter().filter_map(|(name, indexes)| Some((table.by_name(&name)?, indexes)));
            known.filter_map(|(topic, indexes)| sizes(&topic, indexes)).collect()
        }
    };
    let room = room(data_dir);
    if let Err(error) = &room {
        tracing::error!(folder = %data_dir.display(), %error, "could not read the free space of the disk");
    }
    let code = if room.is_ok() { ErrorCode::None } else { ErrorCode::KafkaStorageError };
    let (total_bytes, usable_bytes) = room.unwrap_or((-1, -1));
    DescribeLogDirsResult {
        error_code: code.code(),
        log_dir: data_dir.display().to_string(),
        topics,
        total_bytes,
        usable_bytes,
        ..Default::default()
    }
}

/// Returns the sizes of leading and following replicas. `None` if none of the requested partitions is online.
fn sizes(topic: &Topic, indexes: impl IntoIterator<Item = i32>) -> Option<DescribeLogDirsTopic> {
    let partition = |index| {
        let handle = replica(topic, index).ok()?;
        Some(DescribeLogDirsPartition {
            partition_index: index,
            partition_size: i64_of(usize_of(handle.reader.log().size_bytes())),
            ..Default::default()
        })
    };
    let partitions: Vec<_> = indexes.into_iter().filter_map(partition).collect();
    let name = topic.name.to_string();
    (!partitions.is_empty()).then(|| DescribeLogDirsTopic { name, partitions, ..Default::default() })
}

/// Returns the size of the file system in bytes, and the bytes available to this process.
fn room(path: &Path) -> io::Result<(i64, i64)> {
    let stat = rustix::fs::statvfs(path)?;
    let bytes = |blocks: u64| i64::try_from(blocks.saturating_mul(stat.f_frsize)).unwrap_or(i64::MAX);
    Ok((bytes(stat.f_blocks), bytes(stat.f_bavail)))
}
