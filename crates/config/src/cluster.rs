//! Checks of the settings of a cluster node that depend on each other.

use super::broker::BrokerConfig;
use super::error::{ConfigError, NumericSetting};
use super::keys::broker_key;

/// Maximum number of addresses in `tailrace.cluster.seeds`. More would not help: one that answers is enough.
const SEEDS_MAX: usize = 64;

/// Maximum length of `broker.rack`, in bytes.
pub const RACK_BYTES_MAX: usize = 255;

/// Maximum length of an address, in bytes. The longest DNS name, a colon and a port fit.
pub(crate) const ADDRESS_BYTES_MAX: usize = 270;

/// Refuses settings that no cluster can work with.
///
/// # Errors
/// An address cannot be read, or settings contradict each other.
pub(super) fn check(config: &BrokerConfig) -> Result<(), ConfigError> {
    NumericSetting::new("tailrace.cluster.frame.bytes.max", config.tailrace_cluster_frame_bytes_max)
        .not_above(
            NumericSetting::new("tailrace.cluster.queue.bytes.max", config.tailrace_cluster_queue_bytes_max),
            "the queue of a node must hold the largest frame",
        )?;
    let (heartbeat, election) = (config.tailrace_raft_heartbeat_ticks, config.tailrace_raft_election_ticks);
    if heartbeat >= election {
        return Err(ConfigError::Inconsistent {
            key: "tailrace.raft.election.ticks",
            value: election.into(),
            other: "tailrace.raft.heartbeat.ticks",
            other_value: heartbeat.into(),
            reason: "replicas must hear from their leader before they elect another",
        });
    }
    check_addresses(config)?;
    check_rack(config)?;
    check_certificates(config)
}

fn check_addresses(config: &BrokerConfig) -> Result<(), ConfigError> {
    let (own, advertised) = (&config.cluster_listen, &config.tailrace_cluster_advertised);
    if own != "off" && !is_address(own) {
        return refused("cluster.listen", own, "expected HOST:PORT or off");
    }
    if !advertised.is_empty() && (!is_address(advertised) || advertised.ends_with(":0")) {
        return refused("tailrace.cluster.advertised", advertised, "expected HOST:PORT");
    }
    let nats = &config.tailrace_nats_advertised;
    if !nats.is_empty() && (!is_address(nats) || nats.ends_with(":0")) {
        return refused("tailrace.nats.advertised", nats, "expected HOST:PORT");
    }
    let seeds = &config.tailrace_cluster_seeds;
    if let Some(seed) = seeds.iter().find(|seed| !is_address(seed) || seed.ends_with(":0")) {
        return refused("tailrace.cluster.seeds", seed, "expected HOST:PORT, separated by commas");
    }
    if seeds.len() > SEEDS_MAX {
        return refused("tailrace.cluster.seeds", &seeds.join(","), "at most 64 addresses");
    }
    if !seeds.is_empty() && own == "off" {
        return refused("tailrace.cluster.seeds", &seeds.join(","), "cluster.listen must be set with it");
    }
    Ok(())
}

/// Reports whether `text` is HOST:PORT. A host with colons must be in brackets.
pub fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = match bare {
        Some(bare) => bare.contains(':'),
        None => !host.contains([':', '[', ']']),
    };
    let graphic = host.bytes().all(|b| b.is_ascii_graphic() && b != b'/' && b != b',');
    let is_port = port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok();
    text.len() <= ADDRESS_BYTES_MAX && is_host && graphic && is_port && !host.is_empty()
}

fn check_rack(config: &BrokerConfig) -> Result<(), ConfigError> {
    match &config.broker_rack {
        Some(rack) if rack.len() > RACK_BYTES_MAX => refused("broker.rack", rack, "at most 255 bytes"),
        _ => Ok(()),
    }
}

fn check_certificates(config: &BrokerConfig) -> Result<(), ConfigError> {
    let files = [
        &config.tailrace_cluster_tls_certificate_file,
        &config.tailrace_cluster_tls_key_file,
        &config.tailrace_cluster_tls_ca_file,
    ];
    if config.tailrace_cluster_tls && files.iter().any(|file| file.is_empty()) {
        let reason = "tailrace.cluster.tls.certificate.file, tailrace.cluster.tls.key.file and \
                      tailrace.cluster.tls.ca.file must be set with it";
        return refused("tailrace.cluster.tls", "true", reason);
    }
    Ok(())
}

fn refused(key: &str, value: &str, reason: &str) -> Result<(), ConfigError> {
    Err(broker_key(key)?.invalid(value, reason.to_owned()))
}
