//! The client side of the NATS protocol, as far as a load generator needs it.

use serde_json::Value;

use super::nats_login::Login;
use super::site::Site;
use super::wire::{Wire, line, refused, wrong};
use crate::error::RequesterError;

/// An operation from the server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said<'a> {
    /// A message. `status` is that of its headers, such as `503` if a request has no responders.
    Message {
        subject: &'a [u8],
        payload: &'a [u8],
        status: Option<&'a [u8]>,
    },
    Ping,
    Pong,
    Error(&'a [u8]),
    /// The server's INFO, in JSON.
    Info(&'a [u8]),
    /// +OK.
    Nothing,
}

/// Parses one operation. Also returns its size. `None` if it is not complete.
pub(super) fn parse(data: &[u8]) -> Result<Option<(Said<'_>, usize)>, &'static str> {
    let Some((line, used)) = line(data) else { return Ok(None) };
    let (verb, rest) = match line.iter().position(|byte| *byte == b' ') {
        Some(space) => (&line[..space], &line[space + 1..]),
        None => (line, &line[line.len()..]),
    };
    match verb {
        b"MSG" | b"HMSG" => message(data, verb == b"HMSG", rest, used),
        b"PING" => Ok(Some((Said::Ping, used))),
        b"PONG" => Ok(Some((Said::Pong, used))),
        b"INFO" => Ok(Some((Said::Info(rest), used))),
        b"+OK" => Ok(Some((Said::Nothing, used))),
        b"-ERR" => Ok(Some((Said::Error(rest), used))),
        _ => Err("MSG, HMSG, PING, PONG, INFO, +OK or -ERR"),
    }
}

fn message<'a>(
    data: &'a [u8],
    has_headers: bool,
    arguments: &'a [u8],
    begin: usize,
) -> Result<Option<(Said<'a>, usize)>, &'static str> {
    const WRONG: &str = "subject, subscription and length of a message";
    let mut words = arguments.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let subject = words.next().ok_or(WRONG)?;
    let total = number(words.next_back().ok_or(WRONG)?).ok_or(WRONG)?;
    let head = if has_headers { number(words.next_back().ok_or(WRONG)?).ok_or(WRONG)? } else { 0 };
    if head > total {
        return Err(WRONG);
    }
    let Some(body) = data.get(begin..begin + total + 2) else { return Ok(None) };
    if !body.ends_with(b"\r\n") {
        return Err("a line end after the payload");
    }
    let status = body[..head].strip_prefix(b"NATS/1.0 ").and_then(|rest| rest.get(..3));
    let payload = &body[head..total];
    Ok(Some((Said::Message { subject, payload, status }, begin + total + 2)))
}

fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Connects and shakes hands, over TLS if requested.
pub(super) fn connect(site: &Site, login: &Login) -> Result<Wire, RequesterError> {
    let mut wire = site.connect_in_the_clear()?;
    if site.has_tls() && login.tls_first {
        site.secure(&mut wire)?;
    }
    // Otherwise there is no need to wait for the INFO.
    let info = if site.has_tls() || login.needs_nonce() { await_info(&mut wire)? } else { Value::Null };
    if site.has_tls() && !login.tls_first {
        site.secure(&mut wire)?;
    }
    let hello = login.hello(info["nonce"].as_str().unwrap_or_default());
    wire.out().extend_from_slice(format!("CONNECT {hello}\r\n").as_bytes());
    synchronise(&mut wire, "shaking hands")?;
    Ok(wire)
}

fn await_info(wire: &mut Wire) -> Result<Value, RequesterError> {
    let address = wire.address().to_owned();
    wire.wait_for("telling what it is", |data| match parse(data) {
        Ok(None) => Ok(None),
        Ok(Some((Said::Info(text), used))) => match serde_json::from_slice(text) {
            Ok(info) => Ok(Some((info, used))),
            Err(_) => Err(wrong(&address, "INFO in JSON", data)),
        },
        Ok(Some((Said::Error(reason), _))) => Err(refused(&address, reason)),
        Ok(Some(_)) => Err(wrong(&address, "INFO", data)),
        Err(expected) => Err(wrong(&address, expected, data)),
    })
}

/// Reports whether INFO requires TLS.
fn demands_tls(info: &[u8]) -> bool {
    serde_json::from_slice(info).is_ok_and(|info: Value| info["tls_required"] == true)
}

/// Waits until the server has processed everything sent so far.
pub(super) fn synchronise(wire: &mut Wire, doing: &'static str) -> Result<(), RequesterError> {
    wire.out().extend_from_slice(b"PING\r\n");
    let (address, is_secure) = (wire.address().to_owned(), wire.is_secure());
    loop {
        let done = wire.wait_for(doing, |data| match parse(data) {
            Ok(None) => Ok(None),
            Ok(Some((Said::Error(reason), _))) => Err(refused(&address, reason)),
            Ok(Some((Said::Info(info), _))) if !is_secure && demands_tls(info) => {
                let reason = format!("{address} demands TLS: expected --set tls-ca=FILE, or tls=unchecked");
                Err(RequesterError::Unsupported(reason))
            }
            Ok(Some((said, used))) => Ok(Some((said == Said::Pong, used))),
            Err(expected) => Err(wrong(&address, expected, data)),
        })?;
        if done {
            return Ok(());
        }
    }
}

/// Appends a number in decimal, without the cost of formatting.
pub(super) fn push_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation() {
        let text = b"INFO {}\r\nMSG a.b 1 3\r\nxyz\r\nHMSG c 9 inbox 16 18\r\nNATS/1.0 503\r\n\r\nok\r\nPING\r\n-ERR 'no'\r\n";
        let mut rest = &text[..];
        let mut said = Vec::new();
        while let Some((one, used)) = parse(rest).unwrap() {
            said.push(one);
            rest = &rest[used..];
        }
        assert_eq!(
            said,
            [
                Said::Info(b"{}"),
                Said::Message { subject: b"a.b", payload: b"xyz", status: None },
                Said::Message { subject: b"c", payload: b"ok", status: Some(b"503") },
                Said::Ping,
                Said::Error(b"'no'"),
            ]
        );
        for cut in 0..text.len() {
            let mut rest = &text[..cut];
            while let Some((_, used)) = parse(rest).unwrap() {
                rest = &rest[used..];
            }
        }
        for wrong in [
            &b"HELLO\r\n"[..],
            b"MSG a\r\n",
            b"MSG a 1 x\r\n",
            b"MSG a 1 1\r\nabc\r\n",
            b"HMSG a 1 9 3\r\nabc\r\n",
        ] {
            parse(wrong).unwrap_err();
        }
    }

    #[test]
    fn numbers() {
        for number in [0, 7, 10, 12_345, u64::MAX] {
            let mut out = Vec::new();
            push_number(&mut out, number);
            assert_eq!(out, number.to_string().into_bytes());
        }
    }
}
