//! The NATS subjects that a topic captures: `tailrace.subjects`.
//!
//! This module checks one topic by itself. The controller checks that no two topics capture the same subject.

use tailrace_subjects::{Dialect, Limits, Pattern};

use super::value::{FromValue, Value};

/// Maximum number of patterns of one topic. Each is a subscription of the NATS router, about 200 bytes and
/// its text.
pub const PATTERNS_MAX: usize = 1000;
/// Maximum size of all patterns of one topic together, in bytes. They are part of one metadata record.
pub const PATTERNS_BYTES_MAX: usize = 32 * 1024;

/// Subjects that belong to NATS itself and cannot be captured. A topic that captured `_INBOX.>` would treat
/// the replies to requests as data, and its acknowledgements would go to the inbox of the next reply.
const RESERVED: [&str; 4] = ["$JS.>", "$SYS.>", "_INBOX.>", "_R_.>"];

/// Value of `tailrace.subjects`: patterns in the NATS dialect. Each starts with a literal word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapturedSubjects {
    patterns: Vec<Pattern>,
}

impl CapturedSubjects {
    /// Returns the patterns, in the order given.
    pub fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }

    /// Reports whether the topic captures nothing.
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
        .map_err(|error| format!("'{text}' is not a NATS subject: {error}"))?;
    if text.starts_with("*.") || matches!(text, "*" | ">") {
        return Err(format!(
            "'{text}' starts with a wildcard, so it would also capture {}, which belong to NATS itself; \
             start with a word, as in orders.{text}",
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
