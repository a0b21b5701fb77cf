//! Tokens that are signed as they must be: what they say.

use serde_json::{Value, json};

use super::mint::{NOW_MS, Signer, claims, validator, with, without};
use crate::UserNameError;
use crate::oauth::{ClaimError, JsonError, TokenError, TokenPart};

#[test]
fn each_claim_must_be_there_and_of_its_type() {
    let signer = Signer::new();
    let missing = |claim: &str| TokenError::Claim(ClaimError::Missing { claim: claim.to_owned() });
    for claim in ["iss", "aud", "sub", "iat", "exp"] {
        assert_eq!(signer.claims(&without(claim)), Err(missing(claim)));
    }
    for claim in ["nbf", "scope", "jti"] {
        assert!(signer.claims(&without(claim)).is_ok(), "{claim}");
    }
    let values =
        [json!(null), json!(true), json!(7), json!("7"), json!(["7"]), json!([7]), json!({ "a": 7 })];
    let allowed = |claim: &str, value: &Value| match claim {
        "iss" | "sub" => value.is_string(),
        "aud" | "scope" => value.is_string() || *value == json!(["7"]),
        _ => value.is_number(),
    };
    for claim in ["iss", "aud", "sub", "iat", "exp", "nbf", "scope"] {
        for value in &values {
            let found = signer.claims(&with(claim, value.clone()));
            let is_of_type =
                matches!(&found, Err(TokenError::Claim(ClaimError::Type { claim: of, .. })) if of == claim);
            assert_eq!(is_of_type, !allowed(claim, value), "{claim} {value}: {found:?}");
        }
    }
    for claim in ["iat", "exp", "nbf"] {
        for value in [json!(-1), json!(1e300), json!(253_402_300_800_u64), json!(u64::MAX), json!(i64::MIN)] {
            let expected = TokenError::Claim(ClaimError::Time { claim: claim.to_owned() });
            assert_eq!(signer.claims(&with(claim, value.clone())), Err(expected), "{claim} {value}");
        }
    }
}

#[test]
fn issuer_and_audience_must_be_those_of_the_settings() {
    let signer = Signer::new();
    for issuer in ["https://idp/", "https://IDP", "https://idp2", "", " https://idp"] {
        let expected = TokenError::Claim(ClaimError::Issuer { found: issuer.to_owned() });
        assert_eq!(signer.claims(&with("iss", json!(issuer))), Err(expected));
    }
    for audience in [json!("kafka"), json!("events"), json!(["x", "kafka"]), json!(["events"])] {
        assert!(signer.claims(&with("aud", audience)).is_ok());
    }
    for audience in [json!(""), json!("Kafka"), json!("kafka events"), json!([]), json!(["x", "y"])] {
        let expected = Err(TokenError::Claim(ClaimError::Audience));
        assert_eq!(signer.claims(&with("aud", audience.clone())), expected, "{audience}");
    }
    let mixed = signer.claims(&with("aud", json!(["kafka", 7])));
    assert!(matches!(mixed, Err(TokenError::Claim(ClaimError::Type { .. }))), "{mixed:?}");
}

#[test]
fn a_token_is_valid_between_its_times_and_a_little_longer() {
    let signer = Signer::new();
    let token = signer.key.token("k", "ES256", &claims());
    let late = signer.key.token("k", "ES256", &with("nbf", json!(1_200.5)));
    let early = signer.key.token("k", "ES256", &with("nbf", json!(0)));
    let expired = ClaimError::Expired { at_ms: 2_000_000 };
    for (token, now_ms, expected) in [
        (&token, 970_000, Ok(())),
        (&token, 969_999, Err(ClaimError::NotYet { from_ms: 1_000_000 })),
        (&early, 969_999, Err(ClaimError::IssuedInFuture { at_ms: 1_000_000 })),
        (&late, 1_170_500, Ok(())),
        (&late, 1_170_499, Err(ClaimError::NotYet { from_ms: 1_200_500 })),
        (&token, 2_000_000, Ok(())),
        (&token, 2_029_999, Ok(())),
        (&token, 2_030_000, Err(expired.clone())),
        (&token, i64::MAX, Err(expired)),
        (&token, i64::MIN, Err(ClaimError::NotYet { from_ms: 1_000_000 })),
    ] {
        let found = validator(|_| ()).validate(token, &signer.keys, now_ms).map(|_| ());
        assert_eq!(found, expected.map_err(TokenError::Claim), "at {now_ms}");
    }
    let strict = validator(|settings| settings.clock_skew_ms = 0);
    assert!(strict.validate(&token, &signer.keys, 1_999_999).is_ok());
    assert!(strict.validate(&token, &signer.keys, 2_000_000).is_err());
}

#[test]
fn duplicate_claims_are_refused_at_every_level() {
    let signer = Signer::new();
    let header = r#"{"alg":"ES256","kid":"k"}"#;
    let text = claims().to_string();
    for (added, key) in [
        (r#""sub":"admin""#, "sub"),
        (r#""\u0073ub":"admin""#, "sub"),
        (r#""exp":9000"#, "exp"),
        (r#""realm":{"roles":[],"roles":[]}"#, "roles"),
    ] {
        for claims in
            [text.replacen('{', &format!("{{{added},"), 1), text.replacen('}', &format!(",{added}}}"), 1)]
        {
            let found = signer.validate(&signer.key.raw("ES256", header, &claims));
            let error = JsonError::Twice { key: key.to_owned() };
            assert_eq!(found, Err(TokenError::Json { part: TokenPart::Claims, error }), "{claims}");
        }
    }
    for claims in ["", "null", "[]", "{", "x", "\u{feff}{}"] {
        let found = signer.validate(&signer.key.raw("ES256", header, claims));
        assert!(
            matches!(found, Err(TokenError::Json { part: TokenPart::Claims, .. })),
            "{claims}: {found:?}"
        );
    }
}

#[test]
fn names_are_prefixed_and_those_that_no_user_may_have_are_refused() {
    let signer = Signer::new();
    let named = |prefix: &str, subject: &str| {
        let validator = validator(|settings| settings.name_prefix = prefix.to_owned());
        let token = signer.key.token("k", "ES256", &with("sub", json!(subject)));
        validator.validate(&token, &signer.keys, NOW_MS).map(|token| token.name.to_string())
    };
    assert_eq!(named("", "admin").as_deref(), Ok("admin"));
    assert_eq!(named("idp:", "admin").as_deref(), Ok("idp:admin"));
    assert_eq!(named("idp:", "ANONYMOUS").as_deref(), Ok("idp:ANONYMOUS"));
    for subject in ["", " ", "\t\n ", "\u{a0}"] {
        let expected = TokenError::Claim(ClaimError::BlankName { claim: "sub".to_owned() });
        assert_eq!(named("idp:", subject), Err(expected));
    }
    for (prefix, subject, expected) in [
        ("", "*", UserNameError::Reserved),
        ("", "ANONYMOUS", UserNameError::Reserved),
        ("ANON", "YMOUS", UserNameError::Reserved),
        ("idp:", "a\nb", UserNameError::Character),
        ("idp:", "a\0", UserNameError::Character),
        ("idp:", &"a".repeat(252), UserNameError::TooLong { found: 256 }),
    ] {
        assert_eq!(named(prefix, subject), Err(TokenError::Claim(ClaimError::Name(expected))), "{subject}");
    }
}

#[test]
fn names_and_scopes_come_from_the_claims_of_the_settings() {
    let signer = Signer::new();
    let validator = validator(|settings| {
        settings.subject_claim = "azp".to_owned();
        settings.scope_claim = "scp".to_owned();
    });
    let mut claims = with("azp", json!("orders"));
    claims["scp"] = json!(["a b", "c"]);
    let token = validator.validate(&signer.key.token("k", "ES256", &claims), &signer.keys, NOW_MS).unwrap();
    assert_eq!(token.name.as_str(), "orders");
    assert_eq!(token.scopes.into_iter().collect::<Vec<_>>(), ["a b", "c"]);
    let found =
        validator.validate(&signer.key.token("k", "ES256", &with("x", json!(1))), &signer.keys, NOW_MS);
    assert_eq!(found, Err(TokenError::Claim(ClaimError::Missing { claim: "azp".to_owned() })));
}

#[test]
fn scopes_have_no_blanks_and_no_duplicates() {
    let signer = Signer::new();
    let many: Vec<_> = (0..257).map(|n| n.to_string()).collect();
    for (scopes, expected) in [
        (json!(""), Ok(0)),
        (json!([]), Ok(0)),
        (json!("a"), Ok(1)),
        (json!(many[..256]), Ok(256)),
        (json!(" "), Err(ClaimError::BlankScope)),
        (json!("a  b"), Err(ClaimError::BlankScope)),
        (json!(["a", ""]), Err(ClaimError::BlankScope)),
        (json!(["a", " \t"]), Err(ClaimError::BlankScope)),
        (json!("a b a"), Err(ClaimError::ScopeTwice)),
        (json!(["a", "a"]), Err(ClaimError::ScopeTwice)),
        (json!(many), Err(ClaimError::TooManyScopes)),
        (json!(many.join(" ")), Err(ClaimError::TooManyScopes)),
    ] {
        let found = signer.claims(&with("scope", scopes.clone())).map(|token| token.scopes.len());
        assert_eq!(found, expected.map_err(TokenError::Claim), "{scopes}");
    }
}
