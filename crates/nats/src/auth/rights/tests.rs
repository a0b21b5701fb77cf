use std::sync::Arc;

use tailrace_identity::acl::{Acl, Operation, PatternKind, Permission, ResourceKind};
use tailrace_metadata::{Command, ConfigAction, ConfigChange, ConfigOp, CreateTopic, Requester};
use tailrace_node::{Door, RunningNode};
use tailrace_types::TopicId;
use tempfile::TempDir;

use super::*;
use crate::testing::server_in;
use Operation::{Read, Write};
use Permission::{Allow, Deny};
use ResourceKind::{Subject, Topic};

const RULES: [(&str, &str); 2] = [
    ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
    ("super.users", "User:admin"),
];

/// A rule for alice.
type Rule = (Permission, Operation, ResourceKind, &'static str);

/// A node with rules, and the topics `orders`, which binds `orders.>` and `o.*`, and `plain`, without
/// bindings.
struct World {
    running: RunningNode,
    _folder: TempDir,
}

impl World {
    async fn new(settings: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().unwrap();
        let (running, _server) = server_in(&folder, &[&RULES, settings].concat()).await;
        let world = Self { running, _folder: folder };
        world.add_topic("orders", 1, "orders.>,o.*").await;
        world.add_topic("plain", 2, "").await;
        world
    }

    fn node(&self) -> &Arc<Node> {
        self.running.node()
    }

    async fn execute(&self, command: Command) {
        self.node().execute(Caller::internal(), command).await.unwrap();
    }

    async fn add_topic(&self, name: &str, id: u8, subjects: &str) {
        let create =
            CreateTopic::with_defaults(name, TopicId([id; 16]), self.node().now(), Requester::Client);
        let configs = vec![("tailrace.subjects".to_owned(), Some(subjects.to_owned()))];
        self.execute(Command::CreateTopic(CreateTopic { configs, ..create })).await;
    }

    async fn add(&self, rules: &[Rule]) {
        self.execute(Command::CreateAcls(rules.iter().map(acl).collect())).await;
    }

    async fn remove(&self, rules: &[Rule]) {
        self.execute(Command::DeleteAcls(rules.iter().map(acl).collect())).await;
    }

    fn rights(&self, user: &str) -> SubjectRights {
        SubjectRights::new(&Arc::downgrade(self.node()), caller(Door::Nats, user), None)
    }

    fn by_kafka(&self, operation: Operation, topic: &str) -> bool {
        self.node().rights(&caller(Door::Kafka, "alice")).sees(operation, Topic, topic)
    }
}

fn caller(door: Door, user: &str) -> Caller {
    Caller::client(door, ([127, 0, 0, 1], 1).into()).as_user(user.into())
}

fn acl(&(permission, operation, kind, name): &Rule) -> Acl {
    let (name, pattern) = (name.to_owned(), PatternKind::Literal);
    let (principal, host) = ("User:alice".to_owned(), "*".to_owned());
    Acl { kind, name, pattern, principal, host, operation, permission }
}

/// Expected: whether alice may publish to, and hear, each subject, and write and read the topic by Kafka.
struct Case {
    rules: &'static [Rule],
    publishes: &'static [&'static str],
    hears: &'static [&'static str],
    kafka: &'static [(Operation, &'static str)],
}

const SUBJECTS: [&str; 7] = ["orders", "orders.x", "orders.secret", "o.x", "plain", "plain.k", "other"];

#[tokio::test]
async fn one_rule_holds_at_both_doors() {
    let cases = [
        Case { rules: &[], publishes: &["other"], hears: &["other"], kafka: &[] },
        Case {
            rules: &[(Allow, Write, Topic, "orders")],
            publishes: &["orders", "orders.x", "orders.secret", "o.x", "other"],
            hears: &["other"],
            kafka: &[(Write, "orders")],
        },
        Case {
            rules: &[(Allow, Write, Subject, "orders.>")],
            publishes: &["orders.x", "orders.secret"],
            hears: &["other"],
            kafka: &[],
        },
        Case {
            rules: &[(Allow, Read, Topic, "orders"), (Deny, Read, Subject, "orders.secret")],
            publishes: &["other"],
            hears: &["orders", "orders.x", "o.x", "other"],
            kafka: &[],
        },
        Case {
            rules: &[(Allow, Read, Topic, "plain"), (Allow, Write, Topic, "plain")],
            publishes: &["plain", "plain.k", "other"],
            hears: &["plain", "plain.k", "other"],
            kafka: &[(Read, "plain"), (Write, "plain")],
        },
        Case {
            rules: &[(Allow, Read, Subject, ">"), (Deny, Read, Topic, "plain")],
            publishes: &["other"],
            hears: &["orders", "orders.x", "orders.secret", "o.x", "other"],
            kafka: &[(Read, "orders")],
        },
    ];
    let world = World::new(&[]).await;
    // One connection, whose cached decisions have to follow.
    let rights = world.rights("alice");
    for Case { rules, publishes, hears, kafka } in cases {
        world.add(rules).await;
        for _ in 0..2 {
            for subject in SUBJECTS {
                let text = subject.as_bytes();
                assert_eq!(rights.may_publish(text), publishes.contains(&subject), "{subject} {rules:?}");
                assert_eq!(rights.may_deliver(text, None), hears.contains(&subject), "{subject} {rules:?}");
                assert_eq!(
                    rights.may_deliver(text, Some(b"q")),
                    hears.contains(&subject),
                    "{subject} {rules:?}"
                );
                let may_subscribe = rights.subscription(text, None) == SubjectAccess::Allowed;
                assert_eq!(may_subscribe, hears.contains(&subject), "{subject} {rules:?}");
            }
        }
        for topic in ["orders", "plain"] {
            for operation in [Read, Write] {
                let expected = kafka.contains(&(operation, topic));
                assert_eq!(world.by_kafka(operation, topic), expected, "{operation} {topic} {rules:?}");
            }
        }
        world.remove(rules).await;
    }
    let admin = world.rights("admin");
    assert!(SUBJECTS.iter().all(|subject| admin.may_publish(subject.as_bytes())));
}

#[tokio::test]
async fn a_wide_subscription_is_filtered_and_one_without_an_allowed_part_is_refused() {
    let world = World::new(&[]).await;
    let rights = world.rights("alice");
    for (pattern, access) in [
        (">", SubjectAccess::Filtered),
        ("*.x", SubjectAccess::Filtered),
        ("orders.>", SubjectAccess::Refused),
        ("orders.*", SubjectAccess::Refused),
        ("plain.*.a", SubjectAccess::Refused),
        ("other.>", SubjectAccess::Allowed),
        ("a..b", SubjectAccess::Refused),
    ] {
        assert_eq!(rights.subscription(pattern.as_bytes(), None), access, "{pattern}");
    }
}

#[tokio::test]
async fn topics_that_come_and_go_change_decisions() {
    let world = World::new(&[]).await;
    let rights = world.rights("alice");
    assert!(rights.may_publish(b"other.x") && rights.may_deliver(b"a__b.k", None));
    world.add_topic("late", 3, "other.>").await;
    assert!(!rights.may_publish(b"other.x"));
    // Records of a topic with such a name appear with `_`.
    world.add_topic("a..b", 4, "").await;
    assert!(!rights.may_deliver(b"a__b.k", None));
}

#[tokio::test]
async fn a_reply_subject_of_a_topic_needs_write_and_others_hear_acknowledgements_that_the_client_may_hear() {
    let world = World::new(&[]).await;
    let rights = world.rights("alice");
    assert_eq!(rights.reply(b"orders.x"), ReplyRight::Refused);
    assert_eq!(rights.reply(b"_INBOX.a"), ReplyRight::Acknowledged);
    let rules =
        [(Allow, Write, Topic, "orders"), (Allow, Write, Subject, "mine"), (Allow, Read, Subject, "_I.a.>")];
    world.add(&rules).await;
    assert_eq!(rights.reply(b"orders.x"), ReplyRight::Acknowledged);
    assert_eq!(rights.reply(b"_I.a.1"), ReplyRight::Acknowledged);
    assert_eq!(rights.reply(b"_I.b.1"), ReplyRight::Silent, "another client's inbox");
}

#[tokio::test]
async fn a_key_that_is_a_subject_of_the_topic_must_be_one_that_the_client_may_publish_to() {
    let world = World::new(&[]).await;
    let rights = world.rights("alice");
    world.add(&[(Allow, Write, Subject, "orders.a")]).await;
    assert!(rights.may_use_key(b"orders.a", b"any text") && rights.may_use_key(b"orders.a", b"orders.a"));
    assert!(!rights.may_use_key(b"orders.a", b"orders.b") && !rights.may_use_key(b"orders.a", b"o.x"));
    assert!(rights.may_use_key(b"orders.a", b"plain.k"), "a subject of another topic");
}

/// There, a record with a key deletes the older one with it, whatever the subjects of both are.
#[tokio::test]
async fn in_a_compacted_topic_every_key_stands_for_a_subject() {
    let world = World::new(&[]).await;
    let rights = world.rights("alice");
    world.add(&[(Allow, Write, Subject, "orders.a"), (Allow, Write, Subject, "orders.mine")]).await;
    assert!(rights.may_use_key(b"orders.a", b"b"), "nothing is deleted by its key");
    let compact = ConfigOp {
        key: "cleanup.policy".to_owned(),
        action: ConfigAction::Set,
        value: Some("compact".to_owned()),
    };
    let change = ConfigChange::Incremental(vec![compact]);
    world.execute(Command::AlterTopicConfigs { topic: "orders".to_owned(), change }).await;
    assert!(!rights.may_use_key(b"orders.a", b"b"), "it replaces what is heard as orders.b");
    assert!(!rights.may_use_key(b"orders.a", b"no subject"), "it replaces what is heard as orders");
    assert!(rights.may_use_key(b"orders.a", b"mine") && rights.may_use_key(b"orders.a", b"orders.a"));
    world.add(&[(Allow, Write, Topic, "orders")]).await;
    assert!(rights.may_use_key(b"orders.a", b"b") && rights.may_use_key(b"orders.a", b"no subject"));
}

#[tokio::test]
async fn rules_that_are_only_tried_refuse_nothing() {
    let world = World::new(&[("tailrace.authorizer.report.only", "true")]).await;
    let rights = world.rights("alice");
    assert!(
        SUBJECTS
            .iter()
            .all(|text| rights.may_publish(text.as_bytes()) && rights.may_deliver(text.as_bytes(), None))
    );
    assert_eq!(rights.subscription(b"orders.>", None), SubjectAccess::Allowed);
}

#[test]
fn without_a_node_everything_is_refused() {
    tailrace_runtime::install();
    let rights = SubjectRights::new(&Weak::new(), caller(Door::Nats, "admin"), None);
    assert!(!rights.may_publish(b"a") && !rights.may_deliver(b"a", None) && !rights.may_use_key(b"a", b"b"));
    assert_eq!(rights.subscription(b"a", None), SubjectAccess::Refused);
    assert_eq!(rights.reply(b"a"), ReplyRight::Refused);
}

/// A table in which the account B imports the subjects of `orders` from that of the topics, by way of A.
fn importers() -> Source {
    use tailrace_identity::Users;
    let mut users = Users::new([7; 48]);
    let file = r#"
        [[accounts]]
        name = "$G"
        exports = [{ stream = "orders.>" }, { service = "orders.*" }]

        [[accounts]]
        name = "A"
        imports = [{ stream = "orders.>", from = "$G" }, { service = "orders.*", from = "$G" }]
        exports = [{ stream = "orders.>" }, { service = "orders.*" }]

        [[accounts]]
        name = "B"
        imports = [
            { stream = "orders.>", from = "A", to = "in.>" },
            { service = "orders.*", from = "A", to = "out.*" },
        ]

        [[users]]
        user = "u"
        password = "p"
    "#;
    users.read(file).unwrap();
    Source::File(Arc::clone(users.accounts()))
}

/// An import is not a way around the rules of topics.
#[tokio::test]
async fn what_leads_into_a_topic_by_imports_needs_the_rights_for_the_topic() {
    let world = World::new(&[]).await;
    let images = Images::of(&importers(), &"B".into(), &"$G".into());
    let rights = SubjectRights::new(&Arc::downgrade(world.node()), caller(Door::Nats, "alice"), images);
    let may = || {
        let published = [&b"out.x"[..], b"other"].map(|subject| rights.may_publish(subject));
        let heard = [&b"in.x"[..], b"other"].map(|subject| rights.may_deliver(subject, None));
        (published, heard)
    };
    assert_eq!(may(), ([false, true], [false, true]));
    let rules: [Rule; 2] = [(Allow, Write, Topic, "orders"), (Allow, Read, Topic, "orders")];
    world.add(&rules).await;
    assert_eq!(may(), ([true, true], [true, true]));
    // A key is a subject of the topic, too.
    assert!(rights.may_use_key(b"out.x", b"orders.secret"));
    let secret: [Rule; 1] = [(Deny, Write, Subject, "orders.secret")];
    world.add(&secret).await;
    assert!(!rights.may_use_key(b"out.x", b"orders.secret") && rights.may_use_key(b"out.x", b"k"));
    world.remove(&secret).await;
    world.remove(&rules).await;
    assert_eq!(may(), ([false, true], [false, true]));
    assert!(Images::of(&importers(), &"$G".into(), &"$G".into()).is_none(), "it is the account itself");
    world.running.stop().await;
}
