//! Operations of servers, for clients of the protocol.

use crate::arguments::{Words, trim, without_end};
use crate::client_op::{Limits, missing, payload_end};
use crate::error::ParseError;
use crate::number::parse_decimal;
use crate::{Message, Step};

/// One operation of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerOp<'a> {
    /// `INFO {...}`: the JSON. See [`crate::ServerInfo`].
    Info(&'a [u8]),
    /// `MSG` or `HMSG`.
    Message {
        /// The subscription id, chosen by the client.
        sid: &'a [u8],
        /// The published message.
        message: Message<'a>,
    },
    /// `+OK`.
    Ok,
    /// `-ERR 'text'`: the text without its quotes.
    Error(&'a [u8]),
    /// `PING`.
    Ping,
    /// `PONG`.
    Pong,
}

/// A parser of one server's bytes. See [`crate::ClientParser`] for how to call it.
#[derive(Clone, Debug)]
pub struct ServerParser {
    limits: Limits,
    searched: usize,
}

impl ServerParser {
    /// Creates a parser at the start of a connection. INFO may be long: allow control lines of some 64 KiB or
    /// more.
    pub fn new(limits: Limits) -> Self {
        Self { limits, searched: 0 }
    }

    /// Returns the operation at the start of `input`.
    ///
    /// # Errors
    /// [`ParseError`]. The connection has to be closed after it.
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Result<Step<ServerOp<'a>>, ParseError> {
        let Some(end) = memchr::memchr(b'\n', &input[self.searched..]) else {
            self.searched = input.len();
            let max = self.limits.control_line_max;
            return if input.len() > max {
                Err(ParseError::ControlLine { max })
            } else {
                Ok(Step::More(input.len() + 1))
            };
        };
        let end = self.searched + end;
        let line = without_end(&input[..=end]);
        let verb_bytes = line.iter().position(|&b| b == b' ' || b == b'\t').unwrap_or(line.len());
        let (verb, arguments) = line.split_at(verb_bytes);
        let op = match verb.to_ascii_uppercase().as_slice() {
            verb @ (b"MSG" | b"HMSG") => {
                self.searched = end;
                let step = message(input, arguments, verb == b"HMSG", end + 1, self.limits.payload_max)?;
                if matches!(step, Step::Done(..)) {
                    self.searched = 0;
                }
                return Ok(step);
            }
            b"INFO" => ServerOp::Info(trim(arguments)),
            b"PING" => ServerOp::Ping,
            b"PONG" => ServerOp::Pong,
            b"+OK" => ServerOp::Ok,
            b"-ERR" => {
                let text = trim(arguments);
                let quoted = text.strip_prefix(b"'").and_then(|text| text.strip_suffix(b"'"));
                ServerOp::Error(quoted.unwrap_or(text))
            }
            _ => return Err(ParseError::unknown(line)),
        };
        self.searched = 0;
        Ok(Step::Done(op, end + 1))
    }
}

fn message<'a>(
    input: &'a [u8],
    arguments: &'a [u8],
    with_headers: bool,
    body_at: usize,
    payload_max: usize,
) -> Result<Step<ServerOp<'a>>, ParseError> {
    let bad = || ParseError::arguments(if with_headers { "HMSG" } else { "MSG" }, arguments);
    let words = Words::split(arguments);
    let words = words.as_slice();
    let numbers = if with_headers { 2 } else { 1 };
    let (names, sizes) = words.split_at_checked(words.len().saturating_sub(numbers)).ok_or_else(bad)?;
    let (subject, sid, reply) = match *names {
        [subject, sid] => (subject, sid, None),
        [subject, sid, reply] => (subject, sid, Some(reply)),
        _ => return Err(bad()),
    };
    let size = |text: &[u8]| parse_decimal(text).and_then(|n| usize::try_from(n).ok()).ok_or_else(bad);
    let total = size(sizes[numbers - 1])?;
    let headers = if with_headers { size(sizes[0])? } else { 0 };
    if total > payload_max {
        return Err(ParseError::Payload { bytes: total as u64, max: payload_max });
    }
    if headers > total {
        return Err(bad());
    }
    let Some(end) = payload_end(input, body_at + total)? else {
        return Ok(Step::More(missing(input, body_at + total)));
    };
    let (headers, payload) = input[body_at..body_at + total].split_at(headers);
    let headers = (!headers.is_empty()).then_some(headers);
    let message = Message { subject, reply, headers, payload };
    Ok(Step::Done(ServerOp::Message { sid, message }, end))
}
