//! Settings of one listener: `listener.name.NAME.KEY`.

use std::collections::BTreeMap;

use super::own_keys::{CLIENT_AUTH, MECHANISMS, parts};
use crate::broker::BrokerConfig;
use crate::choice::{SecurityProtocol, TlsClientAuth};
use crate::error::ConfigError;
use crate::keys::broker_key;
use crate::value::FromValue;

/// The settings that one listener has of its own.
#[derive(Debug, Default)]
pub(super) struct Own {
    pub(super) mechanisms: Option<Vec<String>>,
    pub(super) client_auth: Option<TlsClientAuth>,
    /// All of them, as they were set.
    texts: Vec<(String, String)>,
}

impl Own {
    /// The error for one of these settings.
    pub(super) fn refused(&self, reason: String) -> ConfigError {
        let (key, value) = self.texts.first().cloned().unwrap_or_default();
        ConfigError::InvalidOwn { key, value, reason }
    }

    /// The error for the setting of this key.
    fn refused_key(&self, suffix: &str, reason: String) -> ConfigError {
        let found = self.texts.iter().find(|(key, _)| key.ends_with(suffix));
        let (key, value) = found.cloned().unwrap_or_default();
        ConfigError::InvalidOwn { key, value, reason }
    }

    /// Refuses settings that would have no effect on a listener of this protocol, or lack a companion.
    pub(super) fn check(
        &self,
        config: &BrokerConfig,
        name: &str,
        protocol: SecurityProtocol,
    ) -> Result<(), ConfigError> {
        if self.mechanisms.is_some() && !protocol.uses_sasl() {
            let reason = format!("listener {name} has the protocol {protocol}, without SASL");
            return Err(self.refused_key(MECHANISMS, reason));
        }
        match self.client_auth {
            Some(_) if !protocol.uses_tls() => {
                let reason = format!("listener {name} has the protocol {protocol}, without TLS");
                Err(self.refused_key(CLIENT_AUTH, reason))
            }
            Some(TlsClientAuth::Requested | TlsClientAuth::Required)
                if config.tailrace_tls_ca_file.is_empty() =>
            {
                Err(self.refused_key(CLIENT_AUTH, "tailrace.tls.ca.file must be set with it".to_owned()))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// Returns the settings of single listeners, by the listener's name in lower case.
pub(super) fn of(config: &BrokerConfig) -> Result<BTreeMap<String, Own>, ConfigError> {
    let mut all: BTreeMap<String, Own> = BTreeMap::new();
    for (key, text) in config.layers().own_settings() {
        let (name, suffix) = parts(key)?;
        let own = all.entry(name.to_owned()).or_default();
        own.texts.push((key.clone(), text.clone()));
        let invalid = |reason| ConfigError::InvalidOwn { key: key.clone(), value: text.clone(), reason };
        if suffix == CLIENT_AUTH {
            let value = crate::value::Value::Text(text.clone());
            own.client_auth = Some(TlsClientAuth::from_value(value).map_err(invalid)?);
        } else {
            let value = broker_key(MECHANISMS)?.parse(text)?;
            own.mechanisms = Some(Vec::from_value(value).map_err(invalid)?);
        }
    }
    Ok(all)
}
