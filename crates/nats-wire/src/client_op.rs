//! Operations of clients.

use serde::de::IgnoredAny;

use crate::arguments::{Words, trim, without_leading_blanks, without_return};
use crate::error::ParseError;
use crate::number::parse_size;
use crate::{Message, Step};

/// Limits of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of a control line, without its verb. nats-server counts them in the same way.
    pub control_line_max: usize,
    /// Most bytes of headers and payload together.
    pub payload_max: usize,
}

impl Default for Limits {
    /// The defaults of nats-server: 4,096 bytes and 1 MiB.
    fn default() -> Self {
        Self { control_line_max: 4096, payload_max: 1024 * 1024 }
    }
}

/// One operation of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientOp<'a> {
    /// `CONNECT {...}`: the JSON. See [`crate::ConnectOptions`].
    Connect(&'a [u8]),
    /// `PUB` or `HPUB`. The subject is not checked.
    Publish(Message<'a>),
    /// `SUB subject [queue] sid`. The subject is not checked.
    Subscribe {
        /// The pattern.
        subject: &'a [u8],
        /// The queue group.
        queue: Option<&'a [u8]>,
        /// The subscription id, chosen by the client.
        sid: &'a [u8],
    },
    /// `UNSUB sid [max]`.
    Unsubscribe {
        /// The subscription id, chosen by the client.
        sid: &'a [u8],
        /// Number of messages, counted from the start of the subscription, after which it ends. `None` ends
        /// it at once.
        max: Option<u64>,
    },
    /// `PING`.
    Ping,
    /// `PONG`.
    Pong,
    /// `+OK` or `INFO`, which have no meaning from a client.
    Ignored,
    /// `-ERR`: the client reports an error. The server closes the connection.
    Complaint(&'a [u8]),
}

/// A parser of one client's bytes.
///
/// Call [`ClientParser::next`] with all bytes that have not been consumed. The parser remembers how far it
/// has searched for the end of a line, so that input that arrives byte by byte is not searched repeatedly.
#[derive(Clone, Debug)]
pub struct ClientParser {
    limits: Limits,
    /// Whether the client may send HPUB.
    headers: bool,
    searched: usize,
    /// The verb whose line is being skipped.
    skipping: Option<Verb>,
}

impl ClientParser {
    /// Creates a parser at the start of a connection. HPUB is refused until [`ClientParser::allow_headers`].
    pub fn new(limits: Limits) -> Self {
        Self { limits, headers: false, searched: 0, skipping: None }
    }

    /// Sets whether HPUB is accepted. If not, it is refused by its control line, before its payload arrives.
    pub fn allow_headers(&mut self, headers: bool) {
        self.headers = headers;
    }

    /// The limits in force.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the operation at the start of `input`.
    ///
    /// # Errors
    /// [`ParseError`]. The connection has to be closed after it.
    #[inline]
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Result<Step<ClientOp<'a>>, ParseError> {
        let Some(end) = memchr::memchr(b'\n', &input[self.searched..]) else {
            return self.unfinished(input);
        };
        let end = self.searched + end;
        self.searched = 0;
        if let Some(verb) = self.skipping.take() {
            return Ok(Step::Done(verb.without_arguments(), end + 1));
        }
        let line = &input[..end];
        if end > self.line_max() && Verb::of(line).is_some_and(|(verb, _)| !verb.is_skipped()) {
            return Err(ParseError::ControlLine { max: self.limits.control_line_max });
        }
        match line {
            [b'P' | b'p', b'U' | b'u', b'B' | b'b', b' ' | b'\t', arguments @ ..] => {
                self.searched = end;
                self.publish(input, self.arguments(arguments)?, end + 1)
            }
            [b'H' | b'h', b'P' | b'p', b'U' | b'u', b'B' | b'b', b' ' | b'\t', arguments @ ..] => {
                self.searched = end;
                self.publish_with_headers(input, self.arguments(arguments)?, end + 1)
            }
            _ => Ok(Step::Done(self.control(line)?, end + 1)),
        }
    }

    /// Handles input without a line end: checks whether it can still become an operation of legal length.
    fn unfinished<'a>(&mut self, input: &[u8]) -> Result<Step<ClientOp<'a>>, ParseError> {
        let verb =
            if self.skipping.is_some() { self.skipping } else { Verb::of(input).map(|(verb, _)| verb) };
        if verb.is_none() && !Verb::may_begin(input) {
            return Err(ParseError::unknown(input));
        }
        if input.len() > self.line_max() {
            // As in nats-server, bytes after PING are skipped, even without end.
            return match verb {
                Some(verb) if verb.is_skipped() => {
                    (self.searched, self.skipping) = (0, Some(verb));
                    Ok(Step::Done(ClientOp::Ignored, input.len()))
                }
                _ => Err(ParseError::ControlLine { max: self.limits.control_line_max }),
            };
        }
        self.searched = input.len();
        Ok(Step::More(input.len() + 1))
    }

    #[inline]
    fn publish<'a>(
        &mut self,
        input: &'a [u8],
        arguments: &'a [u8],
        payload_at: usize,
    ) -> Result<Step<ClientOp<'a>>, ParseError> {
        let words = Words::split(arguments);
        let (subject, reply, size) = match *words.as_slice() {
            [subject, size] => (subject, None, size),
            [subject, reply, size] => (subject, Some(reply), size),
            _ => return Err(ParseError::arguments("PUB", arguments)),
        };
        let size = parse_size(size).ok_or_else(|| ParseError::arguments("PUB", arguments))?;
        let size = self.check_size(size)?;
        let Some(end) = payload_end(input, payload_at + size)? else {
            return Ok(Step::More(missing(input, payload_at + size)));
        };
        self.searched = 0;
        let payload = &input[payload_at..payload_at + size];
        Ok(Step::Done(ClientOp::Publish(Message { subject, reply, headers: None, payload }), end))
    }

    fn publish_with_headers<'a>(
        &mut self,
        input: &'a [u8],
        arguments: &'a [u8],
        body_at: usize,
    ) -> Result<Step<ClientOp<'a>>, ParseError> {
        if !self.headers {
            return Err(ParseError::HeadersNotAllowed);
        }
        let words = Words::split(arguments);
        let (subject, reply, headers, total) = match *words.as_slice() {
            [subject, headers, total] => (subject, None, headers, total),
            [subject, reply, headers, total] => (subject, Some(reply), headers, total),
            _ => return Err(ParseError::arguments("HPUB", arguments)),
        };
        let bad = || ParseError::arguments("HPUB", arguments);
        let headers = parse_size(headers).ok_or_else(bad)?;
        let total = parse_size(total).ok_or_else(bad)?;
        if headers > total {
            return Err(bad());
        }
        let total = self.check_size(total)?;
        let headers = usize::try_from(headers).map_err(|_| bad())?;
        let Some(end) = payload_end(input, body_at + total)? else {
            return Ok(Step::More(missing(input, body_at + total)));
        };
        self.searched = 0;
        let (headers, payload) = input[body_at..body_at + total].split_at(headers);
        let headers = (!headers.is_empty()).then_some(headers);
        Ok(Step::Done(ClientOp::Publish(Message { subject, reply, headers, payload }), end))
    }

    fn control<'a>(&self, line: &'a [u8]) -> Result<ClientOp<'a>, ParseError> {
        let Some((verb, rest)) = Verb::of(line) else {
            return Err(ParseError::unknown(line));
        };
        if verb.is_skipped() {
            return Ok(verb.without_arguments());
        }
        let arguments = self.arguments(rest)?;
        match verb {
            Verb::Connect => Ok(ClientOp::Connect(arguments)),
            Verb::Subscribe => subscribe(arguments),
            Verb::Unsubscribe => unsubscribe(arguments),
            Verb::Ping | Verb::Pong | Verb::Ok => Ok(verb.without_arguments()),
            Verb::Info => info(arguments),
            Verb::Error => Ok(ClientOp::Complaint(trim(arguments))),
            Verb::Publish => Err(ParseError::arguments("PUB", arguments)),
            Verb::PublishWithHeaders => Err(ParseError::arguments("HPUB", arguments)),
        }
    }

    /// Most bytes of a line, without its `\n`, that the parser waits for. No line may be longer, however its
    /// bytes arrive. Leading blanks, which do not count (see below), have to fit.
    fn line_max(&self) -> usize {
        self.limits.control_line_max + Verb::BYTES_MAX + 2
    }

    /// Returns the arguments if they are not too long. As in nats-server, blanks before the first one do not
    /// count.
    #[inline]
    fn arguments<'a>(&self, rest: &'a [u8]) -> Result<&'a [u8], ParseError> {
        let (arguments, max) = (without_return(without_leading_blanks(rest)), self.limits.control_line_max);
        if arguments.len() > max { Err(ParseError::ControlLine { max }) } else { Ok(arguments) }
    }

    #[inline]
    fn check_size(&self, bytes: u64) -> Result<usize, ParseError> {
        let max = self.limits.payload_max;
        match usize::try_from(bytes) {
            Ok(size) if size <= max => Ok(size),
            _ => Err(ParseError::Payload { bytes, max }),
        }
    }
}

/// Returns the end of an operation whose payload ends at `at`. `None` if its line end has not arrived.
#[inline]
pub(crate) fn payload_end(input: &[u8], at: usize) -> Result<Option<usize>, ParseError> {
    match input.get(at..) {
        None | Some([] | [b'\r']) => Ok(None),
        Some([b'\r', b'\n', ..]) => Ok(Some(at + 2)),
        Some(_) => Err(ParseError::PayloadEnd),
    }
}

/// Returns how many bytes are needed to continue with an operation whose payload ends at `at`. The line end
/// is checked byte by byte, so that a wrong one is refused at once.
#[inline]
pub(crate) fn missing(input: &[u8], at: usize) -> usize {
    if input.len() > at { at + 2 } else { at + 1 }
}

fn subscribe(arguments: &[u8]) -> Result<ClientOp<'_>, ParseError> {
    match *Words::split_at_any_blank(arguments).as_slice() {
        [subject, sid] => Ok(ClientOp::Subscribe { subject, queue: None, sid }),
        [subject, queue, sid] => Ok(ClientOp::Subscribe { subject, queue: Some(queue), sid }),
        _ => Err(ParseError::arguments("SUB", arguments)),
    }
}

fn unsubscribe(arguments: &[u8]) -> Result<ClientOp<'_>, ParseError> {
    match *Words::split_at_any_blank(arguments).as_slice() {
        [sid] => Ok(ClientOp::Unsubscribe { sid, max: None }),
        // nats-server treats numbers that are invalid, zero, or longer than nine digits as "at once".
        [sid, max] => Ok(ClientOp::Unsubscribe { sid, max: parse_size(max).filter(|&max| max > 0) }),
        _ => Err(ParseError::arguments("UNSUB", arguments)),
    }
}

/// Parses INFO. It has no meaning from a client, but must be an object or null.
fn info(arguments: &[u8]) -> Result<ClientOp<'_>, ParseError> {
    let is_object = matches!(trim(arguments).first(), Some(b'{' | b'n'));
    if is_object && serde_json::from_slice::<IgnoredAny>(arguments).is_ok() {
        Ok(ClientOp::Ignored)
    } else {
        Err(ParseError::arguments("INFO", arguments))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Connect,
    Publish,
    PublishWithHeaders,
    Subscribe,
    Unsubscribe,
    Ping,
    Pong,
    Ok,
    Error,
    Info,
}

impl Verb {
    const BYTES_MAX: usize = 7;

    /// Reports whether the verb takes no arguments, so that the rest of its line is skipped.
    fn is_skipped(self) -> bool {
        matches!(self, Self::Ping | Self::Pong | Self::Ok)
    }

    const ALL: &'static [(&'static [u8], Self)] = &[
        (b"PUB", Self::Publish),
        (b"HPUB", Self::PublishWithHeaders),
        (b"SUB", Self::Subscribe),
        (b"UNSUB", Self::Unsubscribe),
        (b"PING", Self::Ping),
        (b"PONG", Self::Pong),
        (b"CONNECT", Self::Connect),
        (b"+OK", Self::Ok),
        (b"-ERR", Self::Error),
        (b"INFO", Self::Info),
    ];

    fn without_arguments(self) -> ClientOp<'static> {
        match self {
            Self::Ping => ClientOp::Ping,
            Self::Pong => ClientOp::Pong,
            _ => ClientOp::Ignored,
        }
    }

    /// Returns the verb at the start of the line, and the rest. As in nats-server, CONNECT, INFO, PING, PONG
    /// and +OK may be followed by anything. The others need a blank.
    fn of(line: &[u8]) -> Option<(Self, &[u8])> {
        let (name, verb) = Self::ALL.iter().find(|(name, _)| begins(line, name))?;
        let rest = &line[name.len()..];
        match verb {
            Self::Connect | Self::Info | Self::Ping | Self::Pong | Self::Ok => Some((*verb, rest)),
            _ => matches!(rest, [b' ' | b'\t', ..]).then(|| (*verb, &rest[1..])),
        }
    }

    /// Reports whether more bytes could turn `input` into a verb.
    fn may_begin(input: &[u8]) -> bool {
        let same = |(name, _): &(&[u8], Self)| input.len() <= name.len() && begins(name, input);
        Self::ALL.iter().any(same)
    }
}

fn begins(text: &[u8], with: &[u8]) -> bool {
    text.len() >= with.len() && text[..with.len()].eq_ignore_ascii_case(with)
}
