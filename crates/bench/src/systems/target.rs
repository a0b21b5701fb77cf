//! The target of a measurement.

use super::settings::Settings;

/// The system to measure, and how to reach it.
#[derive(Clone, Debug)]
pub struct Target {
    /// One of [`SYSTEMS`](super::SYSTEMS).
    pub system: String,
    /// Host and port, or several separated by commas, to which connections are dealt in turn. `None` for the
    /// system's default.
    pub address: Option<String>,
    /// Connections, or pairs of publisher and subscriber.
    pub connections: u32,
    /// Size of each message, in bytes.
    pub payload_bytes: usize,
    /// Distinguishes the subjects, keys and payloads of this run from others.
    pub run: u16,
    /// Further settings of the system.
    pub settings: Settings,
}

/// The addresses in a comma-separated list.
pub(crate) fn addresses(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|address| !address.is_empty())
}
