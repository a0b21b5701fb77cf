//! ZMTP 3.0, ZeroMQ's protocol over TCP, without encryption or passwords (mechanism NULL).
//!
//! Requests come from a DEALER with the empty frame of a REQ, which may have many of them in flight. A REP
//! answers them in order.

use super::brokerless::{MESSAGE_BYTES_MAX, Message, Parsed, Protocol, Role};

pub(super) struct Zmtp;

const GREETING_BYTES: usize = 64;

const MECHANISM: &[u8; 20] = b"NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

// Bits of the first byte of a frame.
const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// A message that subscribes to everything: 1 and an empty prefix.
const SUBSCRIPTION: &[u8] = &[0, 1, 1];

/// The socket type of an end.
fn socket_type(role: Role) -> &'static str {
    match role {
        Role::Publish => "PUB",
        Role::Subscribe => "SUB",
        Role::Ask => "DEALER",
        Role::Answer => "REP",
        Role::Push => "PUSH",
        Role::Pull => "PULL",
    }
}

/// The socket types that an end may connect to.
fn peers(role: Role) -> &'static [&'static [u8]] {
    match role {
        Role::Publish => &[b"SUB", b"XSUB"],
        Role::Subscribe => &[b"PUB", b"XPUB"],
        Role::Ask => &[b"REP", b"ROUTER"],
        Role::Answer => &[b"REQ", b"DEALER"],
        Role::Push => &[b"PULL"],
        Role::Pull => &[b"PUSH"],
    }
}

/// First byte and body of a frame, and its size.
type Frame<'a> = (u8, &'a [u8], usize);

fn frame(data: &[u8]) -> Result<Option<Frame<'_>>, &'static str> {
    let Some((flags, rest)) = data.split_first() else { return Ok(None) };
    if flags & !(MORE | LONG | COMMAND) != 0 || flags & (MORE | COMMAND) == MORE | COMMAND {
        return Err("a frame of ZMTP");
    }
    let (length, rest) = if flags & LONG == 0 {
        let Some((length, rest)) = rest.split_first() else { return Ok(None) };
        (u64::from(*length), rest)
    } else {
        let Some((length, rest)) = rest.split_first_chunk::<8>() else { return Ok(None) };
        (u64::from_be_bytes(*length), rest)
    };
    if length > MESSAGE_BYTES_MAX {
        return Err("a frame of at most 64 MiB");
    }
    let head = data.len() - rest.len();
    Ok(rest.get(..length as usize).map(|body| (*flags, body, head + body.len())))
}

fn push_frame(flags: u8, body: &[u8], out: &mut Vec<u8>) {
    match u8::try_from(body.len()) {
        Ok(length) => out.extend_from_slice(&[flags, length]),
        Err(_) => {
            out.push(flags | LONG);
            out.extend_from_slice(&(body.len() as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(body);
}

fn check_greeting(data: &[u8]) -> Result<Option<usize>, &'static str> {
    if data.first().is_some_and(|byte| *byte != 0xFF) || data.get(9).is_some_and(|byte| *byte != 0x7F) {
        return Err("the greeting of ZMTP");
    }
    // Older peers stop here, and wait for an older greeting.
    if data.get(10).is_some_and(|major| *major < 3) {
        return Err("version 3 of ZMTP");
    }
    let Some(greeting) = data.get(..GREETING_BYTES) else { return Ok(None) };
    if &greeting[12..32] != MECHANISM {
        return Err("a peer without encryption or passwords");
    }
    Ok(Some(GREETING_BYTES))
}

fn check_ready(role: Role, data: &[u8]) -> Result<Option<usize>, &'static str> {
    let Some((flags, body, used)) = frame(data)? else { return Ok(None) };
    let mut rest = body.strip_prefix(b"\x05READY").filter(|_| flags & COMMAND != 0).ok_or("READY")?;
    while !rest.is_empty() {
        let (key, value, behind) = property(rest).ok_or("properties of READY")?;
        if key.eq_ignore_ascii_case(b"Socket-Type") && peers(role).contains(&value) {
            return Ok(Some(used));
        }
        rest = behind;
    }
    Err("the other end of the pattern")
}

/// Key and value of the first property, and the rest.
fn property(data: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (key_bytes, rest) = data.split_first()?;
    let (key, rest) = rest.split_at_checked(usize::from(*key_bytes))?;
    let (value_bytes, rest) = rest.split_first_chunk::<4>()?;
    let (value, rest) = rest.split_at_checked(u32::from_be_bytes(*value_bytes) as usize)?;
    Some((key, value, rest))
}

impl Protocol for Zmtp {
    const STEPS: usize = 3;

    fn push_hello(step: usize, role: Role, out: &mut Vec<u8>) {
        match step {
            0 => {
                out.extend_from_slice(b"\xFF\0\0\0\0\0\0\0\0\x7F\x03\0");
                out.extend_from_slice(MECHANISM);
                out.extend_from_slice(&[0; 32]);
            }
            1 => {
                let mut ready = b"\x05READY\x0BSocket-Type".to_vec();
                let name = socket_type(role);
                ready.extend_from_slice(&(name.len() as u32).to_be_bytes());
                ready.extend_from_slice(name.as_bytes());
                push_frame(COMMAND, &ready, out);
            }
            _ if role == Role::Subscribe => out.extend_from_slice(SUBSCRIPTION),
            _ => {}
        }
    }

    fn check_hello(step: usize, role: Role, data: &[u8]) -> Result<Option<usize>, &'static str> {
        match step {
            0 => check_greeting(data),
            1 => check_ready(role, data),
            // Messages published before the subscription has arrived would be dropped.
            _ if role == Role::Publish => match frame(data)? {
                None => Ok(None),
                Some((0, [1], used)) => Ok(Some(used)),
                Some(_) => Err("a subscription to everything"),
            },
            _ => Ok(Some(0)),
        }
    }

    fn push(role: Role, _id: u32, payload: &[u8], out: &mut Vec<u8>) {
        if matches!(role, Role::Ask | Role::Answer) {
            push_frame(MORE, b"", out);
        }
        push_frame(0, payload, out);
    }

    fn parse(role: Role, data: &[u8]) -> Result<Option<Parsed<'_>>, &'static str> {
        let Some((flags, body, used)) = frame(data)? else { return Ok(None) };
        if flags & COMMAND != 0 {
            return Ok(Some((None, used)));
        }
        match role {
            Role::Pull | Role::Subscribe if flags & MORE == 0 => {
                Ok(Some((Some(Message { id: 0, payload: body }), used)))
            }
            Role::Ask | Role::Answer if flags & MORE != 0 && body.is_empty() => match frame(&data[used..])? {
                None => Ok(None),
                Some((flags, payload, bytes)) if flags & (MORE | COMMAND) == 0 => {
                    Ok(Some((Some(Message { id: 0, payload }), used + bytes)))
                }
                Some(_) => Err("a message of one part"),
            },
            // A subscription or an unsubscription.
            Role::Publish if flags & MORE == 0 && matches!(body.first(), Some(0 | 1)) => {
                Ok(Some((None, used)))
            }
            Role::Push | Role::Publish => Err("nothing for an end that only sends"),
            _ => Err("a message of one part"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings() {
        let mut out = Vec::new();
        Zmtp::push_hello(0, Role::Push, &mut out);
        assert_eq!(out.len(), 64);
        assert_eq!(Zmtp::check_hello(0, Role::Pull, &out), Ok(Some(64)));
        // libzmq 4.3 puts a 1 into the padding, and says 3.1.
        (out[8], out[11]) = (1, 1);
        assert_eq!(Zmtp::check_hello(0, Role::Pull, &out), Ok(Some(64)));
        for cut in 0..64 {
            assert_eq!(Zmtp::check_hello(0, Role::Pull, &out[..cut]), Ok(None), "{cut}");
        }
        for (at, byte) in [(0, b'H'), (9, 0), (10, 1), (12, b'P')] {
            let mut wrong = out.clone();
            wrong[at] = byte;
            Zmtp::check_hello(0, Role::Pull, &wrong).unwrap_err();
        }
        // A peer of another protocol need not send 64 bytes.
        Zmtp::check_hello(0, Role::Pull, b"HTTP").unwrap_err();
    }

    #[test]
    fn types() {
        let mut out = Vec::new();
        Zmtp::push_hello(1, Role::Push, &mut out);
        assert_eq!(out, b"\x04\x1A\x05READY\x0BSocket-Type\0\0\0\x04PUSH");
        assert_eq!(Zmtp::check_hello(1, Role::Pull, &out), Ok(Some(28)));
        Zmtp::check_hello(1, Role::Subscribe, &out).unwrap_err();
        // libzmq's READY, with an identity.
        let rep = b"\x04\x26\x05READY\x0BSocket-Type\0\0\0\x03REP\x08Identity\0\0\0\0";
        assert_eq!(Zmtp::check_hello(1, Role::Ask, rep), Ok(Some(rep.len())));
        for cut in 0..rep.len() {
            assert_eq!(Zmtp::check_hello(1, Role::Ask, &rep[..cut]), Ok(None), "{cut}");
        }
        for wrong in
            [&b"\x04\x06\x05ERROR"[..], b"\x04\x06\x05READY", b"\x04\x08\x05READY\x0BS", b"\0\x06\x05READY"]
        {
            Zmtp::check_hello(1, Role::Ask, wrong).unwrap_err();
        }
        assert_eq!(Zmtp::check_hello(2, Role::Publish, SUBSCRIPTION), Ok(Some(3)));
        Zmtp::check_hello(2, Role::Publish, b"\0\x02\x01a").unwrap_err();
    }

    #[test]
    fn messages() {
        for length in [0, 1, 255, 256, 70_000] {
            let payload = vec![7; length];
            for (sends, gets) in
                [(Role::Push, Role::Pull), (Role::Ask, Role::Answer), (Role::Answer, Role::Ask)]
            {
                let mut out = Vec::new();
                Zmtp::push(sends, 0, &payload, &mut out);
                let message = Message { id: 0, payload: &payload };
                assert_eq!(Zmtp::parse(gets, &out), Ok(Some((Some(message), out.len()))));
                for cut in [0, 1, out.len() - 1] {
                    assert_eq!(Zmtp::parse(gets, &out[..cut]), Ok(None));
                }
            }
        }
        assert_eq!(Zmtp::parse(Role::Pull, b"\x04\x05\x04PING"), Ok(Some((None, 7))));
        assert_eq!(Zmtp::parse(Role::Publish, b"\0\x01\x00"), Ok(Some((None, 3))));
        for (role, wrong) in [
            (Role::Pull, &b"\x01\x01a\0\x01b"[..]),
            (Role::Ask, b"\0\x01a"),
            (Role::Ask, b"\x01\0\x01\x01a"),
            (Role::Push, b"\0\x01a"),
            (Role::Publish, b"\0\x01a"),
            (Role::Pull, b"\x08\x01a"),
            (Role::Pull, b"\x02\xFF\0\0\0\0\0\0\0"),
        ] {
            Zmtp::parse(role, wrong).unwrap_err();
        }
    }
}
