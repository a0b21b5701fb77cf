//! A subject on the way of a lookup: checked and split in one pass, sixteen bytes at a time.

use crate::scan::Scanner;
use crate::{Dialect, Limits, Subject, TextError};

/// Words whose ends are noted; those beyond are searched for when they are reached.
const ENDS_MAX: usize = 32;

/// A checked subject.
pub(super) struct Checked<'a> {
    pub(super) subject: Subject<'a>,
    ends: [u16; ENDS_MAX],
    separator: u8,
}

impl<'a> Checked<'a> {
    /// Nothing yet: it is made empty and then read into, because to move what was just written piece by piece takes longer than to
    /// check it.
    #[inline]
    pub(super) fn none(dialect: Dialect) -> Self {
        Self {
            subject: Subject::unchecked(dialect, b""),
            ends: [0; ENDS_MAX],
            separator: dialect.separator(),
        }
    }

    /// Checks a text.
    ///
    /// # Errors
    /// As [`Subject::parse`].
    #[inline]
    pub(super) fn read(&mut self, limits: &Limits, text: &'a [u8]) -> Result<(), TextError> {
        let dialect = self.subject.dialect();
        self.subject = Subject::unchecked(dialect, text);
        let words_max = limits.words_max.min(Limits::WORDS_MAX);
        let clean = text.len() <= limits.bytes_max.min(Limits::BYTES_MAX) && self.split(words_max);
        if clean { Ok(()) } else { by_the_book(dialect, text, limits) }
    }

    /// Notes where words end; false if the text may be malformed.
    #[inline]
    fn split(&mut self, words_max: usize) -> bool {
        let (dialect, text) = (self.subject.dialect(), self.subject.as_bytes());
        if text.is_empty() {
            return false;
        }
        let (mut count, mut empty) = (0, false);
        let ends = &mut self.ends;
        let unusual = Scanner::new(dialect).words(text, |start, end| {
            if let Some(place) = ends.get_mut(count) {
                *place = end as u16;
            }
            count += 1;
            empty |= end == start;
        });
        unusual == 0 && count <= words_max && (!empty || dialect.empty_words())
    }

    /// Where the word ends that has this number and begins here.
    #[inline]
    pub(super) fn end(&self, number: usize, start: usize) -> usize {
        if let Some(end) = self.ends.get(number) {
            return usize::from(*end);
        }
        let rest = &self.subject.as_bytes()[start..];
        start + rest.iter().position(|byte| *byte == self.separator).unwrap_or(rest.len())
    }
}

/// Something is unusual: finds out what it is, if it is wrong at all.
#[cold]
fn by_the_book(dialect: Dialect, text: &[u8], limits: &Limits) -> Result<(), TextError> {
    Subject::parse(dialect, text, limits).map(|_| ())
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
                assert_eq!(checked.subject, slow);
                let mut start = 0;
                for (number, word) in checked.subject.words().enumerate() {
                    let end = checked.end(number, start);
                    assert_eq!(&text[start..end], word);
                    start = end + 1;
                }
            }
        }
    }
}
