//! From a NATS message to a record.

use std::ops::Range;

use tailrace_nats_wire::{Message, header_lines};

use super::{BLOCK, HEADER_BASE64, KEY, KEY_BASE64, NULL, SUBJECT, VALUE, decode};

/// A borrowed record header.
type Header<'a> = (&'a [u8], Option<&'a [u8]>);

/// The parts of a record, borrowed from the message and the scratch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordParts<'a> {
    /// Never null. The subject, if there is no other key.
    pub(crate) key: &'a [u8],
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) headers: &'a [Header<'a>],
}

/// Memory that is reused for every message.
#[derive(Debug, Default)]
pub(crate) struct RecordScratch {
    /// Always empty between messages. Only its memory is kept.
    headers: Vec<Header<'static>>,
    decoded: Decoded,
}

/// The decoded base64 parts of one block.
#[derive(Debug, Default)]
struct Decoded {
    bytes: Vec<u8>,
    /// The range of each part in `bytes`, in the order of the block. `None` if it was not base64.
    parts: Vec<Option<Range<usize>>>,
}

/// The meaning of a line of a block.
enum Line<'a> {
    Key(&'a [u8]),
    NullValue,
    Header(&'a [u8], Option<&'a [u8]>),
}

/// Calls `work` with the key of the record that `message` becomes, if it is not the subject.
pub(crate) fn with_own_key<T>(message: &Message<'_>, work: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
    // Most messages have no headers, and most of the others no key.
    message.headers.filter(|block| block.windows(KEY.len()).any(|bytes| bytes == KEY))?;
    let of_record =
        |record: RecordParts<'_>| Some(record.key).filter(|key| *key != message.subject).and_then(work);
    RecordScratch::default().with(message, of_record)
}

impl RecordScratch {
    /// Calls `work` with the record that `message` becomes.
    #[inline]
    pub(crate) fn with<T>(&mut self, message: &Message<'_>, work: impl FnOnce(RecordParts<'_>) -> T) -> T {
        match message.headers {
            None => work(RecordParts { key: message.subject, value: Some(message.payload), headers: &[] }),
            Some(block) => self.with_headers(message, block, work),
        }
    }

    fn with_headers<T>(
        &mut self,
        message: &Message<'_>,
        block: &[u8],
        work: impl FnOnce(RecordParts<'_>) -> T,
    ) -> T {
        let mut headers = borrowing(std::mem::take(&mut self.headers));
        let (mut key, mut value, mut subject_shown) = (None, Some(message.payload), false);
        match scan(block) {
            Shape::Unreadable => headers.push((BLOCK, Some(block))),
            shape => {
                self.decoded.read(block, shape);
                let mut parts = self.decoded.parts();
                for (name, text) in lines(block) {
                    match line(name, text, &mut parts) {
                        Line::Key(given) if key.is_none() => key = Some(given),
                        Line::NullValue if message.payload.is_empty() => value = None,
                        // Only the first key counts, and a value that exists is not null.
                        Line::Key(_) | Line::NullValue => headers.push((name, Some(text))),
                        Line::Header(name, value) => {
                            subject_shown |= name == SUBJECT;
                            headers.push((name, value));
                        }
                    }
                }
            }
        }
        let key = key.unwrap_or(message.subject);
        // The first `Nats-Subject` is the true one. A publisher's own header must not make a record appear
        // under another subject.
        if key != message.subject || subject_shown {
            headers.insert(0, (SUBJECT, Some(message.subject)));
        }
        let result = work(RecordParts { key, value, headers: &headers });
        self.headers = recycled(headers);
        self.decoded.forget();
        result
    }
}

/// Memory that is kept for the next message: enough for all but unusual headers.
const KEPT_BYTES_MAX: usize = 64 * 1024;
const KEPT_HEADERS_MAX: usize = 1024;

fn borrowing<'a>(headers: Vec<Header<'static>>) -> Vec<Header<'a>> {
    headers
}

/// Reuses the list's memory for borrows of another lifetime. Collecting nothing into the same layout happens
/// in place.
fn recycled(mut headers: Vec<Header<'_>>) -> Vec<Header<'static>> {
    headers.clear();
    headers.shrink_to(KEPT_HEADERS_MAX);
    headers.into_iter().map(|_| -> Header<'static> { unreachable!("it was cleared") }).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Only lines with names and values.
    Plain,
    /// The same, and some parts may be base64.
    WithBase64,
    /// A block with a status, a line without a colon, a name that is not UTF-8, or without an end. It is kept
    /// unchanged.
    Unreadable,
}

fn scan(block: &[u8]) -> Shape {
    let Ok(lines) = header_lines(block) else { return Shape::Unreadable };
    if lines.status().is_some() || !block.ends_with(b"\r\n\r\n") {
        return Shape::Unreadable;
    }
    let mut shape = Shape::Plain;
    for line in lines {
        match line {
            Ok((name, _)) if name == KEY_BASE64 || name == HEADER_BASE64 => shape = Shape::WithBase64,
            Ok((name, _)) if std::str::from_utf8(name).is_ok() => {}
            _ => return Shape::Unreadable,
        }
    }
    shape
}

/// Returns the lines of a readable block.
fn lines(block: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    header_lines(block).into_iter().flatten().filter_map(Result::ok)
}

/// Returns the parts of a line that are in base64: the key, or the name and value of a header.
fn base64_parts<'a>(name: &[u8], text: &'a [u8]) -> [Option<&'a [u8]>; 2] {
    if name == KEY_BASE64 {
        return [Some(text), None];
    }
    if name != HEADER_BASE64 {
        return [None, None];
    }
    match text.iter().position(|byte| *byte == b'=') {
        Some(at) => [Some(&text[..at]), Some(&text[at + 1..])],
        None => [Some(text), None],
    }
}

impl Decoded {
    fn read(&mut self, block: &[u8], shape: Shape) {
        if shape != Shape::WithBase64 {
            return;
        }
        for (name, text) in lines(block) {
            for part in base64_parts(name, text).into_iter().flatten() {
                self.parts.push(decode(part, &mut self.bytes));
            }
        }
    }

    fn parts(&self) -> impl Iterator<Item = Option<&[u8]>> {
        self.parts.iter().map(|part| part.clone().map(|range| &self.bytes[range]))
    }

    fn forget(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
        self.parts.clear();
        self.parts.shrink_to(KEPT_HEADERS_MAX);
    }
}

/// Parses a line. Its base64 parts are the next ones of `decoded`.
fn line<'a>(
    name: &'a [u8],
    text: &'a [u8],
    decoded: &mut impl Iterator<Item = Option<&'a [u8]>>,
) -> Line<'a> {
    if name == KEY {
        return Line::Key(text);
    }
    if name == VALUE && text == NULL {
        return Line::NullValue;
    }
    let parts = base64_parts(name, text).map(|part| part.map(|_| decoded.next().flatten()));
    match parts {
        [Some(Some(key)), None] if name == KEY_BASE64 => Line::Key(key),
        [Some(Some(name)), None] => Line::Header(name, None),
        [Some(Some(name)), Some(Some(value))] => Line::Header(name, Some(value)),
        // Not base64 after all, so this is an ordinary header.
        _ => Line::Header(name, Some(text)),
    }
}
