//! A sink that lacks something does not keep other partitions' records from their destination.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tailrace_config::{BrokerConfig, DynamicConfigs};
use tailrace_env::metrics::Metrics;
use tailrace_env::workers::Workers;
use tailrace_metadata::{Command, CreateTopic, Requester};
use tailrace_node::partitions::{Topic, append};
use tailrace_node::taps::{Committed, Intake, Sink, Taken, TapBudget, Took, Waited};
use tailrace_node::{Caller, DataFolder, Fronts, Node, NodeDisk, Startup};
use tailrace_records::{BatchBuilder, BatchOptions, Validated};
use tailrace_runtime::disk::LocalDisk;
use tailrace_types::TopicId;
use tokio::sync::{Semaphore, mpsc};

/// More partitions than may have a piece at the same time.
const PARTITIONS: i32 = 65;

/// No step here takes this long.
const PATIENCE: Duration = Duration::from_secs(120);

/// Events of the sink.
#[derive(Debug, PartialEq, Eq)]
enum Done {
    Waits,
    Took(String),
}

/// A sink that needs room for records of the topic `large`, of which there is none at first.
struct Scarce {
    tell: mpsc::UnboundedSender<Done>,
    room: Semaphore,
    budget: TapBudget,
}

impl Sink for Scarce {
    fn name(&self) -> &'static str {
        "scarce"
    }

    fn wants(&self, _: &Topic) -> bool {
        true
    }

    fn budget(&self) -> &TapBudget {
        &self.budget
    }

    fn begin(self: Arc<Self>) -> Box<dyn Intake> {
        Box::new(Taking { sink: self, has_room: false })
    }

    fn skipped(&self, records: u64) {
        panic!("{records} records were skipped");
    }
}

struct Taking {
    sink: Arc<Scarce>,
    has_room: bool,
}

impl Intake for Taking {
    fn take<'a>(&'a mut self, topic: &'a Topic, piece: &'a Committed) -> Taken<'a> {
        Box::pin(async move {
            let name = topic.name.as_str();
            if name == "large" && !self.has_room {
                return Ok(Took::Before(piece.from));
            }
            for batch in piece.batches() {
                batch?;
                self.sink.tell.send(Done::Took(name.to_owned())).unwrap();
            }
            Ok(Took::All)
        })
    }

    fn wait(&mut self) -> Waited<'_> {
        Box::pin(async move {
            self.sink.tell.send(Done::Waits).unwrap();
            self.sink.room.acquire().await.unwrap().forget();
            self.has_room = true;
            Ok(())
        })
    }
}

/// Creates a topic, and appends a record to each of its partitions.
async fn fill(node: &Arc<Node>, name: &str, partitions: i32) {
    let id = TopicId([name.as_bytes()[0]; 16]);
    let create = CreateTopic::with_defaults(name, id, node.now(), Requester::Client);
    let create = Command::CreateTopic(CreateTopic { partitions, ..create });
    node.execute(Caller::internal(), create).await.unwrap();
    let topic = node.topics().by_name(name).unwrap();
    for number in 0..partitions {
        let mut builder = BatchBuilder::new(BatchOptions::default());
        builder.push(node.now(), None, Some(b"x"), &[]).unwrap();
        let (header, bytes) = builder.build_with_header();
        let (partition, batch) = (topic.here(number).unwrap(), Validated { header, bytes });
        append(node, Caller::internal(), partition, batch, node.now(), node.wanted(&topic)).await.unwrap();
    }
}

#[tokio::test]
async fn what_waits_for_its_sink_takes_no_place_from_other_partitions() {
    tailrace_runtime::install();
    let folder = tempfile::TempDir::new().unwrap();
    let data = folder.path().join("data").display().to_string();
    let settings = BTreeMap::from([("data.dir".to_owned(), data)]);
    let config = BrokerConfig::resolve(&settings, &DynamicConfigs::default()).unwrap();
    let (tell, mut told) = mpsc::unbounded_channel();
    let sink = Arc::new(Scarce { tell, room: Semaphore::new(0), budget: TapBudget::new(1 << 20) });
    let running = tailrace_node::start(Startup {
        folder: DataFolder::open(&config, NodeDisk::new(LocalDisk::default())).unwrap(),
        settings,
        metrics: Arc::new(Metrics::default()),
        addresses: None,
        workers: Arc::new(Workers::start().unwrap()),
        fronts: Fronts { sinks: vec![Arc::clone(&sink) as _], ..Fronts::default() },
    });
    let running = running.await.unwrap();
    let mut next = async || tokio::time::timeout(PATIENCE, told.recv()).await.expect("it comes").unwrap();
    fill(running.node(), "large", PARTITIONS).await;
    for _ in 0..PARTITIONS {
        assert_eq!(next().await, Done::Waits);
    }
    fill(running.node(), "small", 1).await;
    assert_eq!(next().await, Done::Took("small".to_owned()));
    sink.room.add_permits(65);
    for _ in 0..PARTITIONS {
        assert_eq!(next().await, Done::Took("large".to_owned()));
    }
    running.stop().await;
}
