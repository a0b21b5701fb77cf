//! The parts of the comparison: which nodes, under which loads.

use std::thread;
use std::time::{Duration, Instant};

use super::super::client::{Blast, parse_blast};
use super::super::lab::{Lab, Slot, failure};
use super::super::proc;
use super::super::sample::Figures;
use super::super::servers::Durability;
use super::nodes::{Nodes, System};

const PARTITIONS: u32 = 6;
const THREADS: u32 = 2;
const RECORDS: u64 = 2_000_000;
const RECORD_BYTES: u64 = 1024;
/// Records written before the measurement, to warm up the JVM.
const WARM_RECORDS: u64 = 1_000_000;
const IDLE: Duration = Duration::from_secs(60);
const QUICK_IDLE: Duration = Duration::from_secs(8);
/// Pause before an idle measurement: earlier work has ended by then, and idle partitions hibernate.
const REST: Duration = Duration::from_secs(8);

/// The expected duration of a part on two cores: that of the preparation plus that of each round.
pub(super) fn planned_s(part: &str, rounds: u32, quick: bool) -> f64 {
    let (once, round) = match part {
        "produce" | "strict" => (60.0, 50.0),
        "idle" => (60.0, 140.0),
        _ => (120.0, 60.0),
    };
    let seconds = once + round * f64::from(rounds);
    if quick { seconds / 3.0 } else { seconds }
}

pub(super) fn run(part: &str, lab: &mut Lab) -> Result<(), String> {
    match part {
        "produce" => produce(lab, "produce", "relaxed", Durability::Relaxed),
        "strict" => produce(lab, "strict", "strict", Durability::Strict),
        "idle" => idle(lab),
        "start" => start(lab),
        _ => Err("no such part".to_owned()),
    }
}

fn produce(
    lab: &mut Lab,
    part: &'static str,
    load: &'static str,
    durability: Durability,
) -> Result<(), String> {
    let ours = Nodes::fresh(lab, System::Tailrace(durability))?;
    let theirs = Nodes::fresh(lab, System::Kafka)?;
    for nodes in [&ours, &theirs] {
        nodes.create(lab, "warm", PARTITIONS)?;
        let warm = blast("warm", lab.scaled(WARM_RECORDS));
        let finished = lab.tool("blast-kafka", &warm.arguments(&nodes.addresses()))?;
        super::super::lab::succeeded("warming", &finished)?;
        nodes.delete(lab, "warm")?;
    }
    for round in 1..=lab.rounds {
        let topic = format!("{part}-{round}");
        for nodes in alternated(round, &ours, &theirs) {
            // Each of the three replicas writes the records.
            lab.warm_free_memory(3 * RECORDS * RECORD_BYTES);
            nodes.create(lab, &topic, PARTITIONS)?;
            produce_once(lab, Slot { part, load, round }, nodes, &topic)?;
            nodes.delete(lab, &topic)?;
            lab.settle();
        }
    }
    theirs.discard()?;
    ours.discard()
}

fn blast(topic: &str, records: u64) -> Blast {
    Blast { partitions: PARTITIONS, threads: THREADS, acks: "all", ..Blast::new("produce", topic, records) }
}

fn produce_once(lab: &mut Lab, slot: Slot, nodes: &Nodes, topic: &str) -> Result<(), String> {
    let blast = blast(topic, lab.scaled(RECORDS));
    let (began, cpu, foreign) = (Instant::now(), nodes.cpu_s(), proc::foreign_s());
    let finished = lab.tool("blast-kafka", &blast.arguments(&nodes.addresses()))?;
    let (seconds, cpu) = (began.elapsed().as_secs_f64(), nodes.cpu_s() - cpu);
    let line = finished.stdout.lines().last().unwrap_or_default().to_owned();
    let figures = parse_blast(&line);
    let failed = failure(&finished, figures.is_some());
    let mut figures = figures.unwrap_or_default();
    let millions = blast.records as f64 / 1e6;
    figures.insert("server_cpu_s_per_m".to_owned(), cpu / millions);
    if let Some((after, before)) = proc::foreign_s().zip(foreign) {
        figures.insert("foreign_pct".to_owned(), (after - before) * 100.0 / seconds);
    }
    lab.keep(slot, nodes.system.name(), figures, failed, line)
}

/// Measures idle nodes: one system after the other, each alone on the machine.
fn idle(lab: &mut Lab) -> Result<(), String> {
    let time = if lab.quick { QUICK_IDLE } else { IDLE };
    for system in [System::Tailrace(Durability::Strict), System::Kafka] {
        let nodes = Nodes::fresh(lab, system)?;
        nodes.create(lab, "idle", 1000)?;
        nodes.until_answered(lab, "idle", 1000)?;
        for round in 1..=lab.rounds {
            thread::sleep(REST);
            let before = nodes.cpu_s();
            thread::sleep(time);
            let cpu = (nodes.cpu_s() - before) * 100.0 / time.as_secs_f64() / 3.0;
            let memory = nodes.pids().into_iter().filter_map(|pid| proc::memory_mib(pid, "VmRSS"));
            let named = [("node_cpu_pct", cpu), ("node_rss_mib", memory.sum::<f64>() / 3.0)];
            let figures = named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            let slot = Slot { part: "idle", load: "thousand", round };
            lab.keep(slot, system.name(), figures, None, String::new())?;
        }
        nodes.discard()?;
    }
    Ok(())
}

fn start(lab: &mut Lab) -> Result<(), String> {
    let ours = System::Tailrace(Durability::Strict);
    for (system, load, partitions) in
        [(ours, "thousand", 1000), (System::Kafka, "thousand", 1000), (ours, "ten thousand", 10_000)]
    {
        let mut nodes = Nodes::fresh(lab, system)?;
        let began = Instant::now();
        nodes.create(lab, "many", partitions)?;
        nodes.until_answered(lab, "many", partitions as usize)?;
        let created = began.elapsed().as_secs_f64();
        for round in 1..=lab.rounds {
            lab.settle();
            let answers = nodes.restart(lab, "many", partitions as usize)?.as_secs_f64();
            let mut figures = Figures::from([("answers_s".to_owned(), answers)]);
            if round == 1 {
                figures.insert("created_s".to_owned(), created);
            }
            lab.keep(Slot { part: "start", load, round }, system.name(), figures, None, String::new())?;
        }
        nodes.discard()?;
    }
    Ok(())
}

fn alternated<'a>(round: u32, first: &'a Nodes, second: &'a Nodes) -> [&'a Nodes; 2] {
    if round % 2 == 1 { [first, second] } else { [second, first] }
}
