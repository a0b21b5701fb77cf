//! Authentication. Both ends prove that they have the key, the coordinator first. Then they compare versions.
//!
//! A proof is HMAC-SHA256, with the key, over what TLS exports for this connection alone and the role of the
//! prover. A man in the middle with his own certificates has two connections, which export different values,
//! and a proof that is reflected has the wrong role. Until both proofs have arrived, a frame has at most
//! [`FRAME_BYTES_MAX`] bytes, and the whole handshake takes at most [`HANDSHAKE_TIMEOUT`].

use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ServerConfig;
use serde::{Deserialize, Serialize};

use super::RemoteError;
use super::key::Key;
use super::link::Link;
use super::messages::MESSAGE_BYTES_MAX;

/// The version of the protocol between coordinator and agents.
const PROTOCOL: u32 = 1;

/// Largest frame before the other end is authenticated.
pub(super) const FRAME_BYTES_MAX: usize = 1024;

/// Time for the whole handshake, including that of TLS.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

const COORDINATOR: &[u8] = b"coordinator";
const AGENT: &[u8] = b"agent";

/// The first byte of each kind of frame.
const PROOF: u8 = b'P';
const HELLO: u8 = b'H';
const REFUSAL: u8 = b'R';

/// What must be the same at both ends, since both are parts of one instrument.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Version {
    pub(super) protocol: u32,
    pub(super) tailrace: String,
}

impl Version {
    pub(super) fn own() -> Self {
        Self { protocol: PROTOCOL, tailrace: env!("CARGO_PKG_VERSION").to_owned() }
    }

    fn shown(&self) -> String {
        let tailrace: String = self.tailrace.chars().filter(|letter| !letter.is_control()).take(50).collect();
        format!("tailrace {tailrace} with protocol {}", self.protocol)
    }

    fn compare(&self, other: &Self) -> Result<(), RemoteError> {
        if self == other {
            return Ok(());
        }
        Err(RemoteError::WrongVersion { own: self.shown(), other: other.shown() })
    }
}

/// The coordinator's side.
pub(super) fn with_agent(stream: TcpStream, key: &Key, own: &Version) -> Result<Link, RemoteError> {
    let until = Instant::now() + HANDSHAKE_TIMEOUT;
    let mut link = Link::client(stream, FRAME_BYTES_MAX)?;
    let binding = link.shake_hands(until)?;
    say(&mut link, PROOF, &key.sign(&proven(&binding, COORDINATOR)))?;
    let proof = hear(&mut link, PROOF, until)?;
    if !key.proves(&proven(&binding, AGENT), &proof) {
        return Err(RemoteError::WrongKey { who: "the agent" });
    }
    say(&mut link, HELLO, &encode(own))?;
    own.compare(&decode(&hear(&mut link, HELLO, until)?)?)?;
    link.allow(MESSAGE_BYTES_MAX);
    Ok(link)
}

/// The agent's side. `admit` reports whether there is room for another coordinator, and if not, why.
pub(super) fn with_coordinator<T>(
    stream: TcpStream,
    config: &Arc<ServerConfig>,
    key: &Key,
    own: &Version,
    admit: impl FnOnce() -> Result<T, RemoteError>,
) -> Result<(Link, T), RemoteError> {
    let until = Instant::now() + HANDSHAKE_TIMEOUT;
    let mut link = Link::server(stream, config, FRAME_BYTES_MAX)?;
    let binding = link.shake_hands(until)?;
    let proof = hear(&mut link, PROOF, until)?;
    if !key.proves(&proven(&binding, COORDINATOR), &proof) {
        refuse(&mut link, "the coordinator's key is a different one, or there is a man in the middle");
        return Err(RemoteError::WrongKey { who: "the coordinator" });
    }
    say(&mut link, PROOF, &key.sign(&proven(&binding, AGENT)))?;
    let other: Version = decode(&hear(&mut link, HELLO, until)?)?;
    let admitted = own.compare(&other).and_then(|()| admit());
    match admitted {
        Err(error @ RemoteError::WrongVersion { .. }) => {
            let (own, other) = (own.shown(), other.shown());
            refuse(&mut link, &format!("versions differ: the agent is {own}, the coordinator {other}"));
            Err(error)
        }
        Err(error) => {
            refuse(&mut link, &error.to_string());
            Err(error)
        }
        Ok(admitted) => {
            say(&mut link, HELLO, &encode(own))?;
            link.allow(MESSAGE_BYTES_MAX);
            Ok((link, admitted))
        }
    }
}

/// The bytes that a proof signs.
fn proven(binding: &[u8], role: &[u8]) -> Vec<u8> {
    [binding, role].concat()
}

fn say(link: &mut Link, kind: u8, body: &[u8]) -> Result<(), RemoteError> {
    link.send(&[&[kind], body].concat())
}

fn refuse(link: &mut Link, reason: &str) {
    // The refusal stands, even if it cannot be sent.
    let _ = say(link, REFUSAL, reason.as_bytes());
    link.close();
}

fn hear(link: &mut Link, expected: u8, until: Instant) -> Result<Vec<u8>, RemoteError> {
    let frame =
        link.receive(until)?.ok_or_else(|| RemoteError::Refused("the handshake took too long".to_owned()))?;
    match frame.split_first() {
        Some((kind, body)) if *kind == expected => Ok(body.to_vec()),
        Some((&REFUSAL, reason)) => Err(RemoteError::Refused(shown(reason))),
        _ => {
            Err(RemoteError::Protocol { expected: "a proof of the key, or a version", found: shown(&frame) })
        }
    }
}

fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().filter(|letter| !letter.is_control()).take(300).collect()
}

fn encode(version: &Version) -> Vec<u8> {
    serde_json::json!(version).to_string().into_bytes()
}

fn decode(body: &[u8]) -> Result<Version, RemoteError> {
    serde_json::from_slice(body)
        .map_err(|_| RemoteError::Protocol { expected: "a version", found: shown(body) })
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
