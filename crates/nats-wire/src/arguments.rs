//! The words of a control line.

/// Most words that an operation of the protocol has, and one more, so that too many are seen.
const WORDS_MAX: usize = 5;

/// The words of one control line, without its verb.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'a> {
    words: [&'a [u8]; WORDS_MAX],
    count: usize,
}

impl<'a> Words<'a> {
    /// Splits at blanks and tabs. A line with more words than any operation has yields one too many.
    #[inline]
    pub(crate) fn split(line: &'a [u8]) -> Self {
        let mut words: [&[u8]; WORDS_MAX] = [&[]; WORDS_MAX];
        let (mut count, mut start) = (0, None);
        for (at, &byte) in line.iter().enumerate() {
            let blank = byte == b' ' || byte == b'\t';
            match (start, blank) {
                (None, false) => start = Some(at),
                (Some(from), true) => {
                    if count < WORDS_MAX {
                        words[count] = &line[from..at];
                    }
                    count += 1;
                    start = None;
                }
                _ => {}
            }
        }
        if let Some(from) = start {
            if count < WORDS_MAX {
                words[count] = &line[from..];
            }
            count += 1;
        }
        Self { words, count: count.min(WORDS_MAX) }
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[&'a [u8]] {
        &self.words[..self.count]
    }
}

/// The line without its end: LF, and the CR before it if there is one.
#[inline]
pub(crate) fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Leading blanks and tabs removed.
pub(crate) fn without_leading_blanks(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    text
}

/// Leading and trailing blanks and tabs removed.
pub(crate) fn trim(text: &[u8]) -> &[u8] {
    let mut text = without_leading_blanks(text);
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}
