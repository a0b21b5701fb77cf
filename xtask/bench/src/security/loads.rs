//! The parts of the comparison: which servers, under which loads.

use super::super::client::parse_blast;
use super::super::lab::{Lab, Slot, alternated, failure};
use super::super::nats::measured::{Outcome, Program, outcome};
use super::super::sample::Figures;
use super::super::servers::{Endpoint, Server};
use super::programs::Programs;
use super::servers::{self, Certificate, OFF, ON, PASSWORD, prepare};

/// The expected duration of a part on two cores: that of the preparation plus that of each round.
pub(super) fn planned_s(part: &str, rounds: u32, quick: bool) -> f64 {
    let (once, round) = match part {
        "rights" => (12.0, 45.0),
        "decisions" => (1.0, 4.0),
        "rule" => (8.0, 3.0),
        "logins" => (22.0, 9.0),
        "tls" => (26.0, 27.0),
        "handshakes" => (24.0, 18.0),
        _ => (0.0, 34.0),
    };
    if quick { once + round * f64::from(rounds) / 4.0 } else { once + round * f64::from(rounds) }
}

pub(super) fn run(part: &str, lab: &mut Lab, programs: &Programs) -> Result<(), String> {
    match part {
        "rights" => rights(lab, programs),
        "decisions" => decisions(lab, programs),
        "rule" => rule(lab, programs),
        "logins" => logins(lab, programs),
        "tls" => tls(lab, programs),
        "handshakes" => handshakes(lab, programs),
        "memory" => memory(lab, programs),
        _ => Err("no such part".to_owned()),
    }
}

/// Seconds of one run.
fn seconds(lab: &Lab) -> &'static str {
    if lab.quick { "seconds=1" } else { "seconds=4" }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The arguments for a login as a user of the cluster.
fn login() -> [String; 2] {
    ["user=user-0".to_owned(), format!("password={PASSWORD}")]
}

/// An endpoint under the name of its samples.
fn named(server: &Server, system: &'static str) -> Endpoint {
    Endpoint { system, ..server.endpoint() }
}

/// Runs a load and keeps its figures, with the CPU time of the server for each of `unit` (in millions for
/// bytes), and the bytes for each second of it.
fn keep(
    lab: &mut Lab,
    programs: &Programs,
    slot: Slot,
    endpoint: &Endpoint,
    unit: &str,
    arguments: &[String],
) -> Result<(), String> {
    let program = Program { path: &programs.load, arguments, parse: parse_blast };
    let Outcome { mut figures, failed, line } = outcome(lab, endpoint, &program)?;
    per_unit(&mut figures, unit);
    lab.keep(slot, endpoint.system, figures, failed, line)
}

fn per_unit(figures: &mut Figures, unit: &str) {
    let get = |figures: &Figures, name: &str| figures.get(name).copied().filter(|value| *value > 0.0);
    let Some(cpu) = get(figures, "server_cpu_s") else { return };
    if let Some(count) = get(figures, unit) {
        let count = if unit == "bytes" { count / 1e6 } else { count };
        figures.insert("cpu_us_per_unit".to_owned(), cpu * 1e6 / count);
    }
    if let Some(bytes) = get(figures, "bytes") {
        figures.insert("bytes_per_cpu_s".to_owned(), bytes / cpu);
    }
}

/// Turns of both servers within a round of the loads `fetch` and `publish`. Two servers with the same
/// settings differ by a third from one turn to the next, so many short turns say more than a few long ones.
const TURNS: u32 = 5;

/// A load of one connection for some seconds, with the figure that counts its units.
fn one(
    load: &'static str,
    seconds: &str,
    endpoint: &Endpoint,
    more: &[String],
) -> (&'static str, Vec<String>) {
    let (unit, mut arguments) = match load {
        "publish" => {
            ("messages", words(&["publish", &format!("nats={}", endpoint.nats), "subject=t", "bytes=128"]))
        }
        _ => {
            let unit = if load == "fetch" { "bytes" } else { "records" };
            (unit, words(&[load, &format!("kafka={}", endpoint.address), "topic=t"]))
        }
    };
    arguments.push(seconds.to_owned());
    arguments.extend_from_slice(more);
    (unit, arguments)
}

fn rights(lab: &mut Lab, programs: &Programs) -> Result<(), String> {
    let (on, off) = (servers::on(lab, programs, &[])?, servers::off(lab, programs, &[])?);
    let endpoints = (named(&on, ON), named(&off, OFF));
    let turn = |lab: &mut Lab, load: &'static str, round: u32, seconds: &str| {
        for endpoint in alternated(round, &endpoints.0, &endpoints.1) {
            let more = if endpoint.system == ON { login().to_vec() } else { Vec::new() };
            let (unit, arguments) = one(load, seconds, &endpoint, &more);
            keep(lab, programs, Slot { part: "rights", load, round }, &endpoint, unit, &arguments)?;
        }
        Ok::<_, String>(())
    };
    // What is fetched has to stay in memory, so it is less than what is produced below.
    for endpoint in [&endpoints.0, &endpoints.1] {
        let more = if endpoint.system == ON { login().to_vec() } else { Vec::new() };
        prepare(lab, programs, "produce", &one("produce", "seconds=1", endpoint, &more).1[1..])?;
    }
    for load in ["fetch", "publish"] {
        let (turns, seconds) = if lab.quick { (1, "seconds=1") } else { (TURNS, "seconds=2") };
        for round in 1..=lab.rounds * turns {
            turn(lab, load, round, seconds)?;
        }
    }
    for round in 1..=lab.rounds {
        turn(lab, "produce", round, seconds(lab))?;
    }
    on.discard()?;
    off.discard()
}

fn decisions(lab: &mut Lab, programs: &Programs) -> Result<(), String> {
    for round in 1..=lab.rounds {
        let data = super::super::servers::empty(lab.scratch.join("decisions"))?;
        let finished = lab.tool_at(&programs.decisions, &[data.join("data").display().to_string()])?;
        let figures: Option<Figures> = finished.stdout.lines().map(figure).collect();
        let failed = failure(&finished, figures.is_some());
        let slot = Slot { part: "decisions", load: "again", round };
        let line = finished.stdout.lines().last().unwrap_or_default().to_owned();
        lab.keep(slot, ON, figures.unwrap_or_default(), failed, line)?;
    }
    Ok(())
}

fn figure(line: &str) -> Option<(String, f64)> {
    let (name, value) = line.split_once('=')?;
    Some((name.to_owned(), value.parse().ok()?))
}

fn rule(lab: &mut Lab, programs: &Programs) -> Result<(), String> {
    let on = servers::on(lab, programs, &[])?;
    let endpoint = named(&on, ON);
    let times = if lab.quick { "times=5" } else { "times=20" };
    for round in 1..=lab.rounds {
        let (kafka, nats) = (format!("kafka={}", endpoint.address), format!("nats={}", endpoint.nats));
        let mut arguments = words(&["rule", &kafka, &nats, "topic=t", times, &format!("admin={PASSWORD}")]);
        arguments.extend(login());
        keep(lab, programs, Slot { part: "rule", load: "one", round }, &endpoint, "times", &arguments)?;
    }
    on.discard()
}

fn logins(lab: &mut Lab, programs: &Programs) -> Result<(), String> {
    let on = servers::on(lab, programs, &[])?;
    let kafka = servers::kafka(lab, programs, None)?;
    let endpoints = (named(&on, ON), named(&kafka, "kafka"));
    let arguments = |lab: &Lab, endpoint: &Endpoint| {
        let mut all =
            words(&["logins", &format!("kafka={}", endpoint.address), "connections=4", seconds(lab)]);
        all.extend(login());
        all
    };
    // A JVM interprets at first.
    for _ in 0..2 {
        prepare(lab, programs, "logins", &arguments(lab, &endpoints.1)[1..])?;
    }
    for round in 1..=lab.rounds {
        for endpoint in alternated(round, &endpoints.0, &endpoints.1) {
            let slot = Slot { part: "logins", load: "scram", round };
            keep(lab, programs, slot, &endpoint, "logins", &arguments(lab, &endpoint))?;
        }
    }
    kafka.discard()?;
    on.discard()
}

/// A tailrace with TLS on both listeners, and nothing else.
fn with_tls(lab: &Lab, programs: &Programs, certificate: &Certificate) -> Result<Server, String> {
    let (file, key) = (
        format!("tailrace.tls.certificate.file={}", certificate.file.display()),
        format!("tailrace.tls.key.file={}", certificate.key.display()),
    );
    let data = super::super::servers::empty(lab.scratch.join("tls"))?;
    let settings = ["tailrace.kafka.tls=true", "tailrace.nats.tls=required", &file, &key];
    let durability = super::super::servers::Durability::Relaxed;
    let server =
        super::super::servers::tailrace_with(&lab.binary, &lab.scratch, &data, durability, &settings)?;
    let ca = format!("ca={}", certificate.file.display());
    let words = [format!("kafka={}", server.endpoint().address), "topic=t".to_owned(), ca];
    prepare(lab, programs, "topic", &words)?;
    Ok(server)
}

/// The three servers with TLS.
struct Tls {
    ca: String,
    ours: Server,
    kafka: Server,
    nats: Server,
}

impl Tls {
    fn start(lab: &Lab, programs: &Programs) -> Result<Self, String> {
        let certificate = Certificate::make(&lab.scratch)?;
        Ok(Self {
            ca: format!("ca={}", certificate.file.display()),
            ours: with_tls(lab, programs, &certificate)?,
            kafka: servers::kafka(lab, programs, Some(&certificate))?,
            nats: servers::nats_server(lab, &certificate)?,
        })
    }

    /// nats-server has its address where tailrace has that of its NATS listener.
    fn nats(&self) -> Endpoint {
        let endpoint = self.nats.endpoint();
        Endpoint { nats: endpoint.address.clone(), ..endpoint }
    }

    fn discard(self) -> Result<(), String> {
        self.nats.discard()?;
        self.kafka.discard()?;
        self.ours.discard()
    }
}

fn tls(lab: &mut Lab, programs: &Programs) -> Result<(), String> {
    let servers = Tls::start(lab, programs)?;
    let (ours, kafka, nats) = (named(&servers.ours, ON), servers.kafka.endpoint(), servers.nats());
    let more = [servers.ca.clone()];
    for load in ["produce", "fetch"] {
        prepare(lab, programs, load, &one(load, seconds(lab), &kafka, &more).1[1..])?;
    }
    for round in 1..=lab.rounds {
        for load in ["produce", "fetch", "publish"] {
            let other = if load == "publish" { &nats } else { &kafka };
            for endpoint in alternated(round, &ours, other) {
                let (unit, mut arguments) = one(load, seconds(lab), &endpoint, &more);
                if load == "publish" {
                    arguments.push("bytes=1024".to_owned());
                }
                keep(lab, programs, Slot { part: "tls", load, round }, &endpoint, unit, &arguments)?;
            }
        }
    }
    servers.discard()
}

fn handshakes(lab: &mut Lab, programs: &Programs) -> Result<(), String> {
    let servers = Tls::start(lab, programs)?;
    let (ours, kafka, nats) = (named(&servers.ours, ON), servers.kafka.endpoint(), servers.nats());
    let arguments = |lab: &Lab, load: &str, endpoint: &Endpoint| {
        let address = match load {
            "nats" => format!("nats={}", endpoint.nats),
            _ => format!("kafka={}", endpoint.address),
        };
        words(&["handshakes", &address, &servers.ca, "connections=4", seconds(lab)])
    };
    for _ in 0..2 {
        prepare(lab, programs, "handshakes", &arguments(lab, "kafka", &kafka)[1..])?;
    }
    for round in 1..=lab.rounds {
        for (load, other) in [("kafka", &kafka), ("nats", &nats)] {
            for endpoint in alternated(round, &ours, other) {
                let slot = Slot { part: "handshakes", load, round };
                keep(lab, programs, slot, &endpoint, "handshakes", &arguments(lab, load, &endpoint))?;
            }
        }
    }
    servers.discard()
}

/// Idle connections, on a fresh server each: what an earlier run left in the allocator would hide them.
fn memory(lab: &mut Lab, programs: &Programs) -> Result<(), String> {
    let count = if lab.quick { "connections=500" } else { "connections=2000" };
    for round in 1..=lab.rounds {
        for load in ["open", "login", "nats-open", "nats-login"] {
            let is_login = load.ends_with("login");
            let more = ["tailrace.kafka.logins.max.per.ip=100000", "tailrace.kafka.logins.max=100000"];
            let server = match is_login {
                true => servers::on(lab, programs, &more)?,
                false => servers::off(lab, programs, &more)?,
            };
            let endpoint = named(&server, ON);
            let address = match load.starts_with("nats") {
                true => format!("nats={}", endpoint.nats),
                false => format!("kafka={}", endpoint.address),
            };
            let mut arguments =
                words(&["idle", &address, count, &format!("pid={}", endpoint.pid), "settle=4"]);
            if is_login {
                arguments.extend(login());
            }
            keep(lab, programs, Slot { part: "memory", load, round }, &endpoint, "none", &arguments)?;
            server.discard()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_a_unit_is_in_microseconds() {
        let named = |pairs: &[(&str, f64)]| -> Figures {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
        };
        let mut figures = named(&[("server_cpu_s", 2.0), ("records", 1e6), ("bytes", 4e9)]);
        per_unit(&mut figures, "records");
        assert_eq!((figures["cpu_us_per_unit"], figures["bytes_per_cpu_s"]), (2.0, 2e9));
        per_unit(&mut figures, "bytes");
        assert_eq!(figures["cpu_us_per_unit"], 500.0);
        let mut nothing = named(&[("server_cpu_s", 0.0), ("records", 1.0)]);
        per_unit(&mut nothing, "records");
        assert!(!nothing.contains_key("cpu_us_per_unit"));
    }

    #[test]
    fn figures_of_decisions_are_read() {
        assert_eq!(figure("decision_again_ns=31.5"), Some(("decision_again_ns".to_owned(), 31.5)));
        assert_eq!(figure("error"), None);
    }
}
