//! Whom claims let in, and whom not.

use super::super::jwt::*;
use super::vectors::*;

#[test]
fn a_user_of_the_account_is_let_in_under_the_name_of_both_keys() {
    let admitted = admit("main", "plain", now()).unwrap();
    assert_eq!(**admitted.user.name().unwrap(), format!("{}/{}", key("account"), key("user")));
    assert_eq!(admitted.account.as_str(), key("account"));
    assert_eq!(&*admitted.display_name, "alice");
    // The account's default permissions, and its limit of subscriptions.
    let rules = admitted.user.rules().unwrap();
    assert!(rules.may_publish(b"default.x") && !rules.may_publish(b"x"));
    assert_eq!(admitted.limits.subscriptions, Some(100));
    assert_eq!(admitted.limits.payload_bytes, None);
    assert_eq!(admitted.ends_at_s, None);
}

#[test]
fn the_accounts_signing_keys_may_issue_users_and_nobody_else() {
    assert!(admit("main", "by_key", now()).is_ok());
    // Without issuer_account the signing key itself would be the account.
    assert_eq!(user("key_only").account().as_str(), key("account signing"));
    for stranger in ["key_only", "by_other"] {
        assert_eq!(admit("main", stranger, now()), Err(UserDenied::Issuer), "{stranger}");
    }
}

#[test]
fn own_permissions_and_limits_apply() {
    let admitted = admit("main", "permissions", now()).unwrap();
    let rules = admitted.user.rules().unwrap();
    assert!(rules.may_publish(b"a.c") && !rules.may_publish(b"a.b") && !rules.may_publish(b"default.x"));
    assert!(rules.may_subscribe(b"c.x", Some(b"q.1")) && !rules.may_subscribe(b"c.x", Some(b"z")));
    let responses = rules.responses().unwrap();
    assert_eq!((responses.max, responses.expires_ms), (None, None));
    assert_eq!((admitted.limits.subscriptions, admitted.limits.payload_bytes), (Some(7), Some(9)));
}

#[test]
fn a_limit_that_is_absent_from_a_users_claims_is_zero() {
    let signer = signing_key(KeyKind::Account, "account");
    let claims = serde_json::json!({"iss": signer.public(), "sub": key("user"), "iat": now(),
        "nats": {"type": "user", "version": 2}});
    let claims = UserClaims::read(&forge(&signer, &claims)).unwrap();
    let admitted = account("main").recheck(&claims, tcp("10.0.0.1"), now()).unwrap();
    assert_eq!((admitted.limits.subscriptions, admitted.limits.payload_bytes), (Some(0), Some(0)));
}

#[test]
fn claims_end_at_their_second_and_begin_at_theirs() {
    let hour = now() + 3600;
    assert_eq!(admit("main", "expiring", hour - 1).unwrap().ends_at_s, Some(hour));
    assert_eq!(admit("main", "expiring", hour), Err(UserDenied::Expired));
    assert_eq!(admit("main", "early", hour - 1), Err(UserDenied::Early));
    assert!(admit("main", "early", hour).is_ok());
    assert!(admit("expiring", "plain", hour - 1).is_ok());
    let ended = admit("expiring", "plain", hour).unwrap_err();
    assert_eq!(ended.closing_text(), "Account Authentication Expired");
}

#[test]
fn the_nonce_must_be_signed_by_the_users_key() {
    let (account, user) = (account("main"), user("plain"));
    let (nonce, signature) = (text("nonce"), raw_signature());
    let admit = |nonce: &str, signature: Option<&str>| {
        account.admit(&user, Presented { nonce, signature }, tcp("10.0.0.1"), now()).map(|_| ())
    };
    assert_eq!(admit(&nonce, Some(&signature)), Ok(()));
    assert_eq!(admit(&nonce, None), Err(UserDenied::NoSignature));
    // Of another connection's nonce.
    assert_eq!(admit("AAAAAAAAAAAAAAB", Some(&signature)), Err(UserDenied::WrongSignature));
    for wrong in ["", "x", &signature[1..], &"A".repeat(10_000)] {
        assert_eq!(admit(&nonce, Some(wrong)), Err(UserDenied::WrongSignature), "{wrong}");
    }
}

#[test]
fn a_bearer_token_needs_no_signature_unless_the_account_forbids_such_tokens() {
    let presented = Presented { nonce: "x", signature: None };
    let admit = |name| account(name).admit(&user("bearer"), presented, tcp("10.0.0.1"), now());
    assert!(admit("main").is_ok());
    assert_eq!(admit("no_bearer"), Err(UserDenied::Bearer));
    // A connection that is open already has to go, too.
    assert_eq!(
        account("no_bearer").recheck(&user("bearer"), tcp("10.0.0.1"), now()),
        Err(UserDenied::Bearer)
    );
}

#[test]
fn users_come_from_their_networks_only() {
    for (address, expected) in [
        ("10.9.9.9", true),
        ("::ffff:10.9.9.9", true),
        ("2001:db8:1::", true),
        ("11.0.0.1", false),
        ("2001:db9::", false),
        ("::a09:909", false),
    ] {
        assert_eq!(admit_over("main", "src", tcp(address), now()).is_ok(), expected, "{address}");
    }
    let unknown = Connection { address: None, ..tcp("10.0.0.1") };
    assert_eq!(admit_over("main", "src", unknown, now()), Err(UserDenied::Address));
    assert!(admit_over("main", "plain", unknown, now()).is_ok());
}

#[test]
fn users_come_at_their_times_of_day_only_and_the_connection_ends_with_it() {
    let day = now() / 86_400 * 86_400 + 86_400;
    let at = |hour: i64, minute: i64| day + hour * 3600 + minute * 60;
    for (time, ends) in [
        (at(8, 1), Some(at(16, 0))),
        (at(15, 59), Some(at(16, 0))),
        (at(16, 0), None),
        (at(7, 59), None),
        (at(21, 59), None),
        // Across midnight.
        (at(23, 0), Some(at(26, 0))),
        (at(1, 0), Some(at(2, 0))),
        (at(2, 0), None),
    ] {
        let admitted = admit("main", "times", time);
        assert_eq!(admitted.as_ref().ok().map(|user| user.ends_at_s), ends.map(Some), "{time}");
    }
    assert_eq!(admit("main", "times", at(3, 0)), Err(UserDenied::Time));
    assert_eq!(admit("main", "zone", now()), Err(UserDenied::Location));
}

#[test]
fn users_use_their_kinds_of_connection_only() {
    let over = |kind| Connection { kind, ..tcp("10.0.0.1") };
    use ConnectionKind::{Kafka, Standard, WebSocket};
    assert!(admit_over("main", "websocket", over(WebSocket), now()).is_ok());
    for (user, kind) in [
        ("websocket", Standard),
        ("websocket", Kafka),
        // A list of which nothing exists here is not an empty list.
        ("mqtt", Standard),
        ("mqtt", WebSocket),
    ] {
        assert_eq!(admit_over("main", user, over(kind), now()), Err(UserDenied::ConnectionKind));
    }
    assert_eq!(admit("main", "proxy", now()), Err(UserDenied::NoProxy));
    let proxied = Connection { has_trusted_proxy: true, ..tcp("10.0.0.1") };
    assert!(admit_over("main", "proxy", proxied, now()).is_ok());
}

#[test]
fn only_operators_that_are_trusted_issue_accounts() {
    let check = |name: &str| trust().account(&text(&format!("account/{name}")), now()).map(|_| ());
    assert_eq!(check("main"), Ok(()));
    assert_eq!(check("by_key"), Ok(()));
    assert_eq!(check("by_stranger"), Err(ClaimError::Untrusted));
    assert!(matches!(check("by_itself"), Err(ClaimError::Token(TokenError::Key { field: "iss", .. }))));
    let hour = now() + 3600;
    assert!(trust().account(&text("account/expiring"), hour - 1).is_ok());
    assert_eq!(trust().account(&text("account/expiring"), hour).map(|_| ()), Err(ClaimError::Expired));
}

#[test]
fn a_strict_operator_issues_accounts_by_signing_keys_only() {
    let strict = OperatorTrust::read([text("operator/strict").as_str()]).unwrap();
    assert!(strict.account(&text("account/by_key"), now()).is_ok());
    let own = strict.account(&text("account/main"), now());
    assert_eq!(own.map(|_| ()), Err(ClaimError::NotASigningKey));
}

#[test]
fn an_operator_must_sign_itself_and_there_must_be_one() {
    assert!(OperatorTrust::read([]).is_err());
    assert!(OperatorTrust::read([text("account/main").as_str()]).is_err());
    let stranger = signing_key(KeyKind::Operator, "stranger");
    let claims = serde_json::json!({"iss": stranger.public(), "sub": key("operator"),
        "nats": {"type": "operator", "version": 2}});
    assert!(OperatorTrust::read([forge(&stranger, &claims).as_str()]).is_err());
    assert_eq!(trust().system_account().unwrap().as_str(), key("system account"));
}

#[test]
fn accounts_are_deleted_by_a_trusted_operator_only_and_never_the_system_account() {
    let deletion = |name: &str| trust().deletion(&text(&format!("deletion/{name}")), now());
    let plain = deletion("plain").unwrap();
    let names: Vec<_> = plain.accounts.iter().map(|name| name.as_str().to_owned()).collect();
    let mut expected = vec![key("account"), key("other account")];
    expected.sort();
    assert_eq!(names, expected);
    assert!(plain.issued_at_s >= now());
    assert!(matches!(deletion("system"), Err(ClaimError::SystemAccount { .. })));
    assert_eq!(deletion("by_stranger"), Err(ClaimError::Untrusted));
    assert!(deletion("for_other").is_err());
    // Claims of another type are no request.
    assert!(trust().deletion(&text("operator/plain"), now()).is_err());
}

/// Replaces one part of a token.
fn with_part(token: &str, at: usize, part: &str) -> String {
    let mut parts: Vec<_> = token.split('.').map(str::to_owned).collect();
    parts[at] = part.to_owned();
    parts.join(".")
}

#[test]
fn tokens_that_are_none_are_refused() {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let token = text("user/plain");
    let header = |text: &str| with_part(&token, 0, &URL_SAFE_NO_PAD.encode(text));
    for (token, expected) in [
        ("".to_owned(), TokenError::Parts),
        ("a.b".to_owned(), TokenError::Parts),
        (format!("{token}.x"), TokenError::Parts),
        (header(r#"{"typ":"JWT","alg":"ed25519"}"#), TokenError::Old),
        (header(r#"{"typ":"JWT","alg":"none"}"#), TokenError::Header),
        (header(r#"{"typ":"JWT","alg":"HS256"}"#), TokenError::Header),
        (header(r#"{"typ":"X","alg":"ed25519-nkey"}"#), TokenError::Header),
        (header("{}"), TokenError::Header),
        (header(&" ".repeat(600)), TokenError::Header),
        // Another header is another text that was signed.
        (header(r#"{"typ":"JWT", "alg":"ed25519-nkey"}"#), TokenError::Signature),
        (with_part(&token, 0, "="), TokenError::Base64 { part: "header" }),
        (with_part(&token, 1, "e30="), TokenError::Base64 { part: "payload" }),
        (with_part(&token, 2, "*"), TokenError::Base64 { part: "signature" }),
        (with_part(&token, 2, ""), TokenError::Signature),
        (with_part(&token, 2, "AAAA"), TokenError::Signature),
        (with_part(&token, 1, "e30"), TokenError::Type { expected: "user" }),
        (text("account/main"), TokenError::Type { expected: "user" }),
        ("a".repeat(70_000), TokenError::TooLong { found: 70_000, max: 65_536 }),
    ] {
        match UserClaims::read(&token) {
            // A header that is not base64 is not a header either.
            Err(UserDenied::Token(found)) => assert_eq!(found, expected, "{token:.60}"),
            other => panic!("{token:.60}: {other:?}"),
        }
    }
    assert!(matches!(
        AccountClaims::read(&"a".repeat(TOKEN_BYTES_MAX + 1)),
        Err(ClaimError::Token(TokenError::TooLong { .. }))
    ));
}

#[test]
fn each_bit_of_a_token_counts() {
    let token = text("user/plain").into_bytes();
    for at in (0..token.len()).step_by(7) {
        let mut changed = token.clone();
        changed[at] ^= 1;
        let Ok(changed) = String::from_utf8(changed) else { continue };
        assert!(UserClaims::read(&changed).is_err(), "{at}");
    }
}

#[test]
fn claims_of_version_1_are_refused() {
    let signer = signing_key(KeyKind::Account, "account");
    let with = |claims: serde_json::Value| UserClaims::read(&forge(&signer, &claims)).map(|_| ());
    let (iss, sub) = (signer.public(), key("user"));
    let old = serde_json::json!({"iss": iss, "sub": sub, "type": "user", "nats": {}});
    assert_eq!(with(old), Err(TokenError::Old.into()));
    let old = serde_json::json!({"iss": iss, "sub": sub, "nats": {"type": "user", "version": 1}});
    assert_eq!(with(old), Err(TokenError::Version { found: 1 }.into()));
    let newer = serde_json::json!({"iss": iss, "sub": sub, "nats": {"type": "user", "version": 3}});
    assert_eq!(with(newer), Err(TokenError::Version { found: 3 }.into()));
}
