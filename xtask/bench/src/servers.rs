//! Starts and stops the systems under test: tailrace, Kafka, nats-server, Redis and the bare TCP echo. All of
//! them run on loopback, on free ports, with empty data. Kafka runs with the values of its own sample
//! configuration and the JVM options of its own start script.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::peers::Peers;
use super::process::{Running, command};

/// `flush.messages` of a relaxed topic: Kafka's own default, never.
pub(super) const NEVER: &str = "flush.messages=9223372036854775807";
/// The time limit for a start. A JVM on two busy cores takes several seconds.
pub(super) const START_LIMIT: Duration = Duration::from_secs(60);
/// The id of Kafka's cluster. Any value will do.
pub(super) const CLUSTER_ID: &str = "AAAAAAAAAAAAAAAAAAAAAA";

/// When tailrace regards a record as committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durability {
    /// Once it is written, before it is synced. Kafka's default.
    Relaxed,
    /// Once it is synced. tailrace's default.
    Strict,
}

/// When Kafka flushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flush {
    Default,
    EveryMessage,
}

/// When nats-server's JetStream syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NatsSync {
    /// Every two minutes.
    Default,
    Always,
}

/// The addresses, the process and the data of a server.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    pub(super) system: &'static str,
    pub(super) address: String,
    /// The address of tailrace's NATS front. Empty if there is none.
    pub(super) nats: String,
    pub(super) pid: u32,
    pub(super) data: PathBuf,
    /// Time from the start of the process until it was ready.
    pub(super) ready: Duration,
}

/// A running server. Dropping it stops it.
pub(super) struct Server {
    endpoint: Endpoint,
    running: Running,
}

impl Server {
    pub(super) fn endpoint(&self) -> Endpoint {
        self.endpoint.clone()
    }

    /// Stops the server and removes its data.
    pub(super) fn discard(mut self) -> Result<(), String> {
        self.running.stop()?;
        let data = &self.endpoint.data;
        fs::remove_dir_all(data).map_err(|error| format!("{}: {error}", data.display()))
    }

    /// Asks the server to stop, without waiting for it.
    pub(super) fn ask_to_stop(&self) {
        self.running.ask_to_stop();
    }

    /// Stops the server and returns its data folder.
    pub(super) fn stop(mut self) -> Result<PathBuf, String> {
        self.running.stop()?;
        Ok(self.endpoint.data)
    }
}

pub(super) fn server(
    system: &'static str,
    address: String,
    data: &Path,
    ready: Duration,
    running: Running,
) -> Server {
    let nats = String::new();
    let endpoint = Endpoint { system, address, nats, pid: running.pid(), data: data.to_owned(), ready };
    Server { endpoint, running }
}

/// Creates an empty folder for a server's data.
pub(super) fn empty(folder: PathBuf) -> Result<PathBuf, String> {
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// Starts tailrace on existing `data`. The time to its `ready` line includes that of starting the process.
pub(super) fn tailrace(
    binary: &Path,
    scratch: &Path,
    data: &Path,
    durability: Durability,
) -> Result<Server, String> {
    tailrace_with(binary, scratch, data, durability, &[])
}

/// Like [`tailrace`], with additional settings, each as `name=value`.
pub(super) fn tailrace_with(
    binary: &Path,
    scratch: &Path,
    data: &Path,
    durability: Durability,
    settings: &[&str],
) -> Result<Server, String> {
    let mut command = command(binary)?;
    command.args(["serve", "--kafka", "127.0.0.1:0", "--nats", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
    command.arg("--data-dir").arg(data);
    if durability == Durability::Relaxed {
        command.args(["--set", NEVER]);
    }
    settings.iter().for_each(|setting| {
        command.args(["--set", setting]);
    });
    let log = scratch.join("tailrace.log");
    command.stdout(Stdio::piped()).stderr(create(&log)?);
    let began = Instant::now();
    let mut running = Running::start("tailrace", &mut command)?;
    let pipe = running.stdout().ok_or("tailrace has no standard output")?;
    let mut line = String::new();
    let read = BufReader::new(pipe).read_line(&mut line);
    let ready = began.elapsed();
    let address = read.ok().and_then(|_| ready_address(&line, "kafka"));
    let address = address.ok_or_else(|| format!("tailrace did not become ready: see {}", log.display()))?;
    let mut server = server("tailrace", address, data, ready, running);
    server.endpoint.nats = ready_address(&line, "nats").unwrap_or_default();
    Ok(server)
}

/// Starts tailrace on an empty folder.
pub(super) fn fresh_tailrace(
    binary: &Path,
    scratch: &Path,
    durability: Durability,
) -> Result<Server, String> {
    let data = empty(scratch.join("tailrace"))?;
    tailrace(binary, scratch, &data, durability)
}

/// The address of a listener in a line `ready kafka=ADDR nats=ADDR http=ADDR`.
pub(super) fn ready_address(line: &str, listener: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    if words.next() != Some("ready") {
        return None;
    }
    words
        .filter_map(|word| word.split_once('='))
        .find(|(name, _)| *name == listener)
        .map(|(_, address)| address.to_owned())
}

/// Formats an empty folder and starts Kafka on it. Its start time does not include the formatting.
pub(super) fn kafka(peers: &Peers, scratch: &Path, flush: Flush) -> Result<Server, String> {
    kafka_with(peers, scratch, flush, "", JVM)
}

/// Like [`kafka`], with additional properties and other JVM options.
pub(super) fn kafka_with(
    peers: &Peers,
    scratch: &Path,
    flush: Flush,
    properties_more: &str,
    jvm: &[&str],
) -> Result<Server, String> {
    let data = empty(scratch.join("kafka"))?;
    let (port, controller) = (free_port()?, free_port()?);
    let properties = scratch.join("server.properties");
    write(&properties, &(kafka_properties(port, controller, &data, flush) + properties_more))?;
    write(&scratch.join("log4j2.xml"), LOG4J)?;
    let mut format = java(peers, scratch, &["-Xmx512m"])?;
    format.args(["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c"]).arg(&properties);
    format.stdout(Stdio::null()).stderr(create(&scratch.join("kafka-format.log"))?);
    xtask::run::run(&mut format)?;
    kafka_again(peers, scratch, &format!("127.0.0.1:{port}"), &data, jvm)
}

/// Starts Kafka again after [`Server::stop`], with the same address, properties and data.
pub(super) fn kafka_again(
    peers: &Peers,
    scratch: &Path,
    address: &str,
    data: &Path,
    jvm: &[&str],
) -> Result<Server, String> {
    let mut serve = java(peers, scratch, jvm)?;
    serve.arg("kafka.Kafka").arg(scratch.join("server.properties"));
    serve.stdout(Stdio::null()).stderr(create(&scratch.join("kafka.log"))?);
    let began = Instant::now();
    let mut running = Running::start("kafka", &mut serve)?;
    running.until(START_LIMIT, || TcpStream::connect(address).is_ok())?;
    Ok(server("kafka", address.to_owned(), data, began.elapsed(), running))
}

pub(super) const JVM: &[&str] = &[
    "-Xms1g",
    "-Xmx2g",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-Djava.awt.headless=true",
];

pub(super) const LOG4J: &str = r#"<Configuration status="ERROR">
  <Appenders><Console name="C" target="SYSTEM_ERR"><PatternLayout pattern="%d %p %m%n"/></Console></Appenders>
  <Loggers><Root level="warn"><AppenderRef ref="C"/></Root></Loggers>
</Configuration>
"#;

pub(super) fn java(peers: &Peers, scratch: &Path, options: &[&str]) -> Result<std::process::Command, String> {
    let mut command = command(Path::new("java"))?;
    command.args(options);
    command.arg(format!("-Dlog4j2.configurationFile={}", scratch.join("log4j2.xml").display()));
    command.arg("-cp").arg(peers.kafka_libraries().join("*"));
    Ok(command)
}

fn kafka_properties(port: u16, controller: u16, data: &Path, flush: Flush) -> String {
    let mut text = format!(
        "process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
log.dirs={}
num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
log.segment.delete.delay.ms=1000
",
        data.display()
    );
    if flush == Flush::EveryMessage {
        text.push_str("log.flush.interval.messages=1\n");
    }
    text
}

/// Starts nats-server with JetStream on an empty folder.
pub(super) fn nats_server(peers: &Peers, scratch: &Path, sync: NatsSync) -> Result<Server, String> {
    let data = empty(scratch.join("nats"))?;
    let port = free_port()?;
    let always = if sync == NatsSync::Always { ", sync_interval: always" } else { "" };
    let config = scratch.join("nats.conf");
    let store = data.display();
    write(
        &config,
        &format!(
            "listen: \"127.0.0.1:{port}\"\njetstream {{ store_dir: \"{store}\", max_file_store: 40GB{always} }}\n"
        ),
    )?;
    let mut command = command(&peers.program("bin/nats-server"))?;
    command.arg("-c").arg(&config).stdout(Stdio::null()).stderr(create(&scratch.join("nats.log"))?);
    peer("nats-server", port, &data, &mut command)
}

/// Starts Redis without persistence.
pub(super) fn redis(scratch: &Path) -> Result<Server, String> {
    let data = empty(scratch.join("redis"))?;
    let port = free_port()?;
    let mut command = command(Path::new("redis-server"))?;
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.stdout(Stdio::null()).stderr(create(&scratch.join("redis.log"))?);
    peer("redis", port, &data, &mut command)
}

/// Starts a server and waits until it accepts connections on `port`.
pub(super) fn peer(
    name: &'static str,
    port: u16,
    data: &Path,
    command: &mut std::process::Command,
) -> Result<Server, String> {
    let began = Instant::now();
    let mut running = Running::start(name, command)?;
    let address = format!("127.0.0.1:{port}");
    running.until(START_LIMIT, || TcpStream::connect(&address).is_ok())?;
    Ok(server(name, address, data, began.elapsed(), running))
}

/// Starts the echo, the floor of the latency figures: an epoll loop in C that sends back what it reads.
pub(super) fn echo(peers: &Peers, scratch: &Path) -> Result<Server, String> {
    let data = empty(scratch.join("echo"))?;
    let port = free_port()?;
    let mut command = command(&peers.program("phys"))?;
    command.args(["echo", &port.to_string()]);
    let began = Instant::now();
    let mut running = Running::start("echo", &mut command)?;
    let address = format!("127.0.0.1:{port}");
    running.until(START_LIMIT, || TcpStream::connect(&address).is_ok())?;
    Ok(server("echo", address, &data, began.elapsed(), running))
}

/// Returns a port that is free now. It is not reserved, but the kernel hands out other ports first.
pub(super) fn free_port() -> Result<u16, String> {
    let port = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    port.map(|address| address.port()).map_err(|error| format!("no free port: {error}"))
}

pub(super) fn create(path: &Path) -> Result<File, String> {
    File::create(path).map_err(|error| format!("{}: {error}", path.display()))
}

pub(super) fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_line_names_the_address() {
        let line = "ready kafka=127.0.0.1:9092 nats=off http=127.0.0.1:8222\n";
        assert_eq!(ready_address(line, "kafka").as_deref(), Some("127.0.0.1:9092"));
        assert_eq!(ready_address(line, "nats").as_deref(), Some("off"));
        assert_eq!(ready_address("error: kafka=1", "kafka"), None);
        assert_eq!(ready_address("", "kafka"), None);
    }

    #[test]
    fn only_a_strict_kafka_flushes() {
        let text = |flush| kafka_properties(1, 2, Path::new("d"), flush);
        assert!(!text(Flush::Default).contains("flush"));
        assert!(text(Flush::EveryMessage).contains("\nlog.flush.interval.messages=1\n"));
    }
}
