//! The keys of the settings of one listener: `listener.name.NAME.KEY`.

use super::listener::name_of;
use crate::error::{ConfigError, ConfigScope};
use crate::key::ConfigKey;

/// How the settings of one listener begin.
pub(crate) const OWN_PREFIX: &str = "listener.name.";

/// The setting whose key in the table of the node says which values are legal.
pub(crate) const MECHANISMS: &str = "sasl.enabled.mechanisms";
pub(super) const CLIENT_AUTH: &str = "ssl.client.auth";

/// The settings that one listener can have of its own.
const OWN_KEYS: [&str; 2] = [MECHANISMS, CLIENT_AUTH];

/// Checks a setting of one listener, and returns its value as it is stored. `mechanisms` is the key of the
/// same setting for all listeners.
///
/// # Errors
/// There is no such setting, or the value is illegal.
pub(crate) fn canonical_own(key: &str, text: &str, mechanisms: &ConfigKey) -> Result<String, ConfigError> {
    let (_, suffix) = parts(key)?;
    let invalid = |reason| ConfigError::InvalidOwn { key: key.to_owned(), value: text.to_owned(), reason };
    if suffix == CLIENT_AUTH {
        return match text.trim() {
            text @ ("none" | "requested" | "required") => Ok(text.to_owned()),
            _ => Err(invalid("String must be one of: none, requested, required".to_owned())),
        };
    }
    let value = mechanisms.parse(text).map_err(|error| match error {
        ConfigError::Invalid { reason, .. } => invalid(reason),
        other => other,
    })?;
    Ok(value.to_string())
}

/// Returns the listener's name in lower case, and the key.
pub(super) fn parts(key: &str) -> Result<(&str, &'static str), ConfigError> {
    let unknown =
        |hint: String| ConfigError::Unknown { scope: ConfigScope::Broker, key: key.to_owned(), hint };
    let rest = key.strip_prefix(OWN_PREFIX).unwrap_or(key);
    let (name, suffix) = rest.split_once('.').unwrap_or((rest, ""));
    let Some(suffix) = OWN_KEYS.into_iter().find(|known| *known == suffix) else {
        return Err(unknown(format!(" (a listener can have its own {})", OWN_KEYS.join(" and "))));
    };
    if name_of(name).is_err() || name != name.to_lowercase() {
        return Err(unknown(" (expected the listener's name in lower case)".to_owned()));
    }
    Ok((name, suffix))
}
