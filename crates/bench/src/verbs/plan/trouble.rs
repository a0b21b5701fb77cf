//! Trouble that a plan makes on purpose: a proxy in front of each system, and signals to its server.

use clap::Parser;
use serde::Deserialize;
use tailrace_cli::failure::{Failure, note, plain};
use tailrace_cli::text::units::duration_with_unit;

use super::system::PlannedSystem;
use crate::proxy::Proxy;
use crate::systems::addresses;
use crate::verbs::arguments::RunArguments;
use crate::verbs::namespace::{self, Machine, Namespace};
use crate::verbs::netem::Impairment;
use crate::verbs::proxy::ProxyArguments;
use crate::verbs::server::{HOST, LOOPBACK};
use crate::verbs::signals::{Deed, PlannedDeed, ServerSignal};

/// The table `[trouble]` as in the file: options of `bench proxy`, and signals.
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
    netem: Option<String>,
    netem_to_server: Option<String>,
    netem_to_client: Option<String>,
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

/// What to do to packets, by direction.
#[derive(Debug)]
struct Netem {
    to_server: Impairment,
    to_client: Impairment,
}

impl Netem {
    fn new(both: Option<&str>, own: [Option<String>; 2]) -> Result<Option<Self>, Failure> {
        let mut found = [Impairment::default(), Impairment::default()];
        for (impairment, own) in found.iter_mut().zip(&own) {
            for text in both.into_iter().chain(own.as_deref()) {
                impairment.add(text)?;
            }
            impairment.check()?;
        }
        let [to_server, to_client] = found;
        Ok((!to_server.is_none() || !to_client.is_none()).then_some(Self { to_server, to_client }))
    }

    fn told(&self) -> String {
        let told = |way: &str, impairment: &Impairment| {
            (!impairment.is_none()).then(|| format!("{way}: tc {}", impairment.words().join(" ")))
        };
        let ways = [told("to server", &self.to_server), told("to client", &self.to_client)];
        ways.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// The network environment of a run's server.
#[derive(Debug, Default)]
pub(super) struct Surroundings {
    namespace: Option<Namespace>,
    /// What was made, or could not be made.
    pub(super) told: Option<String>,
    /// The trouble that could not be made.
    pub(super) not_made: Option<String>,
}

impl Surroundings {
    pub(super) fn host(&self) -> &str {
        self.namespace.as_ref().map_or(LOOPBACK, Namespace::host)
    }

    /// The words before the server's command.
    pub(super) fn prefix(&self) -> Vec<String> {
        self.namespace.as_ref().map_or_else(Vec::new, Namespace::prefix)
    }
}

/// Validated trouble.
#[derive(Debug)]
pub(super) struct TroublePlan {
    /// Options of `bench proxy`; empty if there is no proxy.
    proxy: Vec<String>,
    /// In order of time.
    signals: Vec<PlannedDeed>,
    /// What to do to packets; `None` if there is no namespace.
    netem: Option<Netem>,
}

impl RawSignal {
    fn planned(self) -> Result<PlannedDeed, Failure> {
        let at = duration_with_unit(&self.at)?;
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

/// `bench proxy` by itself, to parse its options from a plan.
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
        let netem = Netem::new(raw.netem.as_deref(), [raw.netem_to_server, raw.netem_to_client])?;
        let trouble = Self { proxy, signals, netem };
        trouble.arguments("localhost:1")?.options()?;
        Ok(trouble)
    }

    /// Checks whether it can be made in this run.
    pub(super) fn check(&self, system: &PlannedSystem, run: &RunArguments) -> Result<(), Failure> {
        let (has_server, has_host, system) = (system.server.is_some(), system.has_host(), &system.name);
        let length = run.warm_up + run.duration;
        if let Some(late) = self.signals.iter().find(|signal| signal.at >= length) {
            return Err(format!("a signal is due at {:?}, after the run's end at {length:?}", late.at).into());
        }
        if let Some(late) = self.arguments("localhost:1")?.beyond(length)? {
            return Err(format!("{late} is due after the run's end at {length:?}").into());
        }
        if !self.proxy.is_empty() && run.address.is_none() {
            return Err(format!("system {system}: trouble on the way needs an address").into());
        }
        if !self.proxy.is_empty() && passes_proxies(run) {
            let reason = "Kafka's clients connect to the addresses that servers advertise, past the proxy: expected the system kafka \
                          with set = { advertised = \"false\" }";
            return Err(format!("system {system}: {reason}").into());
        }
        if !self.proxy.is_empty() && !run.agents.is_empty() {
            let reason =
                "trouble on the way cannot be combined with agents: the proxy listens on this machine only";
            return Err(format!("system {system}: {reason}").into());
        }
        if !self.signals.is_empty() && !has_server {
            return Err(format!("system {system}: signals need a server that the plan starts").into());
        }
        if self.netem.is_some() && !(has_server && has_host) {
            return Err(format!(
                "system {system}: netem needs a server that the plan starts, and {HOST} in its address and its command for the \
                 host that it gets"
            )
            .into());
        }
        Ok(())
    }

    /// Creates the namespace for the server. If that is not possible the run goes on without it if `allowed`,
    /// and says so.
    ///
    /// # Errors
    /// It is not possible, and the run may not go on without it.
    pub(super) fn surround(&self, allowed: bool) -> Result<Surroundings, Failure> {
        let Some(netem) = &self.netem else { return Ok(Surroundings::default()) };
        for name in namespace::remove_stale(&mut Machine) {
            note(&format!("removed leftovers of a killed run: {name}"));
        }
        match Namespace::make(&namespace::words(&netem.to_server), &namespace::words(&netem.to_client)) {
            Ok(space) => {
                Ok(Surroundings { told: Some(netem.told()), namespace: Some(space), not_made: None })
            }
            Err(reason) if allowed => {
                let told = format!("{} NOT DONE: {reason}", netem.told());
                note(&format!("the run continues without netem: {reason}"));
                Ok(Surroundings { told: Some(told.clone()), namespace: None, not_made: Some(told) })
            }
            Err(reason) => Err(format!(
                "netem cannot be set up here: {reason}; --without-trouble-if-impossible runs without it"
            )
            .into()),
        }
    }

    /// Starts a proxy to each address and points the run at the proxies. They work until they are dropped.
    pub(super) fn apply(&self, run: &mut RunArguments) -> Result<Vec<Proxy>, Failure> {
        run.signals.clone_from(&self.signals);
        let Some(list) = run.address.clone().filter(|_| !self.proxy.is_empty()) else {
            return Ok(Vec::new());
        };
        let mut proxies = Vec::new();
        for address in addresses(&list) {
            let proxy = Proxy::start(self.arguments(address)?.options()?)
                .map_err(|error| format!("cannot start the proxy to {address}: {}", plain(&error)))?;
            run.trouble.push(format!("proxy to {address} {}", self.proxy.join(" ")));
            proxies.push(proxy);
        }
        let own: Vec<String> = proxies.iter().map(|proxy| proxy.address().to_string()).collect();
        run.address = Some(own.join(","));
        Ok(proxies)
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

/// Reports whether connections to the system would bypass a proxy at its address.
fn passes_proxies(run: &RunArguments) -> bool {
    run.system.contains("kafka") && run.setting("advertised") != Some("false")
}
