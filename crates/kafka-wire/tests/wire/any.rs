//! Decodes and encodes a message whose type is known only by its key.

use bytes::Bytes;
use tailrace_kafka_wire::messages::with_request;
use tailrace_kafka_wire::{
    ApiKey, DecodeError, Message, Part, Reader, Request, RequestVisitor, Writer, decode_body,
};

use super::schema;

/// Decodes `bytes` as a body of `message` and encodes it again.
///
/// Panics if the encoding fails, because everything that was decoded can be encoded at the same version.
pub(crate) fn decode_and_encode(
    message: &schema::Message,
    version: i16,
    bytes: Bytes,
) -> Result<Bytes, DecodeError> {
    visit(message, Both { request: message.request, version, bytes })
}

/// Decodes `bytes` as a body of `message`.
pub(crate) fn decode(message: &schema::Message, version: i16, bytes: Bytes) -> Result<(), DecodeError> {
    visit(message, DecodeOnly { request: message.request, version, bytes })
}

fn visit<V: RequestVisitor>(message: &schema::Message, visitor: V) -> V::Output {
    let key = ApiKey::from_code(message.key).expect("a key");
    with_request(key, visitor).expect("a generated message")
}

struct Both {
    request: bool,
    version: i16,
    bytes: Bytes,
}

impl RequestVisitor for Both {
    type Output = Result<Bytes, DecodeError>;

    fn visit<R: Request>(self) -> Self::Output {
        if self.request { both::<R>(self) } else { both::<R::Response>(self) }
    }
}

fn both<M: Message>(Both { version, bytes, .. }: Both) -> Result<Bytes, DecodeError> {
    let value = decode_body::<M>(Reader::new(bytes), version)?;
    let mut writer = Writer::new();
    value.encode(&mut writer, version).unwrap_or_else(|e| panic!("{} v{version}: {e}", M::NAME));
    Ok(joined(&writer.into_parts()))
}

struct DecodeOnly {
    request: bool,
    version: i16,
    bytes: Bytes,
}

impl RequestVisitor for DecodeOnly {
    type Output = Result<(), DecodeError>;

    fn visit<R: Request>(self) -> Self::Output {
        let reader = Reader::new(self.bytes);
        if self.request {
            decode_body::<R>(reader, self.version).map(drop)
        } else {
            decode_body::<R::Response>(reader, self.version).map(drop)
        }
    }
}

/// Returns the parts, which must be in memory, as one piece.
pub(crate) fn joined(parts: &[Part]) -> Bytes {
    let mut whole = Vec::new();
    for part in parts {
        match part {
            Part::Bytes(bytes) => whole.extend_from_slice(bytes),
            Part::External { .. } => panic!("an external part"),
        }
    }
    whole.into()
}
