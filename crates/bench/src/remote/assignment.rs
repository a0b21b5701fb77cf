//! An agent's assignment: which connections of which load, in which role.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::RemoteError;
use super::placement::Share;
use crate::clock::Waiting;
use crate::engine::{Load, LoadOptions, Mode, Reconnect};
use crate::error::BenchError;
use crate::schedule::{Schedule, ScheduleForm};
use crate::systems::{Role, Settings, Target};

/// One agent's share of a load. It is never printed, since settings may contain passwords.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Assignment {
    system: String,
    address: Option<String>,
    settings: BTreeMap<String, String>,
    pub(super) role: Role,
    /// The number of connections on all agents.
    pub(super) of: u32,
    /// The connections of this agent.
    pub(super) connections: Vec<u32>,
    /// The agent that publishes on each of them.
    pub(super) publishers: Vec<usize>,
    spin: bool,
    mode: Mode,
    schedule: Option<ScheduleForm>,
    payload_bytes: usize,
    threads: usize,
    in_flight_max: usize,
    warm_up_ns: u64,
    duration_ns: u64,
    messages_max: u64,
    drain_ns: u64,
    timeout_ns: u64,
    interval_ns: u64,
    run: u16,
    reconnect: Option<Reconnect>,
}

impl std::fmt::Debug for Assignment {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Assignment({}, {} connections)", self.system, self.connections.len())
    }
}

impl Assignment {
    /// A load without a share.
    pub(super) fn new(target: &Target, options: &LoadOptions, waiting: Waiting) -> Self {
        Self {
            system: target.system.clone(),
            address: target.address.clone(),
            settings: target.settings.values().clone(),
            role: Role::Both,
            of: target.connections,
            connections: Vec::new(),
            publishers: Vec::new(),
            spin: waiting == Waiting::Spin,
            mode: options.load.mode(),
            schedule: options.load.schedule().map(ScheduleForm::from),
            payload_bytes: options.payload_bytes,
            threads: options.threads,
            in_flight_max: options.in_flight_max,
            warm_up_ns: options.warm_up_ns,
            duration_ns: options.duration_ns,
            messages_max: options.messages_max,
            drain_ns: options.drain_ns,
            timeout_ns: options.timeout_ns,
            interval_ns: options.interval_ns,
            run: options.run,
            reconnect: options.reconnect,
        }
    }

    /// The load with an agent's share of it.
    pub(super) fn share(&self, share: &Share) -> Self {
        let Share { role, connections, publishers } = share.clone();
        Self { role, connections, publishers, ..self.clone() }
    }

    pub(super) fn target(&self) -> Target {
        Target {
            system: self.system.clone(),
            address: self.address.clone(),
            connections: self.of,
            payload_bytes: self.payload_bytes,
            run: self.run,
            settings: Settings::new(self.settings.clone()),
        }
    }

    pub(super) fn waiting(&self) -> Waiting {
        if self.spin { Waiting::Spin } else { Waiting::Sleep }
    }

    /// Validates the load and returns its options: an agent does not trust a coordinator.
    pub(super) fn options(&self) -> Result<LoadOptions, RemoteError> {
        let (count, all) = (self.connections.len(), self.of as usize);
        let known = self.connections.iter().all(|connection| *connection < self.of);
        if !known || self.publishers.len() != count || !(1..=LoadOptions::CONNECTIONS_MAX).contains(&all) {
            let expected = "connections of this load, each with its publisher";
            return Err(RemoteError::Protocol { expected, found: format!("{count} of {all}") });
        }
        let schedule = self.schedule.clone().map(Schedule::try_from).transpose().map_err(BenchError::from)?;
        let load = match (self.mode, schedule) {
            (Mode::OpenLoop, Some(schedule)) => Load::Open(schedule),
            (Mode::ClosedLoop, Some(schedule)) => Load::Closed(schedule),
            (Mode::FullThrottle, None) => Load::FullThrottle,
            (mode, _) => {
                let expected = "a schedule where the load has one";
                return Err(RemoteError::Protocol { expected, found: format!("{mode:?}") });
            }
        };
        let mut options = LoadOptions::new(load);
        options.payload_bytes = self.payload_bytes;
        options.threads = self.threads;
        options.in_flight_max = self.in_flight_max;
        options.warm_up_ns = self.warm_up_ns;
        options.duration_ns = self.duration_ns;
        options.messages_max = self.messages_max;
        options.drain_ns = self.drain_ns;
        options.timeout_ns = self.timeout_ns;
        options.interval_ns = self.interval_ns;
        options.run = self.run;
        options.reconnect = self.reconnect;
        options.check(count)?;
        Ok(options)
    }
}
