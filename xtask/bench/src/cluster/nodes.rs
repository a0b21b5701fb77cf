//! Three nodes of one system.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::super::lab::{Lab, succeeded};
use super::super::proc;
use super::super::process::{Finished, Running, command};
use super::super::servers::{self, Durability, JVM, NEVER, START_LIMIT, Server};

/// The time limit for a request to a cluster.
const PATIENCE: Duration = Duration::from_secs(240);
const PAUSE: Duration = Duration::from_millis(100);

/// The system to run. For tailrace, also its durability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum System {
    Tailrace(Durability),
    Kafka,
}

impl System {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tailrace(_) => "tailrace",
            Self::Kafka => "kafka",
        }
    }
}

/// The addresses and the data folder of one node.
#[derive(Clone, Debug)]
struct Place {
    number: usize,
    client: u16,
    cluster: u16,
    folder: PathBuf,
}

/// Three running nodes.
pub(super) struct Nodes {
    pub(super) system: System,
    places: Vec<Place>,
    servers: Vec<Server>,
    /// The time at which the first of them was started.
    began: Instant,
}

impl Nodes {
    /// Starts three nodes with empty folders.
    pub(super) fn fresh(lab: &Lab, system: System) -> Result<Self, String> {
        let mut places = Vec::new();
        for number in 1..=3 {
            let folder = servers::empty(lab.scratch.join(format!("{}-{number}", system.name())))?;
            let (client, cluster) = (servers::free_port()?, servers::free_port()?);
            places.push(Place { number, client, cluster, folder });
        }
        if system == System::Kafka {
            servers::write(&lab.scratch.join("log4j2.xml"), servers::LOG4J)?;
            places.iter().try_for_each(|place| format_kafka(lab, place, &places))?;
        }
        let mut nodes = Self { system, places, servers: Vec::new(), began: Instant::now() };
        nodes.start(lab)?;
        Ok(nodes)
    }

    fn start(&mut self, lab: &Lab) -> Result<(), String> {
        self.began = Instant::now();
        let mut begun = Vec::new();
        for place in &self.places {
            begun.push(match self.system {
                System::Tailrace(durability) => begin_tailrace(lab, place, &self.places, durability)?,
                System::Kafka => begin_kafka(lab, place)?,
            });
        }
        for (mut running, place) in begun.into_iter().zip(&self.places) {
            let address = format!("127.0.0.1:{}", place.client);
            match running.stdout() {
                // tailrace prints a line when it is ready.
                Some(pipe) => drop(BufReader::new(pipe).read_line(&mut String::new())),
                None => running.until(START_LIMIT, || TcpStream::connect(&address).is_ok())?,
            }
            let ready = self.began.elapsed();
            self.servers.push(servers::server(self.system.name(), address, &place.folder, ready, running));
        }
        Ok(())
    }

    /// The addresses of all nodes, for clients.
    pub(super) fn addresses(&self) -> String {
        let addresses = self.places.iter().map(|place| format!("127.0.0.1:{}", place.client));
        addresses.collect::<Vec<_>>().join(",")
    }

    pub(super) fn pids(&self) -> Vec<u32> {
        self.servers.iter().map(|server| server.endpoint().pid).collect()
    }

    /// CPU seconds of all nodes so far.
    pub(super) fn cpu_s(&self) -> f64 {
        self.pids().into_iter().filter_map(proc::cpu_s).sum()
    }

    /// Stops all nodes and starts them again on their data. Returns the time from the start until every
    /// partition of `topic` has a leader that answers.
    pub(super) fn restart(&mut self, lab: &Lab, topic: &str, partitions: usize) -> Result<Duration, String> {
        self.servers.iter().for_each(Server::ask_to_stop);
        for server in self.servers.drain(..) {
            server.stop()?;
        }
        self.start(lab)?;
        self.until_answered(lab, topic, partitions)
    }

    /// Waits until every partition of `topic` has a leader that reports its end offset. Returns the time
    /// since the start.
    pub(super) fn until_answered(
        &self,
        lab: &Lab,
        topic: &str,
        partitions: usize,
    ) -> Result<Duration, String> {
        loop {
            let finished = self.tailrace_client(lab, &["topic", "describe", "-o", "json", topic])?;
            let answered = finished.stdout.matches("\"latest_offset\": ").count();
            let unknown = finished.stdout.matches("\"latest_offset\": null").count();
            if finished.status.success() && answered - unknown == partitions {
                return Ok(self.began.elapsed());
            }
            if self.began.elapsed() > PATIENCE {
                return Err(format!(
                    "{answered} of {partitions} partitions answer, {unknown} of them without an end"
                ));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Creates a topic with three replicas. Retries until all three nodes are up.
    pub(super) fn create(&self, lab: &Lab, topic: &str, partitions: u32) -> Result<(), String> {
        let began = Instant::now();
        let partitions = partitions.to_string();
        let words =
            ["topic", "create", topic, "-p", &partitions, "-r", "3", "--if-not-exists", "--timeout", "200s"];
        loop {
            let finished = self.tailrace_client(lab, &words)?;
            match succeeded(&format!("creating {topic} on {}", self.system.name()), &finished) {
                Err(reason) if began.elapsed() > PATIENCE => return Err(reason),
                Err(_) => std::thread::sleep(PAUSE),
                Ok(()) => return Ok(()),
            }
        }
    }

    pub(super) fn delete(&self, lab: &Lab, topic: &str) -> Result<(), String> {
        let finished = self.tailrace_client(lab, &["topic", "delete", topic])?;
        succeeded(&format!("deleting {topic} on {}", self.system.name()), &finished)
    }

    /// Runs a client verb of tailrace. It works with both systems, because it speaks Kafka's protocol.
    fn tailrace_client(&self, lab: &Lab, words: &[&str]) -> Result<Finished, String> {
        let mut words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        words.extend(["-b".to_owned(), self.addresses()]);
        lab.tool_at(&lab.binary, &words)
    }

    /// Stops all nodes and removes their data.
    pub(super) fn discard(mut self) -> Result<(), String> {
        self.servers.iter().for_each(Server::ask_to_stop);
        self.servers.drain(..).try_for_each(Server::discard)
    }
}

fn begin_tailrace(
    lab: &Lab,
    place: &Place,
    places: &[Place],
    durability: Durability,
) -> Result<Running, String> {
    let mut command = command(&lab.binary)?;
    let number = place.number.to_string();
    let address = |port: u16| format!("127.0.0.1:{port}");
    command.args(["serve", "--node-id", &number, "--kafka", &address(place.client), "--nats", "off"]);
    command.args(["--http", "127.0.0.1:0", "--cluster-listen", &address(place.cluster)]);
    command.arg("--data-dir").arg(&place.folder);
    for seed in places {
        command.args(["--seed", &address(seed.cluster)]);
    }
    if durability == Durability::Relaxed {
        command.args(["--set", NEVER]);
    }
    let log = servers::create(&lab.scratch.join(format!("tailrace-{number}.log")))?;
    command.stdout(Stdio::piped()).stderr(log);
    Running::start("tailrace", &mut command)
}

fn properties(lab: &Lab, place: &Place) -> PathBuf {
    lab.scratch.join(format!("kafka-{}.properties", place.number))
}

fn format_kafka(lab: &Lab, place: &Place, places: &[Place]) -> Result<(), String> {
    let voters: Vec<_> =
        places.iter().map(|place| format!("{}@127.0.0.1:{}", place.number, place.cluster)).collect();
    let properties = properties(lab, place);
    servers::write(&properties, &kafka_properties(place, &voters.join(",")))?;
    let mut format = servers::java(&lab.peers, &lab.scratch, &["-Xmx512m"])?;
    format.args(["kafka.tools.StorageTool", "format", "-t", servers::CLUSTER_ID, "-c"]).arg(&properties);
    let log = servers::create(&lab.scratch.join("kafka-format.log"))?;
    format.stdout(Stdio::null()).stderr(log);
    xtask::run::run(&mut format)
}

/// The properties of a single node, plus those that a cluster of three needs.
fn kafka_properties(place: &Place, voters: &str) -> String {
    let Place { number, client, cluster, folder } = place;
    format!(
        "process.roles=broker,controller
node.id={number}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{cluster}
advertised.listeners=PLAINTEXT://127.0.0.1:{client}
controller.listener.names=CONTROLLER
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
log.dirs={}
num.partitions=1
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
log.segment.delete.delay.ms=1000
",
        folder.display()
    )
}

fn begin_kafka(lab: &Lab, place: &Place) -> Result<Running, String> {
    let mut serve = servers::java(&lab.peers, &lab.scratch, JVM)?;
    serve.arg("kafka.Kafka").arg(properties(lab, place));
    let log = servers::create(&lab.scratch.join(format!("kafka-{}.log", place.number)))?;
    serve.stdout(Stdio::null()).stderr(log);
    Running::start("kafka", &mut serve)
}
