//! Messages from a server, each with memory of its own.

use tailrace_nats_wire::{Message, Status, header_lines};

/// A message that arrived. Its parts share one allocation.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    /// The subscription that it belongs to.
    pub(crate) sid: u64,
    bytes: Box<[u8]>,
    subject: usize,
    reply: Option<usize>,
    headers: Option<usize>,
}

impl Received {
    pub(super) fn new(sid: u64, message: &Message<'_>) -> Self {
        let parts = [
            message.subject,
            message.reply.unwrap_or_default(),
            message.headers.unwrap_or_default(),
            message.payload,
        ];
        Self {
            sid,
            bytes: parts.concat().into_boxed_slice(),
            subject: message.subject.len(),
            reply: message.reply.map(<[u8]>::len),
            headers: message.headers.map(<[u8]>::len),
        }
    }

    /// The subject that it was published to.
    pub(crate) fn subject(&self) -> &[u8] {
        &self.bytes[..self.subject]
    }

    /// The subject for a reply.
    pub(crate) fn reply(&self) -> Option<&[u8]> {
        self.reply.map(|length| &self.bytes[self.subject..self.subject + length])
    }

    /// The header block.
    pub(crate) fn headers(&self) -> Option<&[u8]> {
        let start = self.subject + self.reply.unwrap_or(0);
        self.headers.map(|length| &self.bytes[start..start + length])
    }

    /// The payload.
    pub(crate) fn payload(&self) -> &[u8] {
        let start = self.subject + self.reply.unwrap_or(0) + self.headers.unwrap_or(0);
        &self.bytes[start..]
    }

    /// Reports whether this is the server's reply that a request has no responders.
    pub(crate) fn says_no_responders(&self) -> bool {
        let status = self.headers().and_then(|block| header_lines(block).ok()?.status());
        self.payload().is_empty() && matches!(status, Some(Status { code: b"503", .. }))
    }
}

/// What arrives on a connection, except for what the connection handles itself.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A message.
    Message(Received),
    /// The reply to one of our PINGs.
    Pong,
    /// An `-ERR` after which the connection stays open.
    Error(String),
    /// The server is about to stop.
    LameDuck,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_apart() {
        let message = Message {
            subject: b"a.b",
            reply: Some(b"r"),
            headers: Some(b"NATS/1.0\r\n\r\n"),
            payload: b"payload",
        };
        let received = Received::new(7, &message);
        assert_eq!(received.subject(), b"a.b");
        assert_eq!(received.reply(), Some(&b"r"[..]));
        assert_eq!(received.headers(), message.headers);
        assert_eq!(received.payload(), b"payload");
        let bare = Received::new(7, &Message { subject: b"s", ..Message::default() });
        assert_eq!((bare.reply(), bare.headers(), bare.payload()), (None, None, &b""[..]));
    }

    #[test]
    fn no_responders_is_a_status_without_a_payload() {
        let answer = |headers, payload| {
            Received::new(1, &Message { subject: b"s", reply: None, headers: Some(headers), payload })
                .says_no_responders()
        };
        assert!(answer(b"NATS/1.0 503\r\nNats-Subject: x\r\n\r\n", b""));
        assert!(!answer(b"NATS/1.0 503\r\n\r\n", b"x"));
        assert!(!answer(b"NATS/1.0\r\nStatus: 503\r\n\r\n", b""));
    }
}
