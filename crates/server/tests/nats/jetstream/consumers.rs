//! Pull consumers: what clients get, when again, and how they are told that there is nothing.

use std::time::Duration;

use serde_json::{Value, json};
use tailrace_identity::acl::{Operation, Permission, ResourceKind};

use super::messages::with_messages;
use super::{Asker, ON};
use crate::cluster::{all_vote, cluster};
use crate::common::TestServer;
use crate::common::nats::Said;
use crate::rights::World;

/// What came for a pull.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Got {
    /// A message: its subject, its payload, and where it is acknowledged.
    Message { subject: String, payload: String, ack: String, headers: String },
    /// The first line of a status.
    Status(String),
}

impl Got {
    fn of(said: Said) -> Option<Self> {
        let Said::Message { subject, reply, headers, payload, .. } = said else { return None };
        let headers = String::from_utf8(headers.unwrap_or_default()).unwrap();
        Some(match reply {
            Some(ack) => {
                Self::Message { subject, payload: String::from_utf8(payload).unwrap(), ack, headers }
            }
            // The answer to an acknowledgement, maybe another client's: all nodes deliver it.
            None if headers.is_empty() => return None,
            None => Self::Status(headers),
        })
    }

    pub(super) fn ack(&self) -> &str {
        match self {
            Self::Message { ack, .. } => ack,
            Self::Status(status) => panic!("a status: {status}"),
        }
    }

    /// The message's sequence and how often it was delivered, of its ack subject.
    pub(super) fn delivery(&self) -> (u64, u64) {
        let words: Vec<&str> = self.ack().split('.').collect();
        (words[5].parse().unwrap(), words[4].parse().unwrap())
    }

    pub(super) fn is_status(&self, line: &str) -> bool {
        matches!(self, Self::Status(block) if block.starts_with(&format!("NATS/1.0 {line}\r\n")))
    }
}

pub(super) async fn next(asker: &mut Asker) -> Got {
    loop {
        if let Some(got) = Got::of(asker.next().await) {
            return got;
        }
    }
}

pub(super) async fn pull(asker: &mut Asker, consumer: &str, body: &str) {
    asker.publish(&format!("$JS.API.CONSUMER.MSG.NEXT.S.{consumer}"), "", body).await;
}

/// Everything that comes for a pull, up to the first status.
pub(super) async fn all(asker: &mut Asker, consumer: &str, body: &str) -> Vec<Got> {
    pull(asker, consumer, body).await;
    let mut got = Vec::new();
    loop {
        got.push(next(asker).await);
        if matches!(got.last(), Some(Got::Status(_))) {
            return got;
        }
    }
}

async fn say(asker: &mut Asker, subject: &str, payload: &str) {
    asker.send(&format!("PUB {subject} {}\r\n{payload}\r\n", payload.len())).await;
}

pub(super) async fn create(asker: &mut Asker, name: &str, config: &str) -> Value {
    let body = format!("{{\"stream_name\":\"S\",\"config\":{config}}}");
    asker.api(&format!("CONSUMER.CREATE.S.{name}"), &body).await
}

/// A durable consumer D with these further settings.
pub(super) async fn durable(asker: &mut Asker, more: &str) -> Value {
    let config = format!("{{\"durable_name\":\"D\",\"ack_policy\":\"explicit\"{more}}}");
    let made = create(asker, "D", &config).await;
    assert_eq!(made["error"], Value::Null, "{made}");
    made
}

#[tokio::test]
async fn a_pull_gets_messages_with_their_own_subjects_and_an_end() {
    let (_server, mut asker) = with_messages(5).await;
    let made = durable(&mut asker, "").await;
    assert_eq!((&made["num_pending"], &made["config"]["max_waiting"]), (&json!(5), &json!(512)));
    let got = all(&mut asker, "D", r#"{"batch":9,"no_wait":true}"#).await;
    assert_eq!(got.len(), 6, "{got:?}");
    for (at, one) in got[..5].iter().enumerate() {
        let Got::Message { subject, payload, ack, headers } = one else { panic!("{one:?}") };
        assert_eq!((subject.as_str(), payload.as_str()), (&*format!("a.{}", at % 3), &*format!("m{at}")));
        let start = format!("$JS.ACK.S.D.1.{}.{}.", at + 1, at + 1);
        assert!(ack.starts_with(&start) && ack.ends_with(&format!(".{}", 4 - at)), "{ack}");
        assert_eq!(headers.is_empty(), at % 3 != 0);
    }
    assert!(got[5].is_status("404 No Messages"), "{:?}", got[5]);
    let info = asker.api("CONSUMER.INFO.S.D", "").await;
    assert_eq!((&info["num_ack_pending"], &info["num_pending"]), (&json!(5), &json!(0)));
    assert_eq!(info["delivered"]["stream_seq"], 5);
    assert_eq!(info["ack_floor"]["stream_seq"], 0);
}

#[tokio::test]
async fn an_answered_acknowledgement_has_taken_effect() {
    let (_server, mut asker) = with_messages(3).await;
    durable(&mut asker, "").await;
    let got = all(&mut asker, "D", r#"{"batch":9,"no_wait":true}"#).await;
    let answer = asker.ask(got[0].ack(), "").await;
    assert_eq!((&*answer.headers, &*answer.payload), ("", ""));
    let info = asker.api("CONSUMER.INFO.S.D", "").await;
    assert_eq!((&info["num_ack_pending"], &info["ack_floor"]["stream_seq"]), (&json!(2), &json!(1)));
    // Once more: it is answered, and changes nothing.
    asker.ask(got[0].ack(), "+ACK").await;
    asker.ask(got[1].ack(), "+TERM bad").await;
    assert_eq!(asker.api("CONSUMER.INFO.S.D", "").await["num_ack_pending"], 1);
    let unknown = asker.ask("$JS.ACK.S.X.1.1.1.1.0", "").await;
    assert!(unknown.headers.starts_with("NATS/1.0 503\r\n"), "{unknown:?}");
    let malformed = asker.ask("$JS.ACK.S.D.1", "").await;
    assert!(malformed.headers.starts_with("NATS/1.0 503\r\n"), "{malformed:?}");
}

#[tokio::test]
async fn a_message_comes_again_when_it_is_refused_or_nobody_acknowledges_it() {
    let (_server, mut asker) = with_messages(2).await;
    durable(&mut asker, r#","ack_wait":200000000,"max_deliver":3"#).await;
    let got = all(&mut asker, "D", r#"{"batch":9,"no_wait":true}"#).await;
    asker.ask(got[0].ack(), "").await;
    asker.ask(got[1].ack(), "-NAK").await;
    pull(&mut asker, "D", r#"{"batch":3,"expires":3000000000}"#).await;
    assert_eq!(next(&mut asker).await.delivery(), (2, 2));
    // The time for its acknowledgement passes.
    assert_eq!(next(&mut asker).await.delivery(), (2, 3));
    // It was delivered as often as it may be. What comes next is new.
    let reply = asker.publish("a.9", "", "new").await;
    let (mut acknowledged, mut delivered) = (false, None);
    while !acknowledged || delivered.is_none() {
        match asker.next().await {
            Said::Message { subject, .. } if subject == reply => acknowledged = true,
            said => delivered = Got::of(said).or(delivered),
        }
    }
    assert_eq!(delivered.unwrap().delivery(), (3, 1));
}

#[tokio::test]
async fn a_waiting_pull_gets_what_is_published_later_and_heartbeats_meanwhile() {
    let (_server, mut asker) = with_messages(0).await;
    durable(&mut asker, "").await;
    pull(&mut asker, "D", r#"{"batch":1,"expires":20000000000,"idle_heartbeat":100000000}"#).await;
    let beat = next(&mut asker).await;
    assert!(beat.is_status("100 Idle Heartbeat"), "{beat:?}");
    assert_eq!(asker.api("CONSUMER.INFO.S.D", "").await["num_waiting"], 1);
    say(&mut asker, "a.1", "later").await;
    loop {
        match next(&mut asker).await {
            Got::Message { subject, payload, .. } => {
                assert_eq!((&*subject, &*payload), ("a.1", "later"));
                break;
            }
            Got::Status(status) => assert!(status.starts_with("NATS/1.0 100"), "{status}"),
        }
    }
    assert_eq!(asker.api("CONSUMER.INFO.S.D", "").await["num_waiting"], 0);
}

#[tokio::test]
async fn a_pull_that_nothing_comes_for_times_out_and_says_what_is_missing() {
    let (_server, mut asker) = with_messages(1).await;
    durable(&mut asker, "").await;
    let got = all(&mut asker, "D", r#"{"batch":5,"expires":100000000}"#).await;
    let Some(Got::Status(status)) = got.last() else { panic!("{got:?}") };
    assert_eq!(
        status,
        "NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 4\r\nNats-Pending-Bytes: 0\r\n\r\n"
    );
}

#[tokio::test]
async fn filters_starts_and_headers_only_decide_what_comes() {
    let (_server, mut asker) = with_messages(9).await;
    for (name, config, sequences) in [
        ("F", r#"{"filter_subject":"a.1"}"#, vec![2, 5, 8]),
        ("M", r#"{"filter_subjects":["a.1","a.2"]}"#, vec![2, 3, 5, 6, 8, 9]),
        ("L", r#"{"deliver_policy":"last"}"#, vec![9]),
        ("N", r#"{"deliver_policy":"new"}"#, vec![]),
        ("P", r#"{"deliver_policy":"last_per_subject","filter_subject":"a.>"}"#, vec![7, 8, 9]),
        ("B", r#"{"deliver_policy":"by_start_sequence","opt_start_seq":8}"#, vec![8, 9]),
        (
            "T",
            r#"{"deliver_policy":"by_start_time","opt_start_time":"2020-01-01T00:00:00Z"}"#,
            (1..10).collect(),
        ),
    ] {
        let made = create(&mut asker, name, config).await;
        assert_eq!(made["num_pending"], sequences.len(), "{made}");
        let got = all(&mut asker, name, r#"{"batch":20,"no_wait":true}"#).await;
        let found: Vec<u64> = got[..got.len() - 1].iter().map(|one| one.delivery().0).collect();
        assert_eq!(found, sequences, "{name}");
    }
    create(&mut asker, "H", r#"{"headers_only":true}"#).await;
    let got = all(&mut asker, "H", r#"{"batch":1,"no_wait":true,"max_bytes":1000}"#).await;
    let Got::Message { payload, headers, .. } = &got[0] else { panic!("{got:?}") };
    assert_eq!((&**payload, &**headers), ("", "NATS/1.0\r\nX: y\r\nNats-Msg-Size: 2\r\n\r\n"));
    assert!(got[1].is_status("409 Batch Completed"), "{got:?}");
}

#[tokio::test]
async fn consumers_are_named_listed_shown_and_deleted() {
    let (_server, mut asker) = with_messages(1).await;
    assert_eq!(asker.api("CONSUMER.NAMES.S", "").await["consumers"], json!([]));
    for name in ["b", "a", "c"] {
        create(&mut asker, name, r#"{"ack_policy":"explicit","inactive_threshold":60000000000}"#).await;
    }
    let names = asker.api("CONSUMER.NAMES.S", r#"{"offset":1}"#).await;
    assert_eq!((&names["total"], &names["consumers"]), (&json!(3), &json!(["b", "c"])));
    let list = asker.api("CONSUMER.LIST.S", "").await;
    assert_eq!(list["consumers"][0]["name"], "a");
    assert_eq!(list["consumers"].as_array().unwrap().len(), 3);
    assert_eq!(asker.api("STREAM.INFO.S", "").await["state"]["consumer_count"], 3);
    // A pull that waits hears of the end of its consumer.
    pull(&mut asker, "a", r#"{"batch":2}"#).await;
    next(&mut asker).await.ack();
    asker.send("PUB $JS.API.CONSUMER.DELETE.S.a 0\r\n\r\n").await;
    assert!(next(&mut asker).await.is_status("409 Consumer Deleted"));
    assert_eq!(asker.refusal("CONSUMER.INFO.S.a", "").await, 10014);
    assert_eq!(asker.refusal("CONSUMER.DELETE.S.a", "").await, 10014);
    let gone = asker.ask("$JS.API.CONSUMER.MSG.NEXT.S.a", "").await;
    assert!(gone.headers.starts_with("NATS/1.0 503\r\n"), "{gone:?}");
}

#[tokio::test]
async fn what_a_consumer_may_not_be_is_refused() {
    let settings =
        [ON, ("tailrace.jetstream.stream.consumers.max", "2"), ("tailrace.jetstream.pulls.max", "1")];
    let server = TestServer::with(&settings).await;
    let mut asker = Asker::new(&server).await;
    asker.api("STREAM.CREATE.S", r#"{"name":"S","subjects":["a.>"]}"#).await;
    let made = durable(&mut asker, "").await;
    assert_eq!(made["name"], "D");
    let body = r#"{"stream_name":"S","config":{"durable_name":"D"},"action":"create"}"#;
    assert_eq!(asker.refusal("CONSUMER.CREATE.S.D", body).await, 10148);
    let body = r#"{"stream_name":"S","config":{"durable_name":"E"},"action":"update"}"#;
    assert_eq!(asker.refusal("CONSUMER.DURABLE.CREATE.S.E", body).await, 10149);
    // The oldest form: the server names it.
    let unnamed = asker.api("CONSUMER.CREATE.S", r#"{"stream_name":"S","config":{}}"#).await;
    assert_eq!(unnamed["name"].as_str().map(str::len), Some(8), "{unnamed}");
    assert_eq!(create(&mut asker, "E", "{}").await["error"]["err_code"], 10026);
    assert_eq!(asker.refusal("CONSUMER.CREATE.X.E", r#"{"stream_name":"X","config":{}}"#).await, 10059);
    // Before the stream is looked for, as with nats-server.
    let three = r#"{"stream_name":"X","config":{"num_replicas":3}}"#;
    assert_eq!(asker.refusal("CONSUMER.CREATE.X.E", three).await, 10074);
    let less = r#"{"name":"S","subjects":["a.>"],"consumer_limits":{"max_ack_pending":999}}"#;
    let violated = asker.api("STREAM.UPDATE.S", less).await;
    assert_eq!(violated["error"]["err_code"], 10069);
    assert_eq!(violated["error"]["description"], "change to limits violates consumers: D");
    pull(&mut asker, "D", r#"{"batch":1,"expires":20000000000}"#).await;
    let full = all(&mut asker, "D", r#"{"batch":1,"expires":20000000000}"#).await;
    assert!(full[0].is_status("409 Exceeded MaxWaiting"), "{full:?}");
}

/// The JSON of the next message on subscription 2. The client gets the answers to others, too.
async fn told(listener: &mut Asker) -> Value {
    loop {
        match listener.next().await {
            Said::Message { sid, payload, .. } if sid == "2" => {
                return serde_json::from_slice(&payload).unwrap();
            }
            Said::Error(error) => panic!("{error}"),
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_paused_consumer_delivers_nothing_until_it_goes_on_and_tells_who_listens() {
    let (server, mut asker) = with_messages(2).await;
    durable(&mut asker, "").await;
    let mut listener = Asker::new(&server).await;
    listener.send("SUB $JS.EVENT.ADVISORY.> 2\r\n").await;
    listener.sync().await;
    let until = "2099-01-01T00:00:00Z";
    let paused = asker.api("CONSUMER.PAUSE.S.D", &format!("{{\"pause_until\":\"{until}\"}}")).await;
    assert_eq!((&paused["paused"], &paused["pause_until"]), (&json!(true), &json!(until)), "{paused}");
    assert!(paused["pause_remaining"].as_i64().unwrap() > 0, "{paused}");
    let event = told(&mut listener).await;
    assert_eq!(event["type"], "io.nats.jetstream.advisory.v1.consumer_pause");
    assert_eq!((&event["paused"], &event["pause_until"]), (&json!(true), &json!(until)), "{event}");
    assert_eq!((&event["stream"], &event["consumer"]), (&json!("S"), &json!("D")), "{event}");
    let info = asker.api("CONSUMER.INFO.S.D", "").await;
    assert_eq!((&info["paused"], &info["config"]["pause_until"]), (&json!(true), &json!(until)), "{info}");
    assert_eq!(info["config"]["metadata"]["_nats.req.level"], "1", "{info}");
    let got = all(&mut asker, "D", r#"{"batch":2,"expires":100000000}"#).await;
    assert!(got[0].is_status("408 Request Timeout"), "{got:?}");
    // Who creates it again does not resume it.
    durable(&mut asker, "").await;
    assert_eq!(asker.api("CONSUMER.INFO.S.D", "").await["paused"], true);
    pull(&mut asker, "D", r#"{"batch":2,"expires":60000000000}"#).await;
    asker.publish("$JS.API.CONSUMER.PAUSE.S.D", "", "").await;
    assert_eq!(next(&mut asker).await.delivery(), (1, 1));
    assert_eq!(next(&mut asker).await.delivery(), (2, 1));
    assert_eq!(told(&mut listener).await["paused"], false);
    let info = asker.api("CONSUMER.INFO.S.D", "").await;
    assert_eq!((&info["paused"], &info["config"]["pause_until"]), (&Value::Null, &Value::Null), "{info}");
    assert_eq!(asker.refusal("CONSUMER.PAUSE.S.X", "").await, 10014);
    assert_eq!(asker.refusal("CONSUMER.PAUSE.S.D", r#"{"pause_until":5}"#).await, 10025);
}

#[tokio::test]
async fn who_listens_hears_of_messages_that_are_refused_ended_and_given_up() {
    let (server, mut asker) = with_messages(3).await;
    durable(&mut asker, r#","sample_freq":"100%""#).await;
    let mut listener = Asker::new(&server).await;
    listener.send("SUB $JS.EVENT.*.CONSUMER.*.S.* 2\r\n").await;
    listener.sync().await;
    pull(&mut asker, "D", "1").await;
    let got = next(&mut asker).await;
    asker.ask(got.ack(), "+TERM bad").await;
    let event = told(&mut listener).await;
    assert_eq!(event["type"], "io.nats.jetstream.advisory.v1.terminated");
    assert_eq!((&event["reason"], &event["stream_seq"]), (&json!("bad"), &json!(1)), "{event}");
    pull(&mut asker, "D", "1").await;
    let got = next(&mut asker).await;
    asker.ask(got.ack(), "").await;
    let event = told(&mut listener).await;
    assert_eq!(event["type"], "io.nats.jetstream.metric.v1.consumer_ack");
    assert_eq!((&event["stream_seq"], &event["deliveries"]), (&json!(2), &json!(1)), "{event}");
    pull(&mut asker, "D", "1").await;
    let got = next(&mut asker).await;
    asker.ask(got.ack(), "-NAK").await;
    assert_eq!(told(&mut listener).await["type"], "io.nats.jetstream.advisory.v1.nak");
    create(&mut asker, "E", r#"{"ack_policy":"explicit","ack_wait":100000000,"max_deliver":1}"#).await;
    pull(&mut asker, "E", "1").await;
    next(&mut asker).await.ack();
    let event = told(&mut listener).await;
    assert_eq!(event["type"], "io.nats.jetstream.advisory.v1.max_deliver");
    assert_eq!((&event["stream_seq"], &event["consumer"]), (&json!(1), &json!("E")), "{event}");
}

#[tokio::test]
async fn a_consumer_that_nobody_uses_goes() {
    let (_server, mut asker) = with_messages(1).await;
    create(&mut asker, "E", r#"{"inactive_threshold":100000000}"#).await;
    let gone = async {
        while asker.api("CONSUMER.NAMES.S", "").await["total"] != 0 {
            // For its time to pass.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(crate::common::PATIENCE, gone).await.expect("it goes");
}

#[tokio::test]
async fn messages_for_a_client_that_has_left_go_to_another() {
    let (server, mut asker) = with_messages(0).await;
    durable(&mut asker, "").await;
    let mut leaver = Asker::new(&server).await;
    pull(&mut leaver, "D", r#"{"batch":100,"expires":60000000000}"#).await;
    let waits = async {
        while asker.api("CONSUMER.INFO.S.D", "").await["num_waiting"] != 1 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::common::PATIENCE, waits).await.expect("it waits");
    drop(leaver);
    say(&mut asker, "a.0", "m").await;
    pull(&mut asker, "D", r#"{"batch":1,"expires":30000000000}"#).await;
    // It has not counted as delivered to the one who has left.
    assert_eq!(next(&mut asker).await.delivery(), (1, 1));
}

#[tokio::test]
async fn an_acknowledgement_may_ask_for_the_next_message() {
    let (_server, mut asker) = with_messages(2).await;
    durable(&mut asker, "").await;
    pull(&mut asker, "D", "1").await;
    let first = next(&mut asker).await;
    asker.publish(first.ack(), "", "+NXT").await;
    assert_eq!(next(&mut asker).await.delivery(), (2, 1));
    assert_eq!(asker.api("CONSUMER.INFO.S.D", "").await["ack_floor"]["stream_seq"], 1);
}

#[tokio::test]
async fn who_may_not_read_the_topic_gets_no_messages_and_acknowledges_none() {
    use Operation::{Describe, Read, Write};
    use Permission::Allow;
    use ResourceKind::{Subject, Topic};
    let mut world = World::new(&[ON]).await;
    let mut admin = Asker::with(&world.server, r#""user":"admin","pass":"open sesame""#).await;
    admin.api("STREAM.CREATE.S", r#"{"name":"S","subjects":["s.>"]}"#).await;
    durable(&mut admin, "").await;
    say(&mut admin, "s.1", "m").await;
    pull(&mut admin, "D", "1").await;
    let ack = next(&mut admin).await.ack().to_owned();
    world
        .add(&[
            ("alice", Allow, Write, Subject, "$JS.>"),
            ("alice", Allow, Read, Subject, "inbox.*"),
            ("alice", Allow, Describe, Topic, "S"),
        ])
        .await;
    let mut alice = Asker::with(&world.server, r#""user":"alice","pass":"p""#).await;
    assert_eq!(create(&mut alice, "A", "{}").await["error"]["err_code"], 10012);
    assert_eq!(alice.refusal("CONSUMER.DELETE.S.D", "").await, 10012);
    assert!(alice.ask("$JS.API.CONSUMER.MSG.NEXT.S.D", "").await.headers.starts_with("NATS/1.0 503\r\n"));
    assert!(alice.ask(&ack, "").await.headers.starts_with("NATS/1.0 503\r\n"));
    assert_eq!(admin.api("CONSUMER.INFO.S.D", "").await["num_ack_pending"], 1);
    world.add(&[("alice", Allow, Read, Topic, "S")]).await;
    assert_eq!(alice.ask(&ack, "").await.headers, "");
    assert_eq!(admin.api("CONSUMER.INFO.S.D", "").await["num_ack_pending"], 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_node_serves_a_consumer_wherever_its_stream_is_led() {
    let nodes = cluster(3, &[ON]).await;
    let mut askers = Vec::new();
    for node in &nodes {
        askers.push(Asker::new(node).await);
    }
    let config = r#"{"name":"S","subjects":["a.>"],"num_replicas":3}"#;
    let made = askers[0].api("STREAM.CREATE.S", config).await;
    assert_eq!(made["error"], Value::Null, "{made}");
    for asker in &mut askers {
        let known = async { while asker.api("STREAM.NAMES", "").await["total"] != 1 {} };
        tokio::time::timeout(crate::common::PATIENCE, known).await.expect("the node learns of the stream");
    }
    durable(&mut askers[0], "").await;
    for (at, asker) in askers.iter_mut().enumerate() {
        let reply = asker.publish("a.x", "", &format!("m{at}")).await;
        asker.answer(&reply).await;
    }
    for (at, asker) in askers.iter_mut().enumerate() {
        pull(asker, "D", r#"{"batch":1,"expires":20000000000}"#).await;
        let got = next(asker).await;
        assert_eq!(got.delivery(), (at as u64 + 1, 1));
        asker.ask(got.ack(), "").await;
    }
    let info = askers[2].api("CONSUMER.INFO.S.D", "").await;
    assert_eq!(
        (&info["num_ack_pending"], &info["ack_floor"]["stream_seq"]),
        (&json!(0), &json!(3)),
        "{info}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pull_that_waits_hears_that_another_node_leads_its_stream() {
    let mut nodes = cluster(3, &[ON]).await;
    let mut asker = Asker::new(&nodes[0]).await;
    // A stream that another node leads than the one that is asked.
    let leader = async {
        loop {
            asker.api("STREAM.DELETE.S", "").await;
            let config = r#"{"name":"S","subjects":["a.>"],"num_replicas":3}"#;
            let made = asker.api("STREAM.CREATE.S", config).await;
            assert_eq!(made["error"], Value::Null, "{made}");
            let leader = made["cluster"]["leader"].as_str().unwrap();
            if let Some(number) = leader.strip_prefix("tailrace-").filter(|number| *number != "1") {
                break number.parse::<usize>().unwrap();
            }
        }
    };
    let leader = tokio::time::timeout(crate::common::PATIENCE, leader).await.expect("another one leads it");
    durable(&mut asker, "").await;
    pull(&mut asker, "D", r#"{"batch":1,"expires":300000000000}"#).await;
    let waits = async { while asker.api("CONSUMER.INFO.S.D", "").await["num_waiting"] != 1 {} };
    tokio::time::timeout(crate::common::PATIENCE, waits).await.expect("it waits");
    all_vote(&nodes).await;
    nodes[leader - 1].stop().await;
    let told = next(&mut asker).await;
    assert!(told.is_status("409 Leadership Change"), "{told:?}");
    // The consumer goes on at another node.
    let goes_on = async { while asker.api("CONSUMER.INFO.S.D", "").await["name"] != "D" {} };
    tokio::time::timeout(crate::common::PATIENCE, goes_on).await.expect("it goes on");
    pull(&mut asker, "D", r#"{"batch":1,"expires":300000000000}"#).await;
    let mut reply = asker.publish("a.1", "", "m").await;
    let delivered = loop {
        match asker.next().await {
            Said::Message { subject, payload, .. } if subject == reply => {
                // While there was no controller, nobody could store it.
                if String::from_utf8(payload).unwrap().contains("error") {
                    reply = asker.publish("a.1", "", "m").await;
                }
            }
            said => {
                if let Some(got) = Got::of(said) {
                    break got;
                }
            }
        }
    };
    assert_eq!(delivered.delivery(), (1, 1));
}
