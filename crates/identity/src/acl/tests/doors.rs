//! Topics and their subjects, by Kafka and by NATS.

use super::SubjectAccess::{Allowed, Filtered, Refused};
use super::*;

/// A topic that is bound to `orders.>` and `new.*`.
const ORDERS: TopicSubjects<'_, &str> = TopicSubjects { name: "orders", bindings: &["orders.>", "new.*"] };
/// A topic without bindings.
const PLAIN: TopicSubjects<'_, &str> = TopicSubjects { name: "plain", bindings: &[] };

fn reads_topic(rules: &[&str], allow_everyone: bool, topic: TopicSubjects<'_, &str>) -> bool {
    let authorizer = authorizer(rules, allow_everyone);
    authorizer.topic_by_kafka(&who("u"), Operation::Read, topic).allowed
}

#[test]
fn a_topic_is_read_by_kafka_if_it_is_allowed_as_a_whole() {
    for (rules, orders, plain) in [
        (&[][..], false, false),
        (&["topic:* User:u allow read"], true, true),
        (&["subject:> User:u allow read"], true, true),
        (&["subject:> User:u allow write"], false, false),
        (&["subject:> User:u allow describe"], false, false),
        (&["subject:> User:u allow read from 10.0.0.1"], false, false),
        // Every binding, the name, and all below it.
        (&["subject:orders.> User:u allow read", "subject:new.* User:u allow read"], false, false),
        (
            &[
                "subject:orders.> User:u allow read",
                "subject:new.> User:u allow read",
                "subject:orders User:* allow read",
            ],
            true,
            false,
        ),
        (&["subject:plain User:u allow read", "subject:plain.> User:u allow all"], false, true),
        (&["subject:plain User:u allow read", "subject:plain.* User:u allow read"], false, false),
        // One rule must cover a pattern. These two do so only together.
        (
            &[
                "subject:orders User:u allow read",
                "subject:new.> User:u allow read",
                "subject:orders.* User:u allow read",
                "subject:orders.*.> User:u allow read",
            ],
            false,
            false,
        ),
        // A queue group hears only a part.
        (&["subject:>+q User:u allow read"], false, false),
        // One denied subject closes the topic.
        (&["topic:* User:u allow read", "subject:orders.secret User:u deny read"], false, true),
        (&["topic:* User:u allow read", "subject:orders.secret User:u deny all"], false, true),
        (&["topic:* User:u allow read", "subject:orders.secret User:u deny write"], true, true),
        (&["topic:* User:u allow read", "subject:orders.secret User:x deny read"], true, true),
        (&["topic:* User:u allow read", "subject:*.secret User:* deny read"], false, false),
        (&["topic:* User:u allow read", "subject:*.secret User:* deny read from 10.0.0.1"], true, true),
        (&["topic:* User:u allow read", "subject:orders.secret+q User:u deny read"], true, true),
        (&["subject:> User:u allow read", "topic:orders User:u deny read"], false, true),
    ] {
        assert_eq!(reads_topic(rules, false, ORDERS), orders, "orders: {rules:?}");
        assert_eq!(reads_topic(rules, false, PLAIN), plain, "plain: {rules:?}");
    }
}

#[test]
fn a_rule_for_a_subject_of_the_topic_is_a_rule_for_the_topic() {
    for (rule, orders, plain) in [
        ("topic:other User:x allow read", true, true),
        ("topic:orders User:x allow write", false, true),
        ("subject:other User:x allow write", true, true),
        ("subject:orders.eu User:x allow write", false, true),
        ("subject:*.eu+q User:x allow read", false, false),
        ("subject:plain User:x deny write", true, false),
        ("subject:new.a.b User:x allow read", true, true),
    ] {
        assert_eq!(reads_topic(&[rule], true, ORDERS), orders, "orders: {rule}");
        assert_eq!(reads_topic(&[rule], true, PLAIN), plain, "plain: {rule}");
    }
}

#[test]
fn other_operations_are_about_the_name_of_the_topic() {
    let bits = |rules: &[&str], user| authorizer(rules, false).topic_operations(&who(user), PLAIN);
    let of = |operations: &[Operation]| operations.iter().fold(0, |bits, one| bits | 1 << one.code());
    use Operation::{Describe, Read, Write};
    assert_eq!(bits(&[], "root"), 3576);
    assert_eq!(bits(&["topic:plain User:u allow all"], "u"), 3576);
    assert_eq!(bits(&["subject:> User:u allow all"], "u"), of(&[Read, Write, Describe]));
    assert_eq!(bits(&["subject:> User:u allow write"], "u"), of(&[Write, Describe]));
    assert_eq!(bits(&["subject:plain.a User:u allow all"], "u"), 0);
    let denied = ["subject:> User:u allow all", "subject:plain User:u deny read"];
    assert_eq!(bits(&denied, "u"), of(&[Write, Describe]), "a DENY implies nothing");
    let denied = ["topic:* User:u allow all", "subject:plain.a User:u deny all"];
    assert_eq!(bits(&denied, "u"), 3576 & !of(&[Read, Write]));
    let denied = ["subject:> User:u allow all", "topic:plain User:u deny describe"];
    assert_eq!(bits(&denied, "u"), of(&[Read, Write]));
}

/// A use of a subject, as `pub SUBJECT`, or `sub SUBJECT [QUEUE]`.
fn used(text: &str) -> SubjectUse<'_> {
    let mut words = text.split(' ');
    let access = if words.next() == Some("pub") { Access::Write } else { Access::Read };
    SubjectUse { access, subject: words.next().unwrap().as_bytes(), queue: words.next().map(str::as_bytes) }
}

fn by_nats(rules: &[&str], text: &str, topics: &[TopicSubjects<'_, &str>]) -> SubjectAccess {
    let authorizer = authorizer(rules, false);
    let root = authorizer.subject_by_nats(&who("root"), used(text), topics.iter().copied());
    assert_eq!((root.access, root.reason), (Allowed, Reason::SuperUser));
    authorizer.subject_by_nats(&who("u"), used(text), topics.iter().copied()).access
}

/// The cases of nats-server's lists: see the tests of users files.
#[test]
fn subjects_of_no_topic_are_as_in_nats_server() {
    for (rules, text, expected) in [
        (&[][..], "pub a", Allowed),
        (&[], "sub >", Allowed),
        (&["subject:a User:x allow all", "topic:a User:u allow all"], "pub b", Allowed),
        // A list for one access says nothing of the other.
        (&["subject:a User:u allow write"], "pub a", Allowed),
        (&["subject:a User:u allow write"], "pub b", Refused),
        (&["subject:a User:u allow write"], "sub b", Allowed),
        (&["subject:a User:u allow all"], "sub b", Refused),
        (&["subject:a User:* allow read"], "sub b", Refused),
        // From elsewhere, the list is there, and empty.
        (&["subject:a User:u allow write from 10.0.0.1"], "pub a", Refused),
        (&["subject:a User:u allow write from 10.0.0.1"], "pub b", Refused),
        (&["subject:a User:u allow write from 192.0.2.0/24"], "pub a", Allowed),
        // Subscriptions must be covered.
        (&["subject:a.* User:u allow read"], "sub a.*", Allowed),
        (&["subject:a.* User:u allow read"], "sub a.>", Refused),
        (&["subject:a.> User:u allow read"], "sub a.>", Allowed),
        (&["subject:a.> User:u allow read"], "sub a.*.b", Allowed),
        (&["subject:a.b User:u allow read"], "sub a.*", Refused),
        (&["subject:a.> User:u allow read"], "sub a", Refused),
        // Denied as a whole, or in part.
        (&["subject:a.> User:u deny read"], "sub a.b", Refused),
        (&["subject:a.> User:u deny read"], "sub a.*", Refused),
        (&["subject:a.> User:u deny read"], "sub a", Allowed),
        (&["subject:a.b User:u deny read"], "sub a.*", Filtered),
        (&["subject:a.b User:u deny read"], "sub >", Filtered),
        (&["subject:a.b User:u deny write"], "sub >", Allowed),
        (&["subject:a.b User:u deny read from 10.0.0.1"], "sub >", Allowed),
        (&["subject:a.b User:u deny write"], "pub a.b", Refused),
        (&["subject:a.b User:u deny write"], "pub a.*", Allowed),
        (&["subject:a User:u allow all", "subject:a User:* deny all"], "pub a", Refused),
        // Queue groups.
        (&["subject:a+q* User:u allow read"], "sub a", Refused),
        (&["subject:a+q User:u allow read"], "sub a q", Allowed),
        (&["subject:a+q User:u allow read"], "sub a r", Refused),
        (&["subject:a+q.* User:u allow read"], "sub a q.1", Allowed),
        (&["subject:a User:u allow read"], "sub a q", Allowed),
        (&["subject:a User:u allow read", "subject:a+q User:u allow read"], "sub a r", Refused),
        (&["subject:a User:u allow read", "subject:a+q User:u allow read"], "sub a", Allowed),
        (&["subject:a User:u deny read"], "sub a q", Refused),
        (&["subject:a+q User:u deny read"], "sub a q", Refused),
        (&["subject:a+q User:u deny read"], "sub a r", Allowed),
        (&["subject:a+q User:u deny read"], "sub a", Allowed),
        (&["subject:a+q User:u deny read"], "sub * q", Filtered),
        (&["subject:a+q User:u deny read"], "sub * r", Allowed),
    ] {
        assert_eq!(by_nats(rules, text, &[]), expected, "{text}: {rules:?}");
    }
}

#[test]
fn a_subject_of_a_topic_needs_a_right_on_one_of_them() {
    for (rules, text, expected) in [
        (&[][..], "sub orders.a", Refused),
        (&[], "pub orders.a", Refused),
        (&[], "sub orders.*", Refused),
        (&["topic:orders User:u allow read"], "sub orders.a", Allowed),
        (&["topic:orders User:u allow read"], "sub orders.*", Allowed),
        (&["topic:orders User:u allow read"], "pub orders.a", Refused),
        (&["topic:orders User:u allow describe"], "sub orders.a", Refused),
        (&["topic:orders User:u allow write"], "pub orders.a", Allowed),
        (&["subject:orders.a User:u allow read"], "sub orders.a", Allowed),
        (&["subject:orders.a User:u allow read"], "sub orders.b", Refused),
        (&["subject:orders.a User:u allow read"], "sub orders.*", Refused),
        (&["subject:orders.a User:u allow read", "topic:orders User:u allow read"], "sub orders.b", Allowed),
        (&["subject:orders.a User:u allow read", "topic:orders User:* deny read"], "sub orders.a", Refused),
        (&["subject:orders.> User:u allow read", "topic:orders User:* deny read"], "sub orders.>", Refused),
        (&["topic:orders User:u allow read", "subject:orders.a User:u deny read"], "sub orders.a", Refused),
        (&["topic:orders User:u allow read", "subject:orders.a User:u deny read"], "sub orders.b", Allowed),
        (&["topic:orders User:u allow read", "subject:orders.a User:u deny read"], "sub orders.*", Filtered),
        (
            &["topic:orders User:u allow read", "subject:orders.>+q User:u allow read"],
            "sub orders.a r",
            Refused,
        ),
    ] {
        assert_eq!(by_nats(rules, text, &[ORDERS]), expected, "{text}: {rules:?}");
    }
}

#[test]
fn a_topic_also_has_the_subjects_of_its_name() {
    for (text, nothing, denied) in [
        ("sub plain", Refused, Refused),
        ("pub plain", Refused, Allowed),
        ("sub plain.a.b", Refused, Refused),
        ("sub plain.>", Refused, Refused),
        ("sub plain.*", Refused, Refused),
        ("sub *.a", Filtered, Filtered),
        ("sub *", Filtered, Filtered),
    ] {
        assert_eq!(by_nats(&[], text, &[PLAIN]), nothing, "{text}");
        let rules = ["subject:> User:u allow all", "topic:plain User:u deny read"];
        assert_eq!(by_nats(&rules, text, &[PLAIN]), denied, "{text}");
    }
}

#[test]
fn a_wide_subscription_is_let_in_if_some_part_is_allowed() {
    for (rules, text, expected) in [
        // What is in no topic, and no topic.
        (&[][..], "sub >", Filtered),
        (&["topic:orders User:u allow read"], "sub >", Filtered),
        (&["topic:* User:u allow read"], "sub >", Allowed),
        (&["topic:* User:u allow read", "topic:plain User:u deny read"], "sub >", Filtered),
        (&["subject:> User:u allow read"], "sub >", Allowed),
        (&["subject:> User:u allow read", "topic:plain User:u deny read"], "sub >", Filtered),
        // With a list: the topic.
        (&["subject:_INBOX.u.> User:u allow read", "topic:plain User:u allow read"], "sub >", Filtered),
        (&["subject:_INBOX.u.> User:u allow read"], "sub >", Refused),
        (&["subject:_INBOX.u.> User:u allow read", "topic:plain User:u allow write"], "sub >", Refused),
        (&["topic:* User:u allow read", "subject:> User:* deny read"], "sub >", Refused),
    ] {
        assert_eq!(by_nats(rules, text, &[ORDERS, PLAIN]), expected, "{text}: {rules:?}");
    }
}

#[test]
fn a_subject_of_two_topics_needs_both() {
    let both = [ORDERS, TopicSubjects { name: "new", bindings: &[] }];
    for (rules, expected) in [
        (&["topic:orders User:u allow read"][..], Refused),
        (&["topic:orders User:u allow read", "topic:new User:u allow read"], Allowed),
        (&["subject:new.* User:u allow read"], Allowed),
        (&["subject:new.* User:u allow read", "topic:new User:u deny read"], Refused),
    ] {
        assert_eq!(by_nats(rules, "sub new.a", &both), expected, "{rules:?}");
    }
}

#[test]
fn a_topic_without_rules_is_open_where_everyone_is_allowed() {
    for (rule, text, expected) in [
        ("topic:other User:x allow all", "sub orders.a", Allowed),
        ("topic:other User:x allow all", "pub orders.a", Allowed),
        ("topic:orders User:x allow read", "pub orders.a", Refused),
        ("subject:orders.a User:x allow read", "pub orders.a", Refused),
        ("subject:orders.a User:x allow read", "pub orders.b", Allowed),
        ("subject:orders.a User:x allow read", "sub orders.*", Refused),
    ] {
        let authorizer = authorizer(&[rule], true);
        let found = authorizer.subject_by_nats(&who("u"), used(text), [ORDERS]);
        assert_eq!(found.access, expected, "{text}: {rule}");
    }
}

#[test]
fn the_reason_of_a_refusal_is_named() {
    let rules = ["topic:orders User:u deny read", "subject:new.a User:u deny read"];
    let authorizer = authorizer(&rules, false);
    let (on_topic, on_subject) = (acl(rules[0]), acl(rules[1]));
    for (text, reason) in [
        ("sub orders.a", Reason::Rule(&on_topic)),
        ("sub new.a", Reason::Rule(&on_subject)),
        ("pub orders.a", Reason::Default { has_rules: true }),
    ] {
        let found = authorizer.subject_by_nats(&who("u"), used(text), [ORDERS]);
        assert_eq!((found.access, found.reason), (Refused, reason), "{text}");
    }
    let found = authorizer.topic_by_kafka(&who("u"), Operation::Write, ORDERS);
    assert_eq!(found.reason, Reason::Default { has_rules: true });
}

/// Names that Kafka allows for a topic, but NATS not for a subject.
#[test]
fn a_name_that_is_no_subject_is_heard_with_underscores_for_dots() {
    let odd = TopicSubjects { name: "a..b", bindings: &[] };
    for (rules, expected) in [
        (&["subject:> User:u allow read"][..], true),
        (&["subject:a__b User:u allow read"], false),
        (&["subject:a__b User:u allow read", "subject:a__b.> User:u allow read"], true),
        (&["topic:a..b User:u allow read"], true),
        (&["subject:a__b.* User:u deny read", "topic:a..b User:u allow read"], false),
        (&["subject:a.> User:u deny read", "topic:a..b User:u allow read"], true),
    ] {
        assert_eq!(reads_topic(rules, false, odd), expected, "{rules:?}");
    }
}

#[test]
fn a_topic_with_the_name_of_replies_has_no_say_in_them() {
    let inbox = TopicSubjects { name: "_INBOX", bindings: &[] };
    for (rules, expected) in [
        (&["subject:> User:u allow read"][..], false),
        (&["topic:_INBOX User:u allow read"], true),
        (&["subject:_INBOX.> User:u deny read", "topic:_INBOX User:u allow read"], true),
    ] {
        assert_eq!(reads_topic(rules, false, inbox), expected, "{rules:?}");
    }
}

#[test]
fn a_pattern_is_bound_with_a_rule_that_covers_it() {
    for (rules, is_allowed) in [
        (&[][..], false),
        (&["subject:a.> User:u allow read"], true),
        (&["subject:> User:u allow read"], true),
        (&["subject:a.* User:u allow read"], false),
        (&["subject:a.> User:u allow write"], false),
        (&["subject:a.b User:u allow read", "subject:a.c User:u allow read"], false),
        (&["subject:> User:u allow read", "subject:a.secret User:u deny read"], false),
        (&["subject:> User:u allow read", "subject:b User:u deny read"], true),
        // A rule for topics is about topics.
        (&["topic:* User:u allow read"], false),
        // A list of denied subjects alone lets a user of NATS subscribe to everything else.
        (&["subject:b User:u deny read"], false),
    ] {
        let authorizer = authorizer(rules, false);
        assert_eq!(authorizer.binding(&who("u"), Access::Read, b"a.>").allowed, is_allowed, "{rules:?}");
    }
    let open = authorizer(&[], true);
    assert!(open.binding(&who("u"), Access::Read, b"a.>").allowed, "nothing has a rule");
    let ruled = authorizer(&["subject:a.b User:other allow read"], true);
    assert!(!ruled.binding(&who("u"), Access::Read, b"a.>").allowed, "a subject of the pattern has a rule");
}

#[test]
fn rules_for_topics_and_subjects_do_not_open_the_audit_log_and_nobody_changes_it() {
    let rules = [
        "topic:* User:all allow all",
        "topic:__tailrace_audit_log User:all allow all",
        "subject:> User:all allow read",
        "subject:> User:all allow write",
        "cluster:kafka-cluster User:admin allow alter",
        "cluster:kafka-cluster User:barred allow alter",
        "cluster:kafka-cluster User:barred deny alter",
        "cluster:kafka-cluster User:cluster allow cluster-action",
    ];
    let topic = TopicSubjects { name: AUDIT_TOPIC, bindings: &[] as &[&[u8]] };
    for allow_everyone in [false, true] {
        let authorizer = authorizer(&rules, allow_everyone);
        for operation in ResourceKind::Topic.operations() {
            let reads = matches!(
                operation,
                Operation::Read | Operation::Describe | Operation::DescribeConfigs | Operation::AlterConfigs
            );
            for (user, may_read) in
                [("all", false), ("admin", true), ("root", true), ("barred", false), ("cluster", false)]
            {
                let decision = authorizer.topic_by_kafka(&who(user), *operation, topic);
                assert_eq!(decision.allowed, reads && may_read, "{user} {operation}");
            }
        }
        assert_eq!(authorizer.topic_operations(&who("all"), topic), 0);
    }
    assert!(is_silent(AUDIT_TOPIC) && is_silent("_INBOX.a") && !is_silent("__tailrace_audit_log.a"));
}
