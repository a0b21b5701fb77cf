//! The users of a run, and how they log in.

use tailrace_identity::scram::ScramMechanism;

/// The administrator, who may do everything.
pub(in crate::storm) const ADMIN: &str = "admin";

/// The user of all clients that nothing happens to.
pub(in crate::storm) const STORM: &str = "storm";

/// A user who may create rules, as long as the administrator lets it.
pub(in crate::storm) const DEPUTY: &str = "deputy";

/// A user with a small quota.
pub(in crate::storm) const SLOW: &str = "slow";

/// The users whose rules and passwords change.
pub(in crate::storm) const WATCHED: [&str; 3] = ["watched0", "watched1", "watched2"];

/// What the user with a small quota may write, in bytes per second.
pub(in crate::storm) const SLOW_BYTES_PER_SECOND: f64 = 60.0;

/// The iterations of passwords: the fewest that are accepted.
pub(in crate::storm) const ITERATIONS: u32 = 4_096;

/// The mechanism of all passwords.
pub(in crate::storm) const MECHANISM: ScramMechanism = ScramMechanism::Sha256;

/// Returns the password of a generation.
pub(in crate::storm) fn password(user: &str, generation: u32) -> String {
    format!("open {user} {generation}")
}

/// Returns the salt of a generation of passwords.
pub(in crate::storm) fn salt(user: &str, generation: u32) -> String {
    format!("salt of {user} {generation}")
}
