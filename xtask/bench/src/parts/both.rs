//! Six producers and six consumers on twelve partitions at the same time. Also the memory of the process
//! under that load and idle, and its start-up time.

use std::fs;
use std::thread;
use std::time::Duration;

use super::super::client::Blast;
use super::super::lab::{Lab, Slot, alternated};
use super::super::proc;
use super::super::sample::Figures;
use super::super::servers::{self, Durability, Endpoint, Flush};

const PART: &str = "both";
const RECORDS: u64 = 1_500_000;
const PARTITIONS: u32 = 12;
const THREADS: u32 = 6;
const MANY_PARTITIONS: u32 = 1000;
/// Enough to have records in each of the thousand partitions.
const MANY_RECORDS: u64 = 20_000;
const IDLE: Duration = Duration::from_secs(2);

pub(super) fn run(lab: &mut Lab) -> Result<(), String> {
    let kafka = lab.kafka(Flush::Default)?;
    ready(lab, "empty", 1, &kafka, "kafka")?;
    for round in 1..=lab.rounds {
        start_on_nothing(lab, round)?;
    }
    start_on_many(lab)?;
    let server = lab.tailrace(Durability::Relaxed)?;
    let tailrace = server.endpoint();
    for round in 1..=lab.rounds {
        together(lab, round, &alternated(round, &tailrace, &kafka))?;
    }
    server.discard()
}

fn together(lab: &mut Lab, round: u32, pair: &[Endpoint]) -> Result<(), String> {
    let topic = format!("both-{round}");
    let blast =
        Blast { partitions: PARTITIONS, threads: THREADS, ..Blast::new("both", &topic, lab.scaled(RECORDS)) };
    pair.iter().try_for_each(|endpoint| lab.create(endpoint, &topic, PARTITIONS))?;
    for endpoint in pair {
        lab.blast(Slot { part: PART, load: "both", round }, endpoint, &blast)?;
    }
    pair.iter().try_for_each(|endpoint| lab.delete(endpoint, &topic))?;
    lab.settle();
    Ok(())
}

fn start_on_nothing(lab: &mut Lab, round: u32) -> Result<(), String> {
    let server = lab.tailrace(Durability::Relaxed)?;
    let endpoint = server.endpoint();
    ready(lab, "empty", round, &endpoint, "tailrace")?;
    thread::sleep(IDLE);
    let idle = proc::memory_mib(endpoint.pid, "VmRSS").ok_or("tailrace has exited")?;
    let figures = Figures::from([("idle_rss_mib".to_owned(), idle)]);
    lab.keep(Slot { part: PART, load: "idle", round }, "tailrace", figures, None, String::new())?;
    server.discard()
}

/// Measures starts with a thousand partitions, each after a clean stop.
fn start_on_many(lab: &mut Lab) -> Result<(), String> {
    let server = lab.tailrace(Durability::Relaxed)?;
    let endpoint = server.endpoint();
    lab.create(&endpoint, "many", MANY_PARTITIONS)?;
    let fill = Blast { partitions: MANY_PARTITIONS, ..Blast::new("produce", "many", MANY_RECORDS) };
    lab.prepare(&endpoint, &fill)?;
    let mut data = server.stop()?;
    for round in 1..=lab.rounds {
        let server = servers::tailrace(&lab.binary, &lab.scratch, &data, Durability::Relaxed)?;
        ready(lab, "thousand", round, &server.endpoint(), "tailrace")?;
        data = server.stop()?;
    }
    fs::remove_dir_all(&data).map_err(|error| format!("{}: {error}", data.display()))
}

/// Keeps the time from the start of the process until the server is ready.
fn ready(
    lab: &mut Lab,
    load: &'static str,
    round: u32,
    endpoint: &Endpoint,
    system: &str,
) -> Result<(), String> {
    let milliseconds = endpoint.ready.as_secs_f64() * 1e3;
    let figures = Figures::from([("ready_ms".to_owned(), milliseconds)]);
    lab.keep(Slot { part: PART, load, round }, system, figures, None, String::new())
}
