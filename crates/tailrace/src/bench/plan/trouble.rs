//! Trouble that a plan makes on purpose: the proxy on the way to each system, and signals to its server.

use clap::Parser;
use serde::Deserialize;
use tailrace_bench::proxy::Proxy;

use crate::bench::RunArguments;
use crate::bench::proxy::ProxyArguments;
use crate::bench::signals::{Deed, PlannedDeed, ServerSignal};
use crate::failure::{Failure, plain};
use crate::text::units::parse_duration;

/// The table `[trouble]` as it stands in the file: options of `bench proxy`, and signals.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawTrouble {
    both: Option<String>,
    to_server: Option<String>,
    to_client: Option<String>,
    #[serde(default)]
    reset: Vec<String>,
    resets: Option<String>,
    seed: Option<u64>,
    #[serde(default)]
    signals: Vec<RawSignal>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSignal {
    at: String,
    signal: Option<ServerSignal>,
    #[serde(default)]
    start: bool,
}

/// Trouble that was checked.
#[derive(Debug)]
pub(super) struct TroublePlan {
    /// Options of `bench proxy`; none if there is to be no proxy.
    proxy: Vec<String>,
    /// In order of time.
    signals: Vec<PlannedDeed>,
}

impl RawSignal {
    fn planned(self) -> Result<PlannedDeed, Failure> {
        let at = parse_duration(&self.at)?;
        let deed = match (self.signal, self.start) {
            (Some(signal), false) => Deed::Signal(signal),
            (None, true) => Deed::Start,
            _ => {
                return Err(format!("at {at:?}: expected either signal = \"NAME\" or start = true").into());
            }
        };
        Ok(PlannedDeed { at, deed })
    }
}

/// Only a server that was ended can be started again.
fn check_starts(signals: &[PlannedDeed]) -> Result<(), Failure> {
    let mut is_down = false;
    for planned in signals {
        is_down = match planned.deed {
            Deed::Signal(signal) => is_down || signal.ends(),
            Deed::Start if is_down => false,
            Deed::Start => {
                let at = planned.at;
                return Err(format!(
                    "the server is to be started at {at:?}: expected a SIGKILL or SIGTERM before that"
                )
                .into());
            }
        };
    }
    Ok(())
}

/// `bench proxy` alone, so that its options can be read from a plan.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(flatten)]
    proxy: ProxyArguments,
}

impl TroublePlan {
    pub(super) fn new(raw: RawTrouble) -> Result<Self, Failure> {
        let mut proxy = Vec::new();
        let mut put = |key: &str, value: &str| proxy.push(format!("--{key}={value}"));
        for (key, value) in
            [("both", &raw.both), ("to-server", &raw.to_server), ("to-client", &raw.to_client)]
        {
            value.iter().for_each(|value| put(key, value));
        }
        raw.reset.iter().for_each(|at| put("reset", at));
        raw.resets.iter().for_each(|gap| put("resets", gap));
        if let Some(seed) = raw.seed {
            put("seed", &seed.to_string());
        }
        let mut signals =
            raw.signals.into_iter().map(RawSignal::planned).collect::<Result<Vec<_>, Failure>>()?;
        signals.sort_by_key(|planned| planned.at);
        check_starts(&signals)?;
        let trouble = Self { proxy, signals };
        trouble.arguments("localhost:1")?.options()?;
        Ok(trouble)
    }

    /// Whether it can be made in this run.
    pub(super) fn check(&self, system: &str, has_server: bool, run: &RunArguments) -> Result<(), Failure> {
        let length = run.warm_up + run.duration;
        if let Some(late) = self.signals.iter().find(|signal| signal.at >= length) {
            return Err(format!("a signal is due at {:?}, after the run's end at {length:?}", late.at).into());
        }
        if !self.proxy.is_empty() && run.address.is_none() {
            return Err(format!("system {system}: trouble on the way needs an address").into());
        }
        if !self.proxy.is_empty() && !run.agents.is_empty() {
            let reason = "trouble on the way does not go with agents: the proxy listens on this machine only";
            return Err(format!("system {system}: {reason}").into());
        }
        if !self.signals.is_empty() && !has_server {
            return Err(format!("system {system}: signals need a server that the plan starts").into());
        }
        Ok(())
    }

    /// Starts the proxy and turns the run to it. It works until it is dropped.
    pub(super) fn apply(&self, run: &mut RunArguments) -> Result<Option<Proxy>, Failure> {
        run.signals.clone_from(&self.signals);
        let Some(address) = run.address.clone().filter(|_| !self.proxy.is_empty()) else { return Ok(None) };
        let proxy = Proxy::start(self.arguments(&address)?.options()?)
            .map_err(|error| format!("cannot start the proxy to {address}: {}", plain(&error)))?;
        run.trouble.push(format!("proxy to {address} {}", self.proxy.join(" ")));
        run.address = Some(proxy.address().to_string());
        Ok(Some(proxy))
    }

    fn arguments(&self, to: &str) -> Result<ProxyArguments, Failure> {
        let words = std::iter::once(format!("--to={to}")).chain(self.proxy.iter().cloned());
        let line = Line::try_parse_from(words).map_err(|error| {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
            format!("trouble: {first}")
        })?;
        Ok(line.proxy)
    }
}
