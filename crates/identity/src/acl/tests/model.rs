//! Holds the indexed table against a plain list of rules, while rules come and go (CVE-2024-27309: the
//! removal of one rule lost others). Names are few and short, so that they collide often.

use std::net::IpAddr;

use super::*;
use crate::rules::{Wild, collide, covers, matches};

/// A plain list, and the decisions as the specification words them.
#[derive(Default)]
struct Model {
    rules: Vec<Acl>,
    allow_everyone: bool,
}

fn is_from(acl: &Acl, address: IpAddr) -> bool {
    let text = acl.host.as_str();
    match text {
        "*" => true,
        "10.0.0.0/8" => matches!(address, IpAddr::V4(v4) if v4.octets()[0] == 10),
        _ => text.parse::<IpAddr>().unwrap().to_canonical() == address,
    }
}

fn is_about(acl: &Acl, who: &Requester<'_>, operation: Operation) -> bool {
    let is_principal = acl.principal == "User:*" || acl.principal == format!("User:{}", who.user);
    let implied: &[&str] = match operation {
        Operation::Describe => &["read", "write", "delete", "alter"],
        Operation::DescribeConfigs => &["alter-configs"],
        _ => &[],
    };
    let is_implied = acl.permission == Permission::Allow && implied.contains(&acl.operation.name());
    let is_operation = acl.operation == operation || acl.operation == Operation::All || is_implied;
    is_principal && is_operation && is_from(acl, who.address.unwrap().to_canonical())
}

fn is_named(acl: &Acl, kind: ResourceKind, name: &str) -> bool {
    acl.kind == kind
        && match acl.pattern {
            PatternKind::Literal => acl.name == name || acl.name == "*",
            PatternKind::Prefixed => name.starts_with(&acl.name),
        }
}

impl Model {
    fn any(&self, permission: Permission, is_met: impl Fn(&Acl) -> bool) -> bool {
        self.rules.iter().any(|acl| acl.permission == permission && is_met(acl))
    }

    fn decide(&self, who: &Requester<'_>, operation: Operation, kind: ResourceKind, name: &str) -> bool {
        let is_met = |acl: &Acl| is_named(acl, kind, name) && is_about(acl, who, operation);
        if self.any(Permission::Deny, is_met) {
            return false;
        }
        let has_rules = self.rules.iter().any(|acl| is_named(acl, kind, name));
        self.any(Permission::Allow, is_met) || (self.allow_everyone && !has_rules)
    }

    fn allows_any(&self, who: &Requester<'_>, operation: Operation, kind: ResourceKind) -> bool {
        let denies = |name: &str, patterns: &[PatternKind]| {
            self.any(Permission::Deny, |deny| {
                deny.kind == kind
                    && is_about(deny, who, operation)
                    && patterns.contains(&deny.pattern)
                    && match deny.pattern {
                        PatternKind::Literal => deny.name == name,
                        PatternKind::Prefixed => name.starts_with(&deny.name),
                    }
            })
        };
        if denies("*", &[PatternKind::Literal]) {
            return false;
        }
        let is_open = self.any(Permission::Allow, |acl| {
            let is_wildcard = acl.pattern == PatternKind::Literal && acl.name == "*";
            let patterns = [PatternKind::Prefixed, acl.pattern];
            acl.kind == kind
                && is_about(acl, who, operation)
                && (is_wildcard || !denies(&acl.name, &patterns))
        });
        let is_closed = self
            .rules
            .iter()
            .any(|acl| acl.kind == kind && acl.pattern == PatternKind::Literal && acl.name == "*");
        is_open || (self.allow_everyone && !is_closed)
    }

    /// Rules for subjects that are about this access, with their patterns and queues.
    fn listed<'a>(
        &'a self,
        who: &'a Requester<'_>,
        permission: Permission,
        access: Access,
    ) -> impl Iterator<Item = (&'a [u8], Option<&'a str>)> {
        let is_met = move |acl: &&Acl| {
            acl.kind == ResourceKind::Subject
                && acl.permission == permission
                && is_about(acl, who, access.operation())
        };
        self.rules.iter().filter(is_met).map(|acl| match acl.name.split_once(' ') {
            Some((pattern, queue)) => (pattern.as_bytes(), Some(queue)),
            None => (acl.name.as_bytes(), None),
        })
    }

    fn has_subject_rules(&self, pattern: &[u8]) -> bool {
        let subjects = self.rules.iter().filter(|acl| acl.kind == ResourceKind::Subject);
        subjects.into_iter().any(|acl| collide(acl.name.split(' ').next().unwrap().as_bytes(), pattern))
    }

    fn decide_subject(&self, who: &Requester<'_>, access: Access, subject: &str) -> bool {
        let any = |permission| {
            self.listed(who, permission, access).any(|(pattern, queue)| {
                queue.is_none() && matches(pattern, subject.as_bytes(), Wild::Literal)
            })
        };
        let by_default = self.allow_everyone && !self.has_subject_rules(subject.as_bytes());
        !any(Permission::Deny) && (any(Permission::Allow) || by_default)
    }

    fn topic_by_kafka(&self, who: &Requester<'_>, access: Access, name: &str, bindings: &[&str]) -> bool {
        let below = format!("{name}.>");
        let subjects: Vec<&[u8]> =
            bindings.iter().chain([&name, &&*below]).map(|text| text.as_bytes()).collect();
        let is_met =
            |acl: &Acl| is_named(acl, ResourceKind::Topic, name) && is_about(acl, who, access.operation());
        let is_denied = self.listed(who, Permission::Deny, access).any(|(pattern, queue)| {
            queue.is_none() && subjects.iter().any(|subject| collide(pattern, subject))
        });
        if self.any(Permission::Deny, is_met) || is_denied {
            return false;
        }
        let covers_all = subjects.iter().all(|subject| {
            let mut allowed = self.listed(who, Permission::Allow, access);
            allowed.any(|(pattern, queue)| queue.is_none() && covers(pattern, subject))
        });
        let has_rules = self.rules.iter().any(|acl| is_named(acl, ResourceKind::Topic, name))
            || subjects.iter().any(|subject| self.has_subject_rules(subject));
        self.any(Permission::Allow, is_met) || covers_all || (self.allow_everyone && !has_rules)
    }

    /// A subject without wildcards, in the subjects of these topics.
    fn subject_by_nats(&self, who: &Requester<'_>, wanted: SubjectUse<'_>, topics: &[&str]) -> bool {
        let SubjectUse { access, subject, queue } = wanted;
        let in_queue = |own: &str| queue.is_some_and(|queue| matches(own.as_bytes(), queue, Wild::Literal));
        let mut denied = self.listed(who, Permission::Deny, access);
        let on_topic = |permission, topic: &str| {
            self.any(permission, |acl| {
                is_named(acl, ResourceKind::Topic, topic) && is_about(acl, who, access.operation())
            })
        };
        if denied.any(|(pattern, own)| own.is_none_or(in_queue) && matches(pattern, subject, Wild::Literal))
            || topics.iter().any(|topic| on_topic(Permission::Deny, topic))
        {
            return false;
        }
        let found: Vec<_> = self
            .listed(who, Permission::Allow, access)
            .filter(|(pattern, _)| matches(pattern, subject, Wild::Literal))
            .collect();
        let queues = || found.iter().filter_map(|(_, own)| *own);
        let names_queues = queue.is_some() && queues().next().is_some();
        if names_queues && !queues().any(in_queue) {
            return false;
        }
        if names_queues || found.iter().any(|(_, own)| own.is_none()) {
            return true;
        }
        let has_list = self.rules.iter().any(|acl| {
            acl.kind == ResourceKind::Subject
                && acl.permission == Permission::Allow
                && (acl.principal == "User:*" || acl.principal == format!("User:{}", who.user))
                && (acl.operation == Operation::All || acl.operation == access.operation())
        });
        let by_default = |topic: &str| {
            let is_named = self.rules.iter().any(|acl| is_named(acl, ResourceKind::Topic, topic));
            self.allow_everyone && !is_named && !self.has_subject_rules(subject)
        };
        match topics {
            [] => !has_list,
            topics => topics.iter().all(|topic| on_topic(Permission::Allow, topic) || by_default(topic)),
        }
    }
}

/// A subscription that need not be filtered hears nothing that would be refused one by one.
fn check_unfiltered(authorizer: &Authorizer, what: &str) {
    let has = |(name, bindings): (&str, &[&str]), subject: &[u8]| {
        let below = format!("{name}.>");
        bindings.iter().chain([&name, &&*below]).any(|pattern| collide(pattern.as_bytes(), subject))
    };
    let decide = |user, subject: &'static str| {
        let wanted = SubjectUse { access: Access::Read, subject: subject.as_bytes(), queue: None };
        let topics = TOPICS[..4].iter().filter(|topic| has(**topic, subject.as_bytes()));
        let topics = topics.map(|(name, bindings)| TopicSubjects { name, bindings });
        authorizer.subject_by_nats(&who(user), wanted, topics).access
    };
    for user in USERS {
        for pattern in [">", "a.>", "a.*", "*.b", "ab.*", "*"] {
            if decide(user, pattern) != SubjectAccess::Allowed {
                continue;
            }
            for subject in ["a", "b", "c", "d", "a.b", "a.c", "c.b", "d.d", "a.a.b", "a.b.c", "ab.x"] {
                if matches(pattern.as_bytes(), subject.as_bytes(), Wild::Literal) {
                    let found = decide(user, subject);
                    assert_eq!(
                        found,
                        SubjectAccess::Allowed,
                        "{what}: {user} {pattern} {subject} {authorizer:#?}"
                    );
                }
            }
        }
    }
}

const NAMES: [&str; 9] = ["*", "**", "a", "a*", "ab", "ab*", "abb*", "b*", "ba"];
const SUBJECTS: [&str; 12] =
    [">", "*", "a", "a.>", "a.*", "a.b", "*.b", "b.>", "a.b+q", "a.>+q*", "*.*.b", "a.>+*"];
const HOSTS: [&str; 6] = ["*", "*", "10.0.0.0/8", "10.0.0.1", "::ffff:10.0.0.1", "::1"];
const PRINCIPALS: [&str; 4] = ["User:a", "User:b", "User:*", "Group:a"];
const OPERATIONS: [&str; 7] =
    ["all", "read", "read", "write", "describe", "alter-configs", "describe-configs"];

fn any_rule(random: &mut Random) -> Acl {
    let is_subject = random.below(3) == 0;
    let kind = if is_subject { "subject" } else { *random.pick(&["topic", "topic", "group"]) };
    let name = if is_subject { *random.pick(&SUBJECTS) } else { *random.pick(&NAMES) };
    let operation = if name.contains('+') { "read" } else { *random.pick(&OPERATIONS) };
    let permission = random.pick(&["allow", "allow", "deny"]);
    let (principal, host) = (random.pick(&PRINCIPALS), random.pick(&HOSTS));
    acl(&format!("{kind}:{name} {principal} {permission} {operation} from {host}"))
}

const USERS: [&str; 4] = ["a@10.0.0.1", "a@::ffff:10.0.0.2", "b@::1", "c@192.0.2.1"];

fn compare_resources(model: &Model, authorizer: &Authorizer, what: &str) {
    use Operation::{Describe, DescribeConfigs, Read, Write};
    for user in USERS.map(who) {
        for operation in [Read, Write, Describe, DescribeConfigs] {
            for kind in [ResourceKind::Topic, ResourceKind::Group] {
                for name in ["*", "*a", "a", "ab", "abb", "abbb", "b", "ba", "c"] {
                    let expected = model.decide(&user, operation, kind, name);
                    let found = authorizer.decide(&user, operation, kind, name).allowed;
                    assert_eq!(found, expected, "{what}: {user:?} {operation} {kind} {name} {authorizer:#?}");
                }
            }
            let expected = model.allows_any(&user, operation, ResourceKind::Group);
            let found = authorizer.allows_any(&user, operation, ResourceKind::Group);
            assert_eq!(found, expected, "{what}: {user:?} {operation} on any group {authorizer:#?}");
        }
    }
}

/// Topics and their bindings.
const TOPICS: [(&str, &[&str]); 5] =
    [("a", &[]), ("ab", &["a.b", "a.b.>"]), ("b", &["*.b"]), ("c", &[]), ("ba", &[">"])];

fn compare_doors(model: &Model, authorizer: &Authorizer, what: &str) {
    for user in USERS.map(who) {
        for access in Access::ALL {
            for (name, bindings) in TOPICS {
                let topic = TopicSubjects { name, bindings };
                let expected = model.topic_by_kafka(&user, access, name, bindings);
                let found = authorizer.topic_by_kafka(&user, access.operation(), topic).allowed;
                assert_eq!(found, expected, "{what}: {user:?} {access:?} {topic:?} {authorizer:#?}");
            }
            for subject in ["a", "b", "a.b", "a.c", "c.b", "a.a.b", "ab.x"] {
                let expected = model.decide_subject(&user, access, subject);
                let found =
                    authorizer.decide(&user, access.operation(), ResourceKind::Subject, subject).allowed;
                assert_eq!(found, expected, "{what}: {user:?} {access:?} {subject} {authorizer:#?}");
                for queue in [None, Some("q"), Some("r")].map(|queue| queue.map(str::as_bytes)) {
                    let wanted = SubjectUse { access, subject: subject.as_bytes(), queue };
                    if queue.is_some() && access == Access::Write {
                        continue;
                    }
                    for topics in [&TOPICS[..0], &TOPICS[4..]] {
                        let names: Vec<_> = topics.iter().map(|(name, _)| *name).collect();
                        let given = topics.iter().map(|(name, bindings)| TopicSubjects { name, bindings });
                        let expected = model.subject_by_nats(&user, wanted, &names);
                        let found = authorizer.subject_by_nats(&user, wanted, given).access;
                        let expected = if expected { SubjectAccess::Allowed } else { SubjectAccess::Refused };
                        assert_eq!(found, expected, "{what}: {user:?} {wanted:?} {names:?} {authorizer:#?}");
                    }
                }
            }
        }
    }
}

fn compare(model: &mut Model, acls: &Acls, what: &str) {
    let mut sorted: Vec<&Acl> = acls.iter().collect();
    sorted.sort();
    model.rules.sort();
    assert!(sorted.into_iter().eq(&model.rules), "{what}: {acls:#?}");
    assert_eq!((acls.len(), acls.is_empty()), (model.rules.len(), model.rules.is_empty()));
    let authorizer = Authorizer::new(acls.clone(), SuperUsers::default(), model.allow_everyone, 1);
    compare_resources(model, &authorizer, what);
    compare_doors(model, &authorizer, what);
    check_unfiltered(&authorizer, what);
}

/// Number of sequences. More with `TAILRACE_SEEDS`.
fn seeds() -> u64 {
    std::env::var("TAILRACE_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(20)
}

#[test]
fn the_table_decides_like_a_plain_list_while_rules_come_and_go() {
    for seed in 0..seeds() {
        let mut random = Random(seed);
        let mut model = Model { allow_everyone: seed % 2 == 0, ..Model::default() };
        let mut acls = Acls::default();
        // Few rules, or many.
        let rules_max = 1 + 4 * random.below(10);
        for step in 0..30 {
            let before = acls.clone();
            let rule = match model.rules.is_empty() || random.below(4) > 0 {
                true => any_rule(&mut random),
                false => random.pick(&model.rules).clone(),
            };
            let place = model.rules.iter().position(|one| *one == rule);
            if model.rules.len() < rules_max && random.below(3) > 0 {
                assert_eq!(acls.insert(rule.clone()), Ok(place.is_none()));
                if place.is_none() {
                    model.rules.push(rule);
                }
            } else {
                assert_eq!(acls.remove(&rule), place.is_some());
                place.map(|at| model.rules.remove(at));
            }
            compare(&mut model, &acls, &format!("seed {seed}, step {step}"));
            assert_eq!(before == acls, before.iter().eq(acls.iter()));
        }
    }
}

#[test]
fn a_table_without_rules_is_empty_however_it_became_so() {
    let mut random = Random(7);
    let mut acls = Acls::default();
    let rules: Vec<_> = (0..300).map(|_| any_rule(&mut random)).collect();
    for rule in &rules {
        acls.insert(rule.clone()).unwrap();
    }
    let (full, mut reversed) = (acls.clone(), Acls::default());
    for rule in rules.iter().rev() {
        reversed.insert(rule.clone()).unwrap();
    }
    assert!(full == reversed && full.len() > 200);
    assert!(full.iter().eq(reversed.iter()), "the order depends on the order of insertion");
    for rule in &rules {
        acls.remove(rule);
    }
    assert!(acls.is_empty() && acls == Acls::default() && full != acls);
    assert_eq!(format!("{acls:?}"), "{}");
    let authorizer = Authorizer::new(acls, SuperUsers::default(), true, 1);
    let reason = authorizer.decide(&who("a"), Operation::Read, ResourceKind::Topic, "a").reason;
    assert_eq!(reason, Reason::Default { has_rules: false });
}

#[test]
fn a_filter_selects_the_same_rules_from_the_table_and_from_a_list() {
    let mut random = Random(9);
    let mut acls = Acls::default();
    for _ in 0..200 {
        acls.insert(any_rule(&mut random)).unwrap();
    }
    for principal in [None, Some("User:a"), Some("User:*"), Some("Group:a"), Some("User:x"), Some("a")] {
        for name in [None, Some("ab"), Some("a.b")] {
            let filter = AclFilter {
                principal: principal.map(str::to_owned),
                name: name.map(str::to_owned),
                pattern: PatternFilter::Match,
                ..AclFilter::EVERY
            };
            let expected = acls.iter().filter(|acl| filter.matches(acl));
            assert!(acls.matching(&filter).eq(expected), "{filter:?}");
        }
    }
}
