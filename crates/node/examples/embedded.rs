//! A node inside a program, without a protocol or a port. Creates a topic, appends to it, reads the record
//! back, and hears of what is committed.
//!
//! `cargo run -p tailrace-node --example embedded [FOLDER]`

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use tailrace_config::{BrokerConfig, DynamicConfigs};
use tailrace_env::metrics::Metrics;
use tailrace_env::random;
use tailrace_env::workers::Workers;
use tailrace_metadata::{Command, CreateTopic, Requester};
use tailrace_node::partitions::{Isolation, PartitionHandle, ReadTerms, Topic, append};
use tailrace_node::taps::{Committed, Intake, Sink, Taken, TapBudget, Took};
use tailrace_node::{Caller, DataFolder, Fronts, Node, NodeDisk, Startup};
use tailrace_records::{
    BatchBuilder, BatchError, BatchOptions, DecodedBatch, Record, Validated, split_batches,
};
use tailrace_runtime::disk::LocalDisk;
use tailrace_types::{Offset, TopicId};
use tokio::sync::mpsc;

/// Maximum size of a decompressed batch.
const BATCH_BYTES_MAX: usize = 1024 * 1024;

/// Maximum bytes that wait for the tap.
const TAPPED_BYTES_MAX: u64 = 1024 * 1024;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "embedded-data".to_owned());
    for line in run(folder).await? {
        println!("{line}");
    }
    Ok(())
}

/// Runs the node and returns the lines to print.
pub(crate) async fn run(folder: String) -> Result<Vec<String>, Box<dyn Error>> {
    tailrace_runtime::install();
    let settings = BTreeMap::from([("data.dir".to_owned(), folder)]);
    let config = BrokerConfig::resolve(&settings, &DynamicConfigs::default())?;
    let (tell, mut told) = mpsc::unbounded_channel();
    let tap: Arc<dyn Sink> = Arc::new(Tap { tell, budget: TapBudget::new(TAPPED_BYTES_MAX) });
    let running = tailrace_node::start(Startup {
        folder: DataFolder::open(&config, NodeDisk::new(LocalDisk::default()))?,
        settings,
        metrics: Arc::new(Metrics::default()),
        addresses: None,
        workers: Arc::new(Workers::start()?),
        fronts: Fronts { sinks: vec![tap], ..Fronts::default() },
    })
    .await?;
    let node = running.node();

    let topic = match node.topics().by_name("greetings") {
        Some(topic) => topic,
        None => create(node, "greetings").await?,
    };
    let partition = topic.here(0).map_err(|_| "the partition is offline")?;
    let offset = store(node, &topic, partition, "hello").await?;
    let read = read(partition, offset)?;
    let tapped = told.recv().await.ok_or("the tap is gone")?;
    match running.stop().await {
        0 => Ok(vec![
            format!("stored at offset {offset}"),
            format!("read: {read}"),
            format!("tapped: {tapped}"),
        ]),
        failed => Err(format!("{failed} partitions were not closed cleanly").into()),
    }
}

async fn create(node: &Arc<Node>, name: &str) -> Result<Arc<Topic>, Box<dyn Error>> {
    let id = TopicId::from_random(random::bytes16());
    let create = CreateTopic::with_defaults(name, id, node.now(), Requester::Client);
    node.execute(Caller::internal(), Command::CreateTopic(create)).await?;
    Ok(node.topics().by_name(name).ok_or("the topic was deleted in the meantime")?)
}

/// Appends one record, and waits until it is committed.
async fn store(
    node: &Arc<Node>,
    topic: &Topic,
    partition: &Arc<PartitionHandle>,
    value: &str,
) -> Result<Offset, Box<dyn Error>> {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    builder.push(node.now(), None, Some(value.as_bytes()), &[])?;
    let (header, bytes) = builder.build_with_header();
    let wanted = node.wanted(topic);
    let appended =
        append(node, Caller::internal(), partition, Validated { header, bytes }, node.now(), wanted).await?;
    if let Some(committed) = partition.wait_committed(&appended) {
        committed.await?;
    }
    Ok(appended.base_offset)
}

/// Returns the value of the record at `offset`.
fn read(partition: &PartitionHandle, offset: Offset) -> Result<String, Box<dyn Error>> {
    let terms = ReadTerms::new(offset, Isolation::TxnCommitted, 1024 * 1024);
    let slice = partition.read(Caller::internal(), &terms)?.slice.ok_or("nothing is committed there")?;
    let mut bytes = vec![0; usize::try_from(slice.extent.bytes())?];
    slice.extent.read_at(&mut bytes, 0)?;
    let (_, batch) = split_batches(&bytes).next().ok_or("there is no batch")??;
    Ok(values(batch)?.join(", "))
}

/// Returns the values of a batch's records.
fn values(batch: &[u8]) -> Result<Vec<String>, BatchError> {
    let batch = DecodedBatch::new(batch, BATCH_BYTES_MAX)?;
    let value = |record: Record<'_>| String::from_utf8_lossy(record.value.unwrap_or_default()).into_owned();
    batch.records().map(|record| record.map(value)).collect()
}

/// A sink for all topics.
struct Tap {
    tell: mpsc::UnboundedSender<String>,
    budget: TapBudget,
}

impl Sink for Tap {
    fn name(&self) -> &'static str {
        "example"
    }

    fn wants(&self, _: &Topic) -> bool {
        true
    }

    fn budget(&self) -> &TapBudget {
        &self.budget
    }

    fn begin(self: Arc<Self>) -> Box<dyn Intake> {
        Box::new(Tapped(self))
    }

    fn skipped(&self, records: u64) {
        eprintln!("{records} records went by too fast");
    }
}

/// Takes one range of committed records.
struct Tapped(Arc<Tap>);

impl Intake for Tapped {
    fn take<'a>(&'a mut self, _: &'a Topic, piece: &'a Committed) -> Taken<'a> {
        Box::pin(async move {
            for batch in piece.batches() {
                let (_, batch) = batch?;
                for value in values(&batch)? {
                    // The receiver is gone when the program is about to end.
                    let _ = self.0.tell.send(value);
                }
            }
            Ok(Took::All)
        })
    }
}
