//! The Kafka listeners: one without a name (`kafka` and its companions), or several by name (`listeners`).
//!
//! Names and rules are Kafka's. A setting of one listener is `listener.name.NAME.KEY`, with the name in lower
//! case. Only the keys in [`own_keys`] exist.

mod addresses;
mod listener;
mod own;
mod own_keys;

use std::collections::{BTreeMap, BTreeSet};

use super::broker::BrokerConfig;
use super::choice::{AdvertisedListener, KafkaAuthentication, SecurityProtocol};
use super::error::ConfigError;
use super::keys::broker_key;
use addresses::{Entry, advertised_alone, check_ports, entry, list};
use listener::name_of;
pub use listener::{KafkaListener, LISTENER_NAME_BYTES_MAX, LISTENERS_MAX};
use own::Own;
pub(crate) use own_keys::{MECHANISMS, OWN_PREFIX, canonical_own};

/// Longest value of `listener.security.protocol.map` in entries. There may be entries that nothing uses.
const MAP_ENTRIES_MAX: usize = 4 * LISTENERS_MAX;

/// The settings of the listener without a name.
const WITHOUT_NAME: [&str; 3] = ["kafka", "tailrace.kafka.tls", "tailrace.kafka.authentication"];

impl BrokerConfig {
    /// The Kafka listeners, at least one, in the order of the settings.
    pub fn kafka_listeners(&self) -> &[KafkaListener] {
        &self.listeners_resolved
    }

    /// The name of the setting that makes the Kafka listeners use TLS, and its value.
    pub(crate) fn kafka_tls_setting(&self) -> (&'static str, String) {
        match self.listeners.is_empty() {
            true => ("tailrace.kafka.tls", "true".to_owned()),
            false => ("listeners", self.listeners.join(",")),
        }
    }

    /// Reports whether a key is set, rather than at its default.
    fn sets(&self, key: &str) -> bool {
        self.layers().layers().iter().any(|(_, layer)| layer.contains_key(key))
    }
}

/// Makes the Kafka listeners of the settings.
///
/// # Errors
/// They contradict each other, or something cannot be read. The error names the setting.
pub(super) fn resolve(config: &BrokerConfig) -> Result<Vec<KafkaListener>, ConfigError> {
    let own = own::of(config)?;
    if config.listeners.is_empty() { alone(config, &own).map(|one| vec![one]) } else { by_name(config, own) }
}

/// Makes the listener of `kafka`.
fn alone(config: &BrokerConfig, own: &BTreeMap<String, Own>) -> Result<KafkaListener, ConfigError> {
    let reason = "listeners must be set with it";
    if let Some(own) = own.values().next() {
        return Err(own.refused(reason.to_owned()));
    }
    if config.sets("listener.security.protocol.map") {
        let map = &config.listener_security_protocol_map;
        return Err(refused("listener.security.protocol.map", map, reason.to_owned())?);
    }
    let advertised = match config.advertised_listeners.as_deref().unwrap_or_default() {
        [] => None,
        [address] => match advertised_alone(address) {
            Ok(advertised) => Some(advertised),
            Err(reason) => return Err(refused("advertised.listeners", address, reason)?),
        },
        several => {
            let reason = "several advertised listeners need listeners, with the same names".to_owned();
            return Err(refused("advertised.listeners", &several.join(","), reason)?);
        }
    };
    let authentication = config.tailrace_kafka_authentication;
    let uses_sasl = authentication != KafkaAuthentication::None;
    Ok(KafkaListener {
        name: None,
        address: config.kafka.clone(),
        advertised,
        protocol: SecurityProtocol::of(config.tailrace_kafka_tls, uses_sasl),
        authentication,
        mechanisms: config.sasl_enabled_mechanisms.clone(),
        client_auth: config.tailrace_tls_client_auth,
    })
}

/// Makes the listeners of `listeners`.
fn by_name(config: &BrokerConfig, mut own: BTreeMap<String, Own>) -> Result<Vec<KafkaListener>, ConfigError> {
    let text = config.listeners.join(",");
    let wrong = |reason: String| refused("listeners", &text, reason);
    if let Some(other) = WITHOUT_NAME.iter().find(|key| config.sets(key)) {
        return Err(wrong(format!(
            "{other} is set, too, for a listener without a name: remove one of the two"
        ))?);
    }
    if config.listeners.len() > LISTENERS_MAX {
        return Err(wrong(format!(
            "{} listeners, expected at most {LISTENERS_MAX}",
            config.listeners.len()
        ))?);
    }
    let entries = match list(&config.listeners) {
        Ok(entries) => entries,
        Err(reason) => return Err(wrong(reason)?),
    };
    if let Err(reason) = check_ports(&entries) {
        return Err(wrong(reason)?);
    }
    let protocols = protocols(config)?;
    let mut advertised = advertised(config, &entries)?;
    let mut listeners = Vec::with_capacity(entries.len());
    for entry in entries {
        let Some(protocol) = protocols.get(&entry.name).copied() else {
            let name = entry.name;
            return Err(wrong(format!(
                "No security protocol defined for listener {name}: listener.security.protocol.map must have an \
                 entry {name}:PROTOCOL"
            ))?);
        };
        let advertised = advertised.remove(&entry.name);
        let own = own.remove(&entry.name.to_lowercase()).unwrap_or_default();
        listeners.push(listener(config, entry, protocol, advertised, &own)?);
    }
    if let Some((name, own)) = own.into_iter().next() {
        let known: Vec<_> = listeners.iter().map(KafkaListener::label).collect();
        let reason = format!("listeners has no {}; it has {}", name.to_uppercase(), known.join(", "));
        return Err(own.refused(reason));
    }
    Ok(listeners)
}

fn listener(
    config: &BrokerConfig,
    entry: Entry,
    protocol: SecurityProtocol,
    advertised: Option<AdvertisedListener>,
    own: &Own,
) -> Result<KafkaListener, ConfigError> {
    own.check(config, &entry.name, protocol)?;
    let (authentication, mechanisms) = match protocol.uses_sasl() {
        true => {
            let mechanisms = own.mechanisms.clone().unwrap_or_else(|| config.sasl_enabled_mechanisms.clone());
            (KafkaAuthentication::Required, mechanisms)
        }
        false => (KafkaAuthentication::None, Vec::new()),
    };
    if protocol.uses_sasl() && mechanisms.is_empty() {
        let reason = format!("listener {} uses SASL and needs at least one mechanism", entry.name);
        return Err(match own.mechanisms {
            Some(_) => own.refused(reason),
            None => refused("sasl.enabled.mechanisms", "", reason)?,
        });
    }
    Ok(KafkaListener {
        name: Some(entry.name),
        address: entry.address,
        advertised,
        protocol,
        authentication,
        mechanisms,
        client_auth: own.client_auth.unwrap_or(config.tailrace_tls_client_auth),
    })
}

/// Reads `listener.security.protocol.map`.
fn protocols(config: &BrokerConfig) -> Result<BTreeMap<String, SecurityProtocol>, ConfigError> {
    let text = &config.listener_security_protocol_map;
    let wrong = |reason: String| refused("listener.security.protocol.map", text, reason);
    let mut protocols = BTreeMap::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let Some((name, protocol)) = pair.split_once(':') else {
            return Err(wrong(format!("found '{pair}', expected NAME:PROTOCOL"))?);
        };
        let name = match name_of(name.trim()) {
            Ok(name) => name,
            Err(reason) => return Err(wrong(reason)?),
        };
        let Some(protocol) = SecurityProtocol::from_name(protocol.trim()) else {
            return Err(wrong(format!(
                "Invalid security protocol `{}`, expected PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
                protocol.trim()
            ))?);
        };
        if protocols.insert(name.clone(), protocol).is_some() {
            return Err(wrong(format!("{name} has two protocols"))?);
        }
        if protocols.len() > MAP_ENTRIES_MAX {
            return Err(wrong(format!("expected at most {MAP_ENTRIES_MAX} entries"))?);
        }
    }
    Ok(protocols)
}

/// Reads `advertised.listeners` by name.
fn advertised(
    config: &BrokerConfig,
    listeners: &[Entry],
) -> Result<BTreeMap<String, AdvertisedListener>, ConfigError> {
    let texts = config.advertised_listeners.as_deref().unwrap_or_default();
    let text = texts.join(",");
    let wrong = |reason: String| refused("advertised.listeners", &text, reason);
    let names: BTreeSet<&str> = listeners.iter().map(|entry| entry.name.as_str()).collect();
    let mut found = BTreeMap::new();
    for part in texts {
        let entry = match entry(part) {
            Ok(entry) => entry,
            Err(reason) => return Err(wrong(reason)?),
        };
        if !names.contains(entry.name.as_str()) {
            let names = names.into_iter().collect::<Vec<_>>().join(", ");
            return Err(wrong(format!(
                "found {}, but listener names must be those of listeners: {names}",
                entry.name
            ))?);
        }
        let (name, advertised) = match entry.advertised() {
            Ok(advertised) => advertised,
            Err(reason) => return Err(wrong(reason)?),
        };
        if found.insert(name.clone(), advertised).is_some() {
            return Err(wrong(format!("Each listener must have a different name, found {name} twice"))?);
        }
    }
    Ok(found)
}

/// The error of a value that is refused. `Err` only if there is no such key, which would be a bug.
fn refused(key: &str, value: &str, reason: String) -> Result<ConfigError, ConfigError> {
    Ok(broker_key(key)?.invalid(value, reason))
}
