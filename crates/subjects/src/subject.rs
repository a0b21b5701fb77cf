//! Published subjects: checked, and split into words. A subject is never a pattern: its wildcards are ordinary bytes.

use crate::scan::Scanner;
use crate::{Dialect, Limits, TextError};

/// A checked subject, borrowed. The matchers take text and check it themselves; this is for looking at one subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject<'a> {
    dialect: Dialect,
    text: &'a [u8],
}

impl<'a> Subject<'a> {
    /// Checks a published subject.
    ///
    /// # Errors
    /// [`TextError`], with the position of what is wrong.
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

    /// A subject whose text is or will be checked elsewhere.
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

    /// Whether only patterns that begin with a literal word may match (MQTT topics that begin with `$`).
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

/// What holds for subjects and patterns alike.
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

/// Whether a text that is not too long is certainly well formed: a quick look, sixteen bytes at a time.
fn is_plain(dialect: Dialect, text: &[u8], limits: Limits) -> bool {
    if text.is_empty() {
        // It got here only where it is allowed.
        return true;
    }
    let (mut words, mut empty) = (0, false);
    let unusual = Scanner::new(dialect).words(text, |start, end| {
        words += 1;
        empty |= start == end;
    });
    unusual == 0 && words <= limits.words_max && (!empty || dialect.empty_words())
}
