//! The words of a control line.

/// One more word than any operation of the protocol has, so that too many are noticed.
const WORDS_MAX: usize = 5;

/// The words of one control line, without its verb.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'a> {
    words: [&'a [u8]; WORDS_MAX],
    count: usize,
}

impl<'a> Words<'a> {
    /// Splits at spaces and tabs. A line with more words than any operation has yields one too many.
    #[inline]
    pub(crate) fn split(line: &'a [u8]) -> Self {
        Self::split_at(line, |byte| matches!(byte, b' ' | b'\t'))
    }

    /// Splits at spaces, tabs, CR and LF, as nats-server does with the words of SUB and UNSUB.
    pub(crate) fn split_at_any_blank(line: &'a [u8]) -> Self {
        Self::split_at(line, |byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
    }

    #[inline]
    fn split_at(line: &'a [u8], is_blank: impl Fn(u8) -> bool) -> Self {
        let mut words: [&[u8]; WORDS_MAX] = [&[]; WORDS_MAX];
        let (mut count, mut start) = (0, None);
        for (at, &byte) in line.iter().enumerate() {
            match (start, is_blank(byte)) {
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

/// Returns the line without its end: LF, and the CR before it if there is one.
#[inline]
pub(crate) fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Returns the arguments of a line without its CR, as nats-server does. `line` has lost its LF already.
/// nats-server removes the last byte if there is a CR anywhere after the first byte, even in the middle.
/// `a\rb` followed by LF becomes `a\r`.
#[inline]
pub(crate) fn without_return(arguments: &[u8]) -> &[u8] {
    match arguments {
        [rest @ .., b'\r'] if !rest.is_empty() => rest,
        [_, rest @ .., _] if memchr::memchr(b'\r', rest).is_some() => &arguments[..arguments.len() - 1],
        _ => arguments,
    }
}

/// Removes leading spaces and tabs.
pub(crate) fn without_leading_blanks(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    text
}

/// Removes leading and trailing spaces and tabs.
pub(crate) fn trim(text: &[u8]) -> &[u8] {
    let mut text = without_leading_blanks(text);
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}
