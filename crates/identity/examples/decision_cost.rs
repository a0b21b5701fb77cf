//! Prints what decisions cost with 10,000 and 100,000 rules, and what a change of the table costs while an
//! older copy is in use.
//!
//! `cargo run --release -p tailrace-identity --example decision_cost`

use std::hint::black_box;
use std::time::{Duration, Instant};

use tailrace_identity::acl::{
    Access, Acl, Acls, Authorizer, Operation, PatternKind, Permission, Requester, ResourceKind, SubjectUse,
    SuperUsers, TopicSubjects,
};

fn rule(kind: ResourceKind, name: String, pattern: PatternKind, principal: String) -> Acl {
    let (operation, permission) = (Operation::Read, Permission::Allow);
    Acl { kind, name, pattern, principal, host: "*".to_owned(), operation, permission }
}

/// A quarter each: names, prefixes, subjects of users, and subjects of everybody. A hundredth are prefixes of
/// one long name, and another hundredth are rules of one user for one name.
fn table(rules: usize) -> Acls {
    use PatternKind::{Literal, Prefixed};
    use ResourceKind::{Subject, Topic};
    let long = "n".repeat(249);
    let mut acls = Acls::default();
    for at in 0..rules {
        let user = format!("User:user-{}", at % 1000);
        let one = match at % 100 {
            0 => rule(Topic, long[..at / 100 % 249 + 1].to_owned(), Prefixed, format!("User:{at}")),
            1 => Acl {
                host: format!("10.0.{}.{}", at >> 8 & 255, at & 255),
                ..rule(Topic, "hosts".into(), Literal, "User:u".into())
            },
            _ => match at % 4 {
                0 => rule(Topic, format!("team-{}.orders-{at}", at % 100), Literal, user),
                1 => rule(Topic, format!("team-{}.o{at}", at % 100), Prefixed, user),
                2 => rule(Subject, format!("_INBOX.user-{}.{at}.>", at % 1000), Literal, user),
                _ => rule(Subject, format!("public.{}.*.{at}", at % 100), Literal, "User:*".to_owned()),
            },
        };
        acls.insert(one).expect("the rule is valid");
    }
    for bytes in 1..=long.len() {
        for principal in ["User:u", "User:*"] {
            let one = rule(Topic, long[..bytes].to_owned(), Prefixed, principal.to_owned());
            acls.insert(Acl { operation: Operation::Write, ..one }).expect("the rule is valid");
        }
    }
    acls
}

/// The best of ten runs of about 20 ms, in nanoseconds, because the machine is shared.
fn nanoseconds(mut work: impl FnMut()) -> f64 {
    let run = |work: &mut dyn FnMut()| {
        let (start, mut rounds) = (Instant::now(), 0);
        while start.elapsed() < Duration::from_millis(20) {
            work();
            rounds += 1;
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(rounds)
    };
    (0..10).map(|_| run(&mut work)).fold(f64::MAX, f64::min)
}

fn main() {
    let bindings = ["orders.>", "public.7.*.>"];
    let topic = TopicSubjects { name: "orders", bindings: &bindings };
    let long = "n".repeat(249);
    for rules in [10_000, 100_000] {
        let acls = table(rules);
        let authorizer = Authorizer::new(acls.clone(), SuperUsers::default(), false, 1);
        println!("{} rules", acls.len());
        let address = Some([10, 0, 0, 7].into());
        let print = |what: &str, nanoseconds: f64| println!("{nanoseconds:>12.0} ns  {what}");
        for (what, user, name) in [
            ("allowed by name", "user-4", "team-4.orders-104"),
            ("allowed by prefix", "user-5", "team-5.o105-more"),
            ("no rule", "user-5", "other"),
            ("a user without rules", "nobody", "team-5.o105-more"),
            ("a name with 249 prefixes, each with rules of the user", "u", &*long),
            ("a name with a rule for each of a hundredth of the addresses", "u", "hosts"),
        ] {
            let who = Requester { user, address };
            print(
                what,
                nanoseconds(|| {
                    black_box(authorizer.decide(&who, Operation::Read, ResourceKind::Topic, black_box(name)));
                }),
            );
        }
        let who = Requester { user: "user-6", address };
        print(
            "a topic with two bindings, by Kafka",
            nanoseconds(|| {
                black_box(authorizer.topic_by_kafka(&who, Operation::Read, black_box(topic)));
            }),
        );
        for subject in ["_INBOX.user-6.1006.x", "public.7.a.1107", "orders.new", ">"] {
            let wanted = SubjectUse { access: Access::Read, subject: subject.as_bytes(), queue: None };
            print(
                &format!("a subscription to {subject}, by NATS"),
                nanoseconds(|| {
                    black_box(authorizer.subject_by_nats(&who, black_box(wanted), [topic]));
                }),
            );
        }
        print(
            "WRITE on any topic",
            nanoseconds(|| {
                black_box(authorizer.allows_any(&who, Operation::Write, ResourceKind::Topic));
            }),
        );
        let one = rule(
            ResourceKind::Topic,
            "team-7.new".to_owned(),
            PatternKind::Literal,
            "User:user-7".to_owned(),
        );
        print(
            "a copy of the table with one more rule",
            nanoseconds(|| {
                let mut copy = acls.clone();
                copy.insert(one.clone()).expect("the rule is valid");
                black_box(copy);
            }),
        );
    }
}
