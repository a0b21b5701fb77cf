//! The subject of a lookup: validated and split in one pass, sixteen bytes at a time.

use tailrace_subjects::{Dialect, Limits, Subject, TextError};

/// Words whose ends are recorded. The ends of further words are searched for when they are reached.
const ENDS_MAX: usize = 32;

/// A valid subject.
pub(super) struct Checked<'a> {
    dialect: Dialect,
    text: &'a [u8],
    is_hidden: bool,
    ends: [u16; ENDS_MAX],
}

impl<'a> Checked<'a> {
    /// Creates it empty, to be filled by a read: moving what was just written piece by piece takes longer
    /// than checking it.
    #[inline]
    pub(super) fn none(dialect: Dialect) -> Self {
        Self { dialect, text: b"", is_hidden: false, ends: [0; ENDS_MAX] }
    }

    /// Reads and validates a text.
    ///
    /// # Errors
    /// Same as [`Subject::parse`].
    #[inline]
    pub(super) fn read(&mut self, limits: &Limits, text: &'a [u8]) -> Result<(), TextError> {
        let (mut count, ends) = (0, &mut self.ends);
        let subject = Subject::parse_words(self.dialect, text, limits, |_, end| {
            if let Some(place) = ends.get_mut(count) {
                *place = end as u16;
            }
            count += 1;
        })?;
        (self.text, self.is_hidden) = (text, subject.is_hidden());
        Ok(())
    }

    /// The text.
    #[inline]
    pub(super) fn as_bytes(&self) -> &'a [u8] {
        self.text
    }

    /// Same as [`Subject::is_hidden`].
    #[inline]
    pub(super) fn is_hidden(&self) -> bool {
        self.is_hidden
    }

    /// The end of the word that has this number and starts here.
    #[inline]
    pub(super) fn end(&self, number: usize, start: usize) -> usize {
        if let Some(end) = self.ends.get(number) {
            return usize::from(*end);
        }
        let rest = &self.text[start..];
        start + rest.iter().position(|byte| *byte == self.dialect.separator()).unwrap_or(rest.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_accepts_what_the_slow_check_accepts_and_splits_alike() {
        let limits = Limits { words_max: 60, bytes_max: 300, subscriptions_max: 1, ..Limits::default() };
        let texts = [
            b"".as_slice(),
            b"a",
            b".",
            b"a.b",
            b"a..b",
            b"a b",
            b"/a/",
            b"+/a",
            b"a+",
            "a.\u{e9}.b".as_bytes(),
        ];
        let long: Vec<Vec<u8>> = [31, 32, 33, 60, 61, 150]
            .into_iter()
            .flat_map(|words| [".", "/"].map(|separator| vec!["wo"; words].join(separator).into_bytes()))
            .collect();
        for dialect in Dialect::ALL {
            for text in texts.into_iter().chain(long.iter().map(|text| &**text)) {
                let slow = Subject::parse(dialect, text, &limits);
                let mut checked = Checked::none(dialect);
                let fast = checked.read(&limits, text);
                assert_eq!(fast, slow.clone().map(|_| ()), "{text:?}");
                let Ok(slow) = slow else { continue };
                assert_eq!((checked.as_bytes(), checked.is_hidden()), (slow.as_bytes(), slow.is_hidden()));
                let mut start = 0;
                for (number, word) in slow.words().enumerate() {
                    let end = checked.end(number, start);
                    assert_eq!(&text[start..end], word);
                    start = end + 1;
                }
            }
        }
    }
}
