//! Whole frames: length prefix, header and body.
//!
//! A frame arrives here complete and without its length prefix. The caller finds frames in the byte stream
//! and refuses those that are too long.

use bytes::{Bytes, BytesMut};

use crate::message::{Message, Request, Response};
use crate::{DecodeError, EncodeError, Part, Reader, RequestHeader, ResponseHeader, TaggedFields, Writer};

/// Length in bytes of a frame's length prefix.
pub const LENGTH_PREFIX_BYTES: usize = 4;

/// Initial capacity for a frame without records. Most frames need no second allocation.
const FRAME_BYTES_TYPICAL: usize = 256;

/// A length prefix of a frame that must not be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a frame of 1 to {bytes_max} bytes, found a length of {length}")]
pub struct FrameLengthError {
    /// The announced length.
    pub length: i32,
    /// The longest accepted frame, in bytes.
    pub bytes_max: u32,
}

/// Returns the number of bytes that follow a length prefix. Call this before receiving any of them or making
/// room for them.
///
/// # Errors
/// If the length is negative, zero or above `bytes_max`. Kafka then closes the connection, because there is
/// no way to answer.
pub fn frame_bytes(prefix: [u8; LENGTH_PREFIX_BYTES], bytes_max: u32) -> Result<u32, FrameLengthError> {
    let length = i32::from_be_bytes(prefix);
    match u32::try_from(length) {
        Ok(bytes) if 0 < bytes && bytes <= bytes_max => Ok(bytes),
        _ => Err(FrameLengthError { length, bytes_max }),
    }
}

/// An encoded frame, length prefix included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    parts: Vec<Part>,
    bytes: u64,
}

impl Frame {
    /// The parts in sending order. None is empty.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the parts in sending order. None is empty.
    pub fn into_parts(self) -> Vec<Part> {
        self.parts
    }

    /// Length in bytes, including the prefix and external parts.
    pub fn total_bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the frame as one piece. Copies it, unless it has a single part.
    ///
    /// # Errors
    /// The frame itself, if a part is external.
    pub fn into_bytes(mut self) -> Result<Bytes, Self> {
        if let [Part::Bytes(bytes)] = &mut self.parts[..] {
            return Ok(std::mem::take(bytes));
        }
        if self.parts.iter().any(|part| matches!(part, Part::External { .. })) {
            return Err(self);
        }
        let mut whole = BytesMut::with_capacity(self.parts.iter().map(Part::len).sum());
        for part in &self.parts {
            if let Part::Bytes(bytes) = part {
                whole.extend_from_slice(bytes);
            }
        }
        Ok(whole.freeze())
    }
}

/// Encodes a response frame.
///
/// # Errors
/// If a field cannot be encoded at `version`, or the frame exceeds 2 GiB.
pub fn response_frame<R: Response>(
    correlation_id: i32,
    version: i16,
    body: &R,
) -> Result<Frame, EncodeError> {
    let header = ResponseHeader { correlation_id, unknown_tagged_fields: TaggedFields::default() };
    let mut writer = begin();
    header.encode(&mut writer, R::KEY, version)?;
    body.encode(&mut writer, version)?;
    finish(writer)
}

/// Encodes a request frame.
///
/// # Errors
/// If a field cannot be encoded at `version`, or the frame exceeds 2 GiB.
pub fn request_frame<R: Request>(
    correlation_id: i32,
    client_id: Option<&str>,
    version: i16,
    body: &R,
) -> Result<Frame, EncodeError> {
    let header = RequestHeader {
        api_key: R::KEY,
        api_version: version,
        correlation_id,
        client_id: client_id.map(str::to_owned),
        unknown_tagged_fields: TaggedFields::default(),
    };
    let mut writer = begin();
    header.encode(&mut writer)?;
    body.encode(&mut writer, version)?;
    finish(writer)
}

/// Decodes the body of a request whose header has been read, and checks that nothing follows.
///
/// # Errors
/// If the version is unknown, the bytes are invalid, or bytes are left over.
pub fn decode_body<M: Message>(mut reader: Reader, version: i16) -> Result<M, DecodeError> {
    let body = M::decode(&mut reader, version)?;
    reader.finish()?;
    Ok(body)
}

/// Decodes a frame, without its length prefix, that responds to a request of type `R`. Also returns the
/// correlation id.
///
/// # Errors
/// If the version is unknown, the bytes are invalid, or bytes are left over.
pub fn decode_response<R: Request>(frame: Bytes, version: i16) -> Result<(i32, R::Response), DecodeError> {
    let mut reader = Reader::new(frame);
    let header = ResponseHeader::decode(&mut reader, R::KEY, version)?;
    Ok((header.correlation_id, decode_body(reader, version)?))
}

fn begin() -> Writer {
    let mut writer = Writer::with_capacity(FRAME_BYTES_TYPICAL);
    writer.i32(0);
    writer
}

fn finish(mut writer: Writer) -> Result<Frame, EncodeError> {
    writer.set_length_prefix()?;
    let bytes = writer.len();
    Ok(Frame { parts: writer.into_parts(), bytes })
}
