//! Who may do what through JetStream's API: what it may do to the topics through Kafka, and nothing more.

use serde_json::Value;
use tailrace_identity::acl::{Operation, Permission, ResourceKind};

use super::{Asker, ON};
use crate::accounts;
use crate::common::nats::Said;
use crate::rights::{Rule, World};
use Operation::{AlterConfigs, Create, Delete, Describe, Read, Write};
use Permission::{Allow, Deny};
use ResourceKind::{Subject, Topic};

const ALICE: &str = r#""user":"alice","pass":"p""#;
const ADMIN: &str = r#""user":"admin","pass":"open sesame""#;

/// What a user with a list of subjects needs to ask at all.
const ASKS: [Rule<'static>; 2] =
    [("alice", Allow, Write, Subject, "$JS.API.>"), ("alice", Allow, Read, Subject, "inbox.*")];

const S: &str = r#"{"name":"S","subjects":["s.>"]}"#;

#[tokio::test]
async fn another_account_has_no_jetstream() {
    let users = "[[accounts]]\nname = \"B\"\n[[users]]\nuser = \"b\"\npassword = \"p\"\naccount = \"B\"\n\
                 [[users]]\nuser = \"g\"\npassword = \"p\"\n";
    let world = accounts::world(users, &[ON]).await;
    let mut other = Asker::with(&world.server, r#""user":"b","pass":"p""#).await;
    assert_eq!(other.refusal("INFO", "").await, 10039);
    assert_eq!(other.refusal("STREAM.CREATE.S", S).await, 10039);
    let direct = other.ask("$JS.API.DIRECT.GET.S", r#"{"seq":1}"#).await;
    assert!(direct.headers.starts_with("NATS/1.0 503\r\n"), "{direct:?}");
    let mut own = Asker::with(&world.server, r#""user":"g","pass":"p""#).await;
    assert_eq!(own.api("INFO", "").await["streams"], 0);
}

#[tokio::test]
async fn who_may_not_make_a_topic_by_kafka_makes_no_stream() {
    let mut world = World::new(&[ON]).await;
    world.add(&ASKS).await;
    let mut alice = Asker::with(&world.server, ALICE).await;
    assert_eq!(alice.refusal("STREAM.CREATE.S", S).await, 10049);
    // The right to the topic is not enough: it would capture what others publish.
    world.add(&[("alice", Allow, Create, Topic, "S")]).await;
    assert_eq!(alice.refusal("STREAM.CREATE.S", S).await, 10049);
    world.add(&[("alice", Allow, Read, Subject, "s.>")]).await;
    assert_eq!(alice.refusal("STREAM.CREATE.S", S).await, 10049, "the server would acknowledge");
    world.add(&[("alice", Allow, Write, Subject, "s.>"), ("alice", Allow, Describe, Topic, "S")]).await;
    assert_eq!(alice.api("STREAM.CREATE.S", S).await["did_create"], true);
    assert_eq!(alice.refusal("STREAM.CREATE.T", r#"{"name":"T"}"#).await, 10049);
    assert_eq!(alice.refusal("STREAM.UPDATE.S", S).await, 10069);
    assert_eq!(alice.refusal("STREAM.DELETE.S", "").await, 10050);
    assert_eq!(alice.refusal("STREAM.PURGE.S", "").await, 10110);
    world.add(&[("alice", Allow, AlterConfigs, Topic, "S"), ("alice", Allow, Delete, Topic, "S")]).await;
    assert_eq!(alice.api("STREAM.PURGE.S", "").await["purged"], 0);
    assert_eq!(alice.api("STREAM.DELETE.S", "").await["success"], true);
}

#[tokio::test]
async fn a_change_of_subjects_asks_for_the_new_ones() {
    let mut world = World::new(&[ON]).await;
    let mut admin = Asker::with(&world.server, ADMIN).await;
    admin.api("STREAM.CREATE.S", S).await;
    let rules = [("alice", Allow, AlterConfigs, Topic, "S"), ("alice", Allow, Describe, Topic, "S")];
    world.add(&rules).await;
    world.add(&ASKS).await;
    let mut alice = Asker::with(&world.server, ALICE).await;
    let wider = r#"{"name":"S","subjects":["s.>","t.>"]}"#;
    assert_eq!(alice.refusal("STREAM.UPDATE.S", wider).await, 10069);
    world.add(&[("alice", Allow, Read, Subject, "t.>"), ("alice", Allow, Write, Subject, "t.>")]).await;
    let changed =
        alice.api("STREAM.UPDATE.S", r#"{"name":"S","subjects":["s.>","t.>"],"no_ack":true}"#).await;
    assert_eq!(changed["error"], Value::Null, "{changed}");
}

#[tokio::test]
async fn streams_that_the_client_may_not_know_are_not_there() {
    let mut world = World::new(&[ON]).await;
    let mut admin = Asker::with(&world.server, ADMIN).await;
    admin.api("STREAM.CREATE.S", S).await;
    let mut alice = Asker::with(&world.server, ALICE).await;
    assert_eq!(alice.api("STREAM.NAMES", "").await["total"], 0);
    assert_eq!(alice.api("STREAM.LIST", "").await["total"], 0);
    assert_eq!(alice.api("INFO", "").await["streams"], 0);
    let get = r#"{"seq":1}"#;
    for (request, body) in [
        ("STREAM.INFO.S", ""),
        ("STREAM.DELETE.S", ""),
        ("STREAM.PURGE.S", ""),
        ("STREAM.UPDATE.S", r#"{"name":"S","storage":"memory"}"#),
        ("STREAM.MSG.GET.S", get),
        ("CONSUMER.NAMES.S", ""),
    ] {
        assert_eq!(alice.refusal(request, body).await, 10059, "{request}");
    }
    world.add(&[("alice", Allow, Describe, Topic, "S")]).await;
    assert_eq!(alice.api("STREAM.NAMES", "").await["total"], 1);
    // To know it is not to read it.
    assert_eq!(alice.refusal("STREAM.MSG.GET.S", get).await, 10051);
    let direct = alice.ask("$JS.API.DIRECT.GET.S", get).await;
    assert!(direct.headers.starts_with("NATS/1.0 503\r\n"), "{direct:?}");
}

#[tokio::test]
async fn a_request_is_a_publication_like_any_other() {
    let mut world = World::new(&[ON]).await;
    world.add(&[("alice", Deny, Write, Subject, "$JS.API.INFO")]).await;
    let mut alice = Asker::with(&world.server, ALICE).await;
    alice.publish("$JS.API.INFO", "", "").await;
    let said = alice.sync().await;
    assert!(
        said.iter().any(|said| matches!(said, Said::Error(text) if text.contains("Permissions Violation"))),
        "{said:?}"
    );
}

/// As with Kafka, who must not read a subject of the topic does not read the topic.
#[tokio::test]
async fn a_stream_with_a_denied_subject_is_not_read() {
    let mut world = World::new(&[ON]).await;
    let mut admin = Asker::with(&world.server, ADMIN).await;
    admin.api("STREAM.CREATE.S", r#"{"name":"S","subjects":["s.>"],"allow_direct":true}"#).await;
    admin.ask("s.secret", "x").await;
    world.add(&ASKS).await;
    world.add(&[("alice", Allow, Describe, Topic, "S"), ("alice", Allow, Read, Topic, "S")]).await;
    let mut alice = Asker::with(&world.server, ALICE).await;
    assert_eq!(alice.api("STREAM.MSG.GET.S", r#"{"seq":1}"#).await["message"]["data"], "eA==");
    world.add(&[("alice", Deny, Read, Subject, "s.secret")]).await;
    assert_eq!(alice.refusal("STREAM.MSG.GET.S", r#"{"seq":1}"#).await, 10051);
    for request in ["$JS.API.DIRECT.GET.S", "$JS.API.DIRECT.GET.S.s.secret"] {
        let direct = alice.ask(request, "").await;
        assert!(direct.headers.starts_with("NATS/1.0 503\r\n"), "{direct:?}");
    }
}

/// The answer goes where the client says, so it must be a place where the client may speak or listen.
#[tokio::test]
async fn an_answer_goes_only_where_the_client_may_name_a_reply() {
    let mut world = World::new(&[ON]).await;
    world.admin.create_topic("orders", 1, &[("tailrace.subjects", "orders.>")]).await;
    world.add(&ASKS).await;
    let mut admin = Asker::with(&world.server, ADMIN).await;
    admin.send("SUB orders.> 9\r\n").await;
    admin.sync().await;
    let mut alice = Asker::with(&world.server, ALICE).await;
    alice.send("PUB $JS.API.INFO orders.a 0\r\n\r\n").await;
    let said = alice.sync().await;
    assert!(said.iter().any(|said| matches!(said, Said::Error(_))), "{said:?}");
    // It is not carried out either, and nobody hears of it.
    assert_eq!(alice.api("INFO", "").await["api"]["total"], 0);
    let heard = admin.sync().await;
    let is_it = |said: &Said| matches!(said, Said::Message { subject, .. } if subject == "orders.a");
    assert!(!heard.iter().any(is_it), "{heard:?}");
    assert_eq!(world.records("orders").await, 0);
}

#[tokio::test]
async fn an_answer_does_not_go_where_the_lists_of_a_user_do_not_reach() {
    let users = "[[users]]\nuser = \"u\"\npassword = \"p\"\npublish = { allow = [\"$JS.API.>\"] }\n\
                 subscribe = { allow = [\"inbox.*\"] }\n[[users]]\nuser = \"g\"\npassword = \"p\"\n";
    let world = accounts::world(users, &[ON]).await;
    let mut other = Asker::with(&world.server, r#""user":"g","pass":"p""#).await;
    other.send("SUB secret.> 9\r\n").await;
    other.sync().await;
    let mut user = Asker::with(&world.server, r#""user":"u","pass":"p""#).await;
    user.send("PUB $JS.API.INFO secret.a 0\r\n\r\n").await;
    assert_eq!(user.api("INFO", "").await["api"]["total"], 0, "it is not carried out");
    let heard = other.sync().await;
    let is_it = |said: &Said| matches!(said, Said::Message { subject, .. } if subject == "secret.a");
    assert!(!heard.iter().any(is_it), "{heard:?}");
}
