//! Tokens: their form, and who signed them.

use serde_json::json;

use super::mint::{
    NOW_MS, Numbers, Signer, SigningKey, base64, claims, decoded, set, unsigned, validator, with,
};
use crate::oauth::algorithm::Algorithm;
use crate::oauth::{JsonError, Jwks, TokenError, TokenPart};

#[test]
fn tokens_of_every_algorithm_are_accepted() {
    let (rsa, p256, p384) = (SigningKey::rsa(), SigningKey::p256(), SigningKey::p384());
    let keys = set(&[rsa.jwk("r"), p256.jwk("p"), p384.jwk("q")]);
    for (key, kid, algorithm) in [
        (&rsa, "r", "RS256"),
        (&rsa, "r", "RS384"),
        (&rsa, "r", "RS512"),
        (&rsa, "r", "PS256"),
        (&rsa, "r", "PS384"),
        (&rsa, "r", "PS512"),
        (&p256, "p", "ES256"),
        (&p384, "q", "ES384"),
    ] {
        let token = validator(|_| ()).validate(&key.token(kid, algorithm, &claims()), &keys, NOW_MS).unwrap();
        assert_eq!((token.name.as_str(), token.expires_at_ms), ("alice", 2_000_000), "{algorithm}");
        assert_eq!(token.scopes.iter().map(String::as_str).collect::<Vec<_>>(), ["read", "write"]);
    }
}

/// The examples of RFC 7515 (appendices A.2 and A.3). Their headers name no key: only the signatures count.
#[test]
fn signatures_that_others_made_are_verified() {
    let keys = Jwks::parse(include_bytes!("../../../tests/fixtures/tokens/rfc7515.jwks")).unwrap();
    for (kid, algorithm, token) in [
        ("a2", Algorithm::Rs256, include_str!("../../../tests/fixtures/tokens/rfc7515-a2.jwt")),
        ("a3", Algorithm::Es256, include_str!("../../../tests/fixtures/tokens/rfc7515-a3.jwt")),
    ] {
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let public = &keys.get(kid).unwrap().public;
        assert!(public.verifies(algorithm, signed.as_bytes(), &decoded(signature)), "{kid}");
        assert!(!public.verifies(algorithm, &signed.as_bytes()[1..], &decoded(signature)), "{kid}");
    }
}

#[test]
fn the_key_decides_which_algorithms_are_possible() {
    let (rsa, p256, p384) = (SigningKey::rsa(), SigningKey::p256(), SigningKey::p384());
    let mut only = rsa.jwk("only");
    only["alg"] = json!("RS256");
    let keys = set(&[rsa.jwk("r"), p256.jwk("p"), p384.jwk("q"), only]);
    let validate = |token: &str| validator(|_| ()).validate(token, &keys, NOW_MS).map(|_| ());
    for (key, kid, algorithm) in [
        (&rsa, "r", "ES256"),
        (&p256, "p", "RS256"),
        (&p256, "p", "ES384"),
        (&p384, "q", "ES256"),
        (&p384, "q", "PS384"),
        (&rsa, "only", "PS256"),
        (&rsa, "only", "RS512"),
    ] {
        let found = validate(&key.token(kid, algorithm, &claims()));
        assert!(
            matches!(found, Err(TokenError::KeyAlgorithm { found }) if found == algorithm),
            "{algorithm}: {found:?}"
        );
    }
    assert_eq!(validate(&rsa.token("only", "RS256", &claims())), Ok(()));
    // The header says another algorithm of the same type than the one that signed.
    let text = rsa.raw("RS256", r#"{"alg":"PS256","kid":"r"}"#, &claims().to_string());
    assert_eq!(validate(&text), Err(TokenError::Signature));
}

#[test]
fn unsigned_tokens_and_those_signed_with_the_public_key_are_refused() {
    let rsa = SigningKey::rsa();
    let jwk = rsa.jwk("k");
    let keys = set(std::slice::from_ref(&jwk));
    let validate = |token: &str| validator(|_| ()).validate(token, &keys, NOW_MS).unwrap_err();
    for name in ["none", "None", "NONE", "", "HS256", "HS384", "HS512", "rs256", "ES512", "EdDSA", "RS256\n"]
    {
        let header = json!({ "alg": name, "kid": "k" }).to_string();
        let signed = unsigned(&header, &claims().to_string());
        let expected = TokenError::Algorithm { found: name.to_owned() };
        assert_eq!(validate(&format!("{signed}.")), expected);
        assert_eq!(validate(&rsa.raw("RS256", &header, &claims().to_string())), expected);
        for secret in
            [rsa.public_bytes(), jwk["n"].as_str().unwrap().as_bytes(), jwk.to_string().as_bytes(), b""]
        {
            let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
            let tag = ring::hmac::sign(&key, signed.as_bytes());
            assert_eq!(validate(&format!("{signed}.{}", base64(tag.as_ref()))), expected);
        }
    }
    let header = json!({ "alg": "RS256", "kid": "k" }).to_string();
    for signature in [vec![], vec![0; 256], vec![0xff; 256]] {
        let token = format!("{}.{}", unsigned(&header, &claims().to_string()), base64(&signature));
        assert_eq!(validate(&token), TokenError::Signature);
    }
}

/// An ECDSA signature of zeros was once valid in Java (CVE-2022-21449). One as ASN.1 is another encoding.
#[test]
fn ecdsa_signatures_of_zeros_and_in_another_encoding_are_refused() {
    let signer = Signer::new();
    let token = signer.key.token("k", "ES256", &claims());
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let signature = decoded(signature);
    let asn1 = [&[0x30, 68, 2, 32], &signature[..32], &[2, 32], &signature[32..]].concat();
    for signature in
        [vec![0; 64], vec![], asn1, [signature.as_slice(), &[0]].concat(), signature[..63].to_vec()]
    {
        let found = signer.validate(&format!("{signed}.{}", base64(&signature)));
        assert_eq!(found, Err(TokenError::Signature));
    }
}

#[test]
fn a_token_must_be_signed_with_the_key_that_it_names() {
    let (one, other) = (SigningKey::rsa(), SigningKey::other_rsa());
    let keys = set(&[one.jwk("one"), other.jwk("other")]);
    let validate = |token: &str| validator(|_| ()).validate(token, &keys, NOW_MS).map(|_| ());
    assert_eq!(validate(&one.token("one", "RS256", &claims())), Ok(()));
    assert_eq!(validate(&one.token("other", "RS256", &claims())), Err(TokenError::Signature));
    assert_eq!(validate(&other.token("one", "PS512", &claims())), Err(TokenError::Signature));
    let unknown = validate(&one.token("third", "RS256", &claims()));
    assert_eq!(unknown, Err(TokenError::UnknownKid { kid: "third".to_owned() }));
    let long = "k".repeat(1_000);
    assert_eq!(
        validate(&one.token(&long, "RS256", &claims())),
        Err(TokenError::UnknownKid { kid: long.clone() })
    );
    assert_eq!(validate(&one.token(&(long + "k"), "RS256", &claims())), Err(TokenError::KidTooLong));
    for kid in ["", r#","kid":7"#, r#","kid":null"#, r#","kid":["one"]"#] {
        let token = one.raw("RS256", &format!(r#"{{"alg":"RS256"{kid}}}"#), &claims().to_string());
        assert_eq!(validate(&token), Err(TokenError::NoKid), "{kid}");
    }
    // Keys that the token brings itself do not count (CVE-2018-0114).
    let foreign = SigningKey::p256();
    let header =
        json!({ "alg": "ES256", "kid": "mine", "jwk": foreign.jwk("mine"), "jku": "https://x", "x5c": [] });
    let found = validate(&foreign.raw("ES256", &header.to_string(), &claims().to_string()));
    assert_eq!(found, Err(TokenError::UnknownKid { kid: "mine".to_owned() }));
}

#[test]
fn a_header_that_is_incomplete_or_demands_extensions_is_refused() {
    let signer = Signer::new();
    let twice = |key: &str| TokenError::Json {
        part: TokenPart::Header,
        error: JsonError::Twice { key: key.to_owned() },
    };
    for (header, expected) in [
        (r#"{"kid":"k"}"#, TokenError::NoAlgorithm),
        (r#"{"alg":null,"kid":"k"}"#, TokenError::NoAlgorithm),
        (r#"{"alg":["ES256"],"kid":"k"}"#, TokenError::NoAlgorithm),
        (r#"{"alg":"ES256","kid":"k","crit":["b64"],"b64":false}"#, TokenError::Critical),
        (r#"{"alg":"ES256","kid":"k","crit":[]}"#, TokenError::Critical),
        (r#"{"alg":"ES256","kid":"k","crit":null}"#, TokenError::Critical),
        (r#"{"alg":"ES256","kid":"k","alg":"none"}"#, twice("alg")),
        (r#"{"alg":"ES256","kid":"k","kid":"k"}"#, twice("kid")),
        (r#"{"alg":"ES256","kid":"k","x":{"y":[{"z":1,"z":1}]}}"#, twice("z")),
        (
            r#"[{"alg":"ES256","kid":"k"}]"#,
            TokenError::Json { part: TokenPart::Header, error: JsonError::NotAnObject { found: "a list" } },
        ),
    ] {
        assert_eq!(signer.header(header), Err(expected), "{header}");
    }
    let many = format!(r#"{{"alg":"ES256","kid":"k","x":[{}0]}}"#, "0,".repeat(64));
    let error = JsonError::TooManyValues { values_max: 64 };
    assert_eq!(signer.header(&many), Err(TokenError::Json { part: TokenPart::Header, error }));
    assert!(signer.header(r#"{"alg":"ES256","kid":"k","typ":"at+jwt","x5t":"a"}"#).is_ok());
}

#[test]
fn a_token_has_three_parts_of_strict_base64url() {
    let signer = Signer::new();
    let token = signer.key.token("k", "ES256", &claims());
    let [header, claims, signature] = token.split('.').collect::<Vec<_>>()[..] else { panic!("{token}") };
    for text in [
        String::new(),
        ".".to_owned(),
        header.to_owned(),
        format!("{header}.{claims}"),
        format!("{token}."),
        format!(".{token}"),
        format!("{token}.{signature}"),
        format!("{header}..{claims}.{signature}"),
        format!("{token}.a.b"),
    ] {
        assert_eq!(signer.validate(&text), Err(TokenError::Parts), "{text}");
    }
    let base64_of = |part| Err(TokenError::Base64 { part });
    for added in ["=", "==", "\n", " ", "+", "/", "\u{e9}", "A", "AAAAA"] {
        let part = TokenPart::Header;
        assert!(signer.validate(&format!("{header}{added}{added}.{claims}.{signature}")).is_err());
        if added != "A" && added != "AAAAA" {
            assert_eq!(signer.validate(&format!("{added}{header}.{claims}.{signature}")), base64_of(part));
            let found = signer.validate(&format!("{token}{added}"));
            assert_eq!(found, base64_of(TokenPart::Signature), "{added}");
        }
    }
    // The last character has four bits that say nothing. They must be zero.
    let (start, last) = signature.split_at(signature.len() - 1);
    let next = char::from(last.as_bytes()[0] + 1);
    assert_eq!(signer.validate(&format!("{header}.{claims}.{start}{next}")), base64_of(TokenPart::Signature));
    assert!(matches!(signer.validate(&format!(".{claims}.{signature}")), Err(TokenError::Json { .. })));
    let found = 64 * 1024 + 1;
    assert_eq!(signer.validate(&"a".repeat(found)), Err(TokenError::TooLong { found }));
}

#[test]
fn a_token_that_was_cut_off_or_changed_anywhere_is_refused() {
    let signer = Signer::new();
    let token = signer.key.token("k", "ES256", &claims());
    for len in 0..token.len() {
        assert!(signer.validate(&token[..len]).is_err(), "{len}");
    }
    let mut numbers = Numbers(7);
    for at in 0..token.len() {
        let mut changed = token.clone().into_bytes();
        while changed[at] == token.as_bytes()[at] {
            changed[at] = b"ABCDEFabcdef0189-_.=+ "[numbers.below(22)];
        }
        let changed = String::from_utf8(changed).unwrap();
        assert!(signer.validate(&changed).is_err(), "{at}");
    }
}

#[test]
fn errors_do_not_show_the_token() {
    let signer = Signer::new();
    let token = signer.key.token("k", "ES256", &with("sub", json!("a\nb")));
    for text in [token.clone(), format!("{token}="), token.replace('.', "!"), token[1..].to_owned()] {
        let error = signer.validate(&text).unwrap_err();
        let shown = format!("{error} {error:?}");
        for part in token.split('.') {
            assert!(!shown.contains(&part[..16]), "{shown}");
        }
    }
}
