//! Rules for subjects against the lists of users files, which decide as nats-server.

use super::*;
use crate::rules::{Entries, Rules};

const SUBJECTS: [&str; 11] = [">", "*", "a", "a.>", "a.*", "a.b", "*.b", "*.*", "a.*.c", "b.>", "a.b.>"];

/// Adds the same rule to the table and to the user's lists.
fn add(random: &mut Random, acls: &mut Acls, lists: &mut Rules) {
    let (permission, operation) = (*random.pick(&["allow", "deny"]), *random.pick(&["read", "write"]));
    let queue = if operation == "read" { *random.pick(&["", "", "+q", "+q*", "+*"]) } else { "" };
    let subject = format!("{}{queue}", random.pick(&SUBJECTS));
    if !acls.insert(acl(&format!("subject:{subject} User:u {permission} {operation}"))).unwrap() {
        return;
    }
    let list = match (permission, operation) {
        ("allow", "read") => lists.subscribe_allow.get_or_insert_with(Entries::default),
        ("allow", _) => lists.publish_allow.get_or_insert_with(Entries::default),
        (_, "read") => &mut lists.subscribe_deny,
        _ => &mut lists.publish_deny,
    };
    list.push(&subject.replace('+', " "), operation == "read").unwrap();
}

#[test]
fn rules_for_subjects_decide_as_the_lists_of_a_users_file() {
    let mut seen = [0; 3];
    for seed in 0..2000 {
        let mut random = Random(seed);
        let (mut acls, mut lists) = (Acls::default(), Rules::default());
        for _ in 0..random.below(7) {
            add(&mut random, &mut acls, &mut lists);
        }
        let authorizer = Authorizer::new(acls, SuperUsers::default(), false, 1);
        let decide = |access, subject: &str, queue: Option<&str>| {
            let (subject, queue) = (subject.as_bytes(), queue.map(str::as_bytes));
            let wanted = SubjectUse { access, subject, queue };
            authorizer.subject_by_nats(&who("u"), wanted, [] as [TopicSubjects<'_, &str>; 0]).access
        };
        for subject in SUBJECTS.into_iter().chain(["b", "a.b.c", "a.c", "c.b"]) {
            let found = decide(Access::Write, subject, None) == SubjectAccess::Allowed;
            assert_eq!(found, lists.may_publish(subject.as_bytes()), "{seed}: {subject} {authorizer:?}");
            for queue in [None, Some("q"), Some("r")] {
                let found = decide(Access::Read, subject, queue);
                seen[found as usize] += 1;
                let (subject, queue) = (subject.as_bytes(), queue.map(str::as_bytes));
                let expected = lists.may_subscribe(subject, queue);
                assert_eq!(
                    found != SubjectAccess::Refused,
                    expected,
                    "{seed}: {subject:?} {queue:?} {authorizer:?}"
                );
                assert!(
                    found != SubjectAccess::Filtered || lists.filters(subject, queue),
                    "{seed}: {authorizer:?}"
                );
            }
        }
    }
    assert!(seen.iter().all(|count| *count > 1000), "{seen:?}");
}
