//! NATS over WebSocket, for browsers: the upgrade of an HTTP request, and the stream of NATS bytes that
//! follows.
//!
//! `handshake` answers the request. `decoder` turns masked frames into the client's bytes, and `encoder` puts
//! the server's bytes into binary frames. `stream` connects both to the reads and writes of a NATS
//! connection. The two codecs do no I/O. As in nats-server, frames are only an envelope: their borders mean
//! nothing to NATS.
//!
//! Nothing is buffered without a limit. Bytes of a frame are passed on as they arrive. A compressed message
//! is inflated only as fast as the NATS parser reads it, up to a total limit, so that a few bytes cannot
//! become many in memory.
//!
//! Out of scope: MQTT, a separate port, and compression with a context that outlives a message.

mod closing;
mod cookies;
mod decoder;
mod encoder;
mod front;
#[cfg(fuzzing)]
pub mod fuzzing;
mod handshake;
mod serve;
mod stream;

pub(super) use closing::ClosingFrame;
pub(crate) use cookies::Cookies;
pub use front::WebSocketFront;

/// RFC 6455, section 5.2.
mod opcode {
    pub(super) const CONTINUATION: u8 = 0;
    pub(super) const TEXT: u8 = 1;
    pub(super) const BINARY: u8 = 2;
    pub(super) const CLOSE: u8 = 8;
    pub(super) const PING: u8 = 9;
    pub(super) const PONG: u8 = 10;
}

const FINAL: u8 = 0x80;
/// On the first frame of a message: the message is compressed (RFC 7692).
const COMPRESSED: u8 = 0x40;
const RESERVED: u8 = 0x30;
const MASKED: u8 = 0x80;

/// Longest payload of a control frame.
const CONTROL_BYTES_MAX: usize = 125;

/// The end of a compressed message, which its sender leaves out.
const DEFLATE_END: [u8; 4] = [0, 0, 0xff, 0xff];

/// RFC 6455, section 7.4.1.
mod status {
    pub(super) const NORMAL: u16 = 1000;
    pub(super) const GOING_AWAY: u16 = 1001;
    pub(super) const PROTOCOL_ERROR: u16 = 1002;
    pub(super) const INVALID_DATA: u16 = 1007;
    pub(super) const POLICY_VIOLATION: u16 = 1008;
    pub(super) const TOO_BIG: u16 = 1009;
    pub(super) const SERVER_ERROR: u16 = 1011;
}

/// Limits on what one client sends.
#[derive(Clone, Copy, Debug)]
struct WebSocketLimits {
    /// Longest frame. Frames are not buffered, so this rejects nonsense and does not save memory.
    frame_bytes_max: u64,
    /// Most bytes that one compressed message may become.
    inflated_bytes_max: u64,
}

impl WebSocketLimits {
    /// Takes nats-server's limit for compressed messages, but at least a whole publish.
    fn of(payload_max: usize) -> Self {
        let payload = payload_max as u64;
        let bytes = (8 * payload).min(64 << 20).max(payload + (1 << 20));
        Self { frame_bytes_max: bytes.max(64 << 20), inflated_bytes_max: bytes }
    }
}

/// A client's error. The text is sent in the closing frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum WebSocketError {
    #[error("reserved bits are set")]
    Reserved,
    #[error("compression was not negotiated")]
    NotNegotiated,
    #[error("mask bit missing")]
    Unmasked,
    #[error("unknown opcode {0}")]
    Opcode(u8),
    #[error("a control frame must be whole, uncompressed, and of at most 125 bytes")]
    Control,
    #[error("a continuation frame without a message")]
    Continuation,
    #[error("a new message started within another")]
    Unfinished,
    #[error("a frame of {0} bytes is too long")]
    FrameLength(u64),
    #[error("a compressed message became too long")]
    Inflated,
    #[error("a compressed message is damaged")]
    Damaged,
    #[error("a malformed closing frame")]
    Close,
}

impl WebSocketError {
    fn status(self) -> u16 {
        match self {
            Self::FrameLength(_) | Self::Inflated => status::TOO_BIG,
            Self::Damaged => status::INVALID_DATA,
            Self::Reserved
            | Self::NotNegotiated
            | Self::Unmasked
            | Self::Opcode(_)
            | Self::Control
            | Self::Continuation
            | Self::Unfinished
            | Self::Close => status::PROTOCOL_ERROR,
        }
    }
}

#[cfg(test)]
mod tests;
