//! Arbitrary bytes as what a NATS client presents: CONNECT as JSON, and a public key, a nonce and a signature
//! in three lines. Nothing must panic, and no signature may be accepted, since the fuzzer has no key.
//!
//! Run: `cargo +nightly fuzz run nkey -- -max_len=1024 -rss_limit_mb=512`

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tailrace_identity::{Check, Credential, Users};
use tailrace_nats_wire::ConnectOptions;

const KEY: &str = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";

static USERS: LazyLock<Users> = LazyLock::new(|| {
    let mut users = Users::new([5; 48]);
    users.set_key(KEY).expect("a key");
    users
});

fuzz_target!(|data: &[u8]| {
    let _ = ConnectOptions::parse(data);
    let Ok(text) = str::from_utf8(data) else { return };
    let mut lines = text.splitn(3, '\n');
    let mut line = || lines.next().unwrap_or_default();
    let (key, nonce, signature) = (line(), line(), line());
    for key in [key, KEY] {
        let presented = Credential::Signature { key, nonce, signature };
        assert!(matches!(USERS.check(&presented), Check::Done(Err(_))), "{presented:?}");
    }
    let _ = Users::new([5; 48]).set_key(key);
});
