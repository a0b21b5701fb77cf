//! Streams: made, changed, listed, deleted.

use serde_json::{Value, json};
use tailrace_kafka_wire::messages::describe_configs_request::{
    DescribeConfigsRequest, DescribeConfigsResource,
};
use tailrace_kafka_wire::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};

use tokio::net::TcpStream;

use super::{Asker, ON};
use crate::common::TestServer;
use crate::common::lines::Lines;
use crate::common::nats::Said;

/// Clients take this for a server without JetStream.
const NOBODY: &str = "NATS/1.0 503\r\nNats-Subject: $JS.API.INFO\r\n\r\n";

async fn server() -> (TestServer, Asker) {
    let server = TestServer::with(&[ON]).await;
    let asker = Asker::new(&server).await;
    (server, asker)
}

async fn info(server: &TestServer) -> Value {
    Lines::over(TcpStream::connect(server.nats()).await.unwrap()).info().await
}

fn names(answer: &Value) -> Vec<&str> {
    answer["streams"].as_array().map(|all| all.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

#[tokio::test]
async fn it_is_off_unless_the_settings_ask_for_it() {
    let server = TestServer::start().await;
    let mut asker = Asker::new(&server).await;
    assert_eq!(asker.ask("$JS.API.INFO", "").await.headers, NOBODY);
    assert_eq!(info(&server).await["jetstream"], Value::Null);
    let server = TestServer::with(&[ON]).await;
    assert_eq!(info(&server).await["jetstream"], true);
}

#[tokio::test]
async fn a_stream_is_made_shown_changed_and_deleted() {
    let (_server, mut asker) = server().await;
    let config = r#"{"name":"S","subjects":["s.>"],"max_age":60000000000,"metadata":{"a":"b"}}"#;
    let made = asker.api("STREAM.CREATE.S", config).await;
    assert_eq!(made["type"], "io.nats.jetstream.api.v1.stream_create_response");
    assert_eq!(made["did_create"], true);
    assert_eq!(made["config"]["max_msgs"], -1);
    assert_eq!(made["config"]["duplicate_window"], 60_000_000_000_i64);
    assert_eq!(made["config"]["metadata"]["_nats.level"], "5");
    assert_eq!(made["state"]["first_seq"], 0);
    assert_eq!(made["cluster"], Value::Null, "a single server tells of none");
    assert_eq!(asker.refusal("STREAM.CREATE.S", r#"{"name":"S","subjects":["t"]}"#).await, 10058);
    assert_eq!(asker.refusal("STREAM.CREATE.T", r#"{"name":"T","subjects":["s.a"]}"#).await, 10065);
    assert_eq!(asker.refusal("STREAM.CREATE.T", r#"{"name":"S"}"#).await, 10056);

    asker.api("STREAM.CREATE.A", r#"{"name":"A"}"#).await;
    let all = asker.api("STREAM.NAMES", "").await;
    assert_eq!((names(&all), &all["total"], &all["limit"]), (vec!["A", "S"], &json!(2), &json!(1024)));
    assert_eq!(names(&asker.api("STREAM.NAMES", r#"{"subject":"s.*.x"}"#).await), ["S"]);
    assert_eq!(names(&asker.api("STREAM.NAMES", r#"{"offset":1}"#).await), ["S"]);

    let changed = asker.api("STREAM.UPDATE.S", r#"{"name":"S","subjects":["u.*"]}"#).await;
    assert_eq!(changed["type"], "io.nats.jetstream.api.v1.stream_update_response", "{changed}");
    assert_eq!((&changed["config"]["subjects"], &changed["config"]["max_age"]), (&json!(["u.*"]), &json!(0)));
    assert_eq!(asker.refusal("STREAM.UPDATE.S", r#"{"name":"S","storage":"memory"}"#).await, 10052);
    assert_eq!(asker.refusal("STREAM.UPDATE.X", r#"{"name":"X"}"#).await, 10059);

    assert_eq!(asker.refusal("STREAM.DELETE.S", r#"{"a":1}"#).await, 10038);
    assert_eq!(asker.api("STREAM.DELETE.S", "").await["success"], true);
    assert_eq!(asker.refusal("STREAM.DELETE.S", "").await, 10059);
    assert_eq!(names(&asker.api("STREAM.NAMES", "").await), ["A"]);
}

/// As when many processes start and each makes the bucket that all of them use.
#[tokio::test]
async fn the_same_stream_is_made_by_many_at_once() {
    let (_server, mut asker) = server().await;
    let create = |body: &str| format!("PUB $JS.API.STREAM.CREATE.S inbox.made {}\r\n{body}\r\n", body.len());
    let other = r#"{"name":"S","description":"other"}"#;
    // In one piece, so that they are carried out at the same time.
    asker.send(&(create(r#"{"name":"S"}"#).repeat(16) + &create(other))).await;
    let (mut made, mut count) = (0, 0);
    while count < 17 {
        let Said::Message { payload, .. } = asker.next().await else { continue };
        let answer: Value = serde_json::from_slice(&payload).unwrap();
        // The first one decides.
        match answer["error"]["err_code"].as_u64() {
            None => made += 1,
            code => assert_eq!(code, Some(10058), "{answer}"),
        }
        count += 1;
    }
    let is_other = asker.api("STREAM.INFO.S", "").await["config"]["description"] == "other";
    assert_eq!(made, if is_other { 1 } else { 16 });
}

#[tokio::test]
async fn what_a_request_says_is_read_strictly() {
    let (_server, mut asker) = server().await;
    assert_eq!(asker.refusal("STREAM.CREATE.S", r#"{"name":"S","mirrors":1}"#).await, 10025);
    assert_eq!(asker.refusal("STREAM.CREATE.S", "").await, 10056);
    assert_eq!(asker.refusal("STREAM.CREATE.S", r#"{"name":"S","num_replicas":3}"#).await, 10074);
    assert_eq!(asker.refusal("STREAM.NAMES", r#"{"of":1}"#).await, 10025);
    assert_eq!(asker.api("STREAM.NAMES", "").await["streams"], Value::Null);
    assert_eq!(asker.api("STREAM.LIST", "").await["streams"], json!([]));
    let level = "NATS/1.0\r\nNats-Required-Api-Level: 6\r\n\r\n";
    let reply = asker.publish("$JS.API.STREAM.NAMES", level, "").await;
    let answer: Value = serde_json::from_str(&asker.answer(&reply).await.payload).unwrap();
    assert_eq!(answer["error"]["err_code"], 10185);
}

#[tokio::test]
async fn unknown_subjects_of_the_api_get_no_answer_at_all() {
    let (_server, mut asker) = server().await;
    for subject in ["$JS.API.NOTHING", "$JS.API.STREAM.TEMPLATE.NAMES", "$JS.API.META.LEADER.STEPDOWN"] {
        assert!(asker.is_ignored(subject).await, "{subject}");
    }
    let answer = asker.ask("$JS.API.DIRECT.GET.NONE", r#"{"seq":1}"#).await;
    assert!(answer.headers.starts_with("NATS/1.0 503\r\n"), "nobody has such a stream: {answer:?}");
}

#[tokio::test]
async fn a_request_without_a_reply_subject_acts() {
    let (_server, mut asker) = server().await;
    let body = r#"{"name":"S"}"#;
    asker.send(&format!("PUB $JS.API.STREAM.CREATE.S {}\r\n{body}\r\n", body.len())).await;
    while names(&asker.api("STREAM.NAMES", "").await) != ["S"] {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_is_not_there_yet_is_refused() {
    let (_server, mut asker) = server().await;
    for wish in [
        r#""mirror":{"name":"O"}"#,
        r#""retention":"workqueue""#,
        r#""allow_atomic":true"#,
        r#""subjects":["a,b"]"#,
        r#""subjects":["*"]"#,
    ] {
        let code = asker.refusal("STREAM.CREATE.S", &format!("{{\"name\":\"S\",{wish}}}")).await;
        assert_eq!(code, 10052, "{wish}");
    }
    asker.api("STREAM.CREATE.S", r#"{"name":"S"}"#).await;
    assert_eq!(asker.refusal("STREAM.PURGE.S", r#"{"filter":"a"}"#).await, 10110);
    assert_eq!(asker.refusal("STREAM.PURGE.S", r#"{"seq":2}"#).await, 10110);
    assert_eq!(asker.refusal("CONSUMER.INFO.S.C", "").await, 10014);
    assert_eq!(asker.refusal("CONSUMER.NAMES.X", "").await, 10059);
    assert_eq!(asker.refusal("STREAM.LEADER.STEPDOWN.S", "").await, 10010);
}

#[tokio::test]
async fn kafka_sees_the_topic_and_may_not_change_what_belongs_to_the_stream() {
    let (server, mut asker) = server().await;
    asker.api("STREAM.CREATE.a$b", r#"{"name":"a$b","subjects":["s.>"],"max_age":1000000000}"#).await;
    let mut kafka = server.connect().await;
    assert_eq!(kafka.topic("a.24b").await.partitions.len(), 1);
    let resource =
        DescribeConfigsResource { resource_type: 2, resource_name: "a.24b".to_owned(), ..Default::default() };
    let request = DescribeConfigsRequest { resources: vec![resource], ..Default::default() };
    let described = kafka.call(4, &request).await.results.remove(0).configs;
    let of = |name: &str| described.iter().find(|entry| entry.name == name).unwrap();
    assert!(of("tailrace.jetstream.stream").read_only);
    let stored = of("tailrace.jetstream.stream").value.clone().unwrap();
    assert_eq!(serde_json::from_str::<Value>(&stored).unwrap()["name"], "a$b");
    assert_eq!(of("retention.ms").value.as_deref(), Some("1000"));
    for (key, code) in [("tailrace.jetstream.stream", 40), ("retention.ms", 40), ("segment.bytes", 0)] {
        let config = AlterableConfig {
            name: key.to_owned(),
            config_operation: 0,
            value: Some("2097152".to_owned()),
            ..Default::default()
        };
        let resource = AlterConfigsResource {
            resource_type: 2,
            resource_name: "a.24b".to_owned(),
            configs: vec![config],
            ..Default::default()
        };
        let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
        let answer = kafka.call(1, &request).await.responses.remove(0);
        assert_eq!(answer.error_code, code, "{key}: {:?}", answer.error_message);
    }
    let ack = asker.ask("s.x", "hello").await;
    assert_eq!(ack.payload, r#"{"stream":"a$b","seq":1}"#);
}

#[tokio::test]
async fn topics_that_kafka_clients_made_show_as_streams() {
    let (server, mut asker) = server().await;
    let mut kafka = server.connect().await;
    kafka.create_topic("pay.eu", 1, &[("tailrace.subjects", "pay.>"), ("retention.ms", "1000")]).await;
    kafka.create_topic("plain", 1, &[]).await;
    kafka.create_topic("wide", 3, &[("tailrace.subjects", "wide.>")]).await;
    assert_eq!(names(&asker.api("STREAM.NAMES", "").await), ["pay_eu"]);
    assert_eq!(names(&asker.api("STREAM.NAMES", r#"{"subject":"pay.x"}"#).await), ["pay_eu"]);
    assert_eq!(asker.refusal("STREAM.CREATE.plain", r#"{"name":"plain"}"#).await, 10058);
    assert_eq!(asker.refusal("STREAM.CREATE.T", r#"{"name":"T","subjects":["wide.a"]}"#).await, 10065);
    assert_eq!(asker.refusal("STREAM.UPDATE.pay_eu", r#"{"name":"pay_eu"}"#).await, 10052);
    assert_eq!(asker.refusal("STREAM.DELETE.pay_eu", "").await, 10050);
    assert_eq!(asker.refusal("STREAM.PURGE.pay_eu", "").await, 10110);
    assert_eq!(kafka.topic("pay.eu").await.error_code, 0);
}

#[tokio::test]
async fn streams_are_there_after_a_restart() {
    let (mut server, mut asker) = server().await;
    let before = asker.api("STREAM.CREATE.S", r#"{"name":"S","subjects":["s.>"],"description":"d"}"#).await;
    server.restart().await;
    let mut asker = Asker::new(&server).await;
    let after = asker.api("STREAM.CREATE.S", r#"{"name":"S","subjects":["s.>"],"description":"d"}"#).await;
    assert_eq!(after["config"], before["config"], "{after}");
    assert_eq!(after["created"], before["created"]);
}

#[tokio::test]
async fn a_flood_of_requests_is_refused_beyond_a_bound() {
    const REQUESTS: usize = 200;
    let server = TestServer::with(&[ON, ("tailrace.jetstream.api.requests.max", "8")]).await;
    let mut asker = Asker::new(&server).await;
    let one = "PUB $JS.API.STREAM.NAMES inbox.flood 0\r\n\r\n";
    asker.send(&one.repeat(REQUESTS)).await;
    let (mut good, mut refused) = (0, 0);
    while good + refused < REQUESTS {
        let Said::Message { payload, .. } = asker.next().await else { continue };
        let answer: Value = serde_json::from_slice(&payload).unwrap();
        match answer["error"]["err_code"].as_u64() {
            None => good += 1,
            Some(10008) => refused += 1,
            Some(_) => panic!("{answer}"),
        }
    }
    assert!(good > 0 && refused > 0, "{good} answered, {refused} refused");
    // The places are free again.
    assert_eq!(asker.api("STREAM.NAMES", "").await["total"], 0);
    let info = asker.api("INFO", "").await;
    assert_eq!(info["api"]["errors"], refused);
    // A request that is larger than all that may wait.
    let server = TestServer::with(&[ON, ("tailrace.jetstream.api.bytes.max", "65536")]).await;
    let mut asker = Asker::new(&server).await;
    assert_eq!(asker.refusal("STREAM.NAMES", &" ".repeat(65_536)).await, 10008);
}
