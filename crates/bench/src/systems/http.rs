//! HTTP/1.1: each message is the body of a POST. There is one request at a time per connection, as with most
//! clients.
//!
//! A message due while an answer is outstanding waits, and counts from when it was due. So open more
//! connections than requests that must overlap. With `reply = echo` the body of the response must be the
//! payload; otherwise any status of 2xx is an acknowledgement. Settings: `path`, `reply`, `user` and
//! `password` (Basic), `token` (Bearer), and those of TLS. Chunked responses and redirects are not supported.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::nats_wire::push_number;
use super::settings::Settings;
use super::site::Site;
use super::wire::{Wire, line, wrong};
use crate::clock::Clock;
use crate::error::RequesterError;
use crate::requester::{Expects, Handed, PayloadBack, Readiness, Requester, Sink};

pub(super) struct Http {
    site: Site,
    /// Everything of a request before the length of its body.
    path: String,
    authorization: Option<String>,
    head: String,
    echoes: bool,
    wire: Option<Wire>,
    outstanding: Option<u64>,
}

impl Http {
    pub(super) fn new(site: Site, settings: &mut Settings) -> Result<Self, RequesterError> {
        let path = settings.take("path").unwrap_or_else(|| "/".to_owned());
        let echoes = match settings.take("reply").as_deref() {
            None | Some("echo") => true,
            Some("status") => false,
            Some(other) => {
                let reason = format!("reply={other} is unknown: expected echo or status");
                return Err(RequesterError::Unsupported(reason));
            }
        };
        let authorization = authorization(settings)?;
        let head = head(&site.address, &path, authorization.as_deref());
        Ok(Self { site, path, authorization, head, echoes, wire: None, outstanding: None })
    }
}

/// The value of the Authorization header, if there is one.
fn authorization(settings: &mut Settings) -> Result<Option<String>, RequesterError> {
    let (user, password) = (settings.take("user"), settings.take("password"));
    match (settings.take("token"), user, password) {
        (None, None, None) => Ok(None),
        (Some(token), None, None) => Ok(Some(format!("Bearer {token}"))),
        (None, Some(user), password) => {
            let both = format!("{user}:{}", password.unwrap_or_default());
            Ok(Some(format!("Basic {}", STANDARD.encode(both))))
        }
        _ => {
            let reason = "expected either token, or user and password";
            Err(RequesterError::Unsupported(reason.to_owned()))
        }
    }
}

/// A request up to the length of its body.
fn head(host: &str, path: &str, authorization: Option<&str>) -> String {
    let authorization = authorization.map(|value| format!("Authorization: {value}\r\n")).unwrap_or_default();
    format!("POST {path} HTTP/1.1\r\nHost: {host}\r\n{authorization}Content-Length: ")
}

/// A complete response: status, and the start and end of its body.
struct HttpResponse {
    status: u16,
    body: std::ops::Range<usize>,
}

/// The head of a response.
struct Head {
    status: u16,
    /// The start of the body.
    body: usize,
    length: Option<usize>,
}

fn parse(data: &[u8], address: &str) -> Result<Option<HttpResponse>, RequesterError> {
    let Some(Head { status, body, length }) = parse_head(data, address)? else { return Ok(None) };
    let length = length.unwrap_or(0);
    Ok((data.len() - body >= length).then(|| HttpResponse { status, body: body..body + length }))
}

fn parse_head(data: &[u8], address: &str) -> Result<Option<Head>, RequesterError> {
    let Some((first, mut at)) = line(data) else { return Ok(None) };
    let status = std::str::from_utf8(first)
        .ok()
        .and_then(|text| text.strip_prefix("HTTP/1."))
        .and_then(|text| text.get(2..5))
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| wrong(address, "a status line of HTTP/1.1", first))?;
    let mut length = None;
    loop {
        let Some((header, used)) = line(&data[at..]) else { return Ok(None) };
        at += used;
        if header.is_empty() {
            return Ok(Some(Head { status, body: at, length }));
        }
        let text = String::from_utf8_lossy(header).to_ascii_lowercase();
        if let Some(value) = text.strip_prefix("content-length:") {
            length = Some(value.trim().parse().map_err(|_| wrong(address, "a content length", header))?);
        } else if text.starts_with("transfer-encoding:") {
            return Err(wrong(address, "an answer with a content length", header));
        }
    }
}

/// Sends one request over its own connection. Returns status and body of the response. Uses HTTP/1.0, so that
/// the response comes in one piece: it ends after its length, or with the connection.
pub(super) fn ask(
    wire: &mut Wire,
    verb: &str,
    path: &str,
    authorization: Option<&str>,
) -> Result<(u16, Vec<u8>), RequesterError> {
    let address = wire.address().to_owned();
    let authorization = authorization.map(|value| format!("Authorization: {value}\r\n")).unwrap_or_default();
    let request =
        format!("{verb} {path} HTTP/1.0\r\nHost: {address}\r\n{authorization}Content-Length: 0\r\n\r\n");
    wire.out().extend_from_slice(request.as_bytes());
    let whole = wire.wait_for("answering a request", |data| {
        let head = parse_head(data, &address)?
            .filter(|head| head.length.is_some_and(|length| data.len() - head.body >= length));
        Ok(head.map(|head| (answer(data, &head), data.len())))
    });
    match whole {
        Err(RequesterError::Closed { address }) => match parse_head(wire.data(), &address)? {
            Some(head) if head.length.is_none() => Ok(answer(wire.data(), &head)),
            _ => Err(RequesterError::Closed { address }),
        },
        whole => whole,
    }
}

fn answer(data: &[u8], head: &Head) -> (u16, Vec<u8>) {
    let body = &data[head.body..];
    (head.status, body[..head.length.unwrap_or(body.len())].to_vec())
}

impl Requester for Http {
    fn expects(&self) -> Expects {
        let payload = self.echoes.then_some(PayloadBack::Reply);
        Expects { acknowledgement: !self.echoes, payload }
    }

    fn set_up(&mut self) -> Result<(), RequesterError> {
        self.wire = Some(self.site.connect()?);
        self.outstanding = None;
        Ok(())
    }

    fn turn_to(&mut self, address: &str) -> bool {
        address.clone_into(&mut self.site.address);
        self.head = head(address, &self.path, self.authorization.as_deref());
        true
    }

    fn publish(&mut self, sequence: u64, payload: &[u8]) -> Result<Handed, RequesterError> {
        if self.outstanding.is_some() {
            return Ok(Handed::Full);
        }
        let Some(out) = self.wire.as_mut().and_then(|wire| wire.room_for(payload.len())) else {
            return Ok(Handed::Full);
        };
        out.extend_from_slice(self.head.as_bytes());
        push_number(out, payload.len() as u64);
        out.extend_from_slice(b"\r\n\r\n");
        out.extend_from_slice(payload);
        self.outstanding = Some(sequence);
        Ok(Handed::Taken)
    }

    fn flush(&mut self) -> Result<(), RequesterError> {
        self.wire.as_mut().map_or(Ok(()), Wire::flush)
    }

    fn receive(&mut self, clock: &dyn Clock, sink: &mut dyn Sink) -> Result<(), RequesterError> {
        let Some(wire) = &mut self.wire else { return Ok(()) };
        if !wire.fill()? {
            return Ok(());
        }
        let now = clock.now_ns();
        while let Some(answer) = parse(wire.data(), wire.address())? {
            let sequence =
                self.outstanding.take().ok_or_else(|| wire.protocol("no answer to nothing", wire.data()))?;
            if !(200..300).contains(&answer.status) {
                sink.refused(now, sequence, &format!("HTTP status {}", answer.status));
            } else if self.echoes {
                sink.payload(now, &wire.data()[answer.body.clone()]);
            } else {
                sink.acknowledged(now, sequence);
            }
            wire.consume(answer.body.end);
        }
        Ok(())
    }

    fn readiness(&self) -> Readiness<'_> {
        self.wire.as_ref().map_or(Readiness::At(u64::MAX), |wire| Readiness::Sockets(wire.watched(), None))
    }

    fn tear_down(&mut self) -> Result<(), RequesterError> {
        self.wire = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(values: &[(&str, &str)]) -> Result<String, String> {
        let values = values.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let found = authorization(&mut Settings::new(values)).map_err(|error| error.to_string())?;
        Ok(head("h:1", "/x", found.as_deref()))
    }

    #[test]
    fn requests_say_who_asks() {
        let plain = asked(&[]).unwrap();
        assert_eq!(plain, "POST /x HTTP/1.1\r\nHost: h:1\r\nContent-Length: ");
        // The example of RFC 7617.
        let basic = asked(&[("user", "Aladdin"), ("password", "open sesame")]).unwrap();
        assert!(basic.contains("\r\nAuthorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n"), "{basic}");
        let bearer = asked(&[("token", "abc")]).unwrap();
        assert!(bearer.contains("\r\nAuthorization: Bearer abc\r\n"), "{bearer}");
        for values in [&[("token", "abc"), ("user", "u")][..], &[("password", "p")]] {
            assert_eq!(asked(values).unwrap_err(), "expected either token, or user and password");
        }
    }
}
