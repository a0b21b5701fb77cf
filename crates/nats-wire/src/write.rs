//! Writers for the operations of both sides. All of them append to a `Vec<u8>`.

use std::fmt::Display;

use crate::number::{decimal_digits, push_decimal};
use crate::{ConnectOptions, Message, ServerInfo};

/// Most bytes that the verb, blanks and line ends of a delivery take.
const DELIVERY_OVERHEAD: usize = 5 + 4 + 2 + 2;

/// A delivery of a message to one subscription.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// The message. Headers make it an HMSG.
    pub message: Message<'a>,
    /// The subscription id, chosen by the client.
    pub sid: &'a [u8],
}

impl Delivery<'_> {
    /// Returns the number of bytes that the delivery takes on the wire.
    #[inline]
    pub fn wire_bytes(&self) -> usize {
        let message = &self.message;
        let headers = message.headers.map_or(0, <[u8]>::len);
        let total = headers + message.payload.len();
        let names = message.subject.len() + self.sid.len() + message.reply.map_or(0, |reply| reply.len() + 1);
        let verb = if message.headers.is_some() { 5 + decimal_digits(headers as u64) + 1 } else { 4 };
        verb + names + 2 + decimal_digits(total as u64) + 2 + total + 2
    }

    /// Appends the control line, without headers and payload.
    #[inline]
    pub fn write_line(&self, out: &mut Vec<u8>) {
        let message = &self.message;
        out.extend_from_slice(if message.headers.is_some() { b"HMSG " } else { b"MSG " });
        out.extend_from_slice(message.subject);
        out.push(b' ');
        out.extend_from_slice(self.sid);
        out.push(b' ');
        if let Some(reply) = message.reply {
            out.extend_from_slice(reply);
            out.push(b' ');
        }
        let headers = message.headers.map_or(0, <[u8]>::len);
        if message.headers.is_some() {
            push_decimal(out, headers as u64);
            out.push(b' ');
        }
        push_decimal(out, (headers + message.payload.len()) as u64);
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends `MSG` or `HMSG`.
#[inline]
pub fn write_delivery(out: &mut Vec<u8>, delivery: &Delivery<'_>) {
    let message = &delivery.message;
    let bytes = message.payload.len() + message.headers.map_or(0, <[u8]>::len);
    let names = message.subject.len() + delivery.sid.len() + message.reply.map_or(0, <[u8]>::len);
    out.reserve(bytes + names + DELIVERY_OVERHEAD + 2 * decimal_digits(bytes as u64));
    delivery.write_line(out);
    if let Some(headers) = message.headers {
        out.extend_from_slice(headers);
    }
    out.extend_from_slice(message.payload);
    out.extend_from_slice(b"\r\n");
}

/// Appends `-ERR 'text'`. The text must not contain a line end.
pub fn write_error(out: &mut Vec<u8>, error: &dyn Display) {
    out.extend_from_slice(format!("-ERR '{error}'\r\n").as_bytes());
}

/// Appends `INFO {...}`.
///
/// # Panics
/// Never: the fields always have a JSON form.
pub fn write_info(out: &mut Vec<u8>, info: &ServerInfo) {
    out.extend_from_slice(b"INFO ");
    serde_json::to_writer(&mut *out, info).expect("INFO has a JSON form");
    // nats-server writes a blank before the line end, too.
    out.extend_from_slice(b" \r\n");
}

/// Appends `CONNECT {...}`.
///
/// # Panics
/// Never: the fields always have a JSON form.
pub fn write_connect(out: &mut Vec<u8>, options: &ConnectOptions) {
    out.extend_from_slice(b"CONNECT ");
    serde_json::to_writer(&mut *out, options).expect("CONNECT has a JSON form");
    out.extend_from_slice(b"\r\n");
}

/// Appends `PUB` or `HPUB`.
pub fn write_publish(out: &mut Vec<u8>, message: &Message<'_>) {
    out.extend_from_slice(if message.headers.is_some() { b"HPUB " } else { b"PUB " });
    out.extend_from_slice(message.subject);
    out.push(b' ');
    if let Some(reply) = message.reply {
        out.extend_from_slice(reply);
        out.push(b' ');
    }
    let headers = message.headers.unwrap_or_default();
    if message.headers.is_some() {
        push_decimal(out, headers.len() as u64);
        out.push(b' ');
    }
    push_decimal(out, (headers.len() + message.payload.len()) as u64);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(headers);
    out.extend_from_slice(message.payload);
    out.extend_from_slice(b"\r\n");
}

/// Appends `SUB subject [queue] sid`.
pub fn write_subscribe(out: &mut Vec<u8>, subject: &[u8], queue: Option<&[u8]>, sid: u64) {
    out.extend_from_slice(b"SUB ");
    out.extend_from_slice(subject);
    out.push(b' ');
    if let Some(queue) = queue {
        out.extend_from_slice(queue);
        out.push(b' ');
    }
    push_decimal(out, sid);
    out.extend_from_slice(b"\r\n");
}

/// Appends `UNSUB sid [max]`.
pub fn write_unsubscribe(out: &mut Vec<u8>, sid: u64, max: Option<u64>) {
    out.extend_from_slice(b"UNSUB ");
    push_decimal(out, sid);
    if let Some(max) = max {
        out.push(b' ');
        push_decimal(out, max);
    }
    out.extend_from_slice(b"\r\n");
}
