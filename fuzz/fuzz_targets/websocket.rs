//! Arbitrary bytes as what a browser sends: the headers of an upgrade, in lines, and frames, whole and in two
//! pieces. Nothing must panic, the result must not depend on how the bytes arrive, and a compressed message
//! must not become larger than its limit.
//!
//! Run: `cargo +nightly fuzz run websocket -- -max_len=2048 -rss_limit_mb=512`

#![no_main]

use libfuzzer_sys::fuzz_target;
use tailrace_nats::fuzzing::{websocket_frames, websocket_upgrade};

fuzz_target!(|data: &[u8]| {
    let [choice, cut, input @ ..] = data else { return };
    if choice & 1 == 0 {
        websocket_frames(input, usize::from(*cut), choice & 2 == 0);
        return;
    }
    let headers: Vec<_> = input
        .split(|byte| *byte == b'\n')
        .take(32)
        .filter_map(|line| {
            let at = line.iter().position(|byte| *byte == b':')?;
            Some((&line[..at], &line[at + 1..]))
        })
        .collect();
    websocket_upgrade(&headers, choice & 2 == 0);
});
