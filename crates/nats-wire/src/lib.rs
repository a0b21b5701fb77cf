//! The NATS client protocol as bytes: operations of clients and servers, header blocks, INFO and CONNECT.
//!
//! The crate does no I/O. A parser takes the bytes that have arrived and returns the first operation,
//! borrowed from the input, or the number of bytes it needs. The payload is never copied. Writers append to a
//! `Vec<u8>`.
//!
//! Out of scope: sockets, subscriptions, limits across several operations, and JetStream.
//!
//! The behaviour is that of nats-server 2.15, including its tolerance: verbs in any case, tabs for blanks, a
//! bare LF for CRLF.
//!
//! ```
//! use tailrace_nats_wire::{ClientOp, ClientParser, Delivery, Limits, Step, write_delivery};
//!
//! let mut parser = ClientParser::new(Limits::default());
//! // The payload is not complete yet: the parser says how many bytes it needs in total.
//! assert_eq!(parser.next(b"PUB orders.eu 5\r\nhel")?, Step::More(23));
//!
//! let received = b"PUB orders.eu 5\r\nhello\r\nPING\r\n";
//! let Step::Done(ClientOp::Publish(message), consumed) = parser.next(received)? else { panic!() };
//! assert_eq!((message.subject, message.payload), (&b"orders.eu"[..], &b"hello"[..]));
//! assert_eq!(parser.next(&received[consumed..])?, Step::Done(ClientOp::Ping, 6));
//!
//! let mut sent = Vec::new();
//! write_delivery(&mut sent, &Delivery { message, sid: b"7" });
//! assert_eq!(sent, b"MSG orders.eu 7 5\r\nhello\r\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arguments;
mod client_op;
mod connect;
mod error;
mod headers;
mod info;
mod json;
mod number;
mod quote;
mod server_op;
mod write;

pub use client_op::{ClientOp, ClientParser, Limits};
pub use connect::{ConnectError, ConnectOptions};
pub use error::{ParseError, ProtocolError};
pub use headers::{
    HEADER_LINE, HeaderError, HeaderLines, NO_RESPONDERS, Status, header_lines, loose_lines, mentions,
    write_header,
};
pub use info::ServerInfo;
pub use number::{decimal_digits, push_decimal};
pub use server_op::{ServerOp, ServerParser};
pub use write::{
    Delivery, write_connect, write_delivery, write_error, write_info, write_publish, write_subscribe,
    write_unsubscribe,
};

/// The first operation of the input, or how much of it is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<T> {
    /// A complete operation, and the number of bytes it takes in the input.
    Done(T, usize),
    /// The operation is incomplete. Call again with the same bytes and more, in total at least this many.
    More(usize),
}

/// A published or delivered message, borrowed from the bytes it came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message<'a> {
    /// The subject to which it is published.
    pub subject: &'a [u8],
    /// The subject for replies.
    pub reply: Option<&'a [u8]>,
    /// The header block verbatim, from `NATS/1.0` to the empty line, inclusive. `None` if there are no
    /// headers.
    pub headers: Option<&'a [u8]>,
    /// The message's content.
    pub payload: &'a [u8],
}
