//! The client side of PostgreSQL's protocol 3.0, as far as LISTEN and NOTIFY need it. GSSAPI and MD5 are not
//! supported.

use super::scram::Scram;
use super::site::Site;
use super::wire::{Wire, refused, wrong};
use crate::error::RequesterError;

/// Largest message from the server: errors and notifications are far smaller.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

const PROTOCOL_3_0: i32 = 0x0003_0000;

/// Takes the place of the protocol version: asks for TLS.
const SSL_REQUEST: i32 = 80_877_103;

/// Kinds of messages from the server, by the first byte.
pub(super) mod kind {
    pub(in super::super) const AUTHENTICATION: u8 = b'R';
    pub(in super::super) const ERROR: u8 = b'E';
    pub(in super::super) const NOTIFICATION: u8 = b'A';
    pub(in super::super) const READY: u8 = b'Z';
    /// BackendKeyData, CommandComplete, EmptyQueryResponse, NoticeResponse, ParameterStatus.
    pub(in super::super) const OTHERS: &[u8] = b"KCINS";
}

/// The credentials and parameters of a login.
#[derive(Clone)]
pub(super) struct Login {
    pub(super) user: String,
    pub(super) password: String,
    pub(super) database: String,
    /// Parameters of the session, for instance `synchronous_commit`.
    pub(super) parameters: Vec<(&'static str, String)>,
}

/// First byte and body of a message, and its size.
type Message<'a> = (u8, &'a [u8], usize);

/// Parses one message. `None` if it is not complete.
pub(super) fn parse(data: &[u8]) -> Result<Option<Message<'_>>, &'static str> {
    use kind::{AUTHENTICATION, ERROR, NOTIFICATION, OTHERS, READY};
    let Some((kind, rest)) = data.split_first() else { return Ok(None) };
    if ![AUTHENTICATION, ERROR, NOTIFICATION, READY].contains(kind) && !OTHERS.contains(kind) {
        return Err("a message of PostgreSQL");
    }
    let Some(length) = rest.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_be_bytes(*length) as usize;
    if !(4..=MESSAGE_BYTES_MAX).contains(&length) {
        return Err("a length of at most 1 MiB");
    }
    Ok(data.get(5..1 + length).map(|body| (*kind, body, 1 + length)))
}

/// Appends a message whose body `fill` writes.
pub(super) fn push(out: &mut Vec<u8>, kind: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    push_counted(out, fill);
}

fn push_counted(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    out.extend_from_slice(&[0; 4]);
    fill(out);
    let length = (out.len() - begin) as u32;
    out[begin..begin + 4].copy_from_slice(&length.to_be_bytes());
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

/// Appends a simple query.
pub(super) fn push_query(out: &mut Vec<u8>, query: &str) {
    push(out, b'Q', |out| push_text(out, query));
}

/// An ErrorResponse: severity, code and message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Complaint {
    /// After FATAL or PANIC the server closes the connection.
    pub(super) is_fatal: bool,
    pub(super) text: String,
}

pub(super) fn complaint(body: &[u8]) -> Complaint {
    let field = |code: u8| {
        let mut fields = body.split(|byte| *byte == 0);
        let found = fields.find_map(|field| field.strip_prefix(&[code]));
        found.map(String::from_utf8_lossy).unwrap_or_default()
    };
    let severity = field(b'V');
    let severity = if severity.is_empty() { field(b'S') } else { severity };
    Complaint {
        is_fatal: matches!(&*severity, "FATAL" | "PANIC"),
        text: format!("{severity} {}: {}", field(b'C'), field(b'M')),
    }
}

/// The payload of a NotificationResponse.
pub(super) fn notified(body: &[u8]) -> Option<&[u8]> {
    // The process id of the notifier, the channel, the payload.
    let mut texts = body.get(4..)?.strip_suffix(&[0])?.split(|byte| *byte == 0);
    let (_channel, payload) = (texts.next()?, texts.next()?);
    texts.next().is_none().then_some(payload)
}

/// Waits for the next message that matters. Error responses are errors.
fn next(wire: &mut Wire, doing: &'static str) -> Result<(u8, Vec<u8>), RequesterError> {
    let address = wire.address().to_owned();
    loop {
        let (kind, body) = wire.wait_for(doing, |data| {
            let found = parse(data).map_err(|expected| wrong(&address, expected, data))?;
            Ok(found.map(|(kind, body, used)| ((kind, body.to_vec()), used)))
        })?;
        match kind {
            kind::ERROR => return Err(refused(&address, complaint(&body).text.as_bytes())),
            kind::AUTHENTICATION | kind::READY => return Ok((kind, body)),
            _ => {}
        }
    }
}

/// Connects and logs in.
pub(super) fn connect(site: &Site, login: &Login) -> Result<Wire, RequesterError> {
    let mut wire = site.connect_in_the_clear()?;
    if site.has_tls() {
        ask_for_tls(&mut wire)?;
        site.secure(&mut wire)?;
    }
    push_counted(wire.out(), |out| {
        out.extend_from_slice(&PROTOCOL_3_0.to_be_bytes());
        let names = [("user", &login.user), ("database", &login.database)];
        let parameters = login.parameters.iter().map(|(key, value)| (*key, value));
        for (key, value) in names.into_iter().chain(parameters) {
            push_text(out, key);
            push_text(out, value);
        }
        push_text(out, "application_name");
        push_text(out, "tailrace bench");
        out.push(0);
    });
    let mut scram = None;
    loop {
        let (kind, body) = next(&mut wire, "logging in")?;
        if kind == kind::READY {
            return Ok(wire);
        }
        authenticate(&mut wire, &body, &login.password, &mut scram)?;
    }
}

/// Asks for TLS. The server answers S if it goes on over TLS, N if it does not.
fn ask_for_tls(wire: &mut Wire) -> Result<(), RequesterError> {
    push_counted(wire.out(), |out| out.extend_from_slice(&SSL_REQUEST.to_be_bytes()));
    let address = wire.address().to_owned();
    wire.wait_for("asking for TLS", |data| match data {
        [] => Ok(None),
        [b'S'] => Ok(Some(((), 1))),
        [b'N', ..] => Err(RequesterError::Unsupported(format!("{address} does not speak TLS"))),
        _ => Err(wrong(&address, "S or N", data)),
    })
}

/// Answers one message of the server's authentication.
fn authenticate(
    wire: &mut Wire,
    body: &[u8],
    password: &str,
    scram: &mut Option<Scram>,
) -> Result<(), RequesterError> {
    const WRONG: &str = "an authentication of PostgreSQL";
    let Some((code, rest)) = body.split_first_chunk::<4>() else { return Err(wire.protocol(WRONG, body)) };
    let text = std::str::from_utf8(rest).map_err(|_| wire.protocol(WRONG, rest))?;
    match (u32::from_be_bytes(*code), scram.as_mut()) {
        // A server that started SCRAM must have proved that it knows the password.
        (0, None) => {}
        (3, None) => push(wire.out(), b'p', |out| push_text(out, password)),
        (10, None) if text.split('\0').any(|mechanism| mechanism == "SCRAM-SHA-256") => {
            // The server takes the user's name from the startup message.
            let begun = Scram::new("").ok_or_else(|| {
                RequesterError::Unsupported("this machine has no random numbers for SCRAM".to_owned())
            })?;
            push(wire.out(), b'p', |out| {
                push_text(out, "SCRAM-SHA-256");
                push_counted_text(out, &begun.first());
            });
            *scram = Some(begun);
        }
        (11, Some(begun)) => {
            let last = begun.last(text, password).map_err(|expected| wire.protocol(expected, rest))?;
            push(wire.out(), b'p', |out| out.extend_from_slice(last.as_bytes()));
        }
        (12, Some(begun)) if begun.is_proven_by(text) => *scram = None,
        (code @ (2 | 5 | 7..=10), _) => {
            return Err(RequesterError::Unsupported(format!(
                "{} wants authentication of kind {code}: expected none, a password or SCRAM-SHA-256 \
                 (kind 5 is MD5: set password_encryption = 'scram-sha-256' and the password again)",
                wire.address()
            )));
        }
        _ => return Err(wire.protocol(WRONG, body)),
    }
    Ok(())
}

/// Appends a text after its length, which does not include itself.
fn push_counted_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Sends a query and waits until it is done.
pub(super) fn ask(wire: &mut Wire, query: &str) -> Result<(), RequesterError> {
    push_query(wire.out(), query);
    match next(wire, "setting up")? {
        (kind::READY, _) => Ok(()),
        (_, body) => Err(wire.protocol("the end of a query", &body)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation() {
        let mut text = Vec::new();
        push(&mut text, b'A', |out| out.extend_from_slice(b"\0\0\0\x07bench.1\0aGVsbG8\0"));
        push(&mut text, b'E', |out| out.extend_from_slice(b"SFATAL\0VFATAL\0C57P01\0Mgo away\0\0"));
        push(&mut text, b'Z', |out| out.push(b'I'));
        let (first, body, used) = parse(&text).unwrap().unwrap();
        assert_eq!((first, notified(body)), (kind::NOTIFICATION, Some(&b"aGVsbG8"[..])));
        let rest = &text[used..];
        let (second, body, used) = parse(rest).unwrap().unwrap();
        assert_eq!(second, kind::ERROR);
        let expected = Complaint { is_fatal: true, text: "FATAL 57P01: go away".to_owned() };
        assert_eq!(complaint(body), expected);
        assert_eq!(parse(&rest[used..]), Ok(Some((kind::READY, &b"I"[..], 6))));
        for cut in 0..used {
            assert_eq!(parse(&rest[..cut]), Ok(None), "{cut}");
        }
        for wrong in [&b"HTTP/1.1 400"[..], b"Z\0\0\0\x03", b"E\x7F\0\0\0", b"\0\0\0\x40"] {
            parse(wrong).unwrap_err();
        }
        for wrong in [&b""[..], b"\0\0\0\x07", b"\0\0\0\x07a\0", b"\0\0\0\x07a\0b\0c\0"] {
            assert_eq!(notified(wrong), None);
        }
    }

    #[test]
    fn queries() {
        let mut out = Vec::new();
        push_query(&mut out, "SELECT 1");
        assert_eq!(out, b"Q\0\0\0\x0DSELECT 1\0");
    }
}
