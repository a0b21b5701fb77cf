//! A node as it ships, in a world that follows from a seed.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use tailrace_env::time::Duration;
use tailrace_metadata::{Command, CreateTopic, Requester};
use tailrace_node::cluster::Addresses;
use tailrace_node::partitions::{Isolation, PartitionHandle, ReadTerms, Topic, append};
use tailrace_node::{Caller, Node, RunningNode};
use tailrace_records::{BatchBuilder, BatchOptions, DecodedBatch, Validated, split_batches};
use tailrace_sim::world::{Network, Universe};
use tailrace_sim::{Computer, CrashMode, SimDisk};
use tailrace_types::{Offset, TopicId};

async fn start(disk: SimDisk) -> RunningNode {
    let settings = BTreeMap::from([("data.dir".to_owned(), "/data".to_owned())]);
    Computer::start(disk, settings, None).await.unwrap()
}

async fn create(node: &Arc<Node>, name: &str, copies: i16) -> Arc<Topic> {
    let id = TopicId::from_random(tailrace_env::random::bytes16());
    let create = CreateTopic {
        replication_factor: copies,
        ..CreateTopic::with_defaults(name, id, node.now(), Requester::Client)
    };
    node.execute(Caller::internal(), Command::CreateTopic(create)).await.unwrap();
    node.topics().by_name(name).unwrap()
}

async fn store(node: &Arc<Node>, topic: &Topic, value: &str) -> Offset {
    let partition = online(topic);
    let mut builder = BatchBuilder::new(BatchOptions::default());
    builder.push(node.now(), None, Some(value.as_bytes()), &[]).unwrap();
    let (header, bytes) = builder.build_with_header();
    let wanted = node.wanted(topic);
    let batch = Validated { header, bytes };
    let appended = append(node, Caller::internal(), partition, batch, node.now(), wanted).await.unwrap();
    if let Some(committed) = partition.wait_committed(&appended) {
        committed.await.unwrap();
    }
    appended.base_offset
}

fn online(topic: &Topic) -> &Arc<PartitionHandle> {
    topic.here(0).unwrap()
}

fn values(topic: &Topic) -> Vec<String> {
    let terms = ReadTerms::new(Offset(0), Isolation::HighWatermark, 1 << 20);
    let slice = online(topic).read(Caller::internal(), &terms).unwrap().slice.unwrap();
    let mut bytes = vec![0; usize::try_from(slice.extent.bytes()).unwrap()];
    slice.extent.read_at(&mut bytes, 0).unwrap();
    let mut values = Vec::new();
    for batch in split_batches(&bytes) {
        let batch = DecodedBatch::new(batch.unwrap().1, 1 << 20).unwrap();
        for record in batch.records() {
            values.push(String::from_utf8(record.unwrap().value.unwrap().to_vec()).unwrap());
        }
    }
    values
}

/// Stores, with a clock that jumps meanwhile; loses power, and looks what is there.
fn play(seed: u64) -> (Vec<String>, u64, u64) {
    let universe = Universe::new(seed);
    let mut computer = Computer::new(&Network::new(&universe), 1, seed);
    let (machine, disk) = (computer.machine(), computer.disk().clone());
    let running = universe.run(machine, async move {
        let running = start(disk).await;
        let topic = create(running.node(), "a", 1).await;
        for number in 0..20 {
            store(running.node(), &topic, &format!("value {number}")).await;
            machine.set_clock_error((number % 3 - 1) * 3_600_000);
        }
        running
    });
    universe.run_for(Duration::from_secs(seed));
    computer.crash(CrashMode::Random);
    drop(running.unwrap());
    let disk = computer.disk().clone();
    let read = universe.run(computer.machine(), async move {
        let running = start(disk).await;
        let topic = running.node().topics().by_name("a").unwrap();
        let read = values(&topic);
        assert_eq!(running.stop().await, 0);
        read
    });
    (read.unwrap(), universe.turns(), universe.digest())
}

#[test]
fn what_was_acknowledged_is_there_after_a_loss_of_power() {
    let expected: Vec<String> = (0..20).map(|number| format!("value {number}")).collect();
    for seed in 0..20 {
        let (read, turns, digest) = play(seed);
        assert_eq!(read, expected, "seed {seed}");
        let again = play(seed);
        assert_eq!((turns, digest), (again.1, again.2), "seed {seed} runs the same way twice");
    }
}

fn settings(number: u8) -> BTreeMap<String, String> {
    let of = |key: &str, value: String| (key.to_owned(), value);
    let mut settings = BTreeMap::from([
        of("data.dir", "/data".to_owned()),
        of("node.id", number.to_string()),
        of("cluster.listen", format!("10.0.0.{number}:7000")),
    ]);
    if number > 1 {
        settings.extend([of("tailrace.cluster.seeds", "10.0.0.1:7000".to_owned())]);
    }
    settings
}

/// Three computers with a node on each.
struct Trio {
    universe: Universe,
    computers: Vec<Computer>,
    nodes: Vec<Option<RunningNode>>,
}

impl Trio {
    fn new(seed: u64) -> Self {
        let universe = Universe::new(seed);
        let network = Network::new(&universe);
        let computers = (1..=3).map(|number| Computer::new(&network, number, seed + u64::from(number)));
        let mut trio = Self { universe, computers: computers.collect(), nodes: vec![None, None, None] };
        (0..3).for_each(|index| trio.start(index));
        trio
    }

    fn start(&mut self, index: usize) {
        let (computer, number) = (&self.computers[index], u8::try_from(index).unwrap() + 1);
        let disk = computer.disk().clone();
        let at = |port: u16| SocketAddr::from(([10, 0, 0, number], port));
        let addresses = Addresses { kafka: at(9092), nats: None, http: at(8222), cluster: None };
        let running = self.universe.run(computer.machine(), async move {
            Computer::start(disk, settings(number), Some(addresses)).await.unwrap()
        });
        self.nodes[index] = Some(running.unwrap());
    }

    fn crash(&mut self, index: usize, mode: CrashMode) {
        self.computers[index].crash(mode);
        self.nodes[index] = None;
    }

    fn on<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
        &self,
        index: usize,
        work: impl FnOnce(Arc<Node>) -> F,
    ) -> T {
        let node = Arc::clone(self.nodes[index].as_ref().unwrap().node());
        self.universe.run(self.computers[index].machine(), work(node)).unwrap()
    }

    /// The node that leads the partition.
    fn leader(&self) -> usize {
        for _ in 0..600 {
            let leads = |index: &usize| {
                let Some(running) = &self.nodes[*index] else { return false };
                let topic = running.node().topics().by_name("a");
                topic.is_some_and(|topic| topic.led(0).is_ok())
            };
            if let Some(leader) = (0..3).find(leads) {
                return leader;
            }
            self.universe.run_for(Duration::from_millis(100));
        }
        panic!("nobody leads after a minute");
    }
}

/// Stores, kills the leader, stores at the next one, and looks that nothing is gone.
fn fail_over(seed: u64) -> (u64, u64) {
    let mut trio = Trio::new(seed);
    trio.on(0, |node| async move {
        create(&node, "a", 3).await;
    });
    for round in 0..3 {
        let leader = trio.leader();
        trio.on(leader, move |node| async move {
            let topic = node.topics().by_name("a").unwrap();
            for number in 0..5 {
                store(&node, &topic, &format!("value {}", round * 5 + number)).await;
            }
        });
        trio.crash(leader, CrashMode::Random);
        trio.leader();
        trio.start(leader);
    }
    let leader = trio.leader();
    let read = trio.on(leader, |node| async move { values(&node.topics().by_name("a").unwrap()) });
    let expected: Vec<String> = (0..15).map(|number| format!("value {number}")).collect();
    assert_eq!(read, expected, "seed {seed}");
    (trio.universe.turns(), trio.universe.digest())
}

#[test]
fn what_three_nodes_acknowledged_survives_the_loss_of_each_leader() {
    for seed in 0..10 {
        let first = fail_over(seed);
        println!("seed {seed}: {} turns", first.0);
        assert_eq!(first, fail_over(seed), "seed {seed} runs the same way twice");
    }
}
