//! Published subjects: validated, and split into words. A subject is never a pattern: its wildcards are
//! ordinary bytes.

use crate::scan::Scanner;
use crate::{Dialect, Limits, TextError};

/// A valid subject, borrowed. Matchers take text and validate it themselves; this type is for examining a
/// single subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject<'a> {
    dialect: Dialect,
    text: &'a [u8],
}

impl<'a> Subject<'a> {
    /// Parses a published subject.
    ///
    /// # Errors
    /// [`TextError`], with the position of the error.
    pub fn parse(dialect: Dialect, text: &'a [u8], limits: &Limits) -> Result<Self, TextError> {
        check_text(dialect, text, limits)?;
        if dialect.wildcard_in_word_is_error()
            && let Some(position) =
                text.iter().position(|byte| *byte == dialect.one() || *byte == dialect.many())
        {
            return Err(TextError::WildcardInSubject { wildcard: text[position], position });
        }
        Ok(Self { dialect, text })
    }

    /// Parses a subject like [`Subject::parse`], and reports in the same pass where each word starts and
    /// ends, in order: for a matcher that needs both.
    ///
    /// # Errors
    /// [`TextError`], with the position of the error. Words may have been reported before it was found.
    #[inline]
    pub fn parse_words(
        dialect: Dialect,
        text: &'a [u8],
        limits: &Limits,
        mut word: impl FnMut(usize, usize),
    ) -> Result<Self, TextError> {
        let limits = limits.clamped();
        if text.is_empty() || text.len() > limits.bytes_max {
            return Self::parse(dialect, text, &limits);
        }
        let (mut count, mut empty) = (0, false);
        let unusual = Scanner::new(dialect).words(text, |start, end| {
            word(start, end);
            count += 1;
            empty |= start == end;
        });
        if unusual == 0 && count <= limits.words_max && (!empty || dialect.empty_words()) {
            return Ok(Self { dialect, text });
        }
        // Something is unusual: finds out what, and whether it is an error.
        Self::parse(dialect, text, &limits)
    }

    /// A subject whose text is validated elsewhere.
    #[inline]
    pub(crate) fn unchecked(dialect: Dialect, text: &'a [u8]) -> Self {
        Self { dialect, text }
    }

    /// The text.
    #[must_use]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.text
    }

    /// Its dialect.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Its words, in order.
    pub fn words(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        split(self.dialect, self.text).map(|(_, word)| word)
    }

    /// Reports whether only patterns that start with a literal word may match (MQTT topics that start with
    /// `$`).
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        self.dialect.dollar_rule() && self.text.first() == Some(&b'$')
    }
}

/// The words of a text with their positions; the empty text has no words.
pub(crate) fn split(dialect: Dialect, text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut rest = (!text.is_empty()).then_some((0, text));
    std::iter::from_fn(move || {
        let (start, bytes) = rest?;
        match bytes.iter().position(|byte| *byte == dialect.separator()) {
            Some(length) => {
                rest = Some((start + length + 1, &bytes[length + 1..]));
                Some((start, &bytes[..length]))
            }
            None => {
                rest = None;
                Some((start, bytes))
            }
        }
    })
}

/// The checks that subjects and patterns share.
pub(crate) fn check_text(dialect: Dialect, text: &[u8], limits: &Limits) -> Result<(), TextError> {
    let limits = limits.clamped();
    if text.len() > limits.bytes_max {
        return Err(TextError::TooLong { bytes: text.len(), bytes_max: limits.bytes_max });
    }
    if text.is_empty() && !dialect.empty_text() {
        return Err(TextError::Empty(dialect));
    }
    if is_plain(dialect, text, limits) {
        return Ok(());
    }
    if !limits.any_bytes {
        check_bytes(dialect, text)?;
    }
    for (index, (position, word)) in split(dialect, text).enumerate() {
        if word.is_empty() && !dialect.empty_words() {
            return Err(TextError::EmptyWord { position });
        }
        if index == limits.words_max {
            return Err(TextError::TooManyWords { position, words_max: limits.words_max });
        }
    }
    Ok(())
}

fn check_bytes(dialect: Dialect, text: &[u8]) -> Result<(), TextError> {
    if let Some(position) = text.iter().position(|byte| dialect.forbids(*byte)) {
        return Err(TextError::Forbidden { byte: text[position], position });
    }
    match std::str::from_utf8(text) {
        Ok(_) => Ok(()),
        Err(error) => Err(TextError::NotUtf8 { position: error.valid_up_to() }),
    }
}

/// Reports whether a text that is not too long is certainly well formed. Examines sixteen bytes at a time.
fn is_plain(dialect: Dialect, text: &[u8], limits: Limits) -> bool {
    if text.is_empty() {
        // It gets here only where the empty text is allowed.
        return true;
    }
    let (mut words, mut empty) = (0, false);
    let unusual = Scanner::new(dialect).words(text, |start, end| {
        words += 1;
        empty |= start == end;
    });
    unusual == 0 && words <= limits.words_max && (!empty || dialect.empty_words())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_as_they_are_split_and_what_is_wrong_is_told_alike() {
        let limits = Limits { words_max: 60, bytes_max: 300, ..Limits::default() };
        let texts: [&[u8]; 12] = [
            b"",
            b"a",
            b".",
            b"a.b",
            b"a..b",
            b"a b",
            b"/a/",
            b"+/a",
            b"a+",
            b"$a/b",
            b"a.\x7f",
            "a.\u{e9}.b".as_bytes(),
        ];
        let long: Vec<Vec<u8>> = [16, 17, 60, 61, 150]
            .into_iter()
            .flat_map(|words| [".", "/"].map(|separator| vec!["wo"; words].join(separator).into_bytes()))
            .collect();
        for dialect in Dialect::ALL {
            for text in texts.into_iter().chain(long.iter().map(|text| &**text)) {
                let (slow, mut told) = (Subject::parse(dialect, text, &limits), Vec::new());
                let fast =
                    Subject::parse_words(dialect, text, &limits, |start, end| told.push(&text[start..end]));
                assert_eq!(fast, slow, "{dialect} {text:?}");
                if let Ok(subject) = slow {
                    assert_eq!(told, subject.words().collect::<Vec<_>>(), "{dialect} {text:?}");
                }
            }
        }
    }
}
