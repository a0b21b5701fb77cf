//! Publishes that ask for more than storage: answers over a socket, their order, restarts, and three nodes.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Asker, ON};
use crate::cluster::{all_vote, cluster};
use crate::common::{PATIENCE, TestServer};

fn block(lines: &[&str]) -> String {
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    if lines.is_empty() { lines } else { format!("NATS/1.0\r\n{lines}\r\n") }
}

impl Asker {
    /// Publishes a message, and returns its acknowledgement as text.
    async fn post(&mut self, subject: &str, headers: &[&str], payload: &str) -> String {
        let reply = self.publish(subject, &block(headers), payload).await;
        self.answer(&reply).await.payload
    }

    async fn post_refused(&mut self, subject: &str, headers: &[&str]) -> (u64, String) {
        let answer = self.post(subject, headers, "x").await;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let error = &answer["error"];
        let text = error["description"].as_str().unwrap_or_default().to_owned();
        (error["err_code"].as_u64().unwrap_or_else(|| panic!("not refused: {answer}")), text)
    }
}

async fn with_stream(config: &str) -> (TestServer, Asker) {
    let server = TestServer::with(&[ON]).await;
    let mut asker = Asker::new(&server).await;
    let made = asker.api("STREAM.CREATE.S", config).await;
    assert_eq!(made["error"], Value::Null, "{made}");
    (server, asker)
}

#[tokio::test]
async fn a_repeated_id_is_told_the_first_sequence_also_after_a_restart() {
    let (mut server, mut asker) = with_stream(r#"{"name":"S","subjects":["a.>"]}"#).await;
    assert_eq!(asker.post("a.x", &["Nats-Msg-Id: one"], "1").await, r#"{"stream":"S","seq":1}"#);
    let repeated = r#"{"stream":"S","seq":1,"duplicate": true}"#;
    assert_eq!(asker.post("a.y", &["Nats-Msg-Id: one"], "2").await, repeated);
    assert_eq!(asker.post("a.y", &["Nats-Msg-Id: two"], "2").await, r#"{"stream":"S","seq":2}"#);
    server.restart().await;
    let mut asker = Asker::new(&server).await;
    assert_eq!(asker.post("a.z", &["Nats-Msg-Id: one"], "3").await, repeated);
    assert_eq!(asker.api("STREAM.INFO.S", "").await["state"]["messages"], 2);
    // The window of the stream is what counts.
    assert_eq!(asker.api("STREAM.INFO.S", "").await["config"]["duplicate_window"], 120_000_000_000_u64);
    assert_eq!(server.metric("tailrace_stream_ids").await, 2.0);
}

#[tokio::test]
async fn expectations_are_held_against_the_stream_and_errors_say_what_is_there() {
    let (_server, mut asker) = with_stream(r#"{"name":"S","subjects":["a.>"]}"#).await;
    let stored = |seq: u64| format!("{{\"stream\":\"S\",\"seq\":{seq}}}");
    assert_eq!(asker.post("a.x", &["Nats-Expected-Last-Sequence: 0"], "").await, stored(1));
    assert_eq!(asker.post("a.x", &["Nats-Expected-Last-Subject-Sequence: 1"], "").await, stored(2));
    let wrong = |seq: u64| (10071, format!("wrong last sequence: {seq}"));
    assert_eq!(asker.post_refused("a.x", &["Nats-Expected-Last-Sequence: 1"]).await, wrong(2));
    assert_eq!(asker.post_refused("a.x", &["Nats-Expected-Last-Sequence: x"]).await, wrong(2));
    assert_eq!(asker.post_refused("a.y", &["Nats-Expected-Last-Subject-Sequence: 2"]).await, wrong(0));
    let other = |seq: &'static str, of: &'static str| [seq, of];
    let of =
        other("Nats-Expected-Last-Subject-Sequence: 2", "Nats-Expected-Last-Subject-Sequence-Subject: a.*");
    assert_eq!(asker.post("a.y", &of, "").await, stored(3));
    assert_eq!(asker.post_refused("a.y", &of).await, wrong(3));
    let alone = ["Nats-Expected-Last-Subject-Sequence-Subject: a.*"];
    assert_eq!(asker.post_refused("a.y", &alone).await.0, 10193);
    assert_eq!(asker.post_refused("a.y", &["Nats-Expected-Stream: T"]).await.0, 10060);
    assert_eq!(asker.post("a.y", &["Nats-Expected-Stream: S"], "").await, stored(4));
    assert_eq!(
        asker.post_refused("a.y", &["Nats-Expected-Last-Msg-Id: i"]).await,
        (10070, "wrong last msg ID: ".into())
    );
    assert_eq!(asker.post("a.y", &["Nats-Msg-Id: i"], "").await, stored(5));
    assert_eq!(asker.post("a.y", &["Nats-Expected-Last-Msg-Id: i"], "").await, stored(6));
    for (header, code) in [
        ("Nats-Rollup: sub", 10111),
        ("Nats-TTL: 5", 10166),
        ("Nats-Incr: 1", 10168),
        ("Nats-Batch-Id: b", 10174),
        ("Nats-Schedule: @every 5s", 10188),
        ("Nats-Stream-Source: x", 10227),
    ] {
        assert_eq!(asker.post_refused("a.y", &[header]).await.0, code, "{header}");
    }
    // The order is that of a cluster: what is stored is told first.
    let both = ["Nats-Msg-Id: i", "Nats-Expected-Last-Sequence: 77"];
    assert_eq!(asker.post("a.y", &both, "").await, r#"{"stream":"S","seq":5,"duplicate": true}"#);
    let many = ["Nats-Expected-Stream: T", "Nats-Expected-Last-Sequence: 77", "Nats-Rollup: sub"];
    for (skipped, code) in [(0, 10060), (1, 10071), (2, 10111)] {
        assert_eq!(asker.post_refused("a.y", &many[skipped..]).await.0, code);
    }
    assert_eq!(asker.api("STREAM.INFO.S", "").await["state"]["messages"], 6);
}

#[tokio::test]
async fn rules_of_a_stream_hold_for_each_message() {
    let config = r#"{"name":"S","subjects":["a.>"],"max_msgs":2,"discard":"new","max_msg_size":60}"#;
    let (_server, mut asker) = with_stream(config).await;
    let long = "x".repeat(61);
    let answer: Value = serde_json::from_str(&asker.post("a.x", &[], &long).await).unwrap();
    assert_eq!(
        (&answer["error"]["err_code"], &answer["stream"], &answer["seq"]),
        (&json!(10054), &json!("S"), &json!(0))
    );
    asker.post("a.x", &[], "1").await;
    asker.post("a.y", &[], "2").await;
    let full = (10077, "maximum messages exceeded".to_owned());
    assert_eq!(asker.post_refused("a.z", &[]).await, full);
    // Without a reply subject it is refused as well, and nobody is told.
    asker.send("PUB a.z 1\r\nx\r\n").await;
    asker.sync().await;
    assert_eq!(asker.api("STREAM.INFO.S", "").await["state"]["messages"], 2);
    let sealed = r#"{"name":"S","subjects":["a.>"],"sealed":true}"#;
    let updated = asker.api("STREAM.UPDATE.S", sealed).await;
    assert_eq!(updated["config"]["sealed"], true, "{updated}");
    assert_eq!(asker.post_refused("a.z", &[]).await.0, 10109);
    assert_eq!(asker.refusal("STREAM.PURGE.S", "").await, 10109);
}

#[tokio::test]
async fn a_roll_up_leaves_itself() {
    let config = r#"{"name":"S","subjects":["a.>"],"allow_rollup_hdrs":true}"#;
    let (_server, mut asker) = with_stream(config).await;
    for subject in ["a.x", "a.y", "a.x"] {
        asker.post(subject, &[], "1").await;
    }
    assert_eq!(asker.post("a.x", &["Nats-Rollup: sub"], "2").await, r#"{"stream":"S","seq":4}"#);
    let state = asker.api("STREAM.INFO.S", r#"{"subjects_filter":">"}"#).await["state"].clone();
    assert_eq!(state["subjects"], json!({"a.x": 1, "a.y": 1}));
    asker.post("a.z", &["Nats-Rollup: all"], "3").await;
    let state = asker.api("STREAM.INFO.S", "").await["state"].clone();
    assert_eq!(
        (&state["messages"], &state["first_seq"], &state["last_seq"]),
        (&json!(1), &json!(5), &json!(5))
    );
    assert_eq!(
        asker.post_refused("a.x", &["Nats-Rollup: some"]).await,
        (10111, "rollup value invalid: \"some\"".into())
    );
}

/// What is judged keeps its place among the other messages of its connection.
#[tokio::test]
async fn one_connection_s_messages_stay_in_their_order() {
    let (server, mut asker) = with_stream(r#"{"name":"S","subjects":["a.>"]}"#).await;
    let mut text = String::new();
    for at in 0..300 {
        let payload = at.to_string();
        text += &match at % 3 {
            0 => {
                let block = block(&[&format!("Nats-Expected-Last-Sequence: {at}")]);
                format!("HPUB a.x {} {}\r\n{block}{payload}\r\n", block.len(), block.len() + payload.len())
            }
            1 => {
                let block = block(&[&format!("Nats-Msg-Id: {at}")]);
                format!("HPUB a.y {} {}\r\n{block}{payload}\r\n", block.len(), block.len() + payload.len())
            }
            _ => format!("PUB a.z {}\r\n{payload}\r\n", payload.len()),
        };
    }
    asker.send(&text).await;
    // Once this one is committed, all before it are.
    let last = asker.post("a.x", &["Nats-Expected-Last-Sequence: 300"], "300").await;
    assert_eq!(last, r#"{"stream":"S","seq":301}"#);
    let mut kafka = server.connect().await;
    let found = kafka.read_all("S", 0, 0).await;
    assert_eq!(found.len(), 301);
    for (at, (offset, value)) in found.iter().enumerate() {
        assert_eq!((*offset, value.as_slice()), (at as i64, at.to_string().as_bytes()));
    }
}

#[tokio::test]
async fn without_jetstream_a_topic_refuses_what_it_does_not_hold() {
    let server = TestServer::with(&[]).await;
    let mut kafka = server.connect().await;
    kafka.create_topic("t", 1, &[("tailrace.subjects", "t.>")]).await;
    let mut asker = Asker::new(&server).await;
    assert_eq!(asker.post_refused("t.x", &["Nats-Expected-Last-Sequence: 0"]).await.0, 10164);
}

/// Any node takes the message, and the leader judges it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_judge_as_one_and_remember_when_the_leader_is_gone() {
    let mut nodes = cluster(3, &[ON]).await;
    let mut askers = Vec::new();
    for node in &nodes {
        askers.push(Asker::new(node).await);
    }
    let config = r#"{"name":"S","subjects":["s.>"],"num_replicas":3}"#;
    let made = askers[0].api("STREAM.CREATE.S", config).await;
    assert_eq!(made["error"], Value::Null, "{made}");
    for asker in &mut askers {
        let known = async {
            while asker.api("STREAM.NAMES", "").await["total"] != 1 {
                // For the other node to get the metadata.
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, known).await.expect("the node learns of the stream");
    }
    for seq in 0..9_u64 {
        let asker = &mut askers[seq as usize % 3];
        let headers = [format!("Nats-Expected-Last-Sequence: {seq}"), format!("Nats-Msg-Id: {seq}")];
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        let told = asker.post("s.x", &headers, "x").await;
        assert_eq!(told, format!("{{\"stream\":\"S\",\"seq\":{}}}", seq + 1));
        let stale =
            asker.post_refused("s.x", &[&format!("Nats-Expected-Last-Subject-Sequence: {seq}")]).await;
        assert_eq!(stale, (10071, format!("wrong last sequence: {}", seq + 1)));
    }
    // Of three at the same time one wins.
    let mut replies = Vec::new();
    for asker in &mut askers {
        replies.push(asker.publish("s.y", &block(&["Nats-Expected-Last-Subject-Sequence: 0"]), "x").await);
    }
    let mut stored = 0;
    for (asker, reply) in askers.iter_mut().zip(&replies) {
        stored += usize::from(!asker.answer(reply).await.payload.contains("error"));
    }
    assert_eq!(stored, 1);
    let leader = askers[0].api("STREAM.INFO.S", "").await["cluster"]["leader"].clone();
    let gone = (0..3).find(|at| leader == format!("tailrace-{}", at + 1)).unwrap();
    all_vote(&nodes).await;
    nodes[gone].stop().await;
    askers.remove(gone);
    for asker in &mut askers {
        let told = asker.post("s.x", &["Nats-Msg-Id: 4"], "x").await;
        assert_eq!(told, r#"{"stream":"S","seq":5,"duplicate": true}"#);
        assert_eq!(
            asker.post_refused("s.x", &["Nats-Expected-Last-Sequence: 3"]).await.1,
            "wrong last sequence: 10"
        );
    }
    let told = askers[0].post("s.x", &["Nats-Expected-Last-Sequence: 10"], "x").await;
    assert_eq!(told, r#"{"stream":"S","seq":11}"#);
}
