//! A system in a plan: its address, how to start it, and how to query its version.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use tailrace_cli::failure::Failure;
use tailrace_cli::text::units::parse_duration;

use crate::verbs::server::{HOST, ServerPlan};

/// The table `[[system]]` as in the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawSystem {
    system: String,
    name: Option<String>,
    address: Option<String>,
    #[serde(default)]
    set: BTreeMap<String, String>,
    start: Option<Vec<String>>,
    version: Option<Vec<String>>,
    commit: Option<Vec<String>>,
    ready: Option<String>,
    ready_timeout: Option<String>,
}

/// A validated system.
#[derive(Debug)]
pub(super) struct PlannedSystem {
    pub(super) name: String,
    pub(super) system: String,
    pub(super) address: Option<String>,
    pub(super) set: BTreeMap<String, String>,
    pub(super) server: Option<ServerPlan>,
    /// A command whose first line of output is the system's version.
    pub(super) version: Option<Vec<String>>,
    /// A command whose first line of output is the commit that the system was built from.
    pub(super) commit: Option<Vec<String>>,
}

impl PlannedSystem {
    /// Reports whether its address leaves the host open.
    pub(super) fn has_host(&self) -> bool {
        self.address.as_ref().is_some_and(|address| address.contains(HOST))
    }

    pub(super) fn new(raw: RawSystem) -> Result<Self, Failure> {
        let name = raw.name.unwrap_or_else(|| raw.system.clone());
        check_name(&name)?;
        let patience = raw.ready_timeout.as_deref().map_or(Ok(Duration::from_secs(30)), parse_duration)?;
        for (key, command) in [("version", &raw.version), ("commit", &raw.commit)] {
            if command.as_ref().is_some_and(Vec::is_empty) {
                return Err(format!("system {name}: {key} is empty").into());
            }
        }
        let server = match raw.start {
            Some(command) if command.is_empty() => {
                return Err(format!("system {name}: start is empty").into());
            }
            Some(command) => {
                let ready = raw.ready.or_else(|| raw.address.clone()).ok_or_else(|| {
                    format!(
                        "system {name}: start needs an address, or ready, to know when the server is ready"
                    )
                })?;
                Some(ServerPlan { command, ready, patience })
            }
            None => None,
        };
        let (system, address, set) = (raw.system, raw.address, raw.set);
        Ok(Self { name, system, address, set, server, version: raw.version, commit: raw.commit })
    }
}

/// Validates a name, which becomes a folder.
pub(super) fn check_name(name: &str) -> Result<(), Failure> {
    let legal = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(legal) {
        return Err(
            format!("'{name}' is not a valid name: expected letters, digits, '-', '_' and '.'").into()
        );
    }
    Ok(())
}
