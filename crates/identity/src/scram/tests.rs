//! Whole logins, and messages with a wrong part.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::message::{ClientFinal, ClientFirst, MESSAGE_BYTES_MAX, ServerFinal, ServerFirst};
use super::{
    ITERATIONS_DEFAULT, ScramError, ScramMechanism, ScramProof, ScramStart, ScramVerifier, VerifierError,
};
use crate::garbled::garbled;
use crate::names::{UserName, UserNameError};

/// The login of RFC 7677, section 3.
const CLIENT_FIRST: &str = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
const SERVER_NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
const SALT: &str = "W22ZaJ0SNY7soEsUEjb6gQ==";
const SERVER_FIRST: &str =
    "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
const NONCE: &str = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
const PROOF_256: &str = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
const SERVER_FINAL_256: &str = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

/// The same login with SHA-512, computed with Python's hashlib and hmac.
const PROOF_512: &str =
    "gMGXRcevScNtxZ6/8lQYpGtnsNAc3mGcmNomv+xnoOMw+3R2xNJdMNnzMlTN8PPC6wdp6dybEmDYXYTxwnYPJQ==";
const SERVER_FINAL_512: &str =
    "v=ZQnYEgWQMFmmsM8aQMF0nDDCy/AgCzkwk8CmMZYcMg0vSVlKDanekLtifDSeVGT4+5ZxXnJq199RVG2rR7N7Zw==";

fn verifier(mechanism: ScramMechanism, password: &str) -> ScramVerifier {
    let salt = STANDARD.decode(SALT).unwrap();
    ScramVerifier::from_password(mechanism, password, &salt, ITERATIONS_DEFAULT).unwrap()
}

/// Challenges the client with the nonce of RFC 7677.
fn challenged(mechanism: ScramMechanism, verifier: ScramVerifier, may_log_in: bool) -> ScramProof {
    let start = ScramStart::parse(mechanism, CLIENT_FIRST.as_bytes()).unwrap();
    let (proof, challenge) = start.challenge_with(verifier, may_log_in, SERVER_NONCE);
    assert_eq!(str::from_utf8(&challenge), Ok(SERVER_FIRST));
    proof
}

/// What a client that knows the password answers.
fn answer(mechanism: ScramMechanism, password: &str, first: &ClientFirst, challenge: &[u8]) -> ClientFinal {
    let server = ServerFirst::parse(challenge).unwrap();
    let salted = mechanism.salted_password(password.as_bytes(), &server.salt, server.iterations);
    answer_with(mechanism, &mechanism.client_key(&salted), first, &server)
}

fn answer_with(
    mechanism: ScramMechanism,
    client_key: &[u8],
    first: &ClientFirst,
    server: &ServerFirst,
) -> ClientFinal {
    let mut last = ClientFinal {
        channel_binding: STANDARD.encode(first.gs2_header()),
        nonce: server.nonce.clone(),
        proof: Zeroizing::default(),
    };
    let signed = format!("{},{},{}", first.bare(), server.message(), last.without_proof());
    let signature = mechanism.hmac(&mechanism.hash(client_key), signed.as_bytes());
    last.proof = Zeroizing::new(client_key.iter().zip(signature.iter()).map(|(a, b)| a ^ b).collect());
    last
}

/// Ends a login, and returns the server's final message.
fn finished(login: ScramProof, client_final: &[u8]) -> Result<Vec<u8>, ScramError> {
    login.finish(client_final).map(|proven| proven.answer)
}

#[test]
fn an_older_password_counts_if_its_salt_and_iterations_are_those_of_the_challenge() {
    let mechanism = ScramMechanism::Sha256;
    let salt = STANDARD.decode(SALT).unwrap();
    let new = verifier(mechanism, "new pencil");
    let other_salt = ScramVerifier::from_password(mechanism, "pencil", b"salt", ITERATIONS_DEFAULT).unwrap();
    let more = ScramVerifier::from_password(mechanism, "pencil", &salt, ITERATIONS_DEFAULT + 1).unwrap();
    let pencil = verifier(mechanism, "pencil");
    let message = format!("c=biws,r={NONCE},p={PROOF_256}");
    for (previous, may_log_in, is_accepted) in [
        (Some(pencil.clone()), true, true),
        (Some(pencil.clone()), false, false),
        (None, true, false),
        (Some(other_salt), true, false),
        (Some(more), true, false),
        (Some(verifier(mechanism, "pencils")), true, false),
    ] {
        let found = challenged(mechanism, new.clone(), may_log_in).or(previous).finish(message.as_bytes());
        assert_eq!(found.is_ok(), is_accepted);
        if let Ok(proven) = found {
            assert!(proven.verifier == pencil, "the session depends on the password that was proven");
            assert_eq!(str::from_utf8(&proven.answer), Ok(SERVER_FINAL_256));
        }
    }
    let current = challenged(mechanism, pencil.clone(), true).or(Some(new)).finish(message.as_bytes());
    assert!(current.is_ok_and(|proven| proven.verifier == pencil));
}

#[test]
fn the_login_of_rfc_7677_succeeds_with_both_hashes() {
    for (mechanism, proof, expected) in [
        (ScramMechanism::Sha256, PROOF_256, SERVER_FINAL_256),
        (ScramMechanism::Sha512, PROOF_512, SERVER_FINAL_512),
    ] {
        let login = challenged(mechanism, verifier(mechanism, "pencil"), true);
        assert_eq!(login.user().as_str(), "user");
        let found = finished(login, format!("c=biws,r={NONCE},p={proof}").as_bytes()).unwrap();
        assert_eq!(str::from_utf8(&found), Ok(expected));
    }
}

#[test]
fn a_user_who_may_not_log_in_fails_like_one_with_a_wrong_password() {
    for (mechanism, proof) in [(ScramMechanism::Sha256, PROOF_256), (ScramMechanism::Sha512, PROOF_512)] {
        for (password, may_log_in, expected) in [
            ("pencil", true, Ok(())),
            ("pencil", false, Err(ScramError::WrongProof)),
            ("pencils", true, Err(ScramError::WrongProof)),
            ("pencils", false, Err(ScramError::WrongProof)),
        ] {
            let login = challenged(mechanism, verifier(mechanism, password), may_log_in);
            let found = finished(login, format!("c=biws,r={NONCE},p={proof}").as_bytes());
            assert_eq!(found.map(drop), expected);
        }
    }
}

#[test]
fn an_unknown_user_is_challenged_like_a_known_one_and_cannot_log_in() {
    for mechanism in ScramMechanism::ALL {
        let first = ClientFirst::parse(CLIENT_FIRST.as_bytes()).unwrap();
        // The decoy fails by itself, even if the caller says that the user may log in.
        for may_log_in in [false, true] {
            let start = ScramStart::parse(mechanism, CLIENT_FIRST.as_bytes()).unwrap();
            let decoy = ScramVerifier::decoy(mechanism, &[1; 32], start.user().as_str());
            let (login, challenge) = start.challenge(decoy, may_log_in, &[2; 24]);
            let last = answer(mechanism, "pencil", &first, &challenge);
            assert_eq!(finished(login, last.message().as_bytes()), Err(ScramError::WrongProof));
        }
    }
}

#[test]
fn every_legal_form_of_the_first_message_leads_to_a_login() {
    for (message, user, is_token) in [
        ("n,,n=alice,r=x", "alice", false),
        ("n,a=alice,n=alice,r=x", "alice", false),
        ("n,,n=a=2Cb=3Dc,r=x", "a,b=c", false),
        ("n,a=a=3D=2C,n=a=3D=2C,r=x", "a=,", false),
        ("n,,n=élève,r=!~", "élève", false),
        ("n,,n=token-id,r=x,tokenauth=true", "token-id", true),
        ("n,a=token-id,n=token-id,r=x,tokenauth=true", "token-id", true),
    ] {
        let mechanism = ScramMechanism::Sha256;
        let first = ClientFirst::parse(message.as_bytes()).unwrap();
        assert_eq!(first.message(), message);
        let start = ScramStart::parse(mechanism, message.as_bytes()).unwrap();
        assert_eq!((start.user().as_str(), start.is_token()), (user, is_token));
        let (login, challenge) = start.challenge(verifier(mechanism, "pencil"), true, &[3; 24]);
        let last = answer(mechanism, "pencil", &first, &challenge);
        assert!(finished(login, last.message().as_bytes()).is_ok(), "{message}");
    }
}

#[test]
fn first_messages_with_a_wrong_part_are_refused() {
    let expected = |expected| ScramError::Expected { expected };
    let header = || expected("the header n,,");
    let long = |bytes| "x".repeat(bytes);
    for (message, error) in [
        (String::new(), header()),
        ("n".to_owned(), header()),
        ("n,".to_owned(), header()),
        ("N,,n=user,r=abc".to_owned(), header()),
        (",,n=user,r=abc".to_owned(), header()),
        ("n=user,r=abc".to_owned(), header()),
        ("y,,n=user,r=abc".to_owned(), ScramError::ChannelBinding),
        ("p=tls-unique,,n=user,r=abc".to_owned(), ScramError::ChannelBinding),
        ("p=tls-exporter,a=user,n=user,r=abc".to_owned(), ScramError::ChannelBinding),
        ("n,a=admin,n=user,r=abc".to_owned(), ScramError::OtherUser),
        ("n,a=User,n=user,r=abc".to_owned(), ScramError::OtherUser),
        ("n,a=user=3D,n=user,r=abc".to_owned(), ScramError::OtherUser),
        ("n,a=,n=user,r=abc".to_owned(), expected("a user's name after a=")),
        ("n,user,n=user,r=abc".to_owned(), expected("a= and a user's name, or nothing")),
        ("n,,m=x,n=user,r=abc".to_owned(), ScramError::MandatoryExtension),
        ("n,,n=user,m=x,r=abc".to_owned(), ScramError::MandatoryExtension),
        ("n,,n=user,r=abc,m=x".to_owned(), ScramError::MandatoryExtension),
        ("n,,".to_owned(), expected("n=")),
        ("n,,r=abc".to_owned(), expected("n=")),
        ("n,,N=user,r=abc".to_owned(), expected("n=")),
        ("n,,r=abc,n=user".to_owned(), expected("n=")),
        ("n,,n=,r=abc".to_owned(), expected("n=")),
        ("n,,n=user".to_owned(), expected("r=")),
        ("n,,n=user,".to_owned(), expected("r=")),
        ("n,,n=user,r=".to_owned(), expected("r=")),
        ("n,,n=us,er,r=abc".to_owned(), expected("r=")),
        ("n,,n=a=b,r=abc".to_owned(), ScramError::Escape),
        ("n,,n=a=,r=abc".to_owned(), ScramError::Escape),
        ("n,,n=a=2,r=abc".to_owned(), ScramError::Escape),
        ("n,,n=a=2c,r=abc".to_owned(), ScramError::Escape),
        ("n,,n=a=41,r=abc".to_owned(), ScramError::Escape),
        ("n,,n=*,r=abc".to_owned(), ScramError::Name(UserNameError::Reserved)),
        ("n,,n=ANONYMOUS,r=abc".to_owned(), ScramError::Name(UserNameError::Reserved)),
        ("n,,n=a\nb,r=abc".to_owned(), ScramError::Name(UserNameError::Character)),
        (format!("n,,n={},r=abc", long(256)), ScramError::Name(UserNameError::TooLong { found: 256 })),
        ("n,,n=user,r=a b".to_owned(), ScramError::Nonce),
        ("n,,n=user,r=a\0b".to_owned(), ScramError::Nonce),
        ("n,,n=user,r=é".to_owned(), ScramError::Nonce),
        (format!("n,,n=user,r={}", long(257)), ScramError::Nonce),
        ("n,,n=user,r=abc,".to_owned(), ScramError::Extension),
        ("n,,n=user,r=abc,tokenauth=false".to_owned(), ScramError::Extension),
        ("n,,n=user,r=abc,tokenauth=true,".to_owned(), ScramError::Extension),
        ("n,,n=user,r=abc,tokenauth=true,tokenauth=true".to_owned(), ScramError::Extension),
        ("n,,n=user,r=abc,x=y".to_owned(), ScramError::Extension),
        ("n,,n=user,r=abc,n=admin".to_owned(), ScramError::Extension),
        (long(MESSAGE_BYTES_MAX + 1), ScramError::TooLong { found: MESSAGE_BYTES_MAX + 1 }),
    ] {
        let found = ScramStart::parse(ScramMechanism::Sha256, message.as_bytes());
        assert_eq!(found.err(), Some(error), "{message:?}");
    }
    assert_eq!(ClientFirst::parse(b"n,,n=\xff,r=abc"), Err(ScramError::NotUtf8));
}

#[test]
fn the_longest_first_message_is_legal() {
    let user = UserName::new(&"=".repeat(255)).unwrap();
    let first = ClientFirst { user, nonce: "x".repeat(256), has_authzid: true, is_token: true };
    let message = first.message();
    assert_eq!((message.len(), ClientFirst::parse(message.as_bytes())), (1_811, Ok(first)));
}

#[test]
fn a_nonce_that_is_not_the_whole_one_is_refused() {
    let (mechanism, client) = (ScramMechanism::Sha256, "rOprNGfwEbeRWgbNEkqO");
    let other_server = format!("{client}{}", SERVER_NONCE.replace('%', "&"));
    for nonce in [
        client.to_owned(),
        SERVER_NONCE.to_owned(),
        NONCE[..NONCE.len() - 1].to_owned(),
        format!("{NONCE}x"),
        format!("x{NONCE}"),
        other_server,
        NONCE.to_uppercase(),
    ] {
        let login = challenged(mechanism, verifier(mechanism, "pencil"), true);
        // The client proves that it knows the password, but for this nonce.
        let mut challenge = ServerFirst::parse(SERVER_FIRST.as_bytes()).unwrap();
        challenge.nonce.clone_from(&nonce);
        let first = ClientFirst::parse(CLIENT_FIRST.as_bytes()).unwrap();
        let last = answer(mechanism, "pencil", &first, challenge.message().as_bytes());
        assert_eq!(finished(login, last.message().as_bytes()), Err(ScramError::OtherNonce), "{nonce}");
    }
}

#[test]
fn final_messages_with_a_wrong_part_are_refused() {
    let expected = |expected| ScramError::Expected { expected };
    let (right, wrong) = (PROOF_256, PROOF_256.replacen('d', "e", 1));
    let base64 = |bytes| STANDARD.encode(vec![0; bytes]);
    for (message, error) in [
        (String::new(), expected("c=")),
        (format!("r={NONCE},p={right}"), expected("c=")),
        (format!("c=,r={NONCE},p={right}"), expected("c=")),
        (format!("c=biws,p={right}"), expected("r=")),
        (format!("c=biws,r=,p={right}"), expected("r=")),
        (format!("r={NONCE},c=biws,p={right}"), expected("c=")),
        (format!("c=biws,r={NONCE}"), expected("p=")),
        (format!("c=biws,r={NONCE},p="), expected("p=")),
        (format!("c=biws,r={NONCE},P={right}"), expected("p=")),
        (format!("c=biws,r={NONCE},x=y,p={right}"), expected("p=")),
        (format!("m=x,c=biws,r={NONCE},p={right}"), ScramError::MandatoryExtension),
        (format!("c=biws,m=x,r={NONCE},p={right}"), ScramError::MandatoryExtension),
        (format!("c=biws,r={NONCE},m=x,p={right}"), ScramError::MandatoryExtension),
        (format!("c=biws,r={NONCE},p={right},m=x"), ScramError::MandatoryExtension),
        (format!("c=biws,r={NONCE},p={right},"), ScramError::Extension),
        (format!("c=biws,r={NONCE},p={right},x=y"), ScramError::Extension),
        (format!("c=eSws,r={NONCE},p={right}"), ScramError::OtherChannelBinding),
        (format!("c=cCws,r={NONCE},p={right}"), ScramError::OtherChannelBinding),
        (format!("c=bixhPXVzZXIs,r={NONCE},p={right}"), ScramError::OtherChannelBinding),
        (format!("c=biwt,r={NONCE},p={right}"), ScramError::OtherChannelBinding),
        (format!("c=biwsA,r={NONCE},p={right}"), ScramError::OtherChannelBinding),
        (format!("c=n,r={NONCE},p={right}"), ScramError::OtherChannelBinding),
        (format!("c=biws,r={NONCE} ,p={right}"), ScramError::Nonce),
        (format!("c=biws,r={},p={right}", "x".repeat(513)), ScramError::Nonce),
        (format!("c=biws,r=abc,p={right}"), ScramError::OtherNonce),
        (format!("c=biws,r={NONCE},p={wrong}"), ScramError::WrongProof),
        (format!("c=biws,r={NONCE},p={PROOF_512}"), ScramError::WrongProof),
        (format!("c=biws,r={NONCE},p={}", base64(0) + "AA=="), ScramError::WrongProof),
        (format!("c=biws,r={NONCE},p={}", base64(31)), ScramError::WrongProof),
        (format!("c=biws,r={NONCE},p={}", base64(32)), ScramError::WrongProof),
        (format!("c=biws,r={NONCE},p={}", base64(33)), ScramError::WrongProof),
        (format!("c=biws,r={NONCE},p={}", base64(256)), ScramError::Base64),
        (format!("c=biws,r={NONCE},p={}", right.trim_end_matches('=')), ScramError::Base64),
        (format!("c=biws,r={NONCE},p={}", right.replace("VQ=", "VR=")), ScramError::Base64),
        (format!("c=biws,r={NONCE},p=*{right}"), ScramError::Base64),
        ("x".repeat(MESSAGE_BYTES_MAX + 1), ScramError::TooLong { found: MESSAGE_BYTES_MAX + 1 }),
    ] {
        let login = challenged(ScramMechanism::Sha256, verifier(ScramMechanism::Sha256, "pencil"), true);
        assert_eq!(finished(login, message.as_bytes()), Err(error), "{message:?}");
    }
}

#[test]
fn every_bit_of_the_proof_counts() {
    for (mechanism, proof) in [(ScramMechanism::Sha256, PROOF_256), (ScramMechanism::Sha512, PROOF_512)] {
        let (verifier, proof) = (verifier(mechanism, "pencil"), STANDARD.decode(proof).unwrap());
        for bit in 0..proof.len() * 8 {
            let mut wrong = proof.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            let message = format!("c=biws,r={NONCE},p={}", STANDARD.encode(wrong));
            let login = challenged(mechanism, verifier.clone(), true);
            assert_eq!(finished(login, message.as_bytes()), Err(ScramError::WrongProof), "bit {bit}");
        }
    }
}

#[test]
fn a_proof_that_lacks_its_last_byte_is_refused_even_if_that_is_zero() {
    let (mechanism, verifier) = (ScramMechanism::Sha256, verifier(ScramMechanism::Sha256, "pencil"));
    let salted = mechanism.salted_password(b"pencil", verifier.salt(), verifier.iterations());
    let (client_key, mut tested) = (mechanism.client_key(&salted), 0);
    for number in 0..2_000 {
        let start = ScramStart::parse(mechanism, CLIENT_FIRST.as_bytes()).unwrap();
        let first = ClientFirst::parse(CLIENT_FIRST.as_bytes()).unwrap();
        let (login, challenge) = start.challenge_with(verifier.clone(), true, &number.to_string());
        let server = ServerFirst::parse(&challenge).unwrap();
        let mut last = answer_with(mechanism, &client_key, &first, &server);
        if last.proof.pop() == Some(0) {
            assert_eq!(finished(login, last.message().as_bytes()), Err(ScramError::WrongProof), "{number}");
            tested += 1;
        }
    }
    assert!(tested > 0);
}

#[test]
fn what_the_first_messages_said_is_part_of_the_proof() {
    let mechanism = ScramMechanism::Sha256;
    for (signed, sent) in [
        ("n,,n=token-id,r=x", "n,,n=token-id,r=x,tokenauth=true"),
        ("n,,n=token-id,r=x,tokenauth=true", "n,,n=token-id,r=x"),
        ("n,,n=alice,r=x", "n,,n=bob,r=x"),
    ] {
        let start = ScramStart::parse(mechanism, sent.as_bytes()).unwrap();
        let (login, challenge) = start.challenge(verifier(mechanism, "pencil"), true, &[3; 24]);
        let signed = ClientFirst::parse(signed.as_bytes()).unwrap();
        let last = answer(mechanism, "pencil", &signed, &challenge);
        assert_eq!(finished(login, last.message().as_bytes()), Err(ScramError::WrongProof), "{sent}");
    }
}

#[test]
#[should_panic(expected = "a verifier of the login's mechanism")]
fn a_verifier_of_another_mechanism_is_a_bug_of_the_caller() {
    let start = ScramStart::parse(ScramMechanism::Sha256, CLIENT_FIRST.as_bytes()).unwrap();
    let _ = start.challenge(verifier(ScramMechanism::Sha512, "pencil"), true, &[3; 24]);
}

#[test]
fn messages_of_a_server_with_a_wrong_part_are_refused() {
    let expected = |expected| ScramError::Expected { expected };
    let iterations = || expected("a number of iterations");
    for (message, error) in [
        (String::new(), expected("r=")),
        ("s=AAAA,i=4096".to_owned(), expected("r=")),
        ("r=a b,s=AAAA,i=4096".to_owned(), ScramError::Nonce),
        ("m=x,r=abc,s=AAAA,i=4096".to_owned(), ScramError::MandatoryExtension),
        ("r=abc,i=4096".to_owned(), expected("s=")),
        ("r=abc,s=,i=4096".to_owned(), expected("s=")),
        ("r=abc,s=AAA,i=4096".to_owned(), ScramError::Base64),
        ("r=abc,s=AAAA".to_owned(), expected("i=")),
        ("r=abc,s=AAAA,i=04096".to_owned(), iterations()),
        ("r=abc,s=AAAA,i=+4096".to_owned(), iterations()),
        ("r=abc,s=AAAA,i=4096 ".to_owned(), iterations()),
        ("r=abc,s=AAAA,i=4294971392".to_owned(), iterations()),
        ("r=abc,s=AAAA,i=1".to_owned(), ScramError::Verifier(VerifierError::TooFewIterations)),
        ("r=abc,s=AAAA,i=16385".to_owned(), ScramError::Verifier(VerifierError::TooManyIterations)),
        ("r=abc,s=AAAA,i=4096,x=y".to_owned(), ScramError::Extension),
    ] {
        assert_eq!(ServerFirst::parse(message.as_bytes()), Err(error), "{message:?}");
    }
    for (message, error) in [
        ("e=other-error", expected("v=")),
        ("v=", expected("v=")),
        ("v=A", ScramError::Base64),
        ("v=AAAA,x=y", ScramError::Extension),
        ("m=x,v=AAAA", ScramError::MandatoryExtension),
    ] {
        assert_eq!(ServerFinal::parse(message.as_bytes()).err(), Some(error), "{message}");
    }
    assert_eq!(ServerFinal::parse(SERVER_FINAL_256.as_bytes()).ok().unwrap().message(), SERVER_FINAL_256);
}

#[test]
fn garbled_messages_are_refused_or_written_with_the_same_bytes() {
    let client_final = format!("c=biws,r={NONCE},p={PROOF_256}");
    let token = "n,a=a=2Cb=3D,n=a=2Cb=3D,r=abc,tokenauth=true";
    let legal = [CLIENT_FIRST, token, SERVER_FIRST, &client_final, SERVER_FINAL_256].map(str::as_bytes);
    let mut parsed = [0; 4];
    for message in garbled(&legal) {
        let written = [
            ClientFirst::parse(&message).ok().map(|first| first.message()),
            ServerFirst::parse(&message).ok().map(|first| first.message()),
            ClientFinal::parse(&message).ok().map(|last| last.message()),
            ServerFinal::parse(&message).ok().map(|last| last.message()),
        ];
        for (written, count) in written.into_iter().zip(&mut parsed) {
            if let Some(written) = written {
                assert_eq!(written.as_bytes(), message);
                *count += 1;
            }
        }
    }
    assert!(parsed.iter().all(|count| *count > 100), "too few are legal to mean anything: {parsed:?}");
}

#[test]
fn garbled_final_messages_do_not_log_in() {
    let (mechanism, right) = (ScramMechanism::Sha256, format!("c=biws,r={NONCE},p={PROOF_256}"));
    let verifier = verifier(mechanism, "pencil");
    for message in garbled(&[right.as_bytes()]) {
        let logged_in = challenged(mechanism, verifier.clone(), true).finish(&message).is_ok();
        assert_eq!(logged_in, message == right.as_bytes(), "{}", String::from_utf8_lossy(&message));
    }
}
