//! Push consumers: what is sent to whom, and when it stops.

use std::time::Duration;

use serde_json::{Value, json};
use tailrace_identity::acl::{Operation, Permission, ResourceKind};

use super::messages::with_messages;
use super::{Asker, ON};
use crate::cluster::cluster;
use crate::common::nats::Said;
use crate::common::{PATIENCE, TestServer};
use crate::rights::World;

/// What came for a deliver subject: subject, reply, payload; of a status its block.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sent {
    sid: String,
    subject: String,
    reply: String,
    headers: String,
    payload: String,
}

impl Sent {
    /// The sequence of the message, how often it was delivered, the number of the delivery, and how many are
    /// pending behind it.
    fn delivery(&self) -> (u64, u64, u64, u64) {
        let words: Vec<u64> = self.reply.split('.').skip(4).map(|word| word.parse().unwrap()).collect();
        let [deliveries, sequence, number, _, pending] = words[..] else { panic!("{self:?}") };
        (sequence, deliveries, number, pending)
    }

    fn is_message(&self) -> bool {
        self.reply.starts_with("$JS.ACK.")
    }

    fn is_status(&self, line: &str) -> bool {
        self.headers.starts_with(&format!("NATS/1.0 {line}\r\n"))
    }
}

/// The next that comes on a subscription other than that of answers.
async fn next(asker: &mut Asker) -> Sent {
    loop {
        let Said::Message { subject, sid, reply, headers, payload } = asker.next().await else { continue };
        if sid != "1" {
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            let headers = text(headers.unwrap_or_default());
            return Sent { sid, subject, reply: reply.unwrap_or_default(), headers, payload: text(payload) };
        }
    }
}

async fn next_message(asker: &mut Asker) -> Sent {
    loop {
        let sent = next(asker).await;
        if sent.is_message() {
            return sent;
        }
    }
}

async fn listen(asker: &mut Asker, subject: &str, sid: u32) {
    asker.send(&format!("SUB {subject} {sid}\r\n")).await;
    asker.sync().await;
}

async fn say(asker: &mut Asker, subject: &str, payload: &str) {
    asker.send(&format!("PUB {subject} {}\r\n{payload}\r\n", payload.len())).await;
}

async fn create(asker: &mut Asker, name: &str, config: &str) -> Value {
    let body = format!("{{\"stream_name\":\"S\",\"config\":{config}}}");
    asker.api(&format!("CONSUMER.CREATE.S.{name}"), &body).await
}

async fn made(asker: &mut Asker, name: &str, config: &str) -> Value {
    let made = create(asker, name, config).await;
    assert_eq!(made["error"], Value::Null, "{made}");
    made
}

#[tokio::test]
async fn who_listens_gets_messages_under_their_own_subjects_old_ones_and_new_ones() {
    let (server, mut asker) = with_messages(3).await;
    let mut ear = Asker::new(&server).await;
    listen(&mut ear, "to", 7).await;
    let made = made(&mut asker, "P", r#"{"deliver_subject":"to","ack_policy":"explicit"}"#).await;
    assert_eq!((&made["num_pending"], &made["push_bound"]), (&json!(3), &json!(true)));
    for at in 0..3 {
        let sent = next(&mut ear).await;
        assert_eq!(
            (&*sent.sid, &*sent.subject, &*sent.payload),
            ("7", &*format!("a.{at}"), &*format!("m{at}"))
        );
        assert_eq!(sent.delivery(), (at + 1, 1, at + 1, 2 - at));
        assert_eq!(sent.headers.is_empty(), at != 0);
    }
    say(&mut asker, "a.9", "new").await;
    let sent = next(&mut ear).await;
    assert_eq!((sent.delivery(), &*sent.subject, &*sent.payload), ((4, 1, 4, 0), "a.9", "new"));
    asker.ask(&sent.reply, "").await;
    let info = asker.api("CONSUMER.INFO.S.P", "").await;
    assert_eq!((&info["num_ack_pending"], &info["delivered"]["stream_seq"]), (&json!(3), &json!(4)));
    let pull = asker.ask("$JS.API.CONSUMER.MSG.NEXT.S.P", "").await;
    assert!(pull.headers.starts_with("NATS/1.0 409 Consumer is push based\r\n"), "{pull:?}");
}

#[tokio::test]
async fn a_consumer_waits_for_somebody_who_listens_and_goes_on_where_it_was() {
    let (server, mut asker) = with_messages(2).await;
    let mut ear = Asker::new(&server).await;
    let config =
        r#"{"durable_name":"P","deliver_subject":"to","ack_policy":"explicit","ack_wait":60000000000}"#;
    let first = made(&mut asker, "P", config).await;
    assert_eq!((&first["push_bound"], &first["num_ack_pending"]), (&Value::Null, &json!(0)));
    ear.send("SUB to 7\r\n").await;
    assert_eq!(next(&mut ear).await.delivery(), (1, 1, 1, 1));
    assert_eq!(next(&mut ear).await.delivery(), (2, 1, 2, 0));
    ear.send("UNSUB 7\r\n").await;
    ear.sync().await;
    say(&mut asker, "a.1", "while nobody listens").await;
    let info = async {
        loop {
            let info = asker.api("CONSUMER.INFO.S.P", "").await;
            if info["num_pending"] == 1 {
                break info;
            }
        }
    };
    let info = tokio::time::timeout(PATIENCE, info).await.expect("the message is stored");
    assert_eq!((&info["push_bound"], &info["num_ack_pending"]), (&Value::Null, &json!(2)));
    // Another subscription takes over.
    ear.send("SUB to 8\r\n").await;
    let sent = next(&mut ear).await;
    assert_eq!((&*sent.sid, sent.delivery()), ("8", (3, 1, 3, 0)));
}

#[tokio::test]
async fn a_member_of_the_queue_group_gets_each_message_once() {
    let (server, mut asker) = with_messages(0).await;
    let mut ear = Asker::new(&server).await;
    let config = r#"{"deliver_subject":"to","deliver_group":"g","ack_policy":"explicit"}"#;
    let mut other = Asker::new(&server).await;
    // A listener outside the group is no reason to begin.
    listen(&mut ear, "to", 9).await;
    let made = made(&mut asker, "P", config).await;
    assert_eq!(made["push_bound"], Value::Null, "{made}");
    ear.send("UNSUB 9\r\n").await;
    for member in [&mut ear, &mut other] {
        member.send("SUB to g 7\r\n").await;
        member.sync().await;
    }
    for at in 0..60 {
        say(&mut asker, "a.1", &at.to_string()).await;
    }
    let (mut here, mut there) = (0, 0);
    while here + there < 60 {
        tokio::select! {
            sent = next(&mut ear) => here += u64::from(sent.is_message()),
            sent = next(&mut other) => there += u64::from(sent.is_message()),
        }
    }
    assert!(here > 0 && there > 0, "{here} and {there}");
    let info = asker.api("CONSUMER.INFO.S.P", "").await;
    assert_eq!((&info["delivered"]["consumer_seq"], &info["num_ack_pending"]), (&json!(60), &json!(60)));
}

#[tokio::test]
async fn heartbeats_tell_the_position_while_nothing_comes() {
    let (server, mut asker) = with_messages(2).await;
    let mut ear = Asker::new(&server).await;
    listen(&mut ear, "to", 7).await;
    let config =
        r#"{"deliver_subject":"to","ack_policy":"none","filter_subject":"a.0","idle_heartbeat":100000000}"#;
    made(&mut asker, "P", config).await;
    assert_eq!(next(&mut ear).await.delivery(), (1, 1, 1, 0));
    let beat = next(&mut ear).await;
    assert_eq!(
        beat.headers,
        "NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 1\r\nNats-Last-Stream: 2\r\n\r\n"
    );
    assert_eq!((&*beat.subject, &*beat.reply), ("to", ""));
}

#[tokio::test]
async fn a_client_that_does_not_answer_gets_no_more_than_a_window_and_then_goes_on() {
    const COUNT: u64 = 100;
    let (server, mut asker) = with_messages(0).await;
    let mut ear = Asker::new(&server).await;
    let text = "x".repeat(40_000);
    for _ in 0..COUNT {
        say(&mut asker, "a.1", &text).await;
    }
    listen(&mut ear, "to", 7).await;
    let config =
        r#"{"deliver_subject":"to","ack_policy":"none","idle_heartbeat":100000000,"flow_control":true}"#;
    made(&mut asker, "P", config).await;
    let (mut messages, mut asked) = (0, None);
    let stalled = loop {
        let sent = next(&mut ear).await;
        if sent.is_message() {
            messages += 1;
            assert_eq!(sent.delivery().0, messages);
        } else if sent.is_status("100 FlowControl Request") {
            assert!(asked.is_none(), "once, until it is answered");
            assert!(sent.reply.starts_with("$JS.FC.S.P."), "{sent:?}");
            asked = Some((messages, sent.reply));
        } else if sent.headers.contains("Nats-Consumer-Stalled: ") {
            break sent;
        }
    };
    let (asked_at, answer) = asked.expect("it is asked in line with the messages");
    assert!(stalled.headers.contains(&format!("Nats-Consumer-Stalled: {answer}\r\n")), "{stalled:?}");
    // Two megabytes are under way at most, and one message more. It is asked after one.
    assert!((26..=28).contains(&asked_at) && (52..=54).contains(&messages), "{asked_at}, {messages}");
    ear.send(&format!("PUB {answer} 0\r\n\r\n")).await;
    while messages < COUNT {
        let sent = next(&mut ear).await;
        if sent.is_message() {
            messages += 1;
        } else if sent.is_status("100 FlowControl Request") {
            ear.send(&format!("PUB {} 0\r\n\r\n", sent.reply)).await;
        }
    }
}

#[tokio::test]
async fn a_client_that_reads_nothing_holds_up_nobody_else_and_memory_stays_bounded() {
    const COUNT: u64 = 20_000;
    let (server, mut asker) = with_messages(0).await;
    let mut ear = Asker::new(&server).await;
    let text = "x".repeat(2_000);
    for _ in 0..COUNT {
        say(&mut asker, "a.1", &text).await;
    }
    let stored = async { while asker.api("STREAM.INFO.S", "").await["state"]["messages"] != COUNT {} };
    tokio::time::timeout(PATIENCE, stored).await.expect("all are stored");
    let mut lazy = Asker::new(&server).await;
    listen(&mut lazy, "lazy", 7).await;
    made(&mut asker, "L", r#"{"deliver_subject":"lazy","ack_policy":"none"}"#).await;
    listen(&mut ear, "to", 7).await;
    made(&mut asker, "P", r#"{"deliver_subject":"to","ack_policy":"none"}"#).await;
    for sequence in 1..=COUNT {
        assert_eq!(next_message(&mut ear).await.delivery().0, sequence);
    }
    assert_eq!(asker.api("CONSUMER.INFO.S.P", "").await["num_pending"], 0);
}

#[tokio::test]
async fn an_ephemeral_consumer_goes_when_nobody_listens_any_more() {
    let (server, mut asker) = with_messages(1).await;
    let mut ear = Asker::new(&server).await;
    listen(&mut ear, "to", 7).await;
    made(&mut asker, "P", r#"{"deliver_subject":"to","inactive_threshold":200000000}"#).await;
    next_message(&mut ear).await;
    // For the time of an inactive one to pass.
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(asker.api("CONSUMER.NAMES.S", "").await["total"], 1, "somebody listens");
    ear.send("UNSUB 7\r\n").await;
    let gone = async {
        while asker.api("CONSUMER.NAMES.S", "").await["total"] != 0 {
            // For its time to pass.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("it goes");
}

#[tokio::test]
async fn a_consumer_may_be_sent_elsewhere_once_nobody_listens_at_the_old_place() {
    let (server, mut asker) = with_messages(1).await;
    let mut ear = Asker::new(&server).await;
    listen(&mut ear, "to", 7).await;
    made(&mut asker, "P", r#"{"durable_name":"P","deliver_subject":"to"}"#).await;
    next_message(&mut ear).await;
    let other = r#"{"durable_name":"P","deliver_subject":"other"}"#;
    assert_eq!(create(&mut asker, "P", other).await["error"]["err_code"], 10013);
    ear.send("UNSUB 7\r\n").await;
    listen(&mut ear, "other", 8).await;
    let moved = made(&mut asker, "P", other).await;
    assert_eq!((&moved["config"]["deliver_subject"], &moved["push_bound"]), (&json!("other"), &json!(true)));
    say(&mut asker, "a.1", "m").await;
    let sent = next_message(&mut ear).await;
    assert_eq!((&*sent.sid, sent.delivery().0), ("8", 2));
}

/// As clients keep an eye on a bucket: the last message of each subject, then what comes.
#[tokio::test]
async fn an_ordered_consumer_gets_the_last_of_each_subject_and_then_what_is_new() {
    let (server, mut asker) = with_messages(7).await;
    let mut ear = Asker::new(&server).await;
    listen(&mut ear, "to", 7).await;
    let config = r#"{"deliver_subject":"to","ack_policy":"none","max_deliver":1,"ack_wait":79200000000000,
        "flow_control":true,"idle_heartbeat":5000000000,"mem_storage":true,"num_replicas":1,
        "deliver_policy":"last_per_subject","filter_subject":"a.>"}"#;
    let made = made(&mut asker, "P", config).await;
    assert_eq!(made["num_pending"], 3);
    let mut got = Vec::new();
    for _ in 0..3 {
        let (sequence, _, number, pending) = next_message(&mut ear).await.delivery();
        got.push((sequence, number, pending));
    }
    assert_eq!(got, [(5, 1, 2), (6, 2, 1), (7, 3, 0)]);
    say(&mut asker, "a.1", "later").await;
    assert_eq!(next_message(&mut ear).await.delivery(), (8, 1, 4, 0));
}

#[tokio::test]
async fn very_many_who_listen_all_get_it() {
    const LISTENERS: u32 = 1_500;
    let (server, mut asker) = with_messages(1).await;
    let mut ear = Asker::new(&server).await;
    let all: String = (0..LISTENERS).map(|number| format!("SUB to {}\r\n", number + 10)).collect();
    ear.send(&all).await;
    ear.sync().await;
    made(&mut asker, "P", r#"{"deliver_subject":"to"}"#).await;
    let mut sids = std::collections::BTreeSet::new();
    while sids.len() < LISTENERS as usize {
        let sent = next(&mut ear).await;
        assert_eq!((&*sent.subject, sent.delivery()), ("a.0", (1, 1, 1, 0)));
        assert!(sids.insert(sent.sid), "once each");
    }
}

#[tokio::test]
async fn what_a_user_may_neither_say_nor_hear_is_no_deliver_subject() {
    use Operation::{Describe, Read, Write};
    use Permission::Allow;
    use ResourceKind::{Subject, Topic};
    let mut world = World::new(&[ON]).await;
    let mut admin = Asker::with(&world.server, r#""user":"admin","pass":"open sesame""#).await;
    admin.api("STREAM.CREATE.S", r#"{"name":"S","subjects":["s.>"]}"#).await;
    world
        .add(&[
            ("alice", Allow, Write, Subject, "$JS.>"),
            ("alice", Allow, Read, Subject, "inbox.*"),
            ("alice", Allow, Read, Subject, "mine.>"),
            ("alice", Allow, Describe, Topic, "S"),
            ("alice", Allow, Read, Topic, "S"),
        ])
        .await;
    let mut alice = Asker::with(&world.server, r#""user":"alice","pass":"p""#).await;
    let refused = create(&mut alice, "A", r#"{"deliver_subject":"others.1"}"#).await;
    assert_eq!(refused["error"]["err_code"], 10012, "{refused}");
    listen(&mut alice, "mine.1", 7).await;
    made(&mut alice, "A", r#"{"deliver_subject":"mine.1"}"#).await;
    say(&mut admin, "s.1", "m").await;
    assert_eq!(next_message(&mut alice).await.payload, "m");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listeners_at_any_node_get_what_the_leader_sends() {
    let nodes = cluster(3, &[ON]).await;
    let mut askers = Vec::new();
    for node in &nodes {
        askers.push(Asker::new(node).await);
    }
    let config = r#"{"name":"S","subjects":["a.>"],"num_replicas":3}"#;
    made_stream(&mut askers[0], config).await;
    for asker in &mut askers {
        let known = async { while asker.api("STREAM.NAMES", "").await["total"] != 1 {} };
        tokio::time::timeout(PATIENCE, known).await.expect("the node learns of the stream");
    }
    for (at, asker) in askers.iter_mut().enumerate() {
        listen(asker, &format!("to.{at}"), 7).await;
        let config =
            format!("{{\"deliver_subject\":\"to.{at}\",\"flow_control\":true,\"idle_heartbeat\":100000000}}");
        let made = create(asker, &format!("P{at}"), &config).await;
        assert_eq!(made["error"], Value::Null, "{made}");
    }
    let text = "x".repeat(100_000);
    for at in 0..60 {
        say(&mut askers[at % 3], "a.1", &text).await;
    }
    for asker in &mut askers {
        let mut messages = 0;
        while messages < 60 {
            let sent = next(asker).await;
            if sent.is_message() {
                messages += 1;
                assert_eq!((&*sent.subject, sent.delivery().0), ("a.1", messages));
            } else if sent.is_status("100 FlowControl Request") {
                asker.send(&format!("PUB {} 0\r\n\r\n", sent.reply)).await;
            }
        }
    }
}

async fn made_stream(asker: &mut Asker, config: &str) {
    let made = asker.api("STREAM.CREATE.S", config).await;
    assert_eq!(made["error"], Value::Null, "{made}");
}

#[tokio::test]
async fn push_consumers_count_as_the_settings_say() {
    let server = TestServer::with(&[ON, ("tailrace.jetstream.stream.consumers.max", "1")]).await;
    let mut asker = Asker::new(&server).await;
    made_stream(&mut asker, r#"{"name":"S","subjects":["a.>"]}"#).await;
    made(&mut asker, "P", r#"{"durable_name":"P","deliver_subject":"to"}"#).await;
    assert_eq!(create(&mut asker, "Q", r#"{"deliver_subject":"to"}"#).await["error"]["err_code"], 10026);
    assert_eq!(create(&mut asker, "P", r#"{"deliver_subject":"a.to"}"#).await["error"]["err_code"], 10081);
}
