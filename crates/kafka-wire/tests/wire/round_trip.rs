//! Decoding and encoding returns the same bytes for every message at every version.

use tailrace_kafka_wire::ApiKey;
use tailrace_kafka_wire::messages::GENERATED;

use super::{any, schema_data, vectors};

#[test]
fn a_random_message_decodes_and_encodes_to_the_same_bytes() {
    for vector in vectors::all(12, 1) {
        let encoded = any::decode_and_encode(vector.message, vector.version, vector.bytes.clone());
        assert_eq!(encoded.as_ref(), Ok(&vector.bytes), "{} v{}", vector.message.name(), vector.version);
    }
}

#[test]
fn the_description_covers_every_generated_message() {
    let described: Vec<_> =
        schema_data::MESSAGES.iter().filter(|message| message.request).map(|message| message.key).collect();
    let generated: Vec<_> = GENERATED.iter().map(|key| key.code()).collect();
    assert_eq!(described, generated);
    for message in schema_data::MESSAGES {
        let versions = ApiKey::from_code(message.key).expect("a key").versions();
        assert_eq!(message.versions, (versions.min, versions.max), "{}", message.name());
    }
}

#[test]
fn a_byte_after_the_message_is_an_error() {
    for vector in vectors::all(1, 2) {
        let mut longer = vector.bytes.to_vec();
        longer.push(0);
        let decoded = any::decode(vector.message, vector.version, longer.into());
        assert!(decoded.is_err(), "{} v{}", vector.message.name(), vector.version);
    }
}
