//! What it takes to repeat a run, beside the machine.

use std::collections::BTreeMap;

use serde::Serialize;

/// Where a result comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Origin {
    /// When the run began, after all connections had been made: RFC 3339, in UTC, by the clock of this machine.
    pub started_at: String,
    /// When it had ended.
    pub ended_at: String,
    /// Version of tailrace, whose instrument this is.
    pub tailrace_version: String,
    /// The commit that it was built from; it says so if the sources differed from it. Absent if unknown.
    pub tailrace_commit: Option<String>,
    /// Options of `tailrace bench run` that repeat the run. Passwords are left out.
    pub arguments: Vec<String>,
    /// Settings of the system. Passwords are left out.
    pub settings: BTreeMap<String, String>,
    /// The version that the system told over its own protocol, if it did.
    pub system_version: Option<String>,
    /// What the plan's command for the version printed, if there is one.
    pub version_command_output: Option<String>,
    /// The commit of the system, as the plan's command for it printed it, or else as the system told it.
    pub system_commit: Option<String>,
    /// What was done to the system on purpose: troubles of a proxy, signals with the times at which they were sent.
    pub trouble: Vec<String>,
}
