//! Nodes as they ship, under faults: batches are offered to any of them, and what was told of each is judged at the end.
//!
//! A run follows from its seed. Faults rage for a while, then they end, every computer is on, and the cluster has to become whole.

mod faults;
mod history;
mod judge;
mod writer;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tailrace_env::task;
use tailrace_metadata::{Command, CreateTopic, Requester};
use tailrace_node::cluster::Addresses;
use tailrace_node::{Caller, Node};
use tailrace_types::TopicId;

use self::faults::Faults;
use self::history::History;
use crate::computer::Computer;
use crate::mask::{Failure, Mask};
use crate::rng::Rng;
use crate::world::{Network, Universe};

/// The topic that is written to.
const TOPIC: &str = "storm";

/// A run has so many nodes: one that is a cluster by itself, three, five.
const NODES: [u8; 6] = [3, 3, 3, 3, 5, 1];

/// Between two looks of the storm itself.
const LOOK: Duration = Duration::from_millis(20);

/// Once faults have ended, the cluster has so long to become whole.
const WHOLE_WITHIN: Duration = Duration::from_secs(90);

/// What happens in many runs, and must have happened in some of them.
pub const RARE: [&str; 10] = [
    "a batch was acknowledged",
    "nothing was known of a batch",
    "a batch was refused",
    "a process was killed",
    "a computer lost its power",
    "two computers were cut off from each other",
    "a connection was reset",
    "a computer stood still",
    "a clock was wrong",
    "a disk was nearly full",
];

/// What a run is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StormOptions {
    /// All of the run follows from it.
    pub seed: u64,
    /// How long faults rage, in milliseconds of the run.
    pub storm_ms: u64,
    /// Which faults are left out.
    pub mask: Mask,
}

/// What became of a run in which nothing was wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StormReport {
    /// How often what happened.
    pub counts: BTreeMap<&'static str, u64>,
    /// How long it took, in its own time.
    pub took: Duration,
    /// Two runs of one seed have the same.
    pub trace: u64,
}

/// The computers of a run.
struct Storm {
    universe: Universe,
    network: Network,
    computers: Vec<Computer>,
    /// How often each was switched on.
    starts: Vec<u32>,
    history: Arc<Mutex<History>>,
    /// Its writer runs on this start.
    writes: Vec<bool>,
}

/// Plays one run.
///
/// # Errors
/// What should not have happened.
pub fn run(options: &StormOptions) -> Result<StormReport, Failure> {
    let mut rng = Rng::new(options.seed);
    let nodes = NODES[usize::try_from(rng.below(NODES.len() as u64)).expect("there are few")];
    let mut storm = Storm::new(nodes, &mut rng);
    let mut faults = None;
    let played = storm.play(options, rng, &mut faults);
    let told = faults.as_ref().map(Faults::told).unwrap_or_default();
    match played.and_then(|()| judge::judge(&storm.computers, &storm.lock(), TOPIC)) {
        Ok(fates) => {
            let mut counts = faults.as_ref().map(Faults::counts).unwrap_or_default();
            counts.extend(fates);
            Ok(StormReport { counts, took: storm.universe.now(), trace: storm.universe.digest() })
        }
        Err(anomaly) => Err(Failure { anomaly, faults: told }),
    }
}

impl Storm {
    fn new(nodes: u8, rng: &mut Rng) -> Self {
        let universe = Universe::new(rng.next_u64());
        let network = Network::new(&universe);
        let one = |number| Computer::new(&network, number, rng.next_u64());
        let computers: Vec<_> = (1..=nodes).map(one).collect();
        let count = computers.len();
        Self {
            universe,
            network,
            computers,
            starts: vec![0; count],
            history: Arc::default(),
            writes: vec![false; count],
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn play(
        &mut self,
        options: &StormOptions,
        mut rng: Rng,
        struck: &mut Option<Faults>,
    ) -> Result<(), String> {
        (0..self.computers.len()).for_each(|index| self.boot(index));
        self.wait("the nodes start", WHOLE_WITHIN, |storm| {
            storm.computers.iter().all(|computer| computer.node().is_some())
        })?;
        self.create()?;
        let begin = self.universe.now();
        let end = begin + Duration::from_millis(options.storm_ms);
        let faults = Faults::new(rng.fork(), self.computers.len(), begin, end, &options.mask);
        let faults = struck.insert(faults);
        while self.universe.now() < end {
            self.universe.run_for(LOOK);
            self.look_after();
            faults.strike(self);
        }
        faults.end(self);
        let wanted = self.lock().begin_end();
        self.wait("the cluster becomes whole", WHOLE_WITHIN, |storm| {
            storm.look_after();
            storm.lock().acknowledged_since(wanted) >= storm.computers.len()
                && judge::is_whole(&storm.computers, TOPIC)
        })
    }

    fn boot(&mut self, index: usize) {
        let number = u8::try_from(index + 1).expect("there are few");
        let at = |port: u16| SocketAddr::from(([10, 0, 0, number], port));
        let addresses = Addresses { kafka: at(9092), nats: None, http: at(8222), cluster: None };
        self.starts[index] += 1;
        self.writes[index] = false;
        self.computers[index].boot(settings(number), Some(addresses));
    }

    /// Starts again what did not start, and a writer beside each node that has begun.
    fn look_after(&mut self) {
        for index in 0..self.computers.len() {
            if self.computers[index].failed().is_some() {
                self.boot(index);
            }
            if !self.writes[index]
                && let Some(node) = self.computers[index].node()
            {
                self.writes[index] = true;
                let (history, start) = (Arc::clone(&self.history), self.starts[index]);
                let writer = writer::Writer::new(index, start, history);
                self.computers[index].machine().enter(|| task::spawn(writer.run(node)));
            }
        }
    }

    fn create(&self) -> Result<(), String> {
        let computer = &self.computers[0];
        let Some(node) = computer.node() else { return Err("the first node is gone".to_owned()) };
        let replicas = i16::try_from(self.computers.len().min(3)).expect("there are few");
        let created = self.universe.run(computer.machine(), create(node, replicas));
        created.map_err(|stalled| stalled.to_string())?
    }

    fn wait(
        &mut self,
        what: &str,
        within: Duration,
        is_done: impl Fn(&mut Self) -> bool,
    ) -> Result<(), String> {
        let end = self.universe.now() + within;
        while !is_done(self) {
            if self.universe.now() >= end {
                let failed: Vec<_> = self.computers.iter().filter_map(Computer::failed).collect();
                return Err(format!("not within {within:?}: {what} {failed:?}"));
            }
            self.universe.run_for(LOOK);
        }
        Ok(())
    }
}

async fn create(node: Arc<Node>, replicas: i16) -> Result<(), String> {
    let id = TopicId::from_random(tailrace_env::random::bytes16());
    let topic = CreateTopic {
        partitions: 1,
        replication_factor: replicas,
        ..CreateTopic::with_defaults(TOPIC, id, node.now(), Requester::Client)
    };
    let created = node.execute(Caller::internal(), Command::CreateTopic(topic)).await;
    created.map(drop).map_err(|error| format!("the topic cannot be created: {error}"))
}

fn settings(number: u8) -> BTreeMap<String, String> {
    let mut settings = vec![
        ("data.dir", "/data".to_owned()),
        ("node.id", number.to_string()),
        ("cluster.listen", format!("10.0.0.{number}:7000")),
    ];
    if number > 1 {
        settings.push(("tailrace.cluster.seeds", "10.0.0.1:7000".to_owned()));
    }
    settings.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}
