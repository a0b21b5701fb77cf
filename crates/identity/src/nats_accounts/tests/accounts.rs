//! What the claims of an account become.

use serde_json::{Value, json};

use super::super::jwt::*;
use super::super::*;
use super::vectors::*;

#[test]
fn exports_and_limits_are_read_as_they_were_written() {
    let claims = account("main");
    let definition = claims.definition();
    let find = |subject: &str| definition.exports.iter().find(|export| *export.subject == *subject).unwrap();
    assert_eq!(find("public.>").access, ExportAccess::Public);
    let private = find("private.*");
    assert_eq!((private.kind, &private.access), (ShareKind::Service, &ExportAccess::Token));
    assert_eq!((private.response, private.response_threshold_ms), (Response::Stream, Some(5_000)));
    assert_eq!(find("own.*.data").access, ExportAccess::TokenPosition(2));
    assert_eq!(definition.limits.connections, Some(10));
    assert_eq!(definition.limits.payload_bytes, None);
    // A key with a scope signs users only.
    assert!(definition.signing_keys.contains(&*key("account signing")));
    assert!(!definition.signing_keys.contains(&*key("account scope")));
    assert_eq!(claims.name(), "app");
}

#[test]
fn imports_are_turned_so_that_they_go_the_way_of_the_message() {
    let claims = account("importing");
    let find = |local: &str| {
        let imports = &claims.definition().imports;
        imports.iter().find(|import| import.local() == local.as_bytes()).unwrap()
    };
    assert_eq!(find("news.*").exported(), b"public.news.*");
    assert_eq!(find("news.*").mapping.map(b"public.news.x").unwrap(), b"news.x");
    let ask = find("ask");
    assert_eq!((ask.kind, ask.exported(), ask.share), (ShareKind::Service, b"private.one".as_slice(), true));
    assert_eq!(ask.mapping.map(b"ask").unwrap(), b"private.one");
}

#[test]
fn the_callout_of_an_account_is_read() {
    let callout = account("callout").definition().callout.clone().unwrap();
    assert_eq!(*callout.issuer, key("account"));
    assert_eq!(callout.xkey.as_deref(), Some(key("service curve").as_str()));
    assert!(!callout.is_asked_about(Some(&key("user"))));
    assert!(callout.is_asked_about(Some(&key("account"))) && callout.is_asked_about(None));
    assert_eq!(account("main").definition().callout, None);
}

#[test]
fn mappings_within_an_account_are_refused_and_say_so() {
    let error = AccountClaims::read(&text("account/mappings")).unwrap_err().to_string();
    assert_eq!(error, "mappings: mappings of subjects within an account are not supported");
}

/// Reads an account whose body is this.
fn read(mut nats: Value) -> Result<(), String> {
    let operator = signing_key(KeyKind::Operator, "operator");
    nats["type"] = "account".into();
    nats["version"] = 2.into();
    if nats.get("limits").is_none() {
        nats["limits"] = json!({"imports": -1, "exports": -1, "wildcards": true});
    }
    let claims = json!({"iss": operator.public(), "sub": key("account"), "iat": 1, "nats": nats});
    AccountClaims::read(&forge(&operator, &claims)).map(|_| ()).map_err(|error| error.to_string())
}

#[test]
fn what_cannot_be_is_refused_with_its_field() {
    let other = key("other account");
    let import = |rest: Value| {
        let mut import = json!({"account": other, "subject": "a.*", "type": "stream"});
        import.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        json!({"imports": [import]})
    };
    let export = |rest: Value| {
        let mut export = json!({"subject": "a.*", "type": "service"});
        export.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        json!({"exports": [export]})
    };
    for (nats, expected) in [
        (import(json!({})), ""),
        (import(json!({"to": "prefix"})), ""),
        (import(json!({"to": "prefix."})), ""),
        (import(json!({"to": "pre.*"})), "prefix"),
        (import(json!({"to": "x", "local_subject": "y.*"})), "local_subject replaces to"),
        (import(json!({"local_subject": "y"})), "exactly once"),
        (import(json!({"local_subject": "y.$2"})), "names wildcard 2"),
        (import(json!({"local_subject": "y.$1.$1"})), "exactly once"),
        (import(json!({"local_subject": "y.>"})), "exactly once"),
        (import(json!({"subject": "a..b"})), "not a valid subject"),
        (import(json!({"subject": "a b"})), "not a valid subject"),
        (import(json!({"share": true})), "share is for services"),
        (import(json!({"account": key("user")})), "kind Account"),
        (import(json!({"account": key("account")})), "cannot import from itself"),
        (import(json!({"type": "queue"})), "cannot be read"),
        (export(json!({})), ""),
        (export(json!({"response_type": "Chunked"})), ""),
        (export(json!({"response_type": "Other"})), "response_type"),
        (export(json!({"response_threshold": -1})), "negative"),
        (export(json!({"account_token_position": 2})), ""),
        (export(json!({"account_token_position": 1})), "not that of a *"),
        (export(json!({"account_token_position": 3})), "not that of a *"),
        (export(json!({"type": "stream", "response_threshold": 5})), "only services answer"),
        (export(json!({"subject": "a.>.b"})), "not a valid subject"),
        (json!({"signing_keys": [key("account signing"), key("account signing")]}), "twice"),
        (json!({"signing_keys": [key("user")]}), "kind Account"),
        (json!({"signing_keys": [{"kind": "other", "key": key("account signing")}]}), "user_scope"),
        (json!({"authorization": {"allowed_accounts": ["*"]}}), "need auth_users"),
        (json!({"authorization": {"auth_users": ["bob"]}}), "56 letters"),
        (json!({"authorization": {"auth_users": [key("user")], "xkey": key("user")}}), "kind Curve"),
        (json!({"default_permissions": {"pub": {"allow": ["a..b"]}}}), "not a valid subject"),
        (json!({"limits": {"imports": 0, "exports": 0}}), ""),
    ] {
        let found = read(nats.clone()).err().unwrap_or_default();
        assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{nats}: {found:?}");
    }
}

#[test]
fn an_account_keeps_its_operators_limits() {
    let exports = json!([{"subject": "a.*", "type": "stream"}, {"subject": "b", "type": "stream"}]);
    for (limits, expected) in [
        (json!({"exports": 2, "wildcards": true}), ""),
        (json!({"exports": 1, "wildcards": true}), "its limit is 1"),
        (json!({"exports": 2}), "do not allow wildcards"),
        (json!({"exports": -1}), ""),
        // What is absent is 0.
        (json!({"subs": -1}), "its limit is 0"),
    ] {
        let found = read(json!({"exports": exports, "limits": limits})).err().unwrap_or_default();
        assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{limits}: {found:?}");
    }
}

#[test]
fn every_list_has_a_bound() {
    let many = |count: usize, make: &dyn Fn(usize) -> Value| Value::Array((0..count).map(make).collect());
    let export = |at: usize| json!({"subject": format!("e{at}"), "type": "stream"});
    let import =
        |at: usize| json!({"account": key("other account"), "subject": format!("i{at}"), "type": "stream"});
    let keys = |at: usize| {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&at.to_le_bytes());
        Value::from(Nkey::new(KeyKind::Account, bytes).text())
    };
    let revocations = |count: usize| {
        let map = (0..count).map(|at| (format!("U{at}"), Value::from(1))).collect();
        Value::Object(map)
    };
    let patterns = |count: usize| many(count, &|at| format!("p{at}").into());
    for (field, enough, too_many) in [
        ("exports", many(1_024, &export), many(1_025, &export)),
        ("imports", many(1_024, &import), many(1_025, &import)),
        ("signing_keys", many(256, &keys), many(257, &keys)),
        ("revocations", revocations(16_384), revocations(16_385)),
        ("tags", many(1_024, &|_| "t".into()), many(1_025, &|_| "t".into())),
        (
            "default_permissions",
            json!({"pub": {"allow": patterns(4_096)}}),
            json!({"pub": {"allow": patterns(4_097)}}),
        ),
    ] {
        assert_eq!(read(json!({field: enough})), Ok(()), "{field}");
        assert!(read(json!({field: too_many})).unwrap_err().contains("at most"), "{field}");
    }
}

#[test]
fn exports_must_not_contradict_each_other() {
    let read = |a: Value, b: Value| read(json!({"exports": [a, b]})).err().unwrap_or_default();
    let stream = |subject: &str| json!({"subject": subject, "type": "stream"});
    let token = |subject: &str| json!({"subject": subject, "type": "stream", "token_req": true});
    let service = |subject: &str| json!({"subject": subject, "type": "service", "token_req": true});
    assert!(read(stream("a.*"), stream("a.*")).contains("exported twice"));
    assert!(read(stream("a.*"), token("a.b")).contains("overlaps"));
    assert!(read(token("a.>"), stream("a.b")).contains("overlaps"));
    assert_eq!(read(stream("a.*"), stream("a.b")), "");
    assert_eq!(read(stream("a.*"), service("a.*")), "");
    assert_eq!(read(stream("a.*"), token("b.*")), "");
}
