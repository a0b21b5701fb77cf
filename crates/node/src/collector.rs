//! Metrics that are read when Prometheus scrapes: partitions and their logs, the disk.

use std::fmt;
use std::sync::Weak;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tailrace_env::panics;
use tailrace_types::{i64_of, usize_of};

use crate::cluster::leaders::controller_silence;
use crate::node::Node;
use crate::partitions::{PartitionHandle, PartitionSlot};

/// Reads the node's state. Does not keep the node alive.
pub(crate) struct NodeCollector(pub(crate) Weak<Node>);

impl fmt::Debug for NodeCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeCollector")
    }
}

#[derive(Debug, EncodeLabelSet)]
struct PartitionLabels {
    topic: String,
    partition: u32,
}

#[derive(Debug, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

/// A gauge of every online partition.
type PartitionValue = fn(&PartitionHandle) -> i64;

const PARTITION_GAUGES: &[(&str, &str, PartitionValue)] = &[
    ("log_bytes", "Bytes of record batches on disk", |p| number(p.reader.log().size_bytes())),
    ("log_segments", "Segments", |p| i64_of(p.reader.log().segment_count())),
    ("log_start_offset", "First offset that can be read", |p| p.reader.log_start().get()),
    ("log_end_offset", "One past the last offset appended", |p| p.reader.log_end().get()),
    ("high_watermark", "One past the last offset committed", |p| p.reader.high_watermark().get()),
    ("last_stable_offset", "First offset of an undecided transaction, or the high watermark", |p| {
        p.reader.last_stable_offset().get()
    }),
];

impl Collector for NodeCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(node) = self.0.upgrade() else { return Ok(()) };
        let topics = node.topics();
        gauge(&mut encoder, "topics", "Topics", i64_of(topics.iter().len()))?;
        gauge(
            &mut encoder,
            "compaction_uncleanable_partitions",
            "Partitions that the cleaner skips until the next start, because compaction failed",
            i64_of(node.cleaner.uncleanable().len()),
        )?;
        gauge(
            &mut encoder,
            "compaction_dirty_percent_max",
            "Largest dirty share of a compacted partition",
            node.cleaner.dirty_percent_max(&node),
        )?;
        let silence = controller_silence(&node).as_secs();
        let help = "Seconds since the controller was last heard from. The node decides by the users and rules of then";
        gauge(&mut encoder, "controller_silence_seconds", help, i64_of(usize_of(silence)))?;
        let tables = i64_of(node.streams.tables());
        gauge(&mut encoder, "stream_tables", "Tables of the streams that this node leads", tables)?;
        let help = "Ids of messages within the windows of the streams that this node leads";
        gauge(&mut encoder, "stream_ids", help, i64_of(node.streams.ids()))?;
        let help = "Memory of the tables of streams";
        gauge(&mut encoder, "stream_tables_bytes", help, i64_of(node.streams.memory_bytes()))?;
        let mut consumers = 0;
        node.coordinators.consumers.look(|core| consumers += core.len());
        let help = "Durable consumers of streams that this node keeps, for whichever node leads the stream";
        gauge(&mut encoder, "stream_consumers_kept", help, i64_of(consumers))?;
        let saves = ConstCounter::new(node.streams.consumer_saves());
        let help = "Writes of the durable consumers of streams that this node leads";
        saves.encode(encoder.encode_descriptor(
            "stream_consumer_saves",
            help,
            None,
            MetricType::Counter,
        )?)?;
        let metadata = node.controller.handle();
        let replicas = topics.online().chain(std::iter::once(&metadata));
        let damaged: usize = replicas.map(|handle| handle.reader.log().damaged().len()).sum();
        let help = "Segments that are out of service because they are damaged";
        gauge(&mut encoder, "damaged_segments", help, i64_of(damaged))?;
        let refused = ConstCounter::new(node.space.refused());
        let help =
            "Writes that failed because the disk was full, including best-effort writes of checkpoints";
        let counter = encoder.encode_descriptor("disk_full_refusals", help, None, MetricType::Counter)?;
        refused.encode(counter)?;
        let panics = ConstCounter::new(panics::count());
        let help = "Panics since the process started: bugs in the server";
        panics.encode(encoder.encode_descriptor("panics", help, None, MetricType::Counter)?)?;
        if let Some(free) = node.space.free_bytes() {
            gauge(
                &mut encoder,
                "disk_free_bytes",
                "Free bytes on the disk of the data folder, at most a second old",
                number(free),
            )?;
        }
        let (mut online, mut offline, mut halted) = (0, 0, 0);
        for slot in topics.iter().flat_map(|topic| &topic.partitions) {
            match slot {
                PartitionSlot::Elsewhere => {}
                PartitionSlot::Offline(_) => offline += 1,
                PartitionSlot::Online(handle) if handle.is_halted() => halted += 1,
                PartitionSlot::Online(_) => online += 1,
            }
        }
        let mut states =
            encoder.encode_descriptor("partitions", "Partitions, by state", None, MetricType::Gauge)?;
        for (state, count) in [("online", online), ("offline", offline), ("halted", halted)] {
            ConstGauge::<i64>::new(count).encode(states.encode_family(&StateLabel { state })?)?;
        }
        for (name, help, value) in PARTITION_GAUGES {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for handle in topics.online() {
                let partition = handle.id.partition.0.unsigned_abs();
                let labels = PartitionLabels { topic: handle.id.topic.to_string(), partition };
                ConstGauge::new(value(handle)).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: i64) -> fmt::Result {
    ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
}

/// Clamps, because file systems may report anything.
fn number(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
