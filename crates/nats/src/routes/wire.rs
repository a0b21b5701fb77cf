//! The bytes of interest and messages between nodes. docs/cluster-protocol.md describes each field. Integers
//! are little endian.

use std::sync::Arc;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use tailrace_nats_wire::Message;

use crate::letter::Letter;

/// Plain subscribers get the message.
const PLAIN: u8 = 1;
/// The message has a reply subject.
const REPLY: u8 = 2;
/// The message has headers.
const HEADERS: u8 = 4;
/// The message is of an account other than the global one.
const ACCOUNT: u8 = 8;
/// The message goes to another subject than its own.
const AT: u8 = 16;

/// Added to the first byte of a row that is about an account other than the global one.
const ROW_OF_ACCOUNT: u8 = 4;

/// Longest name of an account, in bytes. The server's own are shorter.
const ACCOUNT_BYTES_MAX: usize = 255;

/// The meaning of a row of interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Change {
    /// There is a subscriber. Repeating it changes nothing.
    Add = 0,
    /// There are no subscribers left.
    Remove = 1,
    /// All previous announcements are withdrawn. A complete list follows.
    ForgetAll = 2,
}

/// One row: interest in a pattern, of a queue group or plain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) change: Change,
    /// `None` for the global one.
    pub(super) account: Option<Arc<str>>,
    pub(super) pattern: Bytes,
    /// Empty for plain subscribers, because names of groups are not empty.
    pub(super) queue: Bytes,
}

/// Returns the number of bytes of a row.
pub(super) fn row_bytes(account: Option<&str>, pattern: &[u8], queue: &[u8]) -> usize {
    1 + account.map_or(0, |account| 2 + account.len()) + 2 + pattern.len() + 2 + queue.len()
}

/// Appends a row. Patterns and names are shorter than a control line, which has fewer than 64 KiB.
pub(super) fn put_row(
    out: &mut BytesMut,
    change: Change,
    account: Option<&str>,
    pattern: &[u8],
    queue: &[u8],
) {
    out.put_u8(change as u8 + account.map_or(0, |_| ROW_OF_ACCOUNT));
    if let Some(account) = account {
        put_text(out, account.as_bytes());
    }
    put_text(out, pattern);
    put_text(out, queue);
}

/// Returns all rows of a frame.
pub(super) fn rows(mut payload: Bytes) -> impl Iterator<Item = Result<Row, &'static str>> {
    std::iter::from_fn(move || {
        if payload.is_empty() {
            return None;
        }
        let row = row(&mut payload);
        if row.is_none() {
            payload.clear();
        }
        Some(row.ok_or("a truncated list of subscriptions"))
    })
}

fn row(from: &mut Bytes) -> Option<Row> {
    let (change, of_account) = match from.try_get_u8().ok()? {
        0 => (Change::Add, false),
        1 => (Change::Remove, false),
        2 => (Change::ForgetAll, false),
        4 => (Change::Add, true),
        5 => (Change::Remove, true),
        _ => return None,
    };
    let account = if of_account { Some(account(from)?) } else { None };
    Some(Row { change, account, pattern: text(from)?, queue: text(from)? })
}

/// Reads the name of an account.
fn account(from: &mut Bytes) -> Option<Arc<str>> {
    let name = text(from)?;
    std::str::from_utf8(&name)
        .ok()
        .filter(|name| (1..=ACCOUNT_BYTES_MAX).contains(&name.len()))
        .map(Arc::from)
}

/// A message for another node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outward<'a> {
    pub(super) letter: Letter<'a>,
    /// The account, unless it is the global one.
    pub(super) account: Option<&'a str>,
    /// Whether the node's plain subscribers get it.
    pub(super) plain: bool,
}

impl Outward<'_> {
    /// Reports whether the names are short enough for a frame. All clients' names are.
    pub(super) fn fits(&self) -> bool {
        let fits = |name: &[u8]| u16::try_from(name.len()).is_ok();
        let Letter { message, at } = self.letter;
        fits(message.subject) && message.reply.is_none_or(fits) && at.is_none_or(fits)
    }

    /// Returns the number of bytes of the frame's payload, including the queue groups that the node has to
    /// serve.
    pub(super) fn bytes<'q>(&self, queues: impl Iterator<Item = &'q [u8]>) -> usize {
        let Letter { message, at } = self.letter;
        let at = at.map_or(0, |at| 2 + at.len());
        let reply = message.reply.map_or(0, |reply| 2 + reply.len());
        let headers = message.headers.map_or(0, |headers| 4 + headers.len());
        let queues: usize = queues.map(|queue| 2 + queue.len()).sum();
        let account = self.account.map_or(0, |account| 2 + account.len());
        1 + 2 + queues + account + at + 2 + message.subject.len() + reply + headers + message.payload.len()
    }

    pub(super) fn put<'q>(&self, out: &mut BytesMut, queues: impl ExactSizeIterator<Item = &'q [u8]>) {
        let Letter { message, at } = self.letter;
        let elsewhere = if at.is_some() { AT } else { 0 };
        let reply = if message.reply.is_some() { REPLY } else { 0 };
        let headers = if message.headers.is_some() { HEADERS } else { 0 };
        let plain = if self.plain { PLAIN } else { 0 };
        let account = if self.account.is_some() { ACCOUNT } else { 0 };
        out.put_u8(plain | reply | headers | account | elsewhere);
        out.put_u16_le(u16::try_from(queues.len()).expect("the picker limits the number of groups"));
        queues.for_each(|queue| put_text(out, queue));
        if let Some(account) = self.account {
            put_text(out, account.as_bytes());
        }
        if let Some(at) = at {
            put_text(out, at);
        }
        put_text(out, message.subject);
        if let Some(reply) = message.reply {
            put_text(out, reply);
        }
        if let Some(headers) = message.headers {
            out.put_u32_le(u32::try_from(headers.len()).expect("a message has less than 64 MiB"));
            out.put_slice(headers);
        }
        out.put_slice(message.payload);
    }
}

/// A message from another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Inward {
    /// `None` for the global one.
    pub(super) account: Option<Arc<str>>,
    pub(super) plain: bool,
    pub(super) queues: Vec<Bytes>,
    /// Where it goes, if that is not its own subject.
    pub(super) at: Option<Bytes>,
    pub(super) subject: Bytes,
    pub(super) reply: Option<Bytes>,
    pub(super) headers: Option<Bytes>,
    pub(super) payload: Bytes,
}

impl Inward {
    pub(super) fn decode(payload: Bytes) -> Result<Self, &'static str> {
        Self::read(payload).ok_or("a truncated NATS message")
    }

    fn read(mut from: Bytes) -> Option<Self> {
        let flags = from.try_get_u8().ok()?;
        let count = from.try_get_u16_le().ok()?;
        // Each takes at least two bytes, so an announced number takes no more memory than what has arrived.
        if usize::from(count) * 2 > from.len() || flags & !(PLAIN | REPLY | HEADERS | ACCOUNT | AT) != 0 {
            return None;
        }
        let queues = (0..count).map(|_| text(&mut from)).collect::<Option<_>>()?;
        let account = if flags & ACCOUNT != 0 { Some(account(&mut from)?) } else { None };
        let at = if flags & AT != 0 { Some(text(&mut from)?) } else { None };
        let subject = text(&mut from)?;
        let reply = if flags & REPLY != 0 { Some(text(&mut from)?) } else { None };
        let headers = match flags & HEADERS {
            0 => None,
            _ => {
                let length = from.try_get_u32_le().ok()? as usize;
                (length <= from.len()).then(|| Some(from.split_to(length)))?
            }
        };
        let plain = flags & PLAIN != 0;
        Some(Self { account, plain, queues, at, subject, reply, headers, payload: from })
    }

    pub(super) fn message(&self) -> Message<'_> {
        Message {
            subject: &self.subject,
            reply: self.reply.as_deref(),
            headers: self.headers.as_deref(),
            payload: &self.payload,
        }
    }
}

fn put_text(out: &mut BytesMut, text: &[u8]) {
    out.put_u16_le(
        u16::try_from(text.len()).expect("names are no longer than a line, which has less than 64 KiB"),
    );
    out.put_slice(text);
}

fn text(from: &mut Bytes) -> Option<Bytes> {
    let length = usize::from(from.try_get_u16_le().ok()?);
    (length <= from.len()).then(|| from.split_to(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes in docs/cluster-protocol.md.
    #[test]
    fn rows_have_the_documented_bytes() {
        let mut out = BytesMut::new();
        put_row(&mut out, Change::Add, None, b"a.*", b"");
        put_row(&mut out, Change::Remove, None, b"b", b"qq");
        put_row(&mut out, Change::ForgetAll, None, b"", b"");
        let expected = b"\x00\x03\x00a.*\x00\x00\x01\x01\x00b\x02\x00qq\x02\x00\x00\x00\x00";
        assert_eq!(out[..], expected[..]);
        assert_eq!(
            row_bytes(None, b"a.*", b"") + row_bytes(None, b"b", b"qq") + row_bytes(None, b"", b""),
            expected.len()
        );
        let found: Result<Vec<_>, _> = rows(out.freeze()).collect();
        let row = |change, pattern: &'static str, queue: &'static str| Row {
            change,
            account: None,
            pattern: Bytes::from_static(pattern.as_bytes()),
            queue: Bytes::from_static(queue.as_bytes()),
        };
        let all =
            [row(Change::Add, "a.*", ""), row(Change::Remove, "b", "qq"), row(Change::ForgetAll, "", "")];
        assert_eq!(found.unwrap(), all);
    }

    #[test]
    fn a_message_has_the_documented_bytes_and_comes_back() {
        let message = Message {
            subject: b"s.t",
            reply: Some(b"r"),
            headers: Some(b"NATS/1.0\r\n\r\n"),
            payload: b"pay",
        };
        let outward = Outward { letter: Letter::of(&message), account: None, plain: true };
        let queues: [&[u8]; 2] = [b"q", b"workers"];
        let mut out = BytesMut::new();
        outward.put(&mut out, queues.into_iter());
        let expected =
            b"\x07\x02\x00\x01\x00q\x07\x00workers\x03\x00s.t\x01\x00r\x0c\x00\x00\x00NATS/1.0\r\n\r\npay";
        assert_eq!(out[..], expected[..]);
        assert_eq!(outward.bytes(queues.into_iter()), expected.len());
        let inward = Inward::decode(out.freeze()).unwrap();
        assert_eq!(
            (inward.plain, &inward.queues[..]),
            (true, &[Bytes::from_static(b"q"), Bytes::from_static(b"workers")][..])
        );
        let found = inward.message();
        assert_eq!(
            (found.subject, found.reply, found.headers, found.payload),
            (message.subject, message.reply, message.headers, message.payload)
        );
    }

    #[test]
    fn what_is_of_an_account_names_it() {
        let mut out = BytesMut::new();
        put_row(&mut out, Change::Add, Some("AB"), b"a", b"");
        put_row(&mut out, Change::Remove, Some("AB"), b"a", b"q");
        let expected = b"\x04\x02\x00AB\x01\x00a\x00\x00\x05\x02\x00AB\x01\x00a\x01\x00q";
        assert_eq!(out[..], expected[..]);
        assert_eq!(row_bytes(Some("AB"), b"a", b"") + row_bytes(Some("AB"), b"a", b"q"), expected.len());
        let found: Vec<_> = rows(out.freeze()).map(|row| row.unwrap().account.unwrap()).collect();
        assert_eq!(found, ["AB".into(), "AB".into()]);
        let message = Message { subject: b"s", reply: None, headers: None, payload: b"x" };
        let outward = Outward { letter: Letter::of(&message), account: Some("AB"), plain: true };
        let mut out = BytesMut::new();
        outward.put(&mut out, std::iter::empty());
        assert_eq!(out[..], b"\x09\x00\x00\x02\x00AB\x01\x00sx"[..]);
        assert_eq!(outward.bytes(std::iter::empty()), out.len());
        assert_eq!(Inward::decode(out.freeze()).unwrap().account.as_deref(), Some("AB"));
        // An empty name, one that is too long, and one that is not text.
        for bad in [
            [&b"\x04\x00\x00"[..], b"\x01\x00a\x00\x00"].concat(),
            { [&b"\x04\x00\x01"[..], &[b'A'; 256], b"\x01\x00a\x00\x00"].concat() },
            b"\x04\x01\x00\xff\x01\x00a\x00\x00".to_vec(),
        ] {
            assert!(rows(Bytes::from(bad)).any(|row| row.is_err()));
        }
    }

    #[test]
    fn a_message_to_another_subject_names_both() {
        let message = Message { subject: b"s.t", reply: Some(b"r"), headers: None, payload: b"pay" };
        let letter = Letter { message: &message, at: Some(b"in") };
        let outward = Outward { letter, account: None, plain: true };
        let mut out = BytesMut::new();
        outward.put(&mut out, std::iter::empty());
        assert_eq!(out[..], b"\x13\x00\x00\x02\x00in\x03\x00s.t\x01\x00rpay"[..]);
        assert_eq!(outward.bytes(std::iter::empty()), out.len());
        let inward = Inward::decode(out.freeze()).unwrap();
        assert_eq!(inward.at.as_deref(), Some(&b"in"[..]));
        assert_eq!(inward.message().subject, b"s.t");
    }

    #[test]
    fn a_bare_message_has_no_more_than_it_needs() {
        let message = Message { subject: b"s", reply: None, headers: None, payload: b"" };
        let mut out = BytesMut::new();
        Outward { letter: Letter::of(&message), account: None, plain: false }
            .put(&mut out, std::iter::empty());
        assert_eq!(out[..], b"\x00\x00\x00\x01\x00s"[..]);
        let inward = Inward::decode(out.freeze()).unwrap();
        assert_eq!((inward.plain, inward.reply, inward.headers), (false, None, None));
    }

    #[test]
    fn what_is_cut_off_or_unknown_is_refused() {
        let message =
            Message { subject: b"s.t", reply: Some(b"r"), headers: Some(b"NATS/1.0\r\n\r\n"), payload: b"" };
        let mut out = BytesMut::new();
        Outward { letter: Letter::of(&message), account: None, plain: true }
            .put(&mut out, [&b"q"[..]].into_iter());
        let whole = out.freeze();
        for length in 0..whole.len() {
            assert!(Inward::decode(whole.slice(..length)).is_err(), "{length} of {} bytes", whole.len());
        }
        assert!(Inward::decode(Bytes::from_static(b"\x20\x00\x00\x01\x00s")).is_err());
        assert!(Inward::decode(Bytes::from_static(b"\x00\xff\xff\x01\x00s")).is_err());
        for bad in [
            &b"\x03\x00\x00\x00\x00"[..],
            b"\x06\x01\x00A\x01\x00a\x00\x00",
            b"\x00\x05\x00a\x00\x00",
            b"\x00\x01\x00a\x01",
        ] {
            let found: Result<Vec<_>, _> = rows(Bytes::from_static(bad)).collect();
            assert!(found.is_err(), "{bad:?}");
        }
    }
}
