//! Subject transforms: a pattern that subjects match, and a text that says how to write them from the
//! words that its wildcards matched.

mod apply;
mod error;
mod parse;

pub use error::TransformError;
use parse::{Part, part};

use crate::subject::is_subset;

/// A transform of subjects.
#[derive(Clone, Debug, PartialEq)]
pub struct Transform {
    source: String,
    parts: Vec<Part>,
    /// The words of the source.
    source_words: usize,
    /// Nothing changes: both sides are `>`, or there is no destination.
    is_identity: bool,
    /// What the source's `>` matched goes at the end.
    takes_rest: bool,
}

impl Transform {
    /// Creates a transform. An empty source means `>`. Without a destination nothing is transformed.
    ///
    /// # Errors
    /// If either side is no subject, or the destination names words or functions that there are not.
    pub fn new(source: &str, destination: &str) -> Result<Option<Self>, TransformError> {
        if destination.is_empty() {
            return Ok(None);
        }
        let source = if source.is_empty() { ">" } else { source };
        let (from, to) = match (shape(source), shape(destination)) {
            (Some(from), Some(to)) if to.wildcards.is_empty() && from.takes_rest == to.takes_rest => {
                (from, to)
            }
            _ => return Err(TransformError("invalid subject".to_owned())),
        };
        let parts = destination.split('.').map(|word| part(word, &from.wildcards, from.takes_rest));
        Ok(Some(Self {
            source: source.to_owned(),
            parts: parts.collect::<Result<_, _>>()?,
            source_words: source.split('.').count(),
            is_identity: source == ">" && destination == ">",
            takes_rest: to.takes_rest,
        }))
    }

    /// The subject that this one becomes; none if it does not match the source. `random` is consumed by the
    /// function of that name: pass a value that is new each time.
    #[must_use]
    pub fn apply(&self, subject: &str, random: u32) -> Option<String> {
        if self.is_identity {
            return Some(subject.to_owned());
        }
        if subject.split('.').any(|word| matches!(word, "" | "*" | ">")) {
            return None;
        }
        if self.source != ">" && !is_subset(subject, &self.source) {
            return None;
        }
        Some(self.write(&subject.split('.').collect::<Vec<_>>(), random))
    }
}

struct Shape {
    /// Which words are `*`.
    wildcards: Vec<usize>,
    takes_rest: bool,
}

/// The wildcards of a subject; none if it is none. Blanks are not looked at here.
fn shape(subject: &str) -> Option<Shape> {
    let mut shape = Shape { wildcards: Vec::new(), takes_rest: false };
    for (at, word) in subject.split('.').enumerate() {
        match word {
            _ if shape.takes_rest => return None,
            "" => return None,
            ">" => shape.takes_rest = true,
            "*" => shape.wildcards.push(at),
            _ => {}
        }
    }
    Some(shape)
}

/// Checks a transform of a configuration as nats-server does before it makes one.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn validate(source: &str, destination: &str) -> Result<(), TransformError> {
    const SUBJECT: &str = "invalid mapping destination: invalid transform";
    if destination.is_empty() {
        return Ok(());
    }
    let mut ended = false;
    for word in destination.split('.') {
        if word.is_empty() {
            return Err(TransformError(SUBJECT.to_owned()));
        }
        if ended {
            return Err(TransformError(format!("{SUBJECT} in {word}")));
        }
        if parse::is_mustache(word) {
            if !parse::is_known_function(word) {
                return Err(TransformError(format!(
                    "invalid mapping destination: unknown function in {word}"
                )));
            }
            continue;
        }
        ended = word == ">";
        if word.contains(['\t', '\n', '\x0c', '\r', ' ']) {
            return Err(TransformError(SUBJECT.to_owned()));
        }
    }
    Transform::new(source, destination).map(drop)
}

#[cfg(test)]
mod tests;
