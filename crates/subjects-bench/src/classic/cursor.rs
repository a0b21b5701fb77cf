//! Walks the words of a valid text, and can be copied to return to a position.

use tailrace_subjects::Dialect;

/// The remaining words of a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words<'a> {
    /// Unread text. `None` after the last word (an empty text is one empty word).
    rest: Option<&'a [u8]>,
    separator: u8,
}

impl<'a> Words<'a> {
    /// All words of a valid subject or pattern; the empty text has none.
    pub(super) fn new(dialect: Dialect, text: &'a [u8]) -> Self {
        Self { rest: (!text.is_empty()).then_some(text), separator: dialect.separator() }
    }

    /// The words of a part that holds at least one: here the empty text is an empty word.
    pub(super) fn part(dialect: Dialect, text: &'a [u8]) -> Self {
        Self { rest: Some(text), separator: dialect.separator() }
    }

    /// The words from the start of a word on; none if the position is after the end of the text.
    pub(super) fn from(dialect: Dialect, text: &'a [u8], start: usize) -> Self {
        Self { rest: text.get(start..), separator: dialect.separator() }
    }

    /// The remaining text. `None` if no word is left.
    pub(super) fn rest(&self) -> Option<&'a [u8]> {
        self.rest
    }

    /// Reports whether no word is left.
    pub(super) fn is_done(&self) -> bool {
        self.rest.is_none()
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let text = self.rest?;
        match text.iter().position(|byte| *byte == self.separator) {
            Some(length) => {
                self.rest = Some(&text[length + 1..]);
                Some(&text[..length])
            }
            None => self.rest.take(),
        }
    }
}
