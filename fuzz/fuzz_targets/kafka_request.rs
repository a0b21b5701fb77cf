//! Arbitrary bytes as a Kafka request: header, then body by key and version. Decoding must not panic, and
//! what was decoded must encode to bytes that decode to the same.
//!
//! Run: `cargo +nightly fuzz run kafka_request -- -max_len=4096 -rss_limit_mb=512`

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use tailrace_kafka_wire::messages::with_request;
use tailrace_kafka_wire::{
    ApiKey, Message, Part, Reader, Request, RequestHeader, RequestVisitor, Writer, decode_body,
};

fuzz_target!(|data: &[u8]| {
    let mut reader = Reader::new(Bytes::copy_from_slice(data));
    let Ok(header) = RequestHeader::decode(&mut reader) else { return };
    decode_any(header.api_key, Body { reader, version: header.api_version });
});

struct Body {
    reader: Reader,
    version: i16,
}

fn decode_any(key: ApiKey, body: Body) {
    // Keys without messages are skipped.
    let _ = with_request(key, body);
}

impl RequestVisitor for Body {
    type Output = ();

    fn visit<R: Request>(self) {
        // Clients decode responses, so the same bytes are tried as a response, too.
        judge::<R::Response>(self.reader.clone(), self.version);
        judge::<R>(self.reader, self.version);
    }
}

fn judge<M: Message>(reader: Reader, version: i16) {
    let Ok(first) = decode_body::<M>(reader, version) else { return };
    let encoded = encode(&first, version);
    let second = decode_body::<M>(Reader::new(encoded.clone()), version).expect("our own encoding decodes");
    // Compare bytes, not values: NaN differs from itself.
    assert_eq!(encoded, encode(&second, version), "{} v{version}", M::NAME);
}

fn encode<M: Message>(message: &M, version: i16) -> Bytes {
    let mut writer = Writer::new();
    message.encode(&mut writer, version).expect("what was decoded can be encoded");
    let mut whole = Vec::new();
    for part in writer.into_parts() {
        match part {
            Part::Bytes(bytes) => whole.extend_from_slice(&bytes),
            Part::External { .. } => unreachable!("decoding yields no external records"),
        }
    }
    whole.into()
}
