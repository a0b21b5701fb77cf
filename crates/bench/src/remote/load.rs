//! A load over agents, and the check whether it is possible.

use super::key::Key;
use super::placement::{Placement, Share, deal};
use super::{AGENTS_MAX, RemoteError};
use crate::clock::Waiting;
use crate::engine::{Load, LoadOptions};
use crate::systems::{self, Role, Target};

/// A load, and the agents that generate it.
#[derive(Debug)]
pub(crate) struct RemoteLoad<'a> {
    /// Addresses of the agents, `HOST:PORT`.
    pub agents: &'a [String],
    /// The key that all of them have.
    pub key: &'a Key,
    /// Where the two ends of a connection are.
    pub placement: Placement,
    /// The system under test.
    pub target: &'a Target,
    /// The load.
    pub options: &'a LoadOptions,
    /// How agents wait.
    pub waiting: Waiting,
}

impl RemoteLoad<'_> {
    /// Checks whether the load is possible. Makes no connections.
    ///
    /// # Errors
    /// Says what is not possible.
    pub(crate) fn check(&self) -> Result<(), RemoteError> {
        self.shares().map(|_| ())
    }

    pub(super) fn shares(&self) -> Result<Vec<Share>, RemoteError> {
        let unsupported = |reason: String| Err(RemoteError::Unsupported(reason));
        if self.agents.is_empty() || self.agents.len() > AGENTS_MAX {
            return unsupported(format!("{} agents: expected 1 to {AGENTS_MAX}", self.agents.len()));
        }
        if let Some(twice) =
            (1..self.agents.len()).find(|place| self.agents[..*place].contains(&self.agents[*place]))
        {
            return unsupported(format!("agent {} is named twice", self.agents[twice]));
        }
        let system = systems::find(&self.target.system)?;
        let ours = ["tcp-echo", "http"].contains(&system.name);
        if self.target.address.is_none() && (ours || system.default_address.is_some()) {
            return unsupported(format!(
                "{} needs --address with agents: one that all of them can reach",
                system.name
            ));
        }
        let shares = deal(self.placement, self.agents.len(), self.target.connections)?;
        for share in &shares {
            systems::check_role(self.target, share.role)?;
        }
        if self.placement == Placement::Apart && !matches!(self.options.load, Load::Open(_)) {
            let opened = systems::open_some(self.target, Role::Publisher, &[0])?;
            if opened.requesters.iter().any(|requester| !requester.expects().acknowledgement) {
                return unsupported(format!(
                    "{} acknowledges nothing, so a publisher apart cannot wait for answers: only --mode open is possible",
                    system.name
                ));
            }
        }
        Ok(shares)
    }
}
