//! Header blocks: `NATS/1.0`, an optional status, and lines `Name: value`, all terminated by CRLF, then an
//! empty line.
//!
//! Blocks are passed on verbatim. Only code that needs a single header parses them.

use crate::arguments::trim;

/// The first line of every block, without its end.
pub const HEADER_LINE: &[u8] = b"NATS/1.0";

/// The start of the reply to a request without responders. `Nats-Subject` follows it.
pub const NO_RESPONDERS: &[u8] = b"NATS/1.0 503\r\n";

/// An invalid header block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The block does not start with `NATS/1.0`.
    #[error("a header block that does not start with NATS/1.0")]
    Version,
    /// A line without a colon, or without a name before it.
    #[error("a header line without a name and a colon")]
    Line,
    /// The block does not end with an empty line.
    #[error("a header block without an empty line at its end")]
    End,
}

/// The status in a block's first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status<'a> {
    /// Three digits, such as 503.
    pub code: &'a [u8],
    /// The text after the code. Often empty.
    pub description: &'a [u8],
}

/// The lines of a block, in order. Created by [`header_lines`].
#[derive(Clone, Debug)]
pub struct HeaderLines<'a> {
    rest: &'a [u8],
    status: Option<Status<'a>>,
}

impl<'a> HeaderLines<'a> {
    /// The status in the first line, if there is one.
    pub fn status(&self) -> Option<Status<'a>> {
        self.status
    }
}

/// Parses a block: returns an iterator of names and values, without the blanks around them.
///
/// # Errors
/// [`HeaderError::Version`] if the block does not start correctly. The iterator yields the other errors.
pub fn header_lines(block: &[u8]) -> Result<HeaderLines<'_>, HeaderError> {
    let rest = block.strip_prefix(HEADER_LINE).ok_or(HeaderError::Version)?;
    let end = memchr::memmem::find(rest, b"\r\n").ok_or(HeaderError::End)?;
    let first = rest[..end].trim_ascii();
    let status = (!first.is_empty()).then(|| {
        let (code, description) = first.split_at(first.len().min(3));
        Status { code, description: description.trim_ascii() }
    });
    Ok(HeaderLines { rest: &rest[end + 2..], status })
}

impl<'a> Iterator for HeaderLines<'a> {
    type Item = Result<(&'a [u8], &'a [u8]), HeaderError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest == b"\r\n" {
            return None;
        }
        if self.rest.is_empty() {
            return None;
        }
        let Some(end) = memchr::memmem::find(self.rest, b"\r\n").filter(|&end| end > 0) else {
            self.rest = &[];
            return Some(Err(HeaderError::End));
        };
        let line = &self.rest[..end];
        self.rest = &self.rest[end + 2..];
        let ends = !self.rest.is_empty();
        let colon = memchr::memchr(b':', line).filter(|&colon| colon > 0);
        let Some(colon) = colon else {
            self.rest = &[];
            return Some(Err(HeaderError::Line));
        };
        if !ends {
            return Some(Err(HeaderError::End));
        }
        Some(Ok((&line[..colon], trim(&line[colon + 1..]))))
    }
}

/// Reports whether the bytes of `name` are anywhere in a block. A quick check before parsing it.
#[inline]
pub fn mentions(block: &[u8], name: &[u8]) -> bool {
    memchr::memmem::find(block, name).is_some()
}

/// Returns names and values as nats-server does when it looks for a single header. Each line after the first
/// one is parsed on its own, even if others are invalid. Blanks before a value are removed, those after it
/// belong to it. A line without a colon has no name.
pub fn loose_lines(block: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = Some(block);
    let lines = std::iter::from_fn(move || {
        let text = rest?;
        let end = memchr::memmem::find(text, b"\r\n");
        rest = end.map(|end| &text[end + 2..]);
        Some(&text[..end.unwrap_or(text.len())])
    });
    lines.skip(1).filter_map(|line| {
        let colon = memchr::memchr(b':', line)?;
        let value = &line[colon + 1..];
        let blanks = value.iter().take_while(|&&byte| byte == b' ').count();
        Some((&line[..colon], &value[blanks..]))
    })
}

/// Appends a line. The caller guarantees that neither part contains CR or LF, and that the name contains no
/// colon.
pub fn write_header(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(block: &[u8]) -> Result<Vec<(String, String)>, HeaderError> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        header_lines(block)?.map(|line| line.map(|(name, value)| (text(name), text(value)))).collect()
    }

    #[test]
    fn names_values_order_case_and_duplicates_are_kept() {
        let block = b"NATS/1.0\r\nb: 1\r\nA:  2 \r\nb:3\r\nempty:\r\nurl: a:b\r\n\r\n";
        let expected = [("b", "1"), ("A", "2"), ("b", "3"), ("empty", ""), ("url", "a:b")];
        assert_eq!(lines(block).unwrap_or_default(), expected.map(|(n, v)| (n.to_owned(), v.to_owned())));
        assert_eq!(lines(b"NATS/1.0\r\n\r\n"), Ok(Vec::new()));
    }

    #[test]
    fn single_lines_are_found_whatever_the_others_are() {
        let block = b"NATS/1.0 100\r\nno colon\r\na:  1 \r\n: x\r\nb:\tc:d\r\nend: 2";
        let found: Vec<_> = loose_lines(block).collect();
        let expected: [(&[u8], &[u8]); 4] = [(b"a", b"1 "), (b"", b"x"), (b"b", b"\tc:d"), (b"end", b"2")];
        assert_eq!(found, expected);
        assert_eq!(loose_lines(b"").count(), 0);
        assert_eq!(loose_lines(b"NATS/1.0\r\n\r\n").count(), 0);
    }

    #[test]
    fn a_status_is_found() {
        let found = header_lines(b"NATS/1.0 503\r\nNats-Subject: x\r\n\r\n").map(|lines| lines.status());
        assert_eq!(found, Ok(Some(Status { code: b"503", description: b"" })));
        let found = header_lines(b"NATS/1.0 404 No Messages\r\n\r\n").map(|lines| lines.status());
        assert_eq!(found, Ok(Some(Status { code: b"404", description: b"No Messages" })));
    }

    #[test]
    fn what_is_no_block_is_refused() {
        assert_eq!(lines(b"HTTP/1.0\r\n\r\n"), Err(HeaderError::Version));
        assert_eq!(lines(b"NATS/1.0"), Err(HeaderError::End));
        assert_eq!(lines(b"NATS/1.0\r\na: b\r\n"), Err(HeaderError::End));
        assert_eq!(lines(b"NATS/1.0\r\nno colon\r\n\r\n"), Err(HeaderError::Line));
        assert_eq!(lines(b"NATS/1.0\r\n: x\r\n\r\n"), Err(HeaderError::Line));
    }
}
