//! Arbitrary bytes as the messages of a login: PLAIN, SCRAM (first and final, of either side) and
//! OAUTHBEARER. Reading must not panic, what was read must be written and read as the same, and no login of
//! SCRAM may succeed, since the fuzzer does not know the password.
//!
//! Run: `cargo +nightly fuzz run sasl -- -max_len=2048 -rss_limit_mb=512`

#![no_main]

use libfuzzer_sys::fuzz_target;
use tailrace_identity::PlainLogin;
use tailrace_identity::oauth::{InitialResponse, is_failure_acknowledged};
use tailrace_identity::scram::message::{ClientFinal, ClientFirst, ServerFinal, ServerFirst};
use tailrace_identity::scram::{ScramMechanism, ScramStart, ScramVerifier};

fuzz_target!(|data: &[u8]| {
    let Some((&choice, message)) = data.split_first() else { return };
    match choice % 6 {
        0 => plain(message),
        1 => scram_first(message),
        2 => scram_login(message),
        3 => server(message),
        4 => bearer(message),
        _ => {
            let _ = ClientFinal::parse(message).map(|read| {
                let again = ClientFinal::parse(read.message().as_bytes());
                assert_eq!(again.map(|again| again.message()), Ok(read.message()));
            });
        }
    }
});

fn plain(message: &[u8]) {
    let Ok(login) = PlainLogin::parse(message) else { return };
    assert!(!login.user().as_str().is_empty() && !login.password().is_empty());
    assert!(login.accept(false).is_err());
}

fn scram_first(message: &[u8]) {
    let Ok(read) = ClientFirst::parse(message) else { return };
    let again = ClientFirst::parse(read.message().as_bytes()).expect("our own message is read");
    assert_eq!(again.message(), read.message());
    assert!(read.message().ends_with(&read.bare()));
}

/// The client's two messages, separated by a byte 0. The final one gets the server's part of the nonce in the
/// place of a `?`.
fn scram_login(messages: &[u8]) {
    let Some(at) = messages.iter().position(|byte| *byte == 0) else { return };
    for mechanism in ScramMechanism::ALL {
        let Ok(start) = ScramStart::parse(mechanism, &messages[..at]) else { return };
        let verifier = ScramVerifier::decoy(mechanism, &[7; 32], start.user().as_str());
        let (proof, challenge) = start.challenge(verifier, true, &[9; 24]);
        let challenge = ServerFirst::parse(&challenge).expect("our own message is read");
        let last = String::from_utf8_lossy(&messages[at + 1..]).replacen('?', &challenge.nonce, 1);
        assert!(proof.finish(last.as_bytes()).is_err());
    }
}

fn server(message: &[u8]) {
    if let Ok(read) = ServerFirst::parse(message) {
        assert_eq!(ServerFirst::parse(read.message().as_bytes()).map(|again| again.message()), Ok(read.message()));
    }
    if let Ok(read) = ServerFinal::parse(message) {
        assert_eq!(ServerFinal::parse(read.message().as_bytes()).map(|again| again.message()), Ok(read.message()));
    }
}

fn bearer(message: &[u8]) {
    let _ = is_failure_acknowledged(message);
    if let Ok(read) = InitialResponse::parse(message) {
        assert!(!read.token().is_empty());
        let _ = read.allows("alice");
    }
}
