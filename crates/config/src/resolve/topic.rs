//! Resolves the effective configuration of one topic, and the batch size that a topic capturing NATS messages
//! needs.

use std::collections::BTreeMap;

use crate::broker::BrokerConfig;
use crate::error::ConfigError;
use crate::keys::{broker_key, topic_key};
use crate::layers::Layers;
use crate::topic::TopicConfig;
use crate::value::Value;

impl TopicConfig {
    /// Merges a topic's overrides with the broker's settings and the defaults.
    ///
    /// # Errors
    /// A key is unknown, a value is illegal, or two values contradict each other.
    pub fn resolve(overrides: &BTreeMap<String, String>, broker: &BrokerConfig) -> Result<Self, ConfigError> {
        Self::resolve_in(overrides, broker.layers())
    }

    pub(crate) fn resolve_in(
        overrides: &BTreeMap<String, String>,
        layers: &Layers,
    ) -> Result<Self, ConfigError> {
        for key in overrides.keys() {
            topic_key(key)?;
        }
        let mut config = Self::read(&|key| layers.resource_value(key, overrides))?;
        if let Some(bytes) = config.internal_segment_bytes {
            config.segment_bytes = bytes;
        }
        if !config.tailrace_subjects.is_empty() {
            config.max_message_bytes = config.max_message_bytes.max(batch_bytes_min(layers)?);
        }
        config.check()?;
        Ok(config)
    }

    /// Refuses a topic's own `max.message.bytes` if it is too small for the NATS messages that the topic
    /// captures.
    ///
    /// Resolving raises such a value instead. A setting that was accepted once must not prevent a start after
    /// `tailrace.nats.max.payload.bytes` was raised.
    ///
    /// # Errors
    /// The topic sets the value, and it is too small.
    pub fn check_captured_size(
        &self,
        overrides: &BTreeMap<String, String>,
        broker: &BrokerConfig,
    ) -> Result<(), ConfigError> {
        let key = topic_key("max.message.bytes")?;
        let Some(set) = overrides.get(key.name) else { return Ok(()) };
        let Value::Number(value) = key.parse(set)? else { return Ok(()) };
        if self.tailrace_subjects.is_empty() || value >= self.max_message_bytes.into() {
            return Ok(());
        }
        let reason = format!(
            "a topic with tailrace.subjects needs at least {} bytes, since tailrace.nats.max.payload.bytes is {}; \
             raise it or leave it out",
            self.max_message_bytes, broker.tailrace_nats_max_payload_bytes
        );
        Err(key.invalid(set, reason))
    }
}

/// Size of a batch that holds one NATS message of the largest size: the minimum of `max.message.bytes` for a
/// topic that captures messages.
///
/// Besides the message it has room for
///
/// - the subject, as the key or as the record header `Nats-Subject`: up to the length of a control line;
/// - 256 bytes: the batch header (61), the record's own fields (at most 31), the names and lengths of added
///   record headers;
/// - a 64th of the message: the lengths of its headers in a record, which take up to a 131st more than on the
///   wire, and the bytes that a codec adds to incompressible data.
fn batch_bytes_min(layers: &Layers) -> Result<u32, ConfigError> {
    let value = |name| match layers.broker_value(broker_key(name)?)? {
        Value::Number(number) => Ok(u32::try_from(number).unwrap_or(u32::MAX)),
        _ => Ok(0),
    };
    let payload = value("tailrace.nats.max.payload.bytes")?;
    let control_line = value("tailrace.nats.max.control.line.bytes")?;
    Ok(payload.saturating_add(payload.div_ceil(64)).saturating_add(control_line).saturating_add(256))
}
