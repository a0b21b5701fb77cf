//! The client's side of Kafka's protocol: a connection to one broker, with login, and one request after the
//! other.
//!
//! Messages come from the crate `tailrace-kafka-wire`, which is generated from Kafka's own definitions and
//! contains no server code.

use bytes::Bytes;
use tailrace_kafka_wire::messages::{
    ApiVersionsRequest, SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest,
};
use tailrace_kafka_wire::{
    ApiKey, ErrorCode, LENGTH_PREFIX_BYTES, Message, Part, Request, VersionRange, decode_response,
    frame_bytes, request_frame,
};

use super::scram::Scram;
use super::settings::Settings;
use super::site::Site;
use super::wire::{Wire, wrong};
use crate::error::RequesterError;

/// Largest response: a fetch returns at most one payload beyond its limit.
const FRAME_BYTES_MAX: u32 = 3 * crate::payload::PAYLOAD_BYTES_MAX as u32;

const CLIENT_ID: &str = "tailrace-bench";

/// User and mechanism of the login. Without a user there is no login.
#[derive(Clone, Default)]
pub(super) struct Login {
    user: Option<String>,
    password: String,
    mechanism: Mechanism,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mechanism {
    #[default]
    Plain,
    ScramSha256,
}

impl Mechanism {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
        }
    }
}

impl Login {
    /// Reads the settings `user`, `password`, and `mechanism` (`PLAIN`, the default, or `SCRAM-SHA-256`).
    pub(super) fn take(settings: &mut Settings) -> Result<Self, RequesterError> {
        let (user, password) = (settings.take("user"), settings.take("password"));
        let named = settings.take("mechanism");
        let unsupported = |reason: String| Err(RequesterError::Unsupported(reason));
        let mechanism = match named.as_deref() {
            None | Some("PLAIN") => Mechanism::Plain,
            Some("SCRAM-SHA-256") => Mechanism::ScramSha256,
            Some(other) => {
                return unsupported(format!("mechanism={other} is unknown: expected PLAIN or SCRAM-SHA-256"));
            }
        };
        if user.is_some() != password.is_some() || (named.is_some() && user.is_none()) {
            return unsupported("user and password go together, and mechanism with them".to_owned());
        }
        Ok(Self { user, password: password.unwrap_or_default(), mechanism })
    }
}

/// A connection to a broker whose versions are known.
#[derive(Debug)]
pub(super) struct Broker {
    pub(super) wire: Wire,
    versions: Vec<(i16, VersionRange)>,
    next_correlation: i32,
}

impl Broker {
    /// Connects and logs in.
    pub(super) fn connect(site: &Site, login: &Login) -> Result<Self, RequesterError> {
        let mut broker = Self { wire: site.connect()?, versions: Vec::new(), next_correlation: 0 };
        let answer = broker.ask_at(0, &ApiVersionsRequest::default(), "telling its versions")?;
        broker.check(answer.error_code, None, "ApiVersions")?;
        broker.versions = answer
            .api_keys
            .iter()
            .map(|api| (api.api_key, VersionRange { min: api.min_version, max: api.max_version }))
            .collect();
        if let Some(user) = &login.user {
            broker.log_in(user, login)?;
        }
        Ok(broker)
    }

    fn log_in(&mut self, user: &str, login: &Login) -> Result<(), RequesterError> {
        let mechanism = login.mechanism.name();
        let answer = self.ask(&SaslHandshakeRequest { mechanism: mechanism.to_owned() }, "logging in")?;
        if answer.error_code != ErrorCode::None.code() {
            let offered = answer.mechanisms.join(", ");
            let reason = format!("{mechanism} is not among its mechanisms ({offered})");
            return self.check(answer.error_code, Some(&reason), "SASL");
        }
        if login.mechanism == Mechanism::Plain {
            let words = format!("\0{user}\0{}", login.password);
            return self.authenticate(words).map(drop);
        }
        let mut scram = Scram::new(user).ok_or_else(|| {
            RequesterError::Unsupported("this machine has no random numbers for SCRAM".to_owned())
        })?;
        let first = self.authenticate(scram.first())?.auth_bytes;
        let first = text(&self.wire, &first)?;
        let last =
            scram.last(first, &login.password).map_err(|expected| self.wire.protocol(expected, b""))?;
        let proof = self.authenticate(last)?.auth_bytes;
        if scram.is_proven_by(text(&self.wire, &proof)?) {
            return Ok(());
        }
        Err(self.wire.protocol("a proof that the server knows the password", b"another one"))
    }

    fn authenticate(&mut self, words: String) -> Result<SaslAuthenticateResponse, RequesterError> {
        let request = SaslAuthenticateRequest { auth_bytes: Bytes::from(words), ..Default::default() };
        let answer = self.ask(&request, "logging in")?;
        self.check(answer.error_code, answer.error_message.as_deref(), "login")?;
        Ok(answer)
    }

    /// The highest version that both ends support.
    pub(super) fn version<R: Request>(&self) -> Result<i16, RequesterError> {
        let ours = ours(R::KEY, R::VERSIONS);
        let theirs =
            self.versions.iter().find(|(key, _)| *key == R::KEY.code()).map(|(_, versions)| *versions);
        theirs.and_then(|theirs| theirs.intersect(ours)).map(|both| both.max).ok_or_else(|| {
            let theirs = theirs.map_or("none".to_owned(), |theirs| theirs.to_string());
            let (address, name) = (self.wire.address(), R::NAME);
            RequesterError::Unsupported(format!(
                "{address} speaks {name} in versions {theirs}: expected {ours}"
            ))
        })
    }

    /// Appends a request to the outgoing bytes. Returns its correlation id.
    pub(super) fn push<R: Request>(&mut self, version: i16, request: &R) -> Result<i32, RequesterError> {
        let number = self.next_correlation;
        self.next_correlation = number.wrapping_add(1);
        let frame = request_frame(number, Some(CLIENT_ID), version, request)
            .map_err(|error| RequesterError::Unsupported(format!("{}: {error}", R::NAME)))?;
        for part in frame.parts() {
            if let Part::Bytes(bytes) = part {
                self.wire.out().extend_from_slice(bytes);
            }
        }
        Ok(number)
    }

    /// Sends a request and waits for its response. No other request may be in flight.
    pub(super) fn ask<R: Request>(
        &mut self,
        request: &R,
        doing: &'static str,
    ) -> Result<R::Response, RequesterError> {
        let version = self.version::<R>()?;
        self.ask_at(version, request, doing)
    }

    fn ask_at<R: Request>(
        &mut self,
        version: i16,
        request: &R,
        doing: &'static str,
    ) -> Result<R::Response, RequesterError> {
        let number = self.push(version, request)?;
        let address = self.wire.address().to_owned();
        self.wire.wait_for(doing, |data| {
            let Some((frame, used)) = frame(data).map_err(|expected| wrong(&address, expected, data))? else {
                return Ok(None);
            };
            let answer =
                answer::<R>(frame, number, version).map_err(|expected| wrong(&address, expected, data))?;
            Ok(Some((answer, used)))
        })
    }

    /// Turns an error code into an error, with the server's message if there is one.
    pub(super) fn check(&self, code: i16, words: Option<&str>, what: &str) -> Result<(), RequesterError> {
        if code == ErrorCode::None.code() {
            return Ok(());
        }
        let (address, reason) = (self.wire.address(), reason(code, words));
        Err(RequesterError::Unsupported(format!("{address} says of {what}: {reason}")))
    }
}

/// The versions of a request that this client can fill in: they name topics by name.
fn ours(key: ApiKey, known: VersionRange) -> VersionRange {
    let max = match key {
        ApiKey::Produce | ApiKey::Fetch => 12,
        ApiKey::DeleteTopics => 5,
        _ => key.stable_versions().max,
    };
    VersionRange { min: known.min, max: max.min(known.max) }
}

/// `MESSAGE_TOO_LARGE: ...`, with the server's message if there is one.
pub(super) fn reason(code: i16, words: Option<&str>) -> String {
    match (ErrorCode::from_code(code), words.filter(|words| !words.is_empty())) {
        (Some(known), Some(words)) => format!("{}: {words}", known.name()),
        (Some(known), None) => format!("{}: {}", known.name(), known.message()),
        (None, words) => format!("error {code}: {}", words.unwrap_or("unknown")),
    }
}

/// A complete frame without its length prefix, and its size including the prefix. `None` if it is not
/// complete.
pub(super) fn frame(data: &[u8]) -> Result<Option<(&[u8], usize)>, &'static str> {
    let Some(prefix) = data.first_chunk::<LENGTH_PREFIX_BYTES>() else { return Ok(None) };
    let length = frame_bytes(*prefix, FRAME_BYTES_MAX).map_err(|_| "a frame of Kafka of at most 192 MiB")?;
    let end = LENGTH_PREFIX_BYTES + length as usize;
    Ok(data.get(LENGTH_PREFIX_BYTES..end).map(|frame| (frame, end)))
}

/// Decodes the response in a frame, which must be for request `number`.
pub(super) fn answer<R: Request>(
    frame: &[u8],
    number: i32,
    version: i16,
) -> Result<R::Response, &'static str> {
    let name = <R::Response as Message>::NAME;
    let (found, answer) = decode_response::<R>(Bytes::copy_from_slice(frame), version).map_err(|_| name)?;
    if found == number { Ok(answer) } else { Err("answers in the order of requests") }
}

fn text<'a>(wire: &Wire, bytes: &'a Bytes) -> Result<&'a str, RequesterError> {
    std::str::from_utf8(bytes).map_err(|_| wire.protocol("a text of SCRAM", bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames() {
        assert_eq!(frame(b"\0\0\0\x02ab\0"), Ok(Some((&b"ab"[..], 6))));
        for cut in 0..6 {
            assert_eq!(frame(&b"\0\0\0\x02ab"[..cut]), Ok(None));
        }
        frame(b"HTTP").unwrap_err();
        frame(b"\0\0\0\0").unwrap_err();
    }

    #[test]
    fn refusals_have_names() {
        assert_eq!(reason(10, Some("no")), "MESSAGE_TOO_LARGE: no");
        assert!(reason(10, Some("")).starts_with("MESSAGE_TOO_LARGE: "));
        assert_eq!(reason(9_999, None), "error 9999: unknown");
    }

    #[test]
    fn logins() {
        let take = |values: &[(&str, &str)]| {
            let values = values.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            Login::take(&mut Settings::new(values)).map_err(|error| error.to_string())
        };
        assert!(take(&[]).unwrap().user.is_none());
        let login = take(&[("user", "u"), ("password", "p"), ("mechanism", "SCRAM-SHA-256")]).unwrap();
        assert_eq!(login.mechanism, Mechanism::ScramSha256);
        for values in [&[("user", "u")][..], &[("password", "p")], &[("mechanism", "PLAIN")]] {
            assert!(take(values).err().unwrap().starts_with("user and password go together"));
        }
        assert!(take(&[("mechanism", "GSSAPI")]).err().unwrap().contains("GSSAPI is unknown"));
    }
}
