//! The NATS client protocol as bytes: what clients send, what servers send, header blocks, INFO and CONNECT.
//!
//! Sans-IO: a parser takes the bytes that have arrived and returns the operation in front of them, borrowed from the
//! input, or says how many bytes it needs. The payload is never copied here. Writers append to a `Vec<u8>`.
//!
//! Deliberately not here: sockets, subscriptions, limits that concern more than one operation, and JetStream.
//! The behaviour is nats-server 2.15's, tolerance included: verbs in any case, tabs for blanks, a bare LF for CRLF.

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

/// The operation in front of the input, or what is missing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<T> {
    /// A whole operation, and the bytes it takes up in the input.
    Done(T, usize),
    /// Not all of it is there: call again with the same bytes and more, in total at least this many.
    More(usize),
}

/// A published or delivered message, borrowed from the bytes it came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message<'a> {
    /// Where it is published to.
    pub subject: &'a [u8],
    /// Where an answer is expected.
    pub reply: Option<&'a [u8]>,
    /// The header block verbatim, from `NATS/1.0` to the empty line inclusive. `None` if there are no headers.
    pub headers: Option<&'a [u8]>,
    /// What it carries.
    pub payload: &'a [u8],
}
