//! What is needed to repeat a run, in addition to the machine.

use std::collections::BTreeMap;

use serde::Serialize;

/// The origin of a result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Origin {
    /// When the run started, after all connections were established: RFC 3339, in UTC, by this machine's
    /// clock.
    pub started_at: String,
    /// When the run ended.
    pub ended_at: String,
    /// Version of tailrace, and so of the instrument.
    pub tailrace_version: String,
    /// The commit that it was built from, marked if the sources differed from it. `None` if unknown.
    pub tailrace_commit: Option<String>,
    /// Options of `tailrace bench run` that repeat the run, without passwords.
    pub arguments: Vec<String>,
    /// Settings of the system, without passwords.
    pub settings: BTreeMap<String, String>,
    /// The version that the system reported over its own protocol, if it did.
    pub system_version: Option<String>,
    /// The output of the plan's command for the version, if there is one.
    pub version_command_output: Option<String>,
    /// The commit of the system, as printed by the plan's command for it, or else as reported by the system.
    pub system_commit: Option<String>,
    /// Trouble made on purpose: troubles of a proxy, and signals with the times at which they were sent.
    pub trouble: Vec<String>,
}
