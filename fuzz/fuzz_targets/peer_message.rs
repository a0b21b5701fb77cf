//! Arbitrary bytes as a message from one replica to another, and as the membership change of an entry.
//! Decoding must not panic, and what was decoded must encode to bytes that decode to the same. For a
//! membership change, our parser and the engine's own must read the same.
//!
//! Run: `cargo +nightly fuzz run peer_message -- -max_len=4096 -rss_limit_mb=512`

#![no_main]

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use protobuf::Message as _;
use raft::eraftpb::ConfChangeV2;
use tailrace_replication::raft::{PeerMessage, fuzzing};

fuzz_target!(|data: &[u8]| {
    if let Some(change) = fuzzing::member_change(data) {
        let bytes = change.write_to_bytes().expect("writing to memory cannot fail");
        assert_eq!(fuzzing::member_change(&bytes).as_ref(), Some(&change));
        assert_eq!(ConfChangeV2::parse_from_bytes(data).expect("our parser accepted it"), change);
    }
    let Ok(message) = PeerMessage::decode(Bytes::copy_from_slice(data)) else { return };
    assert!(message.weight() <= data.len());
    let mut encoded = BytesMut::new();
    message.encode(&mut encoded);
    assert_eq!(encoded.len(), message.encoded_bytes());
    let again = PeerMessage::decode(encoded.freeze()).expect("our own encoding decodes");
    assert_eq!(again, message);
    if let Some(heartbeat) = message.heartbeat() {
        let back: PeerMessage = heartbeat.into();
        assert_eq!(back, message);
    }
});
