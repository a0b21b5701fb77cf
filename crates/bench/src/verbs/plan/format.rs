//! The format of a plan: systems, workloads, rounds. Unknown keys are errors.
//!
//! A workload's keys are the options of `bench run`, with the same names, values and checks.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use clap::Parser;
use serde::Deserialize;
use tailrace_cli::failure::{Failure, plain};
use tailrace_cli::text::units::parse_duration;
use toml::Value;

use super::agents;
use super::system::{PlannedSystem, RawSystem, check_name};
use super::trouble::{RawTrouble, TroublePlan};
use crate::verbs::arguments::RunArguments;
use crate::verbs::secrets;
use crate::verbs::server::{HOST, LOOPBACK};

/// Options of `bench run` that a workload may set.
const WORKLOAD_KEYS: [&str; 18] = [
    "connections",
    "drain",
    "duration",
    "in-flight",
    "interval",
    "messages",
    "mode",
    "ramp-to",
    "rate",
    "reconnect",
    "schedule",
    "seed",
    "size",
    "steps",
    "threads",
    "timeout",
    "trace",
    "warm-up",
];

/// A plan as in the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Raw {
    #[serde(default = "three")]
    rounds: u32,
    pause: Option<String>,
    #[serde(default)]
    spin: bool,
    #[serde(default)]
    agents: Vec<String>,
    agent_key_file: Option<String>,
    placement: Option<String>,
    #[serde(rename = "system")]
    systems: Vec<RawSystem>,
    trouble: Option<RawTrouble>,
    #[serde(rename = "workload")]
    workloads: Vec<BTreeMap<String, Value>>,
}

fn three() -> u32 {
    3
}

/// A validated plan.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) rounds: u32,
    pub(super) pause: Duration,
    spin: bool,
    /// Options of every run that say where its load comes from.
    agents: Vec<String>,
    pub(super) systems: Vec<PlannedSystem>,
    pub(super) workloads: Vec<Workload>,
    pub(super) trouble: Option<TroublePlan>,
}

#[derive(Debug)]
pub(super) struct Workload {
    pub(super) name: String,
    options: Vec<String>,
}

/// `bench run` by itself, to parse its options from a plan.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(flatten)]
    run: RunArguments,
}

impl Plan {
    pub(super) fn read(path: &Path) -> Result<(Self, String), Failure> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read {}: {}", path.display(), plain(&error)))?;
        let plan = Self::parse(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok((plan, text))
    }

    fn parse(text: &str) -> Result<Self, Failure> {
        let raw: Raw = toml::from_str(text).map_err(|error| secrets::toml_error(text, &error))?;
        if raw.systems.is_empty() || raw.workloads.is_empty() || raw.rounds == 0 {
            return Err("a plan needs at least one system, one workload and one round".into());
        }
        let pause = raw.pause.as_deref().map_or(Ok(Duration::from_secs(1)), parse_duration)?;
        let systems = raw.systems.into_iter().map(PlannedSystem::new).collect::<Result<Vec<_>, _>>()?;
        let workloads = raw.workloads.into_iter().map(Workload::new).collect::<Result<Vec<_>, _>>()?;
        let trouble = raw.trouble.map(TroublePlan::new).transpose()?;
        let agents = agents::words(raw.agents, raw.agent_key_file, raw.placement)?;
        let plan = Self { rounds: raw.rounds, pause, spin: raw.spin, agents, systems, workloads, trouble };
        unique("system", plan.systems.iter().map(|system| &system.name))?;
        unique("workload", plan.workloads.iter().map(|workload| &workload.name))?;
        plan.check()?;
        Ok(plan)
    }

    /// Checks that every run is possible, before the first one starts.
    fn check(&self) -> Result<(), Failure> {
        for system in &self.systems {
            for workload in &self.workloads {
                let run = self.run(system, workload, LOOPBACK)?;
                let options = run.load_options(0)?;
                crate::systems::check(&run.target(0)?)?;
                agents::check(&run, &options)?;
                if let Some(trouble) = &self.trouble {
                    trouble.check(system, &run)?;
                }
            }
        }
        Ok(())
    }

    /// The options of one run against a server on `host`.
    pub(super) fn run(
        &self,
        system: &PlannedSystem,
        workload: &Workload,
        host: &str,
    ) -> Result<RunArguments, Failure> {
        let mut words = vec![format!("--system={}", system.system)];
        let address = system.address.iter().map(|address| address.replace(HOST, host));
        words.extend(address.map(|address| format!("--address={address}")));
        words.extend(system.set.iter().map(|(key, value)| format!("--set={key}={value}")));
        words.extend(self.spin.then(|| "--spin".to_owned()));
        words.extend(self.agents.iter().cloned());
        words.extend(workload.options.iter().cloned());
        let mut line = Line::try_parse_from(&words).map_err(|error| {
            // The first line says what is wrong. The rest is about a command line that no one has typed.
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
            format!("workload {}: {first}", workload.name)
        })?;
        line.run.words = Some(words);
        Ok(line.run)
    }
}

impl Workload {
    fn new(mut raw: BTreeMap<String, Value>) -> Result<Self, Failure> {
        let Some(Value::String(name)) = raw.remove("name") else {
            return Err("a workload needs a name".into());
        };
        check_name(&name)?;
        let mut options = Vec::new();
        for (key, value) in raw {
            if !WORKLOAD_KEYS.contains(&key.as_str()) {
                let known = WORKLOAD_KEYS.join(", ");
                return Err(format!("workload {name}: unknown key '{key}': expected name, {known}").into());
            }
            let value = match value {
                Value::String(text) => text,
                Value::Integer(number) => number.to_string(),
                Value::Float(number) => number.to_string(),
                other => {
                    let found = other.type_str();
                    return Err(
                        format!("workload {name}: {key} is a {found}: expected text or a number").into()
                    );
                }
            };
            options.push(format!("--{key}={value}"));
        }
        Ok(Self { name, options })
    }
}

fn unique<'a>(what: &str, names: impl Iterator<Item = &'a String>) -> Result<(), Failure> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(format!("two {what}s are called {name}").into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "rounds = 2\npause = '0s'\n[[system]]\nsystem = 'nats'\nname = 'n'\naddress = 'h:1'\n\
        start = ['server', '-x']\n[[system]]\nsystem = 'noop'\n[[workload]]\nname = 'small'\nrate = 3000\nsize = '1KiB'\n";

    #[test]
    fn a_plan_is_read() {
        let plan = Plan::parse(GOOD).unwrap();
        assert_eq!((plan.rounds, plan.systems.len(), plan.workloads.len()), (2, 2, 1));
        let run = plan.run(&plan.systems[0], &plan.workloads[0], "h2").unwrap();
        assert_eq!((run.system.as_str(), run.size, run.rate.to_string().as_str()), ("nats", 1024, "3000/s"));
        assert_eq!(plan.systems[0].server.as_ref().unwrap().ready, "h:1");
        let text = GOOD.replace("'h:1'", "'{host}:1'").replace("'-x'", "'--bind={host}'");
        let plan = Plan::parse(&text).unwrap();
        let run = plan.run(&plan.systems[0], &plan.workloads[0], "10.0.0.2").unwrap();
        assert_eq!(run.address.as_deref(), Some("10.0.0.2:1"));
        let server = plan.systems[0].server.as_ref().unwrap().on("10.0.0.2", vec!["in".to_owned()]);
        assert_eq!(
            (server.command.join(" "), server.ready.as_str()),
            ("in server --bind=10.0.0.2".to_owned(), "10.0.0.2:1")
        );
    }

    #[test]
    fn the_plans_in_the_tree_are_plans() {
        for text in [
            include_str!("../../../../../docs/benchmarks/plans/classic.toml"),
            include_str!("../../../../../docs/benchmarks/plans/throughput.toml"),
            include_str!("../../../../../docs/benchmarks/plans/scalability.toml"),
            include_str!("../../../../../docs/benchmarks/plans/fsync.toml"),
            include_str!("../../../../../docs/benchmarks/plans/fsync-kafka.toml"),
        ] {
            assert!(Plan::parse(text).unwrap().workloads.len() >= 2);
        }
    }

    #[test]
    fn wrong_plans_are_named() {
        for (from, to, words) in [
            ("rounds = 2", "round = 2", "unknown field `round`"),
            ("rounds = 2", "rounds = 0", "at least one"),
            ("rate = 3000", "speed = 3000", "unknown key 'speed'"),
            ("rate = 3000", "rate = 'often'", "'often' is not a rate"),
            ("rate = 3000", "rate = 0", "a rate of 0"),
            ("rate = 3000", "rate = true", "is a boolean"),
            ("'1KiB'", "'1B'", "size is 1"),
            ("name = 'small'", "nam = 'small'", "needs a name"),
            ("name = 'n'", "name = '../n'", "is not a valid name"),
            ("name = 'n'", "name = 'noop'", "two systems are called noop"),
            ("system = 'nats'", "system = 'pigeon'", "'pigeon' for '--system <NAME>'"),
            ("address = 'h:1'", "set = { colour = 'red' }\naddress = 'h:1'", "'colour' is not a setting"),
            ("address = 'h:1'", "version = []\naddress = 'h:1'", "version is empty"),
            ("[[workload]]", "[trouble]\nboth = 'rain=1s'\n[[workload]]", "'rain' is not a kind of trouble"),
            (
                "[[workload]]",
                "[trouble]\nboth = 'jitter=1ms'\n[[workload]]",
                "system noop: trouble on the way needs an address",
            ),
            (
                "[[workload]]",
                "[trouble]\nsignals = [{ at = '1s', signal = 'SIGHUP' }]\n[[workload]]",
                "unknown variant `SIGHUP`",
            ),
            (
                "[[workload]]",
                "[trouble]\nsignals = [{ at = '1s', signal = 'SIGSTOP' }]\n[[workload]]",
                "system noop: signals need a server that the plan starts",
            ),
            (
                "[[workload]]",
                "[trouble]\nsignals = [{ at = '1s', start = true }, { at = '2s', signal = 'SIGKILL' }]\n[[workload]]",
                "to be started at 1s: expected a SIGKILL or SIGTERM before that",
            ),
            (
                "[[workload]]",
                "[trouble]\nsignals = [{ at = '1s', start = true, signal = 'SIGKILL' }]\n[[workload]]",
                "at 1s: expected either signal = \"NAME\" or start = true",
            ),
            (
                "[[workload]]",
                "[trouble]\nsignals = [{ at = '40s', signal = 'SIGSTOP' }]\n[[workload]]",
                "a signal is due at 40s, after the run's end",
            ),
            ("address = 'h:1'", "commit = []\naddress = 'h:1'", "commit is empty"),
            (
                "system = 'noop'",
                "system = 'zeromq'\naddress = 'h:1,h:2'\nset = { pattern = 'request' }",
                "several addresses (h:1,h:2) cannot be combined with",
            ),
            ("[[workload]]", "[trouble]\nnetem = 'rain=1%'\n[[workload]]", "netem: 'rain' is unknown"),
            (
                "[[workload]]",
                "[trouble]\nnetem-to-client = 'loss=1%'\n[[workload]]",
                "system n: netem needs a server that the plan starts, and {host} in its address",
            ),
            (
                "rounds = 2\npause = '0s'\n[[system]]\nsystem = 'nats'",
                "rounds = 2\n[trouble]\nboth = 'latency=1ms'\n[[system]]\nsystem = 'kafka'",
                "system n: Kafka's clients connect to the addresses that servers advertise, past the proxy",
            ),
            ("address = 'h:1'\n", "", "start needs an address"),
            ("rounds = 2", "rounds = 2\nagents = ['h:1']", "agents and agent-key-file go together"),
            ("rounds = 2", "rounds = 2\nplacement = 'apart'", "placement needs agents"),
            (
                "rounds = 2",
                "rounds = 2\nagents = ['h:1']\nagent-key-file = '/nowhere'",
                "key file /nowhere: No such file",
            ),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let text = Plan::parse(&GOOD.replace(from, to)).unwrap_err().to_string();
            assert!(text.contains(words), "{text}");
        }
    }
}
