//! Frames and methods of AMQP 0.9.1, as far as a load generator needs them.
//!
//! Numbers are big endian. A frame is a type, a channel, a length, the payload and an end mark.

/// Types of frames.
pub(super) const METHOD: u8 = 1;
pub(super) const HEADER: u8 = 2;
pub(super) const BODY: u8 = 3;
const HEARTBEAT: u8 = 8;
const END: u8 = 0xCE;

/// The largest frame to negotiate, RabbitMQ's own default.
pub(super) const FRAME_BYTES_MAX: usize = 131_072;

/// Bytes around the payload of a frame.
const FRAME_OVERHEAD: usize = 8;

/// Methods, as class and number.
pub(super) mod method {
    pub(in super::super) const CONNECTION_START: (u16, u16) = (10, 10);
    pub(in super::super) const CONNECTION_START_OK: (u16, u16) = (10, 11);
    pub(in super::super) const CONNECTION_TUNE: (u16, u16) = (10, 30);
    pub(in super::super) const CONNECTION_TUNE_OK: (u16, u16) = (10, 31);
    pub(in super::super) const CONNECTION_OPEN: (u16, u16) = (10, 40);
    pub(in super::super) const CONNECTION_OPEN_OK: (u16, u16) = (10, 41);
    pub(in super::super) const CONNECTION_CLOSE: (u16, u16) = (10, 50);
    pub(in super::super) const CHANNEL_OPEN: (u16, u16) = (20, 10);
    pub(in super::super) const CHANNEL_OPEN_OK: (u16, u16) = (20, 11);
    pub(in super::super) const CHANNEL_CLOSE: (u16, u16) = (20, 40);
    pub(in super::super) const QUEUE_DECLARE: (u16, u16) = (50, 10);
    pub(in super::super) const QUEUE_DECLARE_OK: (u16, u16) = (50, 11);
    pub(in super::super) const QUEUE_DELETE: (u16, u16) = (50, 40);
    pub(in super::super) const QUEUE_DELETE_OK: (u16, u16) = (50, 41);
    pub(in super::super) const BASIC_QOS: (u16, u16) = (60, 10);
    pub(in super::super) const BASIC_QOS_OK: (u16, u16) = (60, 11);
    pub(in super::super) const BASIC_CONSUME: (u16, u16) = (60, 20);
    pub(in super::super) const BASIC_CONSUME_OK: (u16, u16) = (60, 21);
    pub(in super::super) const BASIC_PUBLISH: (u16, u16) = (60, 40);
    pub(in super::super) const BASIC_DELIVER: (u16, u16) = (60, 60);
    pub(in super::super) const BASIC_ACK: (u16, u16) = (60, 80);
    pub(in super::super) const BASIC_NACK: (u16, u16) = (60, 120);
    pub(in super::super) const CONFIRM_SELECT: (u16, u16) = (85, 10);
    pub(in super::super) const CONFIRM_SELECT_OK: (u16, u16) = (85, 11);
}

/// A received frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    Method((u16, u16), &'a [u8]),
    /// The length of the body that follows.
    Header(u64),
    Body(&'a [u8]),
    Heartbeat,
}

/// Parses one frame. Also returns its size. `None` if it is not complete.
pub(super) fn parse(data: &[u8]) -> Result<Option<(Frame<'_>, usize)>, &'static str> {
    let Some((head, rest)) = data.split_first_chunk::<7>() else { return Ok(None) };
    let length = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
    if length > FRAME_BYTES_MAX {
        return Err("a frame of AMQP 0.9.1 within the agreed length");
    }
    let (Some(payload), Some(end)) = (rest.get(..length), rest.get(length)) else { return Ok(None) };
    if *end != END {
        return Err("the end mark of a frame");
    }
    const SHORT: &str = "a complete frame of AMQP 0.9.1";
    let frame = match head[0] {
        METHOD => {
            let (name, arguments) = payload.split_first_chunk::<4>().ok_or(SHORT)?;
            let number = |at: usize| u16::from_be_bytes([name[at], name[at + 1]]);
            Frame::Method((number(0), number(2)), arguments)
        }
        HEADER => Frame::Header(long(payload.get(4..).unwrap_or_default()).ok_or(SHORT)?),
        BODY => Frame::Body(payload),
        HEARTBEAT => Frame::Heartbeat,
        _ => return Err("a frame of AMQP 0.9.1"),
    };
    Ok(Some((frame, length + FRAME_OVERHEAD)))
}

/// The first 8 bytes as a number.
pub(super) fn long(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes))
}

/// Appends a frame whose payload `fill` writes.
pub(super) fn push_frame(out: &mut Vec<u8>, kind: u8, channel: u16, fill: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    out.extend_from_slice(&channel.to_be_bytes());
    let length_at = out.len();
    out.extend_from_slice(&[0; 4]);
    fill(out);
    let length = (out.len() - length_at - 4) as u32;
    out[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
    out.push(END);
}

/// Appends a method.
pub(super) fn push_method(
    out: &mut Vec<u8>,
    channel: u16,
    name: (u16, u16),
    fill: impl FnOnce(&mut Vec<u8>),
) {
    push_frame(out, METHOD, channel, |out| {
        out.extend_from_slice(&name.0.to_be_bytes());
        out.extend_from_slice(&name.1.to_be_bytes());
        fill(out);
    });
}

/// Appends a short string, cut to 255 bytes.
pub(super) fn push_short(out: &mut Vec<u8>, text: &str) {
    let bytes = &text.as_bytes()[..text.len().min(255)];
    out.push(bytes.len() as u8);
    out.extend_from_slice(bytes);
}

/// Appends a long string.
pub(super) fn push_long(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// A value of a table.
pub(super) enum Field<'a> {
    Text(&'a str),
    Number(i64),
}

/// Appends a table.
pub(super) fn push_table(out: &mut Vec<u8>, fields: &[(&str, Field<'_>)]) {
    let length_at = out.len();
    out.extend_from_slice(&[0; 4]);
    for (key, value) in fields {
        push_short(out, key);
        match value {
            Field::Text(text) => {
                out.push(b'S');
                push_long(out, text.as_bytes());
            }
            Field::Number(number) => {
                out.push(b'l');
                out.extend_from_slice(&number.to_be_bytes());
            }
        }
    }
    let length = (out.len() - length_at - 4) as u32;
    out[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends a message to the default exchange: method, header and as many body frames as it takes.
pub(super) fn push_publish(out: &mut Vec<u8>, queue: &str, persistent: bool, payload: &[u8]) {
    push_method(out, 1, method::BASIC_PUBLISH, |out| {
        out.extend_from_slice(&[0, 0]);
        push_short(out, "");
        push_short(out, queue);
        out.push(0);
    });
    push_frame(out, HEADER, 1, |out| {
        out.extend_from_slice(&60_u16.to_be_bytes());
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        // Sets only the delivery mode: 2 is persistent.
        out.extend_from_slice(&0x1000_u16.to_be_bytes());
        out.push(if persistent { 2 } else { 1 });
    });
    for part in payload.chunks(FRAME_BYTES_MAX - FRAME_OVERHEAD) {
        push_frame(out, BODY, 1, |out| out.extend_from_slice(part));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut out = Vec::new();
        let payload = vec![7; 300_000];
        push_publish(&mut out, "q", true, &payload);
        let (mut at, mut body, mut seen) = (0, Vec::new(), Vec::new());
        while let Some((frame, used)) = parse(&out[at..]).unwrap() {
            match frame {
                Frame::Body(part) => body.extend_from_slice(part),
                Frame::Header(length) => seen.push(length),
                Frame::Method(name, arguments) => {
                    assert_eq!(name, method::BASIC_PUBLISH);
                    assert_eq!(arguments, b"\0\0\0\x01q\0");
                }
                Frame::Heartbeat => unreachable!(),
            }
            at += used;
        }
        assert_eq!((at, body, seen), (out.len(), payload, vec![300_000]));
        for cut in 0..18 {
            assert_eq!(parse(&out[..cut]).unwrap(), None);
        }
    }

    #[test]
    fn rubbish_is_noticed() {
        for wrong in [
            &b"HTTP/1.1 400 Bad"[..],
            b"\x01\0\0\0\0\0\x04abcd!",
            b"\x01\0\0\0\0\0\x01a\xce",
            b"\x07\0\0\0\0\0\0\xce",
        ] {
            parse(wrong).unwrap_err();
        }
    }
}
