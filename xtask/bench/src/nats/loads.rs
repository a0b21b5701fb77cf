//! The parts of the comparison: which servers, under which loads.

use std::path::Path;

use super::super::client::{parse_blast, parse_openloop};
use super::super::lab::{Lab, Slot, alternated, succeeded};
use super::super::sample::Figures;
use super::super::servers::{self, Durability, Endpoint, NatsSync, Server};
use super::measured::{Program, measured};

/// Name, payload, publishers, subscribers and messages of each load. There are fewer messages if each is
/// delivered several times.
const CORE: [(&str, u32, u32, u32, u64); 9] = [
    ("16B 1x1", 16, 1, 1, 3_000_000),
    ("16B 1x4", 16, 1, 4, 1_000_000),
    ("16B 4x4", 16, 4, 4, 1_000_000),
    ("128B 1x1", 128, 1, 1, 3_000_000),
    ("128B 1x4", 128, 1, 4, 1_000_000),
    ("128B 4x4", 128, 4, 4, 1_000_000),
    ("1KB 1x1", 1024, 1, 1, 1_000_000),
    ("1KB 1x4", 1024, 1, 4, 330_000),
    ("1KB 4x4", 1024, 4, 4, 330_000),
];

/// Name, payload, messages per second and pairs of connections of each load.
const CELLS: [(&str, u32, u32, u32); 5] = [
    ("256B 3k/s", 256, 3000, 1),
    ("1KB 3k/s", 1024, 3000, 1),
    ("5KB 3k/s", 5120, 3000, 1),
    ("1KB 20k/s", 1024, 20_000, 25),
    ("1MB 100/s", 1_000_000, 100, 1),
];

/// The payload of openloop's echo: the floor is only measured with 1 KB, as in the peers' own scripts.
const ECHO_BYTES: u32 = 1024;

const MANY_SUBSCRIPTIONS: u64 = 1_000_000;
const MANY_MESSAGES: u64 = 2_000_000;
const ASYNC_MESSAGES: u64 = 1_000_000;
const SYNC_MESSAGES: u64 = 50_000;

/// The expected duration of a part on two cores: that of the preparation plus that of each round.
pub(super) fn planned_s(part: &str, rounds: u32, quick: bool) -> f64 {
    let (once, round) = match part {
        "core" => (2.0, 45.0),
        "million" => (10.0, 40.0),
        "latency" => (3.0, 150.0),
        "captured" => (3.0, 35.0),
        _ => (3.0, 22.0),
    };
    let seconds = once + round * f64::from(rounds);
    if quick { seconds / 4.0 } else { seconds }
}

pub(super) fn run(part: &str, lab: &mut Lab, natsload: &Path) -> Result<(), String> {
    match part {
        "core" => core(lab),
        "million" => million(lab, natsload),
        "latency" => latency(lab),
        "captured" => captured(lab),
        "fsync" => fsync(lab, natsload),
        _ => Err("no such part".to_owned()),
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Starts tailrace, and returns the endpoint of its NATS front.
fn tailrace(lab: &Lab, durability: Durability) -> Result<(Server, Endpoint), String> {
    let server = lab.tailrace(durability)?;
    let mut endpoint = server.endpoint();
    endpoint.address.clone_from(&endpoint.nats);
    Ok((server, endpoint))
}

fn core(lab: &mut Lab) -> Result<(), String> {
    let blast = lab.peers.program("blast-nats");
    for round in 1..=lab.rounds {
        let mut ratios = Vec::new();
        for (load, size, publishers, subscribers, messages) in CORE {
            // Start fresh servers, so that peak memory is that of this load.
            let (ours, endpoint) = tailrace(lab, Durability::Strict)?;
            let theirs = servers::nats_server(&lab.peers, &lab.scratch, NatsSync::Default)?;
            let messages = lab.scaled(messages);
            let arguments = |address: &str| {
                let numbers = [messages, u64::from(size), u64::from(publishers), u64::from(subscribers)];
                let [n, size, p, s] = numbers.map(|number| number.to_string());
                words(&["core", "-addr", address, "-n", &n, "-size", &size, "-pubs", &p, "-subs", &s])
            };
            let mut rates = Figures::new();
            for endpoint in alternated(round, &endpoint, &theirs.endpoint()) {
                let (slot, delivered) =
                    (Slot { part: "core", load, round }, messages * u64::from(subscribers));
                let arguments = arguments(&endpoint.address);
                let program = Program { path: &blast, arguments: &arguments, parse: parse_blast };
                let figures = measured(lab, slot, &endpoint, &program, Some(delivered))?;
                rates.extend(figures.get("received_per_s").map(|rate| (endpoint.system.to_owned(), *rate)));
            }
            ratios.extend(
                rates.get("tailrace").zip(rates.get("nats-server")).map(|(ours, theirs)| ours / theirs),
            );
            ours.discard()?;
            theirs.discard()?;
        }
        if ratios.len() == CORE.len() {
            let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
            let figures = Figures::from([("received_ratio".to_owned(), mean)]);
            let slot = Slot { part: "core", load: "geometric mean", round };
            lab.keep(slot, "tailrace", figures, None, String::new())?;
        }
    }
    Ok(())
}

fn million(lab: &mut Lab, natsload: &Path) -> Result<(), String> {
    let (subscriptions, messages) = (lab.scaled(MANY_SUBSCRIPTIONS), lab.scaled(MANY_MESSAGES));
    let arguments = |mode: &str, address: &str| {
        let (subscriptions, messages) = (subscriptions.to_string(), messages.to_string());
        words(&[mode, "-addr", address, "-subs", &subscriptions, "-n", &messages])
    };
    for round in 1..=lab.rounds {
        let (ours, endpoint) = tailrace(lab, Durability::Strict)?;
        let theirs = servers::nats_server(&lab.peers, &lab.scratch, NatsSync::Default)?;
        for endpoint in alternated(round, &endpoint, &theirs.endpoint()) {
            let slot = Slot { part: "million", load: "million", round };
            let mut arguments = arguments("many", &endpoint.address);
            arguments.extend(["-pid".to_owned(), endpoint.pid.to_string()]);
            let program = Program { path: natsload, arguments: &arguments, parse: parse_blast };
            measured(lab, slot, &endpoint, &program, Some(messages))?;
        }
        ours.discard()?;
        theirs.discard()?;
        // The client's own limit, against a server inside the client that does nothing. The CPU time of that
        // server cannot be separated, so it is not recorded.
        let finished = lab.tool_at(natsload, &arguments("limit", ""))?;
        succeeded("natsload limit", &finished)?;
        let line = finished.stdout.lines().last().unwrap_or_default().to_owned();
        let slot = Slot { part: "million", load: "million", round };
        lab.keep(slot, "client alone", parse_blast(&line).unwrap_or_default(), None, line)?;
    }
    Ok(())
}

fn latency(lab: &mut Lab) -> Result<(), String> {
    let (ours, endpoint) = tailrace(lab, Durability::Strict)?;
    let theirs = servers::nats_server(&lab.peers, &lab.scratch, NatsSync::Default)?;
    let floor = servers::echo(&lab.peers, &lab.scratch)?;
    let redis = servers::redis(&lab.scratch);
    if let Err(reason) = &redis {
        lab.progress.say(&format!("without Redis: {reason}"));
    }
    let openloop = lab.peers.program("openloop");
    let seconds = if lab.quick { "3s" } else { "6s" };
    for round in 1..=lab.rounds {
        for (load, size, rate, pairs) in CELLS {
            let mut turn = Vec::from(alternated(round, &endpoint, &theirs.endpoint()));
            turn.extend(redis.as_ref().ok().map(Server::endpoint));
            if size == ECHO_BYTES {
                turn.push(floor.endpoint());
            }
            for endpoint in turn {
                let protocol = match endpoint.system {
                    "tailrace" | "nats-server" => "nats",
                    other => other,
                };
                let [size, rate, pairs] = [size, rate, pairs].map(|number| number.to_string());
                let arguments = words(&[
                    "-sys",
                    protocol,
                    "-addr",
                    &endpoint.address,
                    "-size",
                    &size,
                    "-rate",
                    &rate,
                    "-conns",
                    &pairs,
                    "-dur",
                    seconds,
                    "-warm",
                    "1s",
                    "-label",
                    endpoint.system,
                ]);
                let slot = Slot { part: "latency", load, round };
                let program = Program { path: &openloop, arguments: &arguments, parse: parse_openloop };
                measured(lab, slot, &endpoint, &program, None)?;
            }
        }
    }
    redis.map_or(Ok(()), Server::discard)?;
    floor.discard()?;
    theirs.discard()?;
    ours.discard()
}

/// Creates a stream of JetStream, or a topic of tailrace that captures the same subjects.
fn stream(lab: &Lab, endpoint: &Endpoint, kafka: &str, name: &str) -> Result<(), String> {
    if endpoint.system == "nats-server" {
        let arguments = words(&["create", "-addr", &endpoint.address, "-stream", name]);
        return succeeded("blast-nats create", &lab.tool("blast-nats", &arguments)?);
    }
    let subjects = format!("{name}.*");
    let arguments =
        words(&["topic", "create", name, "--partitions", "1", "--subjects", &subjects, "-b", kafka]);
    succeeded("tailrace topic create", &lab.tool_at(&lab.binary, &arguments)?)
}

fn captured(lab: &mut Lab) -> Result<(), String> {
    let blast = lab.peers.program("blast-nats");
    for round in 1..=lab.rounds {
        let (ours, endpoint) = tailrace(lab, Durability::Relaxed)?;
        let kafka = ours.endpoint().address;
        let theirs = servers::nats_server(&lab.peers, &lab.scratch, NatsSync::Default)?;
        for (load, messages) in [("async", ASYNC_MESSAGES), ("sync", SYNC_MESSAGES)] {
            let messages = lab.scaled(messages);
            for endpoint in alternated(round, &endpoint, &theirs.endpoint()) {
                let name = format!("{load}{round}");
                stream(lab, &endpoint, &kafka, &name)?;
                lab.warm_free_memory(messages * 1024);
                let arguments =
                    words(&[load, "-addr", &endpoint.address, "-stream", &name, "-n", &messages.to_string()]);
                let slot = Slot { part: "captured", load, round };
                let program = Program { path: &blast, arguments: &arguments, parse: parse_blast };
                measured(lab, slot, &endpoint, &program, Some(messages))?;
            }
        }
        ours.discard()?;
        theirs.discard()?;
    }
    Ok(())
}

fn fsync(lab: &mut Lab, natsload: &Path) -> Result<(), String> {
    let (ours, endpoint) = tailrace(lab, Durability::Strict)?;
    let kafka = ours.endpoint().address;
    let theirs = servers::nats_server(&lab.peers, &lab.scratch, NatsSync::Always)?;
    let seconds = if lab.quick { "3s" } else { "8s" };
    for round in 1..=lab.rounds {
        for endpoint in alternated(round, &endpoint, &theirs.endpoint()) {
            let name = format!("fsync{round}");
            stream(lab, &endpoint, &kafka, &name)?;
            let subject = format!("{name}.0");
            let arguments = words(&[
                "ack",
                "-addr",
                &endpoint.address,
                "-subject",
                &subject,
                "-rate",
                "3000",
                "-conns",
                "25",
                "-size",
                "1024",
                "-dur",
                seconds,
            ]);
            let slot = Slot { part: "fsync", load: "1KB 3k/s", round };
            let program = Program { path: natsload, arguments: &arguments, parse: parse_blast };
            measured(lab, slot, &endpoint, &program, None)?;
        }
    }
    theirs.discard()?;
    ours.discard()
}
