//! Drives the connections of a run: in this process, or through agents.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tailrace_cli::failure::Failure;

use super::arguments::RunArguments;
use crate::clock::Clock;
use crate::engine::{self, LoadOptions, Observer, Outcome};
use crate::remote::{Coordinator, Key, RemoteLoad, RemoteReport};
use crate::report::ResourceSample;
use crate::requester::Requester;
use crate::systems::{self, Opened, Target};

/// Connections that are set up.
pub(super) enum Driver {
    Here(Opened),
    Agents { coordinator: Box<Coordinator>, address: Option<String> },
}

/// The result of a run.
pub(super) struct Driven {
    pub(super) outcome: Outcome,
    /// The requesters of this process, yet to be torn down.
    pub(super) requesters: Vec<Box<dyn Requester>>,
    pub(super) report: Option<RemoteReport>,
    /// Resources used by agents.
    pub(super) resources: Vec<(String, Vec<ResourceSample>)>,
    /// What could not be cleaned up.
    pub(super) complaints: Vec<String>,
}

impl Driver {
    /// Connects to agents, with the key in this file, and connects them to the system.
    pub(super) fn agents(
        key_file: &Path,
        arguments: &RunArguments,
        target: &Target,
        options: &LoadOptions,
        clock: &Arc<dyn Clock>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, Failure> {
        let key = Key::read(key_file)?;
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
                Ok(Driven {
                    outcome,
                    requesters,
                    report: None,
                    resources: Vec::new(),
                    complaints: Vec::new(),
                })
            }
            Self::Agents { coordinator, .. } => {
                let came = coordinator.run(observer)?;
                Ok(Driven {
                    outcome: came.outcome,
                    requesters: Vec::new(),
                    report: Some(came.report),
                    resources: came.resources,
                    complaints: came.complaints,
                })
            }
        }
    }
}

/// The load over agents.
pub(super) fn remote_load<'a>(
    arguments: &'a RunArguments,
    key: &'a Key,
    target: &'a Target,
    options: &'a LoadOptions,
) -> RemoteLoad<'a> {
    let (agents, placement) = (&arguments.agents, arguments.placement());
    RemoteLoad { agents, key, placement, target, options, waiting: arguments.waiting() }
}
