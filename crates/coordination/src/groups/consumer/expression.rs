//! Subscriptions by regular expression.
//!
//! Kafka uses RE2/J. The `regex` crate supports nearly the same syntax, and both run in linear time. An
//! expression must match the whole name of a topic. `\Q...\E`, which only RE2 supports, is translated.

use std::collections::BTreeSet;

use regex::{Regex, RegexBuilder};
use tailrace_metadata::{METADATA_TOPIC, MetadataImage};

use super::event::SeenTopics;
use crate::groups::GroupError;

/// Maximum length of an expression, in bytes. Kafka has no bound. Topic names have at most 249 bytes, so an
/// expression that lists a hundred of them still fits.
pub(crate) const EXPRESSION_BYTES_MAX: usize = 32_000;

/// Maximum number of different expressions in a group. Each is matched against all topic names when these
/// change.
pub(crate) const EXPRESSIONS_PER_GROUP_MAX: usize = 100;

/// Maximum size of a compiled expression, in bytes. The crate's own default is ten times as much.
const COMPILED_BYTES_MAX: usize = 1 << 20;

fn compile(expression: &str) -> Result<Regex, GroupError> {
    let invalid = |reason: String| GroupError::InvalidRegularExpression { reason };
    if expression.len() > EXPRESSION_BYTES_MAX {
        let length = expression.len();
        return Err(invalid(format!(
            "The regular expression has {length} bytes, more than {EXPRESSION_BYTES_MAX}."
        )));
    }
    let refuse = |error: String| {
        let reason = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
        invalid(format!("The regular expression '{expression}' is not valid: {reason}."))
    };
    let translated = without_quotes(expression);
    // The expression is parsed alone first: "a)|(b" is not valid, though it would be in parentheses.
    regex_syntax::parse(&translated).map_err(|error| refuse(error.to_string()))?;
    let whole = format!(r"\A(?:{translated})\z");
    let built = RegexBuilder::new(&whole).size_limit(COMPILED_BYTES_MAX).build();
    built.map_err(|error| refuse(error.to_string()))
}

/// Replaces `\Q...\E` by its text, escaped.
fn without_quotes(expression: &str) -> String {
    let mut translated = String::with_capacity(expression.len());
    let mut rest = expression;
    while let Some(position) = rest.find('\\') {
        let (before, escape) = rest.split_at(position);
        translated.push_str(before);
        if let Some(quoted) = escape.strip_prefix(r"\Q") {
            let (text, after) = quoted.split_once(r"\E").unwrap_or((quoted, ""));
            translated.push_str(&regex::escape(text));
            rest = after;
        } else {
            let end = escape.char_indices().nth(2).map_or(escape.len(), |(end, _)| end);
            translated.push_str(&escape[..end]);
            rest = &escape[end..];
        }
    }
    translated.push_str(rest);
    translated
}

/// Refuses text that is not an expression, or too large a one.
pub(crate) fn check(expression: &str) -> Result<(), GroupError> {
    compile(expression).map(|_| ())
}

/// Returns the names of the topics that an expression matches, out of those that are `seen`. None if it does
/// not compile, which can only happen if another version has accepted it: [`check`] refuses such expressions.
pub(crate) fn resolve(expression: &str, image: &MetadataImage, seen: &SeenTopics) -> BTreeSet<String> {
    let Ok(regex) = compile(expression) else { return BTreeSet::new() };
    let names = image.topics().map(|topic| topic.name.as_str()).filter(|name| *name != METADATA_TOPIC);
    names.filter(|name| regex.is_match(name) && seen.has(name)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(expression: &str, name: &str) -> bool {
        compile(expression).unwrap().is_match(name)
    }

    #[test]
    fn the_whole_name_must_match() {
        assert!(matches("order.*", "orders"));
        assert!(!matches("order", "orders"));
        assert!(!matches("rders", "orders"));
        assert!(matches("a|ab", "ab"));
        assert!(matches("^orders$", "orders"));
    }

    #[test]
    fn quoted_text_is_taken_as_it_is() {
        assert!(matches(r"\Qa.b\E.*", "a.b-1"));
        assert!(!matches(r"\Qa.b\E.*", "aab-1"));
        assert!(matches(r"\\Q", r"\Q"));
        assert!(matches(r"x\Q.", "x."));
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        for expression in ["a)|(b", "(", "[", r"\", "a{2", "(?x)a #"] {
            let refused = check(expression);
            let as_text = matches!(&refused, Err(GroupError::InvalidRegularExpression { reason })
                if reason.contains("regular expression"));
            // RE2 takes an unfinished repetition literally, and tailrace may do so, too.
            assert!(as_text || expression == "a{2", "{expression}: {refused:?}");
        }
        let long = "a".repeat(EXPRESSION_BYTES_MAX + 1);
        assert!(check(&long).is_err());
        assert!(check("(a{1000}){1000}").is_err(), "too large when compiled");
    }
}
