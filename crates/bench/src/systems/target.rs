//! What is to be measured.

use super::settings::Settings;

/// What is to be measured, and how to reach it.
#[derive(Clone, Debug)]
pub struct Target {
    /// One of [`SYSTEMS`](super::SYSTEMS).
    pub system: String,
    /// Host and port; several, with commas between, over which connections are spread in turn. The system's default if absent.
    pub address: Option<String>,
    /// Connections, or pairs of publisher and subscriber.
    pub connections: u32,
    /// Bytes of each message.
    pub payload_bytes: usize,
    /// Tells the subjects, keys and payloads of this run from others.
    pub run: u16,
    /// What else the system understands.
    pub settings: Settings,
}

/// The addresses of a list with commas.
pub(crate) fn addresses(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|address| !address.is_empty())
}
