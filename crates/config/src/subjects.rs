//! The NATS subjects that a topic captures: `tailrace.subjects`.
//!
//! Only what can be said of one topic by itself is checked here. That no two topics want the same subject is the controller's
//! business.

use tailrace_subjects::{Dialect, Limits, Pattern};

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
