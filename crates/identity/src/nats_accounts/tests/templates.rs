//! Scopes: the template of a signing key in place of the user's own permissions.

use serde_json::json;

use super::super::jwt::*;
use super::vectors::*;

#[test]
fn a_scope_fills_its_template_in_with_the_user() {
    let admitted = admit("main", "scoped", now()).unwrap();
    let rules = admitted.user.rules().unwrap();
    for subject in ["app.alice.x", "t.red.eu", "t.blue.us"] {
        assert!(rules.may_publish(subject.as_bytes()), "{subject}");
    }
    // `team:*` would bring a wildcard.
    for subject in ["app.bob.x", "t.green.eu", "t.*.eu", "default.x"] {
        assert!(!rules.may_publish(subject.as_bytes()), "{subject}");
    }
    assert!(rules.may_subscribe(format!("_INBOX_{}.>", key("user")).as_bytes(), None));
    assert!(rules.may_subscribe(format!("a.{}", key("account")).as_bytes(), None));
    assert!(!rules.may_subscribe(b"n. ", None) && !rules.may_subscribe(b"n", None));
    assert!(rules.denies(b"secret.alice", None));
    assert_eq!(rules.responses().unwrap().max, Some(3));
    // Of the template, and absent from it: the account's.
    assert_eq!((admitted.limits.payload_bytes, admitted.limits.subscriptions), (Some(1000), Some(100)));
}

#[test]
fn a_user_of_a_scope_has_no_permissions_of_its_own() {
    assert_eq!(admit("main", "scoped_with_permissions", now()), Err(UserDenied::ScopeWithPermissions));
}

#[test]
fn a_name_that_is_a_wildcard_gives_nothing() {
    // A denial that cannot be filled in must not be left out.
    assert!(matches!(admit("main", "scoped_star", now()), Err(UserDenied::Template { .. })));
}

/// Admits a user of a scope with this template.
fn with_template(
    template: serde_json::Value,
    name: &str,
    tags: &[String],
) -> Result<AccountUser, UserDenied> {
    let operator = signing_key(KeyKind::Operator, "operator");
    let signer = signing_key(KeyKind::Account, "account scope");
    let scope = json!({"kind": "user_scope", "key": signer.public(), "template": template});
    let claims = json!({"iss": operator.public(), "sub": key("account"), "iat": 1, "name": "app",
        "nats": {"type": "account", "version": 2, "signing_keys": [scope], "limits": {"subs": -1, "payload": -1}}});
    let account = AccountClaims::read(&forge(&operator, &claims)).unwrap();
    let claims = json!({"iss": signer.public(), "sub": key("user"), "iat": 1, "name": name,
        "nats": {"type": "user", "version": 2, "issuer_account": key("account"), "tags": tags}});
    account.recheck(&UserClaims::read(&forge(&signer, &claims)).unwrap(), tcp("10.0.0.1"), now())
}

#[test]
fn an_allow_list_of_which_nothing_is_left_denies_everything() {
    let user = with_template(json!({"sub": {"allow": ["x.{{tag(none)}}"]}}), "alice", &[]).unwrap();
    let rules = user.user.rules().unwrap();
    assert!(!rules.may_subscribe(b"x", None) && rules.denies(b"anything", None));
    assert!(rules.may_publish(b"anything"));
    // A template without limits has none.
    assert_eq!((user.limits.subscriptions, user.limits.payload_bytes), (None, None));
}

#[test]
fn values_are_not_read_again_as_templates() {
    let template = json!({"pub": {"allow": ["x.{{name()}}"]}});
    let user = with_template(template, "{{tag(a)}}", &["a:secret".to_owned()]).unwrap();
    assert!(!user.user.rules().unwrap().may_publish(b"x.secret"));
}

#[test]
fn values_with_wildcards_spaces_or_empty_words_are_left_out() {
    let template = json!({"pub": {"allow": ["x.{{name()}}.y"]}});
    for name in ["*", ">", "a.*", "a.>", "", ".", "a..b", "a b", "a\tb", "a\u{0}"] {
        let user = with_template(template.clone(), name, &[]).unwrap();
        let rules = user.user.rules().unwrap();
        assert!(!rules.may_publish(b"x.a.y") && !rules.may_publish(b"x.z.y"), "{name:?}");
    }
}

#[test]
fn unknown_functions_are_errors() {
    for place in ["{{password()}}", "{{name}}", "{{}}", "{{name(x)}}", "{{tag}}"] {
        let denied = with_template(json!({"pub": {"allow": [format!("x.{place}")]}}), "alice", &[]);
        assert!(matches!(denied, Err(UserDenied::Template { .. })), "{place}");
    }
    // Not closed: a text.
    let user = with_template(json!({"pub": {"allow": ["x.{{name("]}}), "alice", &[]).unwrap();
    assert!(user.user.rules().unwrap().may_publish(b"x.{{name("));
}

#[test]
fn templates_produce_at_most_4096_subjects() {
    let tags = |count: usize| {
        let of = |kind: &'static str| (0..count).map(move |at| format!("{kind}:{at}"));
        of("a").chain(of("b")).collect::<Vec<_>>()
    };
    let template = json!({"pub": {"allow": ["{{tag(a)}}.{{tag(b)}}"]}});
    let user = with_template(template.clone(), "alice", &tags(64)).unwrap();
    assert!(user.user.rules().unwrap().may_publish(b"63.63"));
    assert!(matches!(with_template(template, "alice", &tags(65)), Err(UserDenied::Template { .. })));
    // Many places would overflow the count.
    let many = json!({"pub": {"allow": [(0..16).map(|_| "{{tag(a)}}").collect::<Vec<_>>().join(".")]}});
    let user = with_template(many, "alice", &tags(64)).unwrap();
    // The same place has one value.
    let sevens = vec!["7"; 16].join(".");
    assert!(user.user.rules().unwrap().may_publish(sevens.as_bytes()));
    let many = (0..17).map(|at| format!("{{{{tag(a{at})}}}}")).collect::<Vec<_>>().join(".");
    let many = json!({"pub": {"allow": [many]}});
    assert!(matches!(with_template(many, "alice", &tags(2)), Err(UserDenied::Template { .. })));
}
