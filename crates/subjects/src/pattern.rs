//! Patterns that subscribers subscribe to. Parsing validates a text and converts it to its normal form.

use std::fmt;

use crate::subject::{check_text, split};
use crate::{Dialect, Limits, TextError};

/// A valid pattern in its normal form.
///
/// Two patterns of one dialect that differ only in the order or number of adjacent wildcards have the same
/// meaning, and the same normal form. In a run of wildcards the one-word ones come first, and one `#` stands
/// for several (`a.#.*.#` is `a.*.#`). Only AMQP has such runs, so NATS and MQTT texts stay as they are.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Pattern {
    dialect: Dialect,
    text: Box<[u8]>,
}

/// An MQTT filter that may belong to a shared subscription: `$share/GROUP/FILTER` (MQTT 5, section 4.8.2).
///
/// Only the filter takes part in matching, and the rule of `$` topics applies to it. The group is part of the
/// subscriber's identity: of all members of a group with the same filter, one gets a message, and a client
/// that also has a plain subscription gets it twice.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SharedPattern {
    /// The group, if the subscription is shared.
    pub group: Option<Box<[u8]>>,
    /// The filter.
    pub pattern: Pattern,
}

impl SharedPattern {
    /// Parses an MQTT filter with or without `$share/GROUP/` before it.
    ///
    /// # Errors
    /// [`TextError`], with the position of the error.
    pub fn parse(text: impl AsRef<[u8]>, limits: &Limits) -> Result<Self, TextError> {
        const SHARE: &[u8] = b"$share";
        let (dialect, text) = (Dialect::Mqtt, text.as_ref());
        check_text(dialect, text, limits)?;
        let separator = dialect.separator();
        let rest = match text.strip_prefix(SHARE) {
            Some([]) => return Err(TextError::BadShare { position: SHARE.len() }),
            Some([first, rest @ ..]) if *first == separator => rest,
            _ => return Ok(Self { group: None, pattern: Pattern::parse(dialect, text, limits)? }),
        };
        let begin = text.len() - rest.len();
        let length = rest.iter().position(|byte| *byte == separator).unwrap_or(rest.len());
        let (group, filter) = rest.split_at(length);
        let is_wildcard = |byte: &u8| *byte == dialect.one() || *byte == dialect.many();
        if let Some(at) = group.iter().position(is_wildcard) {
            return Err(TextError::BadShare { position: begin + at });
        }
        if group.is_empty() || filter.len() < 2 {
            let missing = if group.is_empty() { begin } else { text.len() };
            return Err(TextError::BadShare { position: missing });
        }
        let pattern = Pattern::parse(dialect, &filter[1..], limits);
        let pattern = pattern.map_err(|error| error.moved_by(begin + length + 1))?;
        Ok(Self { group: Some(group.into()), pattern })
    }
}

/// One word of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PatternWord<'a> {
    /// This exact word.
    Literal(&'a [u8]),
    /// Exactly one word of any kind.
    One,
    /// Any number of words, at least [`Dialect::many_min`].
    Many,
}

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// [`TextError`], with the position of the error.
    pub fn parse(dialect: Dialect, text: impl AsRef<[u8]>, limits: &Limits) -> Result<Self, TextError> {
        let text = text.as_ref();
        check_text(dialect, text, limits)?;
        for (position, word) in split(dialect, text) {
            check_wildcards(dialect, position, word, position + word.len() == text.len())?;
        }
        let text = if dialect.many_anywhere() { normal_form(dialect, text) } else { text.into() };
        Ok(Self { dialect, text })
    }

    /// Its dialect.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The text of the normal form.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.text
    }

    /// Its words, in order.
    pub fn words(&self) -> impl Iterator<Item = PatternWord<'_>> {
        words(self.dialect, &self.text)
    }

    /// Its text without the literal words. Two patterns of one dialect have the same shape if they have the
    /// same number of words and wildcards at the same places. A lookup costs a step per shape, and hardly
    /// more for several patterns of one shape.
    #[must_use]
    pub fn shape(&self) -> Box<[u8]> {
        shape(self.dialect, &self.text)
    }

    /// Reports whether it has no wildcard, so that it matches only the subject of the same text.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        self.words().all(|word| matches!(word, PatternWord::Literal(_)))
    }
}

impl AsRef<[u8]> for Pattern {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.text))
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.dialect, String::from_utf8_lossy(&self.text))
    }
}

/// The words of a valid pattern's text.
pub(crate) fn words(dialect: Dialect, text: &[u8]) -> impl Iterator<Item = PatternWord<'_>> {
    split(dialect, text).map(move |(_, word)| classify(dialect, word))
}

/// The shape of a valid pattern's text; see [`Pattern::shape`].
pub(crate) fn shape(dialect: Dialect, text: &[u8]) -> Box<[u8]> {
    let mut shape = Vec::new();
    for (position, word) in split(dialect, text) {
        if position > 0 {
            shape.push(dialect.separator());
        }
        if !matches!(classify(dialect, word), PatternWord::Literal(_)) {
            shape.extend_from_slice(word);
        }
    }
    shape.into()
}

fn classify(dialect: Dialect, word: &[u8]) -> PatternWord<'_> {
    match word {
        [byte] if *byte == dialect.one() => PatternWord::One,
        [byte] if *byte == dialect.many() => PatternWord::Many,
        _ => PatternWord::Literal(word),
    }
}

fn check_wildcards(dialect: Dialect, position: usize, word: &[u8], last: bool) -> Result<(), TextError> {
    match classify(dialect, word) {
        PatternWord::Many if !last && !dialect.many_anywhere() => {
            Err(TextError::TailNotLast { wildcard: dialect.many(), position })
        }
        PatternWord::Literal(word) if dialect.wildcard_in_word_is_error() => {
            let is_wildcard = |byte: &u8| *byte == dialect.one() || *byte == dialect.many();
            match word.iter().position(is_wildcard) {
                Some(at) => Err(TextError::WildcardInWord { wildcard: word[at], position: position + at }),
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Replaces each run of wildcards by its one-word wildcards, followed by one `#` if the run had any.
fn normal_form(dialect: Dialect, text: &[u8]) -> Box<[u8]> {
    let mut normal = Vec::with_capacity(text.len());
    let mut many = false;
    let mut push = |word: &[u8], first: &mut bool| {
        if !std::mem::take(first) {
            normal.push(dialect.separator());
        }
        normal.extend_from_slice(word);
    };
    let mut first = true;
    for (_, word) in split(dialect, text) {
        match classify(dialect, word) {
            PatternWord::Many => many = true,
            PatternWord::One => push(word, &mut first),
            PatternWord::Literal(word) => {
                if std::mem::take(&mut many) {
                    push(&[dialect.many()], &mut first);
                }
                push(word, &mut first);
            }
        }
    }
    if many {
        push(&[dialect.many()], &mut first);
    }
    normal.into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_told_by_wildcards_and_words() {
        let shape =
            |text: &str| Pattern::parse(Dialect::Nats, text, &Limits::default()).expect("valid").shape();
        assert_eq!(&*shape("a.*.bc.>"), b".*..>");
        assert_eq!(shape("a.*.bc.>"), shape("xyz.*.q.>"));
        for other in ["a.*.bc", "a.*.bc.d.>", "*.a.bc.>", "a.*.*.>"] {
            assert_ne!(shape("a.*.bc.>"), shape(other), "{other}");
        }
    }

    #[test]
    fn shared_filters_are_parted() {
        let parse = |text: &str| SharedPattern::parse(text, &Limits::default());
        let shared = parse("$share/workers/a/+/#").expect("valid");
        assert_eq!(shared.group.as_deref(), Some(&b"workers"[..]));
        assert_eq!(shared.pattern.as_bytes(), b"a/+/#");
        // The first level of the filter may be empty, and only `$share` itself is special.
        assert_eq!(parse("$share/g//a").expect("valid").pattern.as_bytes(), b"/a");
        for plain in ["a/b", "$shared/g/a", "$SYS/#", "x/$share/g"] {
            let filter = parse(plain).expect("valid");
            assert_eq!((filter.group, filter.pattern.as_bytes()), (None, plain.as_bytes()));
        }
        let bad = [
            ("$share", 6),
            ("$share/", 7),
            ("$share//a", 7),
            ("$share/g", 8),
            ("$share/g/", 9),
            ("$share/a+/b", 8),
        ];
        for (text, position) in bad {
            assert_eq!(parse(text), Err(TextError::BadShare { position }), "{text}");
        }
        assert_eq!(parse("$share/g/a/#/b"), Err(TextError::TailNotLast { wildcard: b'#', position: 11 }));
        assert_eq!(parse("$share/g/a#"), Err(TextError::WildcardInWord { wildcard: b'#', position: 10 }));
    }
}
