//! The NATS subjects that a topic captures: `tailrace.subjects`, and how large a batch such a topic has to take.
//!
//! Only what can be said of one topic by itself is checked here. That no two topics want the same subject is the controller's
//! business.

use tailrace_subjects::{Dialect, Limits, Pattern};

use super::error::ConfigError;
use super::layers::Layers;
use super::value::{FromValue, Value};

/// Patterns of one topic at most. Each is a subscription of the NATS router, about 200 bytes and its text.
pub const PATTERNS_MAX: usize = 1000;
/// Bytes of all patterns of one topic together at most: they are part of one metadata record.
pub const PATTERNS_BYTES_MAX: usize = 32 * 1024;

/// Subjects that belong to NATS itself. Nothing may be captured from them: a captured `_INBOX.` would take the answers of
/// requests for data, and be acknowledged into the next inbox.
const RESERVED: [&str; 3] = ["$JS.>", "$SYS.>", "_INBOX.>"];

/// Value of `tailrace.subjects`: patterns in the dialect of NATS. Each begins with a literal word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapturedSubjects {
    patterns: Vec<Pattern>,
}

impl CapturedSubjects {
    /// The patterns, in the order in which they were given.
    pub fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }

    /// True for a topic that captures nothing.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }
}

impl FromValue for CapturedSubjects {
    fn from_value(value: Value) -> Result<Self, String> {
        let texts = Vec::<String>::from_value(value)?;
        if texts.len() > PATTERNS_MAX {
            return Err(format!("{} patterns are more than the limit of {PATTERNS_MAX}", texts.len()));
        }
        let bytes: usize = texts.iter().map(String::len).sum();
        if bytes > PATTERNS_BYTES_MAX {
            return Err(format!("the patterns take {bytes} bytes, the limit is {PATTERNS_BYTES_MAX}"));
        }
        let patterns = texts.iter().map(|text| pattern(text)).collect::<Result<_, _>>()?;
        Ok(Self { patterns })
    }
}

fn pattern(text: &str) -> Result<Pattern, String> {
    let pattern = Pattern::parse(Dialect::Nats, text, &Limits::default())
        .map_err(|error| format!("'{text}' is no NATS subject: {error}"))?;
    if text.starts_with("*.") || matches!(text, "*" | ">") {
        return Err(format!(
            "'{text}' begins with a wildcard, so it would also capture {}, which belong to NATS itself; \
             begin with a word, as in orders.{text}",
            RESERVED.join(", ")
        ));
    }
    for reserved in RESERVED {
        let belongs = Pattern::parse(Dialect::Nats, reserved, &Limits::default()).expect("it is valid");
        if pattern.overlaps(&belongs) {
            return Err(format!("'{text}' overlaps {reserved}, which belongs to NATS itself"));
        }
    }
    Ok(pattern)
}

/// Bytes of a batch that holds one NATS message of the largest size: the least `max.message.bytes` of a topic that captures
/// messages.
///
/// Besides the message it has room for
/// - the subject, as key or as the record header `Nats-Subject`: as long as a control line;
/// - 256 bytes: the batch's header (61), the record's own fields (at most 31), names and lengths of added record headers;
/// - a 64th of the message: the lengths of its headers as a record writes them, which take up to a 131st more than on the wire,
///   and what a codec adds to bytes that it cannot compress.
pub(super) fn batch_bytes_min(layers: &Layers) -> Result<u32, ConfigError> {
    let value = |name| match layers.broker_value(super::broker_key(name)?)? {
        Value::Number(number) => Ok(u32::try_from(number).unwrap_or(u32::MAX)),
        _ => Ok(0),
    };
    let payload = value("tailrace.nats.max.payload.bytes")?;
    let control_line = value("tailrace.nats.max.control.line.bytes")?;
    Ok(payload.saturating_add(payload.div_ceil(64)).saturating_add(control_line).saturating_add(256))
}
