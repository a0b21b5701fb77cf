//! Scalability Protocols over TCP, as in nng and nanomsg: a handshake of eight bytes, then a length before
//! each message.

use super::brokerless::{MESSAGE_BYTES_MAX, Message, Parsed, Protocol, Role};

pub(super) struct ScalabilityProtocols;

const HELLO_BYTES: usize = 8;

/// Marks the last request id in a request's header.
const LAST: u32 = 0x8000_0000;

/// The protocol number of an end.
fn number(role: Role) -> u16 {
    match role {
        Role::Publish => 0x20,
        Role::Subscribe => 0x21,
        Role::Ask => 0x30,
        Role::Answer => 0x31,
        Role::Push => 0x50,
        Role::Pull => 0x51,
    }
}

impl Protocol for ScalabilityProtocols {
    const STEPS: usize = 1;

    fn push_hello(_step: usize, role: Role, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\0SP\0");
        out.extend_from_slice(&number(role).to_be_bytes());
        out.extend_from_slice(&[0, 0]);
    }

    fn check_hello(_step: usize, role: Role, data: &[u8]) -> Result<Option<usize>, &'static str> {
        let begin = data.len().min(4);
        if data[..begin] != b"\0SP\0"[..begin] {
            return Err("the greeting of a Scalability Protocol");
        }
        let Some(hello) = data.first_chunk::<HELLO_BYTES>() else { return Ok(None) };
        // The two ends of a pattern differ in the last bit.
        if u16::from_be_bytes([hello[4], hello[5]]) != number(role) ^ 1 {
            return Err("the other end of the pattern");
        }
        Ok(Some(HELLO_BYTES))
    }

    fn push(role: Role, id: u32, payload: &[u8], out: &mut Vec<u8>) {
        let has_id = matches!(role, Role::Ask | Role::Answer);
        let length = payload.len() as u64 + if has_id { 4 } else { 0 };
        out.extend_from_slice(&length.to_be_bytes());
        if has_id {
            out.extend_from_slice(&(id | LAST).to_be_bytes());
        }
        out.extend_from_slice(payload);
    }

    fn parse(role: Role, data: &[u8]) -> Result<Option<Parsed<'_>>, &'static str> {
        let Some((length, rest)) = data.split_first_chunk::<8>() else { return Ok(None) };
        let length = u64::from_be_bytes(*length);
        if length > MESSAGE_BYTES_MAX {
            return Err("a message of at most 64 MiB");
        }
        let Some(body) = rest.get(..length as usize) else { return Ok(None) };
        let used = 8 + body.len();
        let message = match role {
            Role::Ask | Role::Answer => {
                let (id, payload) = body.split_first_chunk::<4>().ok_or("a request id")?;
                let id = u32::from_be_bytes(*id);
                if id & LAST == 0 {
                    return Err("a request that came without detours");
                }
                Message { id, payload }
            }
            Role::Pull | Role::Subscribe => Message { id: 0, payload: body },
            Role::Push | Role::Publish => return Err("nothing for an end that only sends"),
        };
        Ok(Some((Some(message), used)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Sp = ScalabilityProtocols;

    #[test]
    fn greetings() {
        let mut out = Vec::new();
        Sp::push_hello(0, Role::Push, &mut out);
        assert_eq!(out, b"\0SP\0\0\x50\0\0");
        assert_eq!(Sp::check_hello(0, Role::Pull, &out), Ok(Some(8)));
        for role in [Role::Push, Role::Subscribe, Role::Answer] {
            Sp::check_hello(0, role, &out).unwrap_err();
        }
        for cut in 0..8 {
            assert_eq!(Sp::check_hello(0, Role::Pull, &out[..cut]), Ok(None), "{cut}");
        }
        Sp::check_hello(0, Role::Pull, b"HT").unwrap_err();
    }

    #[test]
    fn messages() {
        let mut out = Vec::new();
        Sp::push(Role::Push, 7, b"abc", &mut out);
        assert_eq!(out, b"\0\0\0\0\0\0\0\x03abc");
        assert_eq!(Sp::parse(Role::Pull, &out), Ok(Some((Some(Message { id: 0, payload: b"abc" }), 11))));
        Sp::parse(Role::Push, &out).unwrap_err();
        // Too short for a request id.
        Sp::parse(Role::Answer, &out).unwrap_err();
        let mut out = Vec::new();
        Sp::push(Role::Ask, 7, b"abc", &mut out);
        assert_eq!(out, b"\0\0\0\0\0\0\0\x07\x80\0\0\x07abc");
        let message = Message { id: 0x8000_0007, payload: b"abc" };
        assert_eq!(Sp::parse(Role::Answer, &out), Ok(Some((Some(message), 15))));
        for cut in 0..out.len() {
            assert_eq!(Sp::parse(Role::Answer, &out[..cut]), Ok(None), "{cut}");
        }
        Sp::parse(Role::Pull, &[0, 0, 0, 0, 5, 0, 0, 0]).unwrap_err();
        Sp::parse(Role::Ask, b"\0\0\0\0\0\0\0\x04\0\0\0\x07").unwrap_err();
    }
}
