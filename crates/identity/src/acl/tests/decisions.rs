use super::Operation::{Alter, AlterConfigs, Create, Delete, Describe, DescribeConfigs, Read, Write};
use super::ResourceKind::{Group, Topic};
use super::*;

/// Decides by these rules, without `allow.everyone.if.no.acl.found`.
fn decides(rules: &[&str], user: &str, operation: Operation, name: &str) -> bool {
    authorizer(rules, false).decide(&who(user), operation, Topic, name).allowed
}

#[test]
fn a_deny_wins_wherever_it_stands() {
    for deny in ["topic:ab", "topic:a*", "topic:ab*", "topic:*"] {
        for allow in ["topic:ab", "topic:a*", "topic:ab*", "topic:*"] {
            for (denied, allowed) in [("User:u", "User:*"), ("User:*", "User:u"), ("User:u", "User:u")] {
                let rules =
                    [&*format!("{deny} {denied} deny read"), &*format!("{allow} {allowed} allow all")];
                assert!(!decides(&rules, "u", Read, "ab"), "{rules:?}");
                assert!(decides(&rules, "u", Write, "ab"), "{rules:?}");
            }
        }
    }
}

#[test]
fn names_match_literally_by_prefix_or_by_wildcard() {
    for (rule, matching, other) in [
        ("topic:orders", "orders", "orders.eu"),
        ("topic:orders", "orders", "order"),
        ("topic:orders*", "orders", "order"),
        ("topic:orders*", "orders.eu", "x.orders"),
        ("topic:*", "orders", ""),
        ("topic:*", "*", ""),
        // In Kafka, the wildcard does not match this name.
        ("topic:*", "*a", ""),
        // The prefix of one asterisk is no wildcard.
        ("topic:**", "*a", "orders"),
        ("topic:é*", "éa", "e"),
    ] {
        let rule = format!("{rule} User:u allow read");
        assert!(decides(&[&rule], "u", Read, matching), "{rule} {matching}");
        assert!(other.is_empty() || !decides(&[&rule], "u", Read, other), "{rule} {other}");
    }
    assert!(!authorizer(&["topic:* User:u allow all"], false).decide(&who("u"), Read, Group, "g").allowed);
}

#[test]
fn principals_are_compared_exactly_and_the_wildcard_is_everybody() {
    for (principal, user, expected) in [
        ("User:u", "u", true),
        ("User:u", "U", false),
        ("User:u", "uu", false),
        ("User:uu", "u", false),
        ("User:*", "u", true),
        ("User:*", ANONYMOUS, true),
        ("User:ANONYMOUS", ANONYMOUS, true),
        ("User:ANONYMOUS", "u", false),
        ("Group:u", "u", false),
        ("Group:*", "u", false),
        ("user:u", "u", false),
    ] {
        assert_eq!(
            decides(&[&format!("topic:t {principal} allow read")], user, Read, "t"),
            expected,
            "{principal}"
        );
    }
}

#[test]
fn an_allow_implies_describing_and_a_deny_implies_nothing() {
    for (operation, implied) in [
        (Read, Some(Describe)),
        (Write, Some(Describe)),
        (Delete, Some(Describe)),
        (Alter, Some(Describe)),
        (AlterConfigs, Some(DescribeConfigs)),
        (Create, None),
        (Describe, None),
        (DescribeConfigs, None),
    ] {
        let allow = format!("topic:t User:u allow {operation}");
        let deny = format!("topic:t User:u deny {operation}");
        for asked in Topic.operations() {
            let is_about = *asked == operation || implied == Some(*asked);
            assert_eq!(decides(&[&allow], "u", *asked, "t"), is_about, "{allow}: {asked}");
            let expected = *asked != operation;
            assert_eq!(
                decides(&[&deny, "topic:t User:u allow all"], "u", *asked, "t"),
                expected,
                "{deny}: {asked}"
            );
        }
    }
}

#[test]
fn an_unknown_address_meets_every_deny_and_no_allow_for_an_address() {
    let authorizer = authorizer(
        &[
            "topic:inside User:* allow read from 10.0.0.0/8",
            "topic:all User:* allow read",
            "topic:all User:* deny read from 10.0.0.1",
        ],
        false,
    );
    let nowhere = Requester { user: "u", address: None };
    let reads = |who: &Requester<'_>, name| authorizer.decide(who, Read, Topic, name).allowed;
    for (user, inside, all) in
        [("u@10.0.0.2", true, true), ("u@::ffff:10.0.0.1", true, false), ("u@11.0.0.1", false, true)]
    {
        assert_eq!((reads(&who(user), "inside"), reads(&who(user), "all")), (inside, all), "{user}");
    }
    assert_eq!((reads(&nowhere, "inside"), reads(&nowhere, "all")), (false, false));
}

#[test]
fn the_reason_is_what_decided() {
    let rules = ["topic:a User:u deny read", "topic:a User:u allow all", "topic:b* User:x allow read"];
    let (closed, open) = (authorizer(&rules, false), authorizer(&rules, true));
    let rule = |at: usize| acl(rules[at]);
    let (unnamed, named) = (Reason::Default { has_rules: false }, Reason::Default { has_rules: true });
    for (user, operation, name, allowed, reason) in [
        ("root", Read, "a", true, Reason::SuperUser),
        ("u", Read, "a", false, Reason::Rule(&rule(0))),
        ("u", Write, "a", true, Reason::Rule(&rule(1))),
        ("u", Read, "bb", false, named),
        ("x", Write, "bb", false, named),
    ] {
        let expected = Decision { allowed, reason };
        assert_eq!(closed.decide(&who(user), operation, Topic, name), expected);
        assert_eq!(open.decide(&who(user), operation, Topic, name), expected);
    }
    let expected = |allowed| Decision { allowed, reason: unnamed };
    assert_eq!(closed.decide(&who("u"), Read, Topic, "c"), expected(false));
    assert_eq!(open.decide(&who("u"), Read, Topic, "c"), expected(true));
    assert_eq!(open.decide(&who("u"), Read, Group, "a"), expected(true), "another kind");
    assert_eq!(
        Reason::Rule(&rule(0)).to_string(),
        r#"the rule: deny "User:u" from "*" to read topic literal "a""#
    );
}

#[test]
fn any_means_an_allow_that_no_deny_covers() {
    for (rules, allow_everyone, expected) in [
        (&[][..], false, false),
        (&[], true, true),
        (&["topic:a User:u allow write"], false, true),
        (&["topic:a User:u allow all"], false, true),
        (&["topic:a User:x allow write"], false, false),
        (&["topic:a User:u allow read"], false, false),
        (&["group:a User:u allow write"], false, false),
        (&["topic:a User:u allow write from 10.0.0.1"], false, false),
        (&["topic:a User:u allow write", "topic:a User:u deny write"], false, false),
        (&["topic:a User:u allow write", "topic:a User:u deny read"], false, true),
        (&["topic:a User:u allow write", "topic:a User:u deny write from 10.0.0.1"], false, true),
        (&["topic:ab User:u allow write", "topic:a* User:* deny all"], false, false),
        (&["topic:ab* User:u allow write", "topic:a* User:* deny all"], false, false),
        (&["topic:ab* User:u allow write", "topic:ab User:* deny all"], false, true),
        (&["topic:a* User:u allow write", "topic:ab* User:* deny all"], false, true),
        (&["topic:* User:u allow write", "topic:a* User:* deny all"], false, true),
        (&["topic:* User:u allow write", "topic:** User:* deny all"], false, true),
        (&["topic:a User:u allow write", "topic:* User:* deny write"], false, false),
        (&["topic:* User:u allow write", "topic:* User:u deny write"], false, false),
        // All topics have rules, so none is open to everybody.
        (&["topic:* User:x allow write"], true, false),
        (&["topic:a User:x allow write"], true, true),
        (&["topic:* User:u deny write"], true, false),
        // Subjects let a user write topics, too.
        (&["subject:orders.> User:u allow write"], false, true),
        (&["subject:orders.> User:u allow write", "subject:orders.* User:u deny write"], false, true),
        (&["subject:orders.* User:u allow write", "subject:orders.> User:u deny write"], false, false),
    ] {
        let authorizer = authorizer(rules, allow_everyone);
        assert_eq!(authorizer.allows_any(&who("u"), Write, Topic), expected, "{rules:?} {allow_everyone}");
        assert!(authorizer.allows_any(&who("root"), Write, Topic));
    }
}

#[test]
fn operations_are_kafkas_bits() {
    let all = authorizer(&["topic:* User:u allow all", "group:* User:u allow all"], false);
    let (user, root) = (who("u"), who("root"));
    assert_eq!(all.authorized_operations(&user, Topic, "t"), 3576);
    assert_eq!(all.authorized_operations(&user, Group, "g"), 3400);
    assert_eq!((all.cluster_operations(&user), all.cluster_operations(&root)), (0, 8096));
    for (rule, expected) in [
        ("topic:t User:u allow read", 1 << 3 | 1 << 8),
        ("topic:t User:u allow alter-configs", 1 << 10 | 1 << 11),
        ("topic:t User:u allow cluster-action", 0),
        ("topic:t User:u deny read", 0),
    ] {
        assert_eq!(authorizer(&[rule], false).authorized_operations(&user, Topic, "t"), expected, "{rule}");
    }
    for (rule, expected) in [
        ("cluster:kafka-cluster User:u allow create", 0),
        ("cluster:kafka-cluster User:u allow describe", 1 << 8),
        ("cluster:kafka-cluster User:u allow alter", 1 << 7 | 1 << 8),
        ("cluster:kafka-cluster User:u allow all", 8096),
    ] {
        assert_eq!(authorizer(&[rule], false).cluster_operations(&user), expected, "{rule}");
    }
}

#[test]
fn a_copy_keeps_its_version_and_its_rules() {
    let first = authorizer(&["topic:t User:u allow read"], false);
    let mut acls = first.acls().clone();
    assert!(acls.remove(&acl("topic:t User:u allow read")));
    let second = first.with_acls(acls, 2);
    assert_eq!((first.version(), second.version()), (1, 2));
    assert!(first.decide(&who("u"), Read, Topic, "t").allowed);
    assert!(!second.decide(&who("u"), Read, Topic, "t").allowed);
    assert!(second.decide(&who("root"), Read, Topic, "t").allowed);
}
