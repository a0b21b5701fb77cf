use super::*;

#[test]
fn rules_that_kafka_accepts_are_accepted() {
    for rule in [
        "topic:orders User:a allow read",
        "topic:* User:* deny all from 10.0.0.0/8",
        "cluster:kafka-cluster User:a allow alter from ::1",
        // Neither fits the kind. Such rules do nothing.
        "group:g User:a allow write",
        "user:u Group:x allow two-phase-commit",
        "topic:with/odd\u{7f}chars User: allow read",
        "subject:orders.*.> User:a allow all",
        "subject:> User:a deny write",
        "subject:orders.>+work*.> User:a allow read",
        "subject:a*b.c>d User:a allow read",
    ] {
        assert_eq!(acl(rule).check(), Ok(()), "{rule}");
    }
    let cluster = Acl { pattern: PatternKind::Prefixed, ..acl("cluster:kafka-cluster User:a allow all") };
    assert_eq!(cluster.check(), Ok(()));
    let long = Acl { name: "n".repeat(1024), ..acl("topic:t User:a allow read") };
    assert_eq!(long.check(), Ok(()));
}

#[test]
fn every_other_rule_is_refused_with_the_text_of_kafka_where_it_has_one() {
    for (rule, text) in [
        ("cluster:other User:a allow read", "The only valid name for the CLUSTER resource is kafka-cluster"),
        ("cluster:* User:a allow read", "The only valid name for the CLUSTER resource is kafka-cluster"),
        ("topic: User:a allow read", "Invalid empty resource name"),
        (
            "topic:t alice allow read",
            "Could not parse principal from `alice` (no colon is present separating the principal type from the \
             principal name)",
        ),
        ("topic:t User:a allow read from localhost", "The host \"localhost\" is neither an address"),
        ("topic:t User:a allow read from 10.0.0.1/8", "The host \"10.0.0.1/8\" is neither an address"),
        ("subject:a..b User:a allow read", "\"a..b\" is not a valid NATS subject"),
        ("subject:a.>.b User:a allow read", "\"a.>.b\" is not a valid NATS subject"),
        ("subject:.a User:a allow read", "\".a\" is not a valid NATS subject"),
        ("subject:a\tb User:a allow read", "\"a\\tb\" is not a valid NATS subject"),
        ("subject:a+ User:a allow read", "\"a \" is not a valid NATS subject"),
        ("subject:+a User:a allow read", "\" a\" is not a valid NATS subject"),
        ("subject:a++b User:a allow read", "\"a  b\" is not a valid NATS subject"),
        ("subject:a+b+c User:a allow read", "\"a b c\" is not a valid NATS subject"),
        ("subject:a+b..c User:a allow read", "\"a b..c\" is not a valid NATS subject"),
        ("subject:a+q User:a allow write", "\"a q\" names a queue group: only rules for READ may"),
        ("subject:a+q User:a deny all", "\"a q\" names a queue group: only rules for READ may"),
    ] {
        let error = acl(rule).check().expect_err(rule);
        assert!(error.to_string().starts_with(text), "{rule}: {error}");
        assert_eq!(Acls::default().insert(acl(rule)), Err(error));
    }
    let rule = acl("topic:t User:a allow read");
    let long = Acl { name: "n".repeat(1025), ..rule.clone() };
    assert_eq!(long.check(), Err(AclError::NameTooLong { bytes: 1025 }));
    let long = Acl { principal: format!("User:{}", "n".repeat(1020)), ..rule };
    assert_eq!(long.check(), Err(AclError::PrincipalTooLong { bytes: 1025 }));
    let words = |count: usize| acl(&format!("subject:{}> User:a allow read", "a.".repeat(count - 1)));
    assert_eq!(words(256).check(), Ok(()));
    assert_eq!(words(257).check(), Err(AclError::TooManyWords { words: 257 }));
    let prefixed = Acl { pattern: PatternKind::Prefixed, ..acl("subject:a User:a allow read") };
    assert_eq!(prefixed.check(), Err(AclError::PrefixedSubject));
}

#[test]
fn a_rule_in_a_log_cannot_forge_a_line() {
    let rule =
        Acl { name: "t\nallow everything".to_owned(), ..acl("topic:t User:a allow read from 10.0.0.1") };
    let expected = r#"allow "User:a" from "10.0.0.1" to read topic literal "t\nallow everything""#;
    assert_eq!(rule.to_string(), expected);
}
