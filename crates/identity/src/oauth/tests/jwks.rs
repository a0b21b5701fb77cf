//! Key sets.

use serde_json::{Value, json};

use super::mint::{Numbers, SigningKey, base64, decoded, key_set};
use crate::oauth::{JsonError, Jwks, JwksError, SkipReason};

/// Why a set with a good key and this one skips the second.
fn skipped(key: Value) -> Option<SkipReason> {
    let set = key_set(&[SigningKey::p256().jwk("good"), key]);
    let jwks = Jwks::parse(set.as_bytes()).unwrap();
    assert_eq!(jwks.key_count() + jwks.skipped().len(), 2);
    jwks.skipped().first().map(|key| {
        assert_eq!(key.position, 2);
        key.reason
    })
}

fn changed(key: &Value, member: &str, value: Value) -> Value {
    let mut key = key.clone();
    key[member] = value;
    key
}

fn without(key: &Value, member: &str) -> Value {
    let mut key = key.clone();
    key.as_object_mut().unwrap().remove(member);
    key
}

#[test]
fn usable_keys_are_used() {
    let (rsa, p256, p384) =
        (SigningKey::rsa().jwk("a"), SigningKey::p256().jwk("b"), SigningKey::p384().jwk("c"));
    let zero_first = base64(&[&[0], decoded(rsa["n"].as_str().unwrap()).as_slice()].concat());
    for key in [
        rsa.clone(),
        p256.clone(),
        p384.clone(),
        without(&rsa, "use"),
        changed(&rsa, "alg", json!("PS512")),
        changed(&p256, "alg", json!("ES256")),
        changed(&p384, "alg", json!("ES384")),
        changed(&without(&p384, "use"), "key_ops", json!(["encrypt", "verify"])),
        changed(&rsa, "x5c", json!(["MIIC"])),
        changed(&rsa, "n", json!(zero_first)),
        changed(&rsa, "e", json!("Aw")),
        changed(&rsa, "kid", json!("k".repeat(1_000))),
    ] {
        assert_eq!(skipped(key.clone()), None, "{key}");
    }
}

#[test]
fn unusable_keys_are_skipped_and_named() {
    let (rsa, p256, p384) =
        (SigningKey::rsa().jwk("a"), SigningKey::p256().jwk("b"), SigningKey::p384().jwk("c"));
    let odd = |len: usize, first: u8| {
        let mut number = vec![1; len];
        number[0] = first;
        base64(&number)
    };
    for (key, expected) in [
        (json!("a"), SkipReason::NotAnObject),
        (without(&rsa, "kid"), SkipReason::NoKid),
        (changed(&rsa, "kid", json!("")), SkipReason::NoKid),
        (changed(&rsa, "kid", json!(7)), SkipReason::NoKid),
        (changed(&rsa, "kid", json!("k".repeat(1_001))), SkipReason::KidTooLong),
        (json!({ "kty": "oct", "kid": "a", "k": "c2VjcmV0", "alg": "HS256" }), SkipReason::Symmetric),
        (without(&rsa, "kty"), SkipReason::Type),
        (changed(&rsa, "kty", json!("rsa")), SkipReason::Type),
        (changed(&rsa, "kty", json!("OKP")), SkipReason::Type),
        (changed(&rsa, "d", json!("AQAB")), SkipReason::Private),
        (changed(&p256, "d", json!(null)), SkipReason::Private),
        (changed(&rsa, "use", json!("enc")), SkipReason::Use),
        (changed(&rsa, "use", json!(["sig"])), SkipReason::Use),
        (changed(&rsa, "key_ops", json!(["encrypt"])), SkipReason::Use),
        (changed(&rsa, "key_ops", json!("verify")), SkipReason::Use),
        (changed(&rsa, "alg", json!("RSA-OAEP")), SkipReason::Algorithm),
        (changed(&rsa, "alg", json!("HS256")), SkipReason::Algorithm),
        (changed(&rsa, "alg", json!("none")), SkipReason::Algorithm),
        (changed(&rsa, "alg", json!("ES256")), SkipReason::Algorithm),
        (changed(&rsa, "alg", json!(null)), SkipReason::Algorithm),
        (changed(&p256, "alg", json!("ES384")), SkipReason::Algorithm),
        (changed(&p384, "alg", json!("RS384")), SkipReason::Algorithm),
        (without(&rsa, "n"), SkipReason::Modulus),
        (changed(&rsa, "n", json!("AQAB=")), SkipReason::Modulus),
        (changed(&rsa, "n", json!(odd(128, 0x80))), SkipReason::Modulus),
        (changed(&rsa, "n", json!(odd(256, 0x7f))), SkipReason::Modulus),
        (changed(&rsa, "n", json!(odd(1_025, 0x80))), SkipReason::Modulus),
        (changed(&rsa, "n", json!(base64(&[0; 256]))), SkipReason::Modulus),
        (changed(&rsa, "n", json!(base64(&[0x80; 256]))), SkipReason::Modulus),
        (changed(&rsa, "n", json!("")), SkipReason::Modulus),
        (without(&rsa, "e"), SkipReason::Exponent),
        (changed(&rsa, "e", json!("")), SkipReason::Exponent),
        (changed(&rsa, "e", json!("AA")), SkipReason::Exponent),
        (changed(&rsa, "e", json!("AQ")), SkipReason::Exponent),
        (changed(&rsa, "e", json!("Ag")), SkipReason::Exponent),
        (changed(&rsa, "e", json!(odd(5, 1))), SkipReason::Exponent),
        (changed(&p256, "crv", json!("secp256k1")), SkipReason::Curve),
        (changed(&p256, "crv", json!("P-521")), SkipReason::Curve),
        (without(&p256, "crv"), SkipReason::Curve),
        (changed(&p256, "crv", json!("P-384")), SkipReason::Point),
        (changed(&p384, "crv", json!("P-256")), SkipReason::Point),
        (without(&p256, "y"), SkipReason::Point),
        (changed(&p256, "x", json!("")), SkipReason::Point),
        (changed(&p256, "x", json!(base64(&[1; 33]))), SkipReason::Point),
    ] {
        assert_eq!(skipped(key.clone()), Some(expected), "{key}");
    }
}

#[test]
fn a_set_that_is_malformed_or_too_large_or_ambiguous_is_refused() {
    let key = SigningKey::p256().jwk("a");
    let refused = |set: &str| Jwks::parse(set.as_bytes()).unwrap_err();
    for set in ["{}", r#"{"keys":{}}"#, r#"{"Keys":[]}"#] {
        assert_eq!(refused(set), JwksError::NoList, "{set}");
    }
    assert!(matches!(refused("[]"), JwksError::Json(JsonError::NotAnObject { .. })));
    assert!(matches!(refused(""), JwksError::Json(JsonError::Syntax { .. })));
    let twice = format!(r#"{{"keys":[{{"kty":"EC",{}]}}"#, &key.to_string().replacen('{', "", 1));
    assert_eq!(refused(&twice), JwksError::Json(JsonError::Twice { key: "kty".to_owned() }));
    assert_eq!(refused(r#"{"keys":[]}"#), JwksError::NoKey { skipped: Vec::new() });
    let other = SigningKey::rsa().jwk("a");
    assert_eq!(refused(&key_set(&[key.clone(), other])), JwksError::Twice { kid: "a".to_owned() });
    let encryption = changed(&key, "use", json!("enc"));
    assert_eq!(refused(&key_set(&[key.clone(), encryption])), JwksError::Twice { kid: "a".to_owned() });

    let keys =
        |count: usize| -> Vec<_> { (0..count).map(|n| changed(&key, "kid", json!(n.to_string()))).collect() };
    assert_eq!(Jwks::parse(key_set(&keys(256)).as_bytes()).unwrap().key_count(), 256);
    assert_eq!(refused(&key_set(&keys(257))), JwksError::TooManyKeys { found: 257 });
    let long = format!("{}{}", " ".repeat(1 << 20), key_set(std::slice::from_ref(&key)));
    assert_eq!(refused(&long), JwksError::TooLong { found: long.len() });
    let values = format!("{{\"keys\":[{}0]}}", "0,".repeat(9_000));
    assert!(matches!(refused(&values), JwksError::Json(JsonError::TooManyValues { .. })));
}

#[test]
fn an_error_names_the_keys_that_cannot_be_used_but_not_what_is_in_them() {
    let symmetric = json!({ "kty": "oct", "kid": "hs\n", "k": "c2VjcmV0" });
    let error = Jwks::parse(key_set(&[symmetric, json!({ "kty": "OKP" })]).as_bytes()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the key set has no usable key; key 1 (kid \"hs\\n\"): it is a symmetric key; \
         key 2: it has no kid, or one that is empty or not a text"
    );
}

#[test]
fn no_damaged_set_makes_the_parser_panic() {
    let keys = [SigningKey::rsa().jwk("a"), SigningKey::p384().jwk("b")];
    let set = key_set(&keys).into_bytes();
    let mut numbers = Numbers(1);
    let mut accepted = 0;
    for _ in 0..2_000 {
        let mut damaged = set.clone();
        for _ in 0..=numbers.below(3) {
            let at = numbers.below(damaged.len());
            damaged[at] = b"\"{}[],:\\0aA \xff"[numbers.below(13)];
        }
        damaged.truncate(damaged.len() - numbers.below(2) * numbers.below(damaged.len()));
        accepted += usize::from(Jwks::parse(&damaged).is_ok());
    }
    assert!((1..2_000).contains(&accepted), "{accepted}");
}
