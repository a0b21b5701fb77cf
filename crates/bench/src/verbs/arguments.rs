//! Arguments of `tailrace bench run`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clap::{Args, ValueEnum};
use tailrace_cli::failure::{Failure, plain};
use tailrace_cli::output::Output;
use tailrace_cli::text::pairs::key_value;
use tailrace_cli::text::units::{parse_bytes, parse_duration};

use super::credentials;
use super::secrets::{self, HIDDEN, is_secret};
use super::server::Server;
use super::signals::PlannedDeed;
use crate::clock::Waiting;
use crate::engine::{Load, LoadOptions, Reconnect};
use crate::remote::Placement;
use crate::report::Origin;
use crate::schedule::{Rate, Schedule, Segment};
use crate::systems::{SYSTEMS, Settings, Target};
use crate::version::Told;

#[derive(Debug, Args)]
#[command(
    after_help = "Latency counts from the moment a message was due, not from when it was sent: a system that stalls is charged \
    for every message that should have been sent in the meantime. Percentiles go to six nines, as far as the number of messages tells them, and \
    to the exact maximum.\n\n\
    Examples:\n  \
    tailrace bench run --system tcp-echo --rate 3000\n  \
    tailrace bench run --system nats --rate 20k --size 1KiB --connections 25 --threads 2\n  \
    tailrace bench run --system jetstream --set storage=file --schedule poisson --out results/js-1\n  \
    tailrace bench run --system redis --steps 1k:10s,5k:10s,0:2s,5k:10s\n\n\
    Status 1: the run, or a round of the plan, is invalid (the reason is printed), a connection was broken at its end, or an agent was \
    lost.\n\n\
    Status 3: nothing was measured, because all messages were sent within the warm-up.\n\n\
    docs/benchmarking.md explains how to measure, how to read the result, what a plan looks like, and what is not built yet."
)]
pub(crate) struct RunArguments {
    /// A plan of several runs, one after the other; combine it only with --out, -o, -q, --progress and the
    /// options of plans
    #[arg(value_name = "PLAN.toml")]
    pub(super) plan: Option<PathBuf>,
    /// For plans: repeat an invalid round this many times
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) repeat_invalid: u32,
    /// For plans: repeat runs that already have a result: everything, or SYSTEM, SYSTEM/WORKLOAD,
    /// SYSTEM/WORKLOAD/round-N; may be repeated
    #[arg(long, value_name = "WHAT", requires = "plan", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub(super) force: Vec<String>,
    /// For plans: continue without trouble that cannot be created on this machine; results are marked
    #[arg(long, requires = "plan")]
    pub(super) without_trouble_if_impossible: bool,
    /// System to measure; see `tailrace bench systems`
    #[arg(
        long,
        value_name = "NAME",
        required_unless_present = "plan",
        default_value = "noop",
        hide_default_value = true,
        value_parser = system
    )]
    pub(super) system: String,
    /// Address of the system; several, separated by commas, share the connections [default: the system's
    /// usual port on this machine]
    #[arg(long, value_name = "HOST:PORT,...")]
    pub(super) address: Option<String>,
    /// A setting of the system; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    set: Vec<(String, String)>,
    /// Messages per second on all connections together: 3000, 0.5, 250k, 1M
    #[arg(long, default_value = "1000")]
    pub(super) rate: Rate,
    /// Distribution of messages over time
    #[arg(long, value_enum, default_value_t = Shape::Constant)]
    schedule: Shape,
    /// Change the rate linearly from --rate to this one, over the whole run
    #[arg(long, value_name = "RATE", conflicts_with_all = ["steps", "trace"])]
    ramp_to: Option<Rate>,
    /// Rates one after the other, each with its duration: 1k:10s,0:2s,5k:10s
    #[arg(long, value_name = "RATE:TIME,...", conflicts_with = "trace")]
    steps: Option<String>,
    /// Due times from a file: nanoseconds since the start, one per line
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Seed of all randomness: random schedules, waits before reconnecting
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What triggers messages; only the open loop measures what users experience
    #[arg(long, value_enum, default_value_t = Mode::Open)]
    mode: Mode,
    /// Size of each message in bytes, at least 24
    #[arg(long, default_value = "128", value_parser = parse_bytes)]
    pub(super) size: u64,
    /// Connections, or pairs of publisher and subscriber
    #[arg(long, default_value_t = 1)]
    pub(super) connections: u32,
    /// Threads of the generator that share the connections
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Messages in flight per connection; a message beyond that waits, and counts from when it was due
    #[arg(long, value_name = "N", default_value_t = 16_384)]
    in_flight: usize,
    /// Length of the measured time
    #[arg(long, default_value = "30s", value_parser = parse_duration)]
    pub(super) duration: Duration,
    /// Warm-up before it, whose messages are sent but not recorded
    #[arg(long, default_value = "2s", value_parser = parse_duration)]
    pub(super) warm_up: Duration,
    /// Send at most this many messages, those of the warm-up included
    #[arg(long, value_name = "N")]
    messages: Option<u64>,
    /// How long after its sending a message times out
    #[arg(long, default_value = "30s", value_parser = parse_duration)]
    timeout: Duration,
    /// Whether to reconnect broken connections; messages that are due in the meantime wait, and count from
    /// when they were due
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = When::Always)]
    reconnect: When,
    /// Longest wait for the last answers
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    drain: Duration,
    /// Length of the intervals of the log
    #[arg(long, default_value = "1s", value_parser = parse_duration)]
    interval: Duration,
    /// Busy-wait instead of sleeping: more exact, and takes a core per thread
    #[arg(long)]
    spin: bool,
    /// The system's process on this machine: its resources and those of its children are recorded in
    /// resources.csv
    #[arg(long, value_name = "PID", requires = "out")]
    pub(super) server_pid: Option<u32>,
    /// An agent that generates a part of the load, see `tailrace bench agent`; may be repeated
    #[arg(long = "agent", value_name = "HOST:PORT", requires = "agent_key_file")]
    pub(super) agents: Vec<String>,
    /// The key that all agents share
    #[arg(long, value_name = "FILE", requires = "agents")]
    pub(super) agent_key_file: Option<PathBuf>,
    /// Placement of a connection's publisher and subscriber [default: together]
    #[arg(long, value_enum, requires = "agents")]
    placement: Option<Where>,
    /// Write results to this folder: JSON, CSV, .hgrm, and the interval log
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Show progress even if standard error is not a terminal
    #[arg(long)]
    pub(super) progress: bool,
    /// No progress
    #[arg(short, long, conflicts_with = "progress")]
    pub(super) quiet: bool,
    /// Text or JSON
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub(super) output: Output,
    /// The program that runs this.
    #[arg(skip)]
    pub(super) program: Program,
    /// The output of the plan's command for the version.
    #[arg(skip)]
    pub(super) version_command_output: Option<String>,
    /// The output of the plan's command for the commit.
    #[arg(skip)]
    pub(super) commit_command_output: Option<String>,
    /// The server that a plan started.
    #[arg(skip)]
    pub(super) server: Option<Arc<Server>>,
    /// What to do to it, and when.
    #[arg(skip)]
    pub(super) signals: Vec<PlannedDeed>,
    /// Requested trouble that could not be made, in words.
    #[arg(skip)]
    pub(super) trouble_not_made: Vec<String>,
    /// Headlines of earlier attempts at this run.
    #[arg(skip)]
    pub(super) earlier_attempts: Vec<String>,
    /// Other trouble made on purpose, in words.
    #[arg(skip)]
    pub(super) trouble: Vec<String>,
    /// The options as given, if they did not come from the command line.
    #[arg(skip)]
    pub(super) words: Option<Vec<String>>,
    /// The settings, with those from files, which are read once.
    #[arg(skip)]
    resolved: OnceLock<BTreeMap<String, String>>,
}

/// The program that these verbs are part of, as results name it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Program {
    /// Its version.
    pub version: &'static str,
    /// The commit that it was built from, if known, marked if its sources differ from it.
    pub commit: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shape {
    /// Evenly spaced
    Constant,
    /// At random, independent of each other
    Poisson,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum When {
    /// After 100 ms, with waits that double up to 2 s, until the end
    Always,
    /// They stay broken, and messages due on them fail at once
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Mode {
    /// The schedule alone; latency counts from the due time
    Open,
    /// Each connection waits for its answer first: hides stalls, for comparison only
    Closed,
    /// As fast as the bound in flight allows: for throughput
    FullThrottle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Where {
    /// On the same agent: one clock
    Together,
    /// Publishers on the first half of the agents, subscribers on the others: two clocks
    Apart,
}

impl RunArguments {
    pub(super) fn placement(&self) -> Placement {
        if self.placement == Some(Where::Apart) { Placement::Apart } else { Placement::Together }
    }

    /// The value of a setting, as given.
    pub(super) fn setting(&self, name: &str) -> Option<&str> {
        self.set.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The target, with secrets from files and variables.
    pub(super) fn target(&self, run: u16) -> Result<Target, Failure> {
        let settings = match self.resolved.get() {
            Some(resolved) => resolved.clone(),
            None => {
                let resolved = credentials::resolve(&self.set)?;
                self.resolved.get_or_init(|| resolved).clone()
            }
        };
        Ok(Target {
            system: self.system.clone(),
            address: self.address.clone(),
            connections: self.connections,
            payload_bytes: usize::try_from(self.size).unwrap_or(usize::MAX),
            run,
            settings: Settings::new(settings),
        })
    }

    /// What is needed to repeat the run.
    pub(super) fn origin(&self, told: Told) -> Origin {
        // Words before the verb do not matter to the run.
        let words = self
            .words
            .clone()
            .unwrap_or_else(|| std::env::args().skip_while(|word| word != "run").skip(1).collect());
        Origin {
            tailrace_version: self.program.version.to_owned(),
            tailrace_commit: self.program.commit.map(str::to_owned),
            arguments: secrets::words(&words),
            settings: self
                .set
                .iter()
                .map(|(key, value)| {
                    let value = if is_secret(key) { HIDDEN.to_owned() } else { secrets::text(value) };
                    (key.clone(), value)
                })
                .collect(),
            system_version: told.version,
            system_commit: self.commit_command_output.clone().or(told.commit),
            version_command_output: self.version_command_output.clone(),
            trouble: self.trouble.clone(),
            ..Origin::default()
        }
    }

    /// A system's text without the run's secrets, which it may repeat.
    pub(super) fn without_secrets(&self, text: &str) -> String {
        let given = self.set.iter().cloned().collect();
        let text = secrets::without(&given, text);
        self.resolved.get().map_or(text.clone(), |resolved| secrets::without(resolved, &text))
    }

    pub(super) fn waiting(&self) -> Waiting {
        if self.spin { Waiting::Spin } else { Waiting::Sleep }
    }

    pub(super) fn load_options(&self, run: u16) -> Result<LoadOptions, Failure> {
        let load = match self.mode {
            Mode::Open => Load::Open(self.schedule()?),
            Mode::Closed => Load::Closed(self.schedule()?),
            Mode::FullThrottle => Load::FullThrottle,
        };
        let mut options = LoadOptions::new(load);
        options.payload_bytes = usize::try_from(self.size).unwrap_or(usize::MAX);
        options.threads = self.threads;
        options.in_flight_max = self.in_flight;
        options.warm_up_ns = nanoseconds(self.warm_up);
        options.duration_ns = nanoseconds(self.duration);
        options.messages_max = self.messages.unwrap_or(u64::MAX);
        options.drain_ns = nanoseconds(self.drain);
        options.timeout_ns = nanoseconds(self.timeout);
        options.interval_ns = nanoseconds(self.interval);
        options.run = run;
        options.reconnect = match self.reconnect {
            When::Always => Some(Reconnect { seed: self.seed, ..Reconnect::default() }),
            When::Never => None,
        };
        options.check(self.connections as usize)?;
        Ok(options)
    }

    fn schedule(&self) -> Result<Schedule, Failure> {
        if let Some(path) = &self.trace {
            let text = std::fs::read_to_string(path)
                .map_err(|error| format!("cannot read {}: {}", path.display(), plain(&error)))?;
            return Ok(Schedule::parse_trace(&text)?);
        }
        if let Some(steps) = &self.steps {
            return Ok(Schedule::series(&parse_steps(steps)?)?);
        }
        if let Some(to) = self.ramp_to {
            return Ok(Schedule::ramp(self.rate, to, nanoseconds(self.warm_up + self.duration))?);
        }
        Ok(match self.schedule {
            Shape::Constant => Schedule::constant(self.rate)?,
            Shape::Poisson => Schedule::poisson(self.rate, self.seed)?,
        })
    }
}

/// Validates the name of a system.
pub(super) fn system(text: &str) -> Result<String, String> {
    let known: Vec<&str> = SYSTEMS.iter().map(|system| system.name).collect();
    let found = known.contains(&text).then(|| text.to_owned());
    found.ok_or_else(|| format!("expected one of {}", known.join(", ")))
}

fn parse_steps(text: &str) -> Result<Vec<Segment>, Failure> {
    text.split(',')
        .map(|step| {
            let (rate, time) = step
                .split_once(':')
                .ok_or_else(|| format!("'{step}' is not a step: expected RATE:TIME, for example 1k:10s"))?;
            let rate: Rate = rate.parse()?;
            Ok(Segment::new(rate, rate, nanoseconds(parse_duration(time)?))?)
        })
        .collect()
}

pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
