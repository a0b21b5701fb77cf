//! The bench on which the parts run: it starts servers, runs the measuring programs, measures their cost, and
//! saves every sample at once.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use super::client::{Blast, OpenLoop, parse_blast, parse_openloop};
use super::machine;
use super::peers::Peers;
use super::proc;
use super::process::{Finished, Tool};
use super::progress::Progress;
use super::report::Report;
use super::sample::{Figures, Sample};
use super::servers::{self, Durability, Endpoint, Flush, Server};

/// The time limit for a run of a measuring program. A run that takes this long is stuck.
pub(super) const RUN_LIMIT: Duration = Duration::from_secs(240);
/// Pause between runs: Kafka removes deleted topics from the disk after 1 s, and the rest is for the dirty
/// pages of the previous run.
const SETTLE: Duration = Duration::from_secs(2);
/// Records written to warm up a JVM, which interprets at first. The peers' own scripts write as many.
const WARM_RECORDS: u64 = 1_000_000;

/// The part, load and round that a sample belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) part: &'static str,
    pub(super) load: &'static str,
    pub(super) round: u32,
}

/// The servers, folders and outputs of a comparison.
pub(super) struct Lab {
    pub(super) peers: Peers,
    pub(super) scratch: PathBuf,
    pub(super) binary: PathBuf,
    pub(super) rounds: u32,
    pub(super) quick: bool,
    pub(super) report: Report,
    pub(super) progress: Progress,
    /// The running Kafka. It is kept from part to part, because starting and warming it takes ten seconds.
    pub(super) kafka: Option<(Flush, Server)>,
}

/// A running openloop, and the meter of its server.
pub(super) struct RunningLoop {
    tool: Tool,
    meter: Meter,
}

impl Lab {
    /// Scales a count of records or bytes: `--quick` uses an eighth of it.
    pub(super) fn scaled(&self, count: u64) -> u64 {
        if self.quick { count / 8 } else { count }
    }

    /// Prepares memory for a run that writes this many bytes: see [`machine::warm_free_memory`].
    pub(super) fn warm_free_memory(&self, bytes: u64) {
        // The bytes that the run writes, and as many again for other dirty pages.
        machine::warm_free_memory(self.scaled(bytes).saturating_mul(2));
    }

    /// Starts tailrace on an empty folder.
    pub(super) fn tailrace(&self, durability: Durability) -> Result<Server, String> {
        servers::fresh_tailrace(&self.binary, &self.scratch, durability)
    }

    /// Returns the endpoint of Kafka. Starts and warms it unless it already runs with this flush policy.
    pub(super) fn kafka(&mut self, flush: Flush) -> Result<Endpoint, String> {
        if let Some((running, server)) = &self.kafka
            && *running == flush
        {
            return Ok(server.endpoint());
        }
        if let Some((_, server)) = self.kafka.take() {
            server.discard()?;
        }
        self.progress.say("starting Kafka and warming it");
        let server = servers::kafka(&self.peers, &self.scratch, flush)?;
        let endpoint = server.endpoint();
        self.kafka = Some((flush, server));
        self.warm(&endpoint)?;
        Ok(endpoint)
    }

    /// Warms up a server with records, then with the schedule of the latency runs.
    pub(super) fn warm(&self, endpoint: &Endpoint) -> Result<(), String> {
        self.create(endpoint, "warm", 1)?;
        self.prepare(endpoint, &Blast::new("both", "warm", self.scaled(WARM_RECORDS)))?;
        self.delete(endpoint, "warm")?;
        let seconds = if self.quick { 3 } else { 8 };
        self.tool(
            "openloop",
            &OpenLoop { rate: 8000, pairs: 4, seconds, acks: "1" }.arguments("warm", &endpoint.address),
        )
        .and_then(|finished| succeeded("openloop", &finished))
    }

    pub(super) fn create(&self, endpoint: &Endpoint, topic: &str, partitions: u32) -> Result<(), String> {
        self.prepare(endpoint, &Blast { partitions, ..Blast::new("create", topic, 1) })
    }

    pub(super) fn delete(&self, endpoint: &Endpoint, topic: &str) -> Result<(), String> {
        self.prepare(endpoint, &Blast::new("delete", topic, 1))
    }

    /// Runs blast-kafka without measuring it. The run must succeed.
    pub(super) fn prepare(&self, endpoint: &Endpoint, blast: &Blast) -> Result<(), String> {
        let finished = self.tool("blast-kafka", &blast.arguments(&endpoint.address))?;
        let doing = format!("{} {} on {}", blast.mode, blast.topic, endpoint.system);
        succeeded(&doing, &finished)
    }

    /// Runs blast-kafka and keeps its figures and its cost.
    pub(super) fn blast(&mut self, slot: Slot, endpoint: &Endpoint, blast: &Blast) -> Result<(), String> {
        proc::reset_peak(endpoint.pid);
        let meter = Meter::start(endpoint.pid);
        let finished = self.tool("blast-kafka", &blast.arguments(&endpoint.address))?;
        let mut cost = meter.stop();
        let line = finished.stdout.lines().last().unwrap_or_default().to_owned();
        let figures = parse_blast(&line);
        let failed = failure(&finished, figures.is_some());
        let mut figures = figures.unwrap_or_default();
        per_record(&mut figures, &mut cost, blast.records);
        figures.append(&mut cost);
        if let Some(peak) = proc::memory_mib(endpoint.pid, "VmHWM") {
            figures.insert("peak_rss_mib".to_owned(), peak);
        }
        self.keep(slot, endpoint.system, figures, failed, line)
    }

    /// Runs openloop and keeps its figures and its cost.
    pub(super) fn open_loop(
        &mut self,
        slot: Slot,
        endpoint: &Endpoint,
        open: &OpenLoop,
    ) -> Result<(), String> {
        let running = self.start_open_loop(endpoint, open)?;
        self.finish_open_loop(slot, endpoint.system, running)
    }

    pub(super) fn start_open_loop(
        &self,
        endpoint: &Endpoint,
        open: &OpenLoop,
    ) -> Result<RunningLoop, String> {
        let arguments = open.arguments(endpoint.system, &endpoint.address);
        let meter = Meter::start(endpoint.pid);
        let tool = Tool::start(&self.scratch, "openloop", &self.peers.program("openloop"), &arguments)?;
        Ok(RunningLoop { tool, meter })
    }

    pub(super) fn finish_open_loop(
        &mut self,
        slot: Slot,
        system: &str,
        running: RunningLoop,
    ) -> Result<(), String> {
        let finished = running.tool.finish(RUN_LIMIT)?;
        let mut cost = running.meter.stop();
        let line = finished.stdout.lines().last().unwrap_or_default().to_owned();
        let figures = parse_openloop(&line);
        let failed = failure(&finished, figures.is_some());
        let mut figures = figures.unwrap_or_default();
        figures.append(&mut cost);
        self.keep(slot, system, figures, failed, line)
    }

    /// Adds a sample to the raw file and to the report, and prints it.
    pub(super) fn keep(
        &mut self,
        slot: Slot,
        system: &str,
        figures: Figures,
        failed: Option<String>,
        line: String,
    ) -> Result<(), String> {
        let (part, load) = (slot.part.to_owned(), slot.load.to_owned());
        let sample =
            Sample { part, load, system: system.to_owned(), round: slot.round, figures, failed, line };
        self.progress.sample(&sample, self.rounds);
        self.report.add(sample)
    }

    pub(super) fn settle(&self) {
        thread::sleep(SETTLE);
    }

    pub(super) fn tool(&self, program: &str, arguments: &[String]) -> Result<Finished, String> {
        self.start_tool(program, program, arguments)?.finish(RUN_LIMIT)
    }

    /// Runs a program that does not belong to the peers.
    pub(super) fn tool_at(
        &self,
        program: &std::path::Path,
        arguments: &[String],
    ) -> Result<Finished, String> {
        Tool::start(&self.scratch, "tool", program, arguments)?.finish(RUN_LIMIT)
    }

    /// Starts a program of the peers. `name` distinguishes programs that run at the same time.
    pub(super) fn start_tool(&self, name: &str, program: &str, arguments: &[String]) -> Result<Tool, String> {
        Tool::start(&self.scratch, name, &self.peers.program(program), arguments)
    }
}

/// The order of two systems in a round. It alternates, because the first one finds a different page cache
/// than the second.
pub(super) fn alternated(round: u32, first: &Endpoint, second: &Endpoint) -> [Endpoint; 2] {
    let (first, second) = (first.clone(), second.clone());
    if round % 2 == 1 { [first, second] } else { [second, first] }
}

/// Readings of the CPU clocks before a run.
pub(super) struct Meter {
    pid: u32,
    began: std::time::Instant,
    server: Option<f64>,
    foreign: Option<f64>,
}

impl Meter {
    pub(super) fn start(pid: u32) -> Self {
        let foreign = proc::foreign_s();
        Self { pid, server: proc::cpu_s(pid), foreign, began: std::time::Instant::now() }
    }

    pub(super) fn stop(self) -> Figures {
        let seconds = self.began.elapsed().as_secs_f64();
        let server = proc::cpu_s(self.pid).zip(self.server).map(|(after, before)| after - before);
        let foreign = proc::foreign_s().zip(self.foreign);
        let foreign = foreign.map(|(after, before)| (after - before) * 100.0 / seconds);
        let named = [("server_cpu_s", server), ("foreign_pct", foreign), ("run_s", Some(seconds))];
        named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

/// Adds the derived figures: CPU per million records and per GB, and the rate over the whole time.
fn per_record(figures: &mut Figures, cost: &mut Figures, records: u64) {
    let millions = records as f64 / 1e6;
    let mut derived = Vec::new();
    if let Some(cpu) = cost.get("server_cpu_s") {
        derived.push(("server_cpu_s_per_m", cpu / millions));
        derived.push(("server_cpu_s_per_gb", cpu / (millions * 1.024)));
    }
    if let Some(cpu) = figures.get("client_cpu_s") {
        derived.push(("client_cpu_s_per_m", cpu / millions));
    }
    if let Some(wall) = figures.get("wall_s").filter(|wall| **wall > 0.0) {
        derived.push(("messages_per_s", records as f64 / wall));
    }
    figures.extend(derived.into_iter().map(|(name, value)| (name.to_owned(), value)));
}

/// Says why a run does not count. `None` if it does.
pub(super) fn failure(finished: &Finished, parsed: bool) -> Option<String> {
    match succeeded("run", finished) {
        Err(reason) => Some(reason),
        Ok(()) if !parsed => Some("unreadable output".to_owned()),
        Ok(()) => None,
    }
}

pub(super) fn succeeded(doing: &str, finished: &Finished) -> Result<(), String> {
    if finished.status.success() {
        return Ok(());
    }
    let reason = finished.stderr.lines().last().unwrap_or("no reason given");
    Err(format!("{doing}: {} ({reason})", finished.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_told_per_record() {
        let mut figures = Figures::from([("wall_s".into(), 2.0), ("client_cpu_s".into(), 1.0)]);
        let mut cost = Figures::from([("server_cpu_s".into(), 3.0)]);
        per_record(&mut figures, &mut cost, 2_000_000);
        assert_eq!(figures["server_cpu_s_per_m"], 1.5);
        assert_eq!(figures["client_cpu_s_per_m"], 0.5);
        assert_eq!(figures["messages_per_s"], 1e6);
        assert!((figures["server_cpu_s_per_gb"] - 3.0 / 2.048).abs() < 1e-9);
    }

    #[test]
    fn the_order_alternates() {
        let endpoint = |system| Endpoint {
            system,
            nats: String::new(),
            address: String::new(),
            pid: 0,
            data: PathBuf::new(),
            ready: Duration::ZERO,
        };
        let first = |round| alternated(round, &endpoint("a"), &endpoint("b"))[0].system;
        assert_eq!([first(1), first(2), first(3)], ["a", "b", "a"]);
    }
}
