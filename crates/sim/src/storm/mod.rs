//! Nodes as they ship, under faults: batches are offered to any of them, and what was told of each is judged at the end.
//!
//! A run follows from its seed. Faults rage for a while, then they end, every computer is on, and the cluster has to become whole.

mod faults;
mod history;
mod judge;
mod producer;
mod publisher;
mod site;
mod writer;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tailrace_env::task;
use tailrace_metadata::{Command, CreateTopic, Requester};
use tailrace_node::{Caller, Node};
use tailrace_types::TopicId;

use self::faults::Faults;
use self::history::History;
use self::producer::Producer;
use self::publisher::Publisher;
use self::site::{Site, TOPIC};
use self::writer::{WRITERS, Writer};
use crate::computer::Computer;
use crate::mask::{Failure, Mask};
use crate::rng::Rng;

/// A run has so many nodes: one that is a cluster by itself, three, five.
const NODES: [u8; 6] = [3, 3, 3, 3, 5, 1];

/// Clients that speak NATS, and as many that speak Kafka's protocol.
const CLIENTS: usize = 4;

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

/// A run on its way.
struct Storm {
    site: Site,
    history: Arc<Mutex<History>>,
    /// The start of each node beside which a writer runs.
    writes: Vec<u32>,
}

/// Plays one run.
///
/// # Errors
/// What should not have happened.
pub fn run(options: &StormOptions) -> Result<StormReport, Failure> {
    let mut rng = Rng::new(options.seed);
    let nodes = NODES[usize::try_from(rng.below(NODES.len() as u64)).expect("there are few")];
    let site = Site::new(nodes, &mut rng);
    let mut storm = Storm { site, history: Arc::default(), writes: vec![0; nodes.into()] };
    let mut faults = None;
    let played = storm.play(options, rng, nodes, &mut faults);
    let told = faults.as_ref().map(Faults::told).unwrap_or_default();
    match played.and_then(|()| storm.end()) {
        Ok(fates) => {
            let mut counts = faults.as_ref().map(Faults::counts).unwrap_or_default();
            counts.extend(fates);
            counts.insert("turns of all that ran", storm.site.universe.turns());
            Ok(StormReport { counts, took: storm.site.universe.now(), trace: storm.site.universe.digest() })
        }
        Err(anomaly) => Err(Failure { anomaly, faults: told }),
    }
}

impl Storm {
    fn lock(&self) -> std::sync::MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn play(
        &mut self,
        options: &StormOptions,
        mut rng: Rng,
        nodes: u8,
        struck: &mut Option<Faults>,
    ) -> Result<(), String> {
        (0..self.site.computers.len()).for_each(|index| self.site.boot(index));
        self.wait("the nodes start", WHOLE_WITHIN, |storm| {
            storm.site.computers.iter().all(|computer| computer.node().is_some())
        })?;
        self.create()?;
        for number in 0..CLIENTS {
            let (number, history) = (self.site.computers.len() + number, Arc::clone(&self.history));
            self.site.client.enter(|| {
                if number.is_multiple_of(2) {
                    task::spawn(Publisher::new(number, nodes, history).run())
                } else {
                    task::spawn(Producer::new(number, nodes, history).run())
                }
            });
        }
        let begin = self.site.universe.now();
        let end = begin + Duration::from_millis(options.storm_ms);
        let faults = Faults::new(rng.fork(), self.site.computers.len(), begin, end, &options.mask);
        let faults = struck.insert(faults);
        while self.site.universe.now() < end {
            self.site.universe.run_for(LOOK);
            self.look_after();
            faults.strike(&mut self.site);
        }
        faults.end(&mut self.site);
        self.lock().begin_end();
        self.wait("the cluster becomes whole", WHOLE_WITHIN, |storm| {
            storm.look_after();
            let writers = storm.site.computers.len() + CLIENTS;
            let all_have_written = (0..writers).all(|index| storm.lock().has_ended(index));
            all_have_written && judge::is_whole(&storm.site.computers, TOPIC)
        })
    }

    /// Starts again what did not start, and a writer beside each node that has begun.
    fn look_after(&mut self) {
        for index in 0..self.site.computers.len() {
            if self.site.computers[index].failed().is_some() {
                self.site.boot(index);
            }
            let (computer, start) = (&self.site.computers[index], self.site.starts[index]);
            if self.writes[index] != start
                && let Some(node) = computer.node()
            {
                self.writes[index] = start;
                for writer in 0..WRITERS {
                    let writer = Writer::new(index, start, writer, Arc::clone(&self.history));
                    computer.machine().enter(|| task::spawn(writer.run(Arc::clone(&node))));
                }
            }
        }
    }

    /// Compares what was told with what is there, and stops the nodes.
    fn end(&self) -> Result<BTreeMap<&'static str, u64>, String> {
        let fates = judge::judge(&self.site.computers, &self.lock(), TOPIC)?;
        for computer in &self.site.computers {
            match computer.stop() {
                0 => {}
                failed => return Err(format!("{failed} partitions were not closed cleanly")),
            }
        }
        Ok(fates)
    }

    fn create(&self) -> Result<(), String> {
        let computer = &self.site.computers[0];
        let Some(node) = computer.node() else { return Err("the first node is gone".to_owned()) };
        let replicas = i16::try_from(self.site.computers.len()).expect("there are few");
        let created = self.site.universe.run(computer.machine(), create(node, replicas));
        created.map_err(|stalled| stalled.to_string())?
    }

    fn wait(
        &mut self,
        what: &str,
        within: Duration,
        is_done: impl Fn(&mut Self) -> bool,
    ) -> Result<(), String> {
        let end = self.site.universe.now() + within;
        while !is_done(self) {
            if self.site.universe.now() >= end {
                let failed: Vec<_> = self.site.computers.iter().filter_map(Computer::failed).collect();
                return Err(format!("not within {within:?}: {what} {failed:?}"));
            }
            self.site.universe.run_for(LOOK);
        }
        Ok(())
    }
}

async fn create(node: Arc<Node>, replicas: i16) -> Result<(), String> {
    let id = TopicId::from_random(tailrace_env::random::bytes16());
    let topic = CreateTopic {
        partitions: 1,
        replication_factor: replicas,
        configs: vec![("tailrace.subjects".to_owned(), Some("storm.>".to_owned()))],
        ..CreateTopic::with_defaults(TOPIC, id, node.now(), Requester::Client)
    };
    let created = node.execute(Caller::internal(), Command::CreateTopic(topic)).await;
    created.map(drop).map_err(|error| format!("the topic cannot be created: {error}"))
}
