//! Decodes a client's frames into the bytes they carry, and into requests to the stream itself.
//!
//! Call [`Decoder::advance`] with what has arrived and with room for the output until it makes no progress.

use std::cell::RefCell;
use tailrace_types::usize_of;

use flate2::{Decompress, FlushDecompress, Status};

use super::{
    COMPRESSED, CONTROL_BYTES_MAX, DEFLATE_END, FINAL, MASKED, RESERVED, WebSocketError, WebSocketLimits,
    opcode,
};

/// Inflaters that each thread keeps for the next message, of about 50 KiB each.
const POOL: usize = 4;

thread_local! {
    static INFLATERS: RefCell<Vec<Decompress>> = const { RefCell::new(Vec::new()) };
}

/// The request of a control frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Answer with the same payload.
    Ping(Vec<u8>),
    /// The client closes. Echo the status, if there is one.
    Close(Option<u16>),
}

/// The progress of one call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Number of input bytes used.
    pub(super) taken: usize,
    /// Number of output bytes written.
    pub(super) given: usize,
    pub(super) event: Option<Event>,
}

/// The position of the input within the frames.
enum At {
    Header,
    Payload {
        left: u64,
        mask: [u8; 4],
        /// Number of bytes at the start of the input that are already unmasked.
        clear: usize,
        last: bool,
    },
    /// After the last frame of a compressed message. This many of the bytes that the sender left out were
    /// given to the inflater.
    Tail {
        given: usize,
    },
}

/// The decoder of one client's frames.
pub(super) struct Decoder {
    at: At,
    limits: WebSocketLimits,
    compression: bool,
    /// Whether a message has started and its last frame has not.
    in_message: bool,
    /// Set while a compressed message is being read.
    inflating: Option<Inflating>,
    ended: bool,
}

impl Decoder {
    pub(super) fn new(limits: WebSocketLimits, compression: bool) -> Self {
        Self { at: At::Header, limits, compression, in_message: false, inflating: None, ended: false }
    }

    /// Size of the longest header and a control frame's payload. The caller must offer this much input at
    /// once, if there is as much.
    pub(super) const INPUT_BYTES_MIN: usize = 14 + CONTROL_BYTES_MAX;

    /// Continues with `input`, unmasks it in place, and writes the client's bytes to `output`.
    ///
    /// # Errors
    /// The client's error. Nothing more may be read after it.
    pub(super) fn advance(
        &mut self,
        input: &mut [u8],
        output: &mut [u8],
    ) -> Result<Progress, WebSocketError> {
        let mut done = Progress::default();
        while !self.ended {
            let (rest, room) = (&mut input[done.taken..], &mut output[done.given..]);
            let step = match self.at {
                At::Header => self.header(rest)?,
                At::Payload { .. } => self.payload(rest, room)?,
                At::Tail { .. } => self.tail(room)?,
            };
            let Some(step) = step else { break };
            done.taken += step.taken;
            done.given += step.given;
            if step.event.is_some() {
                self.ended = matches!(step.event, Some(Event::Close(_)));
                done.event = step.event;
                break;
            }
        }
        Ok(done)
    }

    /// Reads a frame's header. `None` until the header, or a whole control frame, has arrived.
    fn header(&mut self, input: &mut [u8]) -> Result<Option<Progress>, WebSocketError> {
        let [first, second, rest @ ..] = &*input else { return Ok(None) };
        let (first, second) = (*first, *second);
        self.check_first(first)?;
        if second & MASKED == 0 {
            return Err(WebSocketError::Unmasked);
        }
        let (length, length_bytes) = match (second & !MASKED, rest) {
            (126, [a, b, ..]) => (u64::from(u16::from_be_bytes([*a, *b])), 2),
            (127, rest) if rest.len() >= 8 => {
                (u64::from_be_bytes(*rest.first_chunk().expect("eight bytes")), 8)
            }
            (126 | 127, _) => return Ok(None),
            (length, _) => (u64::from(length), 0),
        };
        let is_control = first & 0x08 != 0;
        if is_control && (length > CONTROL_BYTES_MAX as u64 || first & FINAL == 0 || first & COMPRESSED != 0)
        {
            return Err(WebSocketError::Control);
        }
        if length > self.limits.frame_bytes_max {
            return Err(WebSocketError::FrameLength(length));
        }
        let Some(mask) = rest.get(length_bytes..).and_then(|rest| rest.first_chunk::<4>()).copied() else {
            return Ok(None);
        };
        let taken = 2 + length_bytes + 4;
        if is_control {
            return control(first & 0x0f, &mut input[taken..], length, mask)
                .map(|found| found.map(|(bytes, event)| Progress { taken: taken + bytes, given: 0, event }));
        }
        self.begin(first, length, mask);
        Ok(Some(Progress { taken, ..Progress::default() }))
    }

    fn check_first(&self, first: u8) -> Result<(), WebSocketError> {
        if first & RESERVED != 0 {
            return Err(WebSocketError::Reserved);
        }
        if first & COMPRESSED != 0 && !self.compression {
            return Err(WebSocketError::NotNegotiated);
        }
        match first & 0x0f {
            opcode::CONTINUATION if !self.in_message || first & COMPRESSED != 0 => {
                Err(WebSocketError::Continuation)
            }
            opcode::TEXT | opcode::BINARY if self.in_message => Err(WebSocketError::Unfinished),
            opcode::CONTINUATION | opcode::TEXT | opcode::BINARY => Ok(()),
            opcode::CLOSE | opcode::PING | opcode::PONG => Ok(()),
            unknown => Err(WebSocketError::Opcode(unknown)),
        }
    }

    fn begin(&mut self, first: u8, left: u64, mask: [u8; 4]) {
        if first & COMPRESSED != 0 {
            self.inflating = Some(Inflating::begin());
        }
        let last = first & FINAL != 0;
        self.in_message = !last;
        self.at = At::Payload { left, mask, clear: 0, last };
    }

    /// Moves payload bytes. `None` if none can be moved.
    fn payload(&mut self, input: &mut [u8], output: &mut [u8]) -> Result<Option<Progress>, WebSocketError> {
        let At::Payload { left, mask, clear, last } = &mut self.at else { return Ok(None) };
        if *left == 0 {
            self.at = match (&self.inflating, *last) {
                (Some(_), true) => At::Tail { given: 0 },
                _ => At::Header,
            };
            return Ok(Some(Progress::default()));
        }
        let here = input.len().min(usize_of(*left));
        if here == 0 || output.is_empty() {
            return Ok(None);
        }
        if here > *clear {
            unmask(&mut input[*clear..here], mask);
            *clear = here;
        }
        let (taken, given) = match &mut self.inflating {
            None => {
                let bytes = here.min(output.len());
                output[..bytes].copy_from_slice(&input[..bytes]);
                (bytes, bytes)
            }
            Some(message) => message.inflate(&input[..here], output, self.limits.inflated_bytes_max)?,
        };
        *left -= taken as u64;
        *clear -= taken;
        if (taken, given) == (0, 0) {
            // The compressed stream ended before the message did.
            return Err(WebSocketError::Damaged);
        }
        Ok(Some(Progress { taken, given, event: None }))
    }

    /// Gives the inflater the bytes that the sender left out, until there is no more output.
    fn tail(&mut self, output: &mut [u8]) -> Result<Option<Progress>, WebSocketError> {
        let (At::Tail { given: tail }, Some(message)) = (&mut self.at, &mut self.inflating) else {
            return Ok(None);
        };
        if output.is_empty() {
            return Ok(None);
        }
        let (taken, given) =
            message.inflate(&DEFLATE_END[*tail..], output, self.limits.inflated_bytes_max)?;
        *tail += taken;
        if given == 0 && (taken == 0 || *tail == DEFLATE_END.len()) {
            if let Some(message) = self.inflating.take() {
                message.end();
            }
            self.at = At::Header;
        }
        Ok(Some(Progress { taken: 0, given, event: None }))
    }
}

/// The number of payload bytes, and the frame's request. `None` until all bytes have arrived.
type Control = Option<(usize, Option<Event>)>;

fn control(opcode: u8, input: &mut [u8], length: u64, mut mask: [u8; 4]) -> Result<Control, WebSocketError> {
    let length = usize_of(length);
    let Some(payload) = input.get_mut(..length) else { return Ok(None) };
    unmask(payload, &mut mask);
    let event = match opcode {
        opcode::PING => Some(Event::Ping(payload.to_vec())),
        opcode::PONG => None,
        _ => Some(Event::Close(close_status(payload)?)),
    };
    Ok(Some((length, event)))
}

fn close_status(payload: &[u8]) -> Result<Option<u16>, WebSocketError> {
    match payload {
        [] => Ok(None),
        [high, low, reason @ ..] => {
            let code = u16::from_be_bytes([*high, *low]);
            let is_legal = matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999);
            if !is_legal || std::str::from_utf8(reason).is_err() {
                return Err(WebSocketError::Close);
            }
            Ok(Some(code))
        }
        [_] => Err(WebSocketError::Close),
    }
}

/// Unmasks bytes, and rotates `mask` so that it fits the next byte.
fn unmask(bytes: &mut [u8], mask: &mut [u8; 4]) {
    let word = u64::from_ne_bytes([mask[0], mask[1], mask[2], mask[3], mask[0], mask[1], mask[2], mask[3]]);
    let mut chunks = bytes.chunks_exact_mut(8);
    for chunk in &mut chunks {
        let chunk: &mut [u8; 8] = chunk.try_into().expect("eight bytes");
        *chunk = (u64::from_ne_bytes(*chunk) ^ word).to_ne_bytes();
    }
    let rest = chunks.into_remainder();
    for (byte, key) in rest.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= key;
    }
    mask.rotate_left(rest.len() % 4);
}

/// A compressed message that is being read.
struct Inflating {
    inflater: Decompress,
    /// Size of the output so far.
    bytes: u64,
}

impl Inflating {
    /// Takes an inflater that the thread has kept, or creates one.
    fn begin() -> Self {
        let kept = INFLATERS.with_borrow_mut(Vec::pop);
        let mut inflater = kept.unwrap_or_else(|| Decompress::new(false));
        inflater.reset(false);
        Self { inflater, bytes: 0 }
    }

    /// Returns the numbers of bytes used and written. The whole message may become at most `bytes_max`.
    fn inflate(
        &mut self,
        input: &[u8],
        output: &mut [u8],
        bytes_max: u64,
    ) -> Result<(usize, usize), WebSocketError> {
        let inflater = &mut self.inflater;
        let (before_in, before_out) = (inflater.total_in(), inflater.total_out());
        let status =
            inflater.decompress(input, output, FlushDecompress::Sync).map_err(|_| WebSocketError::Damaged)?;
        let (taken, given) = (inflater.total_in() - before_in, inflater.total_out() - before_out);
        self.bytes += given;
        if self.bytes > bytes_max {
            return Err(WebSocketError::Inflated);
        }
        // A block marked as the last one is legal, and another stream may follow it.
        if status == Status::StreamEnd {
            inflater.reset(false);
        }
        Ok((usize_of(taken), usize_of(given)))
    }

    /// Keeps the inflater for the thread's next message.
    fn end(self) {
        INFLATERS.with_borrow_mut(|pool| {
            if pool.len() < POOL {
                pool.push(self.inflater);
            }
        });
    }
}
