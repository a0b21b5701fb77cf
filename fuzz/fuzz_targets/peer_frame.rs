//! Arbitrary bytes as a frame from another node: a byte for the kind, then the payload. Decoding must not
//! panic, and what was decoded must encode to a frame that decodes to the same.
//!
//! Run: `cargo +nightly fuzz run peer_frame -- -max_len=4096 -rss_limit_mb=512`

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use tailrace_peers::fuzzing::peer_frame;

fuzz_target!(|data: &[u8]| {
    let Some((&kind, payload)) = data.split_first() else { return };
    peer_frame(kind, Bytes::copy_from_slice(payload));
});
