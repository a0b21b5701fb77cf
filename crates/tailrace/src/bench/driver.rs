//! Who drives the connections of a run: this process, or agents.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tailrace_bench::clock::Clock;
use tailrace_bench::engine::{self, LoadOptions, Observer, Outcome};
use tailrace_bench::remote::{Coordinator, Key, RemoteLoad, RemoteReport};
use tailrace_bench::report::ResourceSample;
use tailrace_bench::requester::Requester;
use tailrace_bench::systems::{self, Opened, Target};

use super::arguments::RunArguments;
use crate::failure::Failure;

/// Connections that are set up.
pub(super) enum Driver {
    Here(Opened),
    Agents { coordinator: Box<Coordinator>, address: Option<String> },
}

/// What came out of a run.
pub(super) struct Driven {
    pub(super) outcome: Outcome,
    pub(super) report: Option<RemoteReport>,
    /// What agents used.
    pub(super) resources: Vec<(String, Vec<ResourceSample>)>,
    /// What could not be cleaned up.
    pub(super) complaints: Vec<String>,
}

impl Driver {
    pub(super) fn prepare(
        arguments: &RunArguments,
        target: &Target,
        options: &LoadOptions,
        clock: &Arc<dyn Clock>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, Failure> {
        let Some(path) = &arguments.agent_key_file else {
            let mut opened = systems::open(target)?;
            systems::set_up(&mut opened.requesters, target, &**clock)?;
            return Ok(Self::Here(opened));
        };
        let key = Key::read(path)?;
        let load = remote_load(arguments, &key, target, options);
        let coordinator = Box::new(Coordinator::prepare(&load, clock, stop)?);
        let default = systems::find(&target.system)?.default_address;
        let address = target.address.clone().or_else(|| default.map(str::to_owned));
        Ok(Self::Agents { coordinator, address })
    }

    /// The address of the system.
    pub(super) fn address(&self) -> Option<&str> {
        match self {
            Self::Here(opened) => opened.address.as_deref(),
            Self::Agents { address, .. } => address.as_deref(),
        }
    }

    /// The same, unless the system is an echo server of our own, which has the version of this program.
    pub(super) fn system_address(&self) -> Option<&str> {
        let own = matches!(self, Self::Here(Opened { server: Some(_), .. }));
        self.address().filter(|_| !own)
    }

    pub(super) fn run(
        self,
        options: &LoadOptions,
        clock: &Arc<dyn Clock>,
        stop: &Arc<AtomicBool>,
        observer: &mut dyn Observer,
    ) -> Result<Driven, Failure> {
        match self {
            Self::Here(opened) => {
                let (outcome, requesters) = engine::run(options, opened.requesters, clock, stop, observer)?;
                // After a broken connection nobody is surprised.
                let complaint = tear_down(requesters).filter(|_| outcome.failures.is_empty());
                let complaints = complaint.into_iter().collect();
                Ok(Driven { outcome, report: None, resources: Vec::new(), complaints })
            }
            Self::Agents { coordinator, .. } => {
                let came = coordinator.run(observer)?;
                Ok(Driven {
                    outcome: came.outcome,
                    report: Some(came.report),
                    resources: came.resources,
                    complaints: came.complaints,
                })
            }
        }
    }
}

/// The load as agents make it.
pub(super) fn remote_load<'a>(
    arguments: &'a RunArguments,
    key: &'a Key,
    target: &'a Target,
    options: &'a LoadOptions,
) -> RemoteLoad<'a> {
    let (agents, placement) = (&arguments.agents, arguments.placement());
    RemoteLoad { agents, key, placement, target, options, waiting: arguments.waiting() }
}

fn tear_down(requesters: Vec<Box<dyn Requester>>) -> Option<String> {
    requesters
        .into_iter()
        .find_map(|mut requester| requester.tear_down().err())
        .map(|error| error.to_string())
}
