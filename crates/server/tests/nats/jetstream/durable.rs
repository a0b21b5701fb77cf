//! Durable consumers over a socket: a kill, a restart, and other leaders. What was answered holds.

use serde_json::{Value, json};
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::DeleteTopicsRequest;
use tailrace_records::BatchOptions;

use super::consumers::{Got, all, create, durable, pull};
use super::messages::with_messages;
use super::{Asker, ON};
use crate::cluster::{all_vote, cluster};
use crate::common::rig::produce_request;
use crate::common::{PATIENCE, TestServer, batch, error};

const EVERYTHING: &str = r#"{"batch":99,"no_wait":true}"#;

fn sequences(got: &[Got]) -> Vec<u64> {
    let messages = got.iter().filter(|got| matches!(got, Got::Message { .. }));
    messages.map(|got| got.delivery().0).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_kill_answered_acknowledgements_creations_changes_and_deletions_hold() {
    let (server, mut asker) = with_messages(6).await;
    durable(&mut asker, "").await;
    create(&mut asker, "GONE", r#"{"durable_name":"GONE","ack_policy":"explicit"}"#).await;
    create(&mut asker, "NONE", r#"{"durable_name":"NONE"}"#).await;
    create(&mut asker, "E", r#"{"ack_policy":"explicit","inactive_threshold":300000000000}"#).await;
    let got = all(&mut asker, "D", EVERYTHING).await;
    for at in [0, 1, 3] {
        asker.ask(got[at].ack(), "+ACK").await;
    }
    asker.ask(got[4].ack(), "+TERM").await;
    assert_eq!(asker.api("CONSUMER.DELETE.S.GONE", "").await["success"], true);
    durable(&mut asker, r#","description":"changed","metadata":{"k":"v"}"#).await;
    let killed = server.crashed_copy().await;
    let mut asker = Asker::new(&killed).await;
    let names = asker.api("CONSUMER.NAMES.S", "").await;
    assert_eq!(names["consumers"], json!(["D", "NONE"]), "{names}");
    assert_eq!(asker.api("STREAM.INFO.S", "").await["state"]["consumer_count"], 2);
    let info = asker.api("CONSUMER.INFO.S.D", "").await;
    assert_eq!(
        (&info["config"]["description"], &info["config"]["metadata"]["k"]),
        (&json!("changed"), &json!("v"))
    );
    assert_eq!((&info["ack_floor"]["stream_seq"], &info["num_pending"]), (&json!(2), &json!(2)));
    // An acknowledgement of before the kill counts.
    asker.ask(got[5].ack(), "").await;
    assert_eq!(sequences(&all(&mut asker, "D", EVERYTHING).await), [3]);
    assert_eq!(asker.refusal("CONSUMER.INFO.S.E", "").await, 10014);
    assert_eq!(asker.refusal("CONSUMER.DELETE.S.GONE", "").await, 10014);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_made_again_after_a_kill_has_no_consumers() {
    let (server, mut asker) = with_messages(1).await;
    durable(&mut asker, "").await;
    asker.api("STREAM.DELETE.S", "").await;
    let killed = server.crashed_copy().await;
    let mut asker = Asker::new(&killed).await;
    asker.api("STREAM.CREATE.S", r#"{"name":"S","subjects":["a.>"]}"#).await;
    assert_eq!(asker.api("CONSUMER.NAMES.S", "").await["total"], 0);
    assert_eq!(asker.refusal("CONSUMER.INFO.S.D", "").await, 10014);
}

/// Its acknowledgements are in memory only from then on. So it must be gone after a kill, and not as it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_is_durable_no_more_does_not_come_back_after_a_kill() {
    let (server, mut asker) = with_messages(3).await;
    durable(&mut asker, "").await;
    create(&mut asker, "C", r#"{"durable_name":"C","ack_policy":"explicit"}"#).await;
    let changed = r#"{"name":"D","ack_policy":"explicit","inactive_threshold":300000000000}"#;
    assert_eq!(create(&mut asker, "D", changed).await["name"], "D");
    let got = all(&mut asker, "D", EVERYTHING).await;
    asker.ask(got[0].ack(), "+ACK").await;
    // One that is made again with the same name, but ephemeral.
    assert_eq!(asker.api("CONSUMER.DELETE.S.C", "").await["success"], true);
    let ephemeral = r#"{"name":"C","ack_policy":"explicit","inactive_threshold":300000000000}"#;
    assert_eq!(create(&mut asker, "C", ephemeral).await["name"], "C");
    let killed = server.crashed_copy().await;
    let mut asker = Asker::new(&killed).await;
    assert_eq!(asker.api("CONSUMER.NAMES.S", "").await["consumers"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_outlives_a_restart() {
    let (mut server, mut asker) = with_messages(1).await;
    durable(&mut asker, r#","pause_until":"2999-01-01T00:00:00Z""#).await;
    server.restart().await;
    let mut asker = Asker::new(&server).await;
    assert_eq!(asker.api("CONSUMER.INFO.S.D", "").await["paused"], true);
    pull(&mut asker, "D", r#"{"batch":1,"expires":100000000}"#).await;
    let got = super::consumers::next(&mut asker).await;
    assert!(got.is_status("408 Request Timeout"), "{got:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_and_its_end_hold_after_a_kill() {
    let (server, mut asker) = with_messages(1).await;
    durable(&mut asker, "").await;
    let told = asker.api("CONSUMER.PAUSE.S.D", r#"{"pause_until":"2999-01-01T00:00:00Z"}"#).await;
    assert_eq!(told["paused"], true);
    let killed = server.crashed_copy().await;
    let mut asker = Asker::new(&killed).await;
    assert_eq!(asker.api("CONSUMER.INFO.S.D", "").await["paused"], true);
    assert_eq!(asker.api("CONSUMER.PAUSE.S.D", "").await["paused"], false);
    let again = killed.crashed_copy().await;
    let mut asker = Asker::new(&again).await;
    assert_ne!(asker.api("CONSUMER.INFO.S.D", "").await["paused"], true);
    assert_eq!(sequences(&all(&mut asker, "D", EVERYTHING).await), [1]);
}

/// The node that leads the stream.
async fn leader(asker: &mut Asker) -> usize {
    let found = async {
        loop {
            let info = asker.api("STREAM.INFO.S", "").await;
            let name = info["cluster"]["leader"].as_str().and_then(|name| name.strip_prefix("tailrace-"));
            if let Some(Ok(number)) = name.map(str::parse::<usize>) {
                return number - 1;
            }
        }
    };
    tokio::time::timeout(PATIENCE, found).await.expect("a node leads")
}

/// Asks until there is an answer that is no error: leaders change.
async fn insist(asker: &mut Asker, suffix: &str) -> Value {
    let asked = async {
        loop {
            let answer = asker.api(suffix, "").await;
            if answer["error"].is_null() {
                return answer;
            }
            let code = answer["error"]["err_code"].as_u64();
            assert_eq!(code, Some(10008), "only because nobody leads: {answer}");
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.expect("it is answered")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_leader_stops_between_acknowledgements_the_next_one_goes_on() {
    let mut nodes: Vec<TestServer> = cluster(3, &[ON]).await;
    let mut asker = Asker::new(&nodes[0]).await;
    asker.api("STREAM.CREATE.S", r#"{"name":"S","subjects":["a.>"],"num_replicas":3}"#).await;
    durable(&mut asker, r#","ack_wait":60000000000"#).await;
    for _ in 0..6 {
        asker.ask("a.1", "x").await;
    }
    let leads = leader(&mut asker).await;
    // A client of a node that stays.
    let mut asker = Asker::new(&nodes[(leads + 1) % 3]).await;
    let got = all(&mut asker, "D", EVERYTHING).await;
    assert_eq!(sequences(&got), [1, 2, 3, 4, 5, 6]);
    for one in &got[..2] {
        asker.ask(one.ack(), "").await;
    }
    all_vote(&nodes).await;
    nodes[leads].stop().await;
    insist(&mut asker, "CONSUMER.INFO.S.D").await;
    asker.ask(got[3].ack(), "").await;
    let mut other = Asker::new(&nodes[(leads + 2) % 3]).await;
    insist(&mut other, "CONSUMER.INFO.S.D").await;
    let again = all(&mut other, "D", EVERYTHING).await;
    assert_eq!(sequences(&again), [3, 5, 6]);
    other.ask(again[0].ack(), "").await;
    let info = insist(&mut asker, "CONSUMER.INFO.S.D").await;
    assert_eq!((&info["ack_floor"]["stream_seq"], &info["num_ack_pending"]), (&json!(4), &json!(2)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_cannot_write_to_the_topic_of_consumers_or_delete_it() {
    let (server, mut asker) = with_messages(0).await;
    durable(&mut asker, "").await;
    let mut kafka = server.connect().await;
    let found = kafka.topic("__jetstream_state").await;
    assert!(found.is_internal, "{found:?}");
    let name = "__jetstream_state".to_owned();
    let request = produce_request(&name, 0, -1, batch(BatchOptions::default(), &[1]));
    let answer = kafka.call(9, &request).await;
    let code = error(answer.responses[0].partition_responses[0].error_code);
    assert_eq!(code, ErrorCode::InvalidTopicException);
    let delete = DeleteTopicsRequest { topic_names: vec![name], timeout_ms: 5_000, ..Default::default() };
    let answer = kafka.call(5, &delete).await;
    assert_ne!(answer.responses[0].error_code, 0);
    assert_eq!(asker.api("STREAM.NAMES", "").await["streams"], json!(["S"]), "it is no stream");
    assert_eq!(asker.api("CONSUMER.INFO.S.D", "").await["name"], "D");
}
