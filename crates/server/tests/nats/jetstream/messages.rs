//! What is in a stream, and its messages one by one.

use serde_json::{Value, json};

use super::{Answered, Asker, ON};
use crate::common::TestServer;

/// A stream S with messages on `a.0`, `a.1`, `a.2`, `a.0`, ... The first of three has a header.
pub(super) async fn with_messages(count: usize) -> (TestServer, Asker) {
    let server = TestServer::with(&[ON]).await;
    let mut asker = Asker::new(&server).await;
    let config = r#"{"name":"S","subjects":["a.>"],"allow_direct":true}"#;
    asker.api("STREAM.CREATE.S", config).await;
    for at in 0..count {
        let headers = if at % 3 == 0 { "NATS/1.0\r\nX: y\r\n\r\n" } else { "" };
        let reply = asker.publish(&format!("a.{}", at % 3), headers, &format!("m{at}")).await;
        assert_eq!(asker.answer(&reply).await.payload, format!("{{\"stream\":\"S\",\"seq\":{}}}", at + 1));
    }
    (server, asker)
}

fn header<'a>(answered: &'a Answered, name: &str) -> Option<&'a str> {
    let mut lines = answered.headers.split("\r\n");
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[tokio::test]
async fn a_stream_tells_what_is_in_it() {
    let (_server, mut asker) = with_messages(7).await;
    let info = asker.api("STREAM.INFO.S", r#"{"subjects_filter":">"}"#).await;
    let state = &info["state"];
    assert_eq!(
        (&state["messages"], &state["first_seq"], &state["last_seq"]),
        (&json!(7), &json!(1), &json!(7))
    );
    assert_eq!(state["subjects"], json!({"a.0": 3, "a.1": 2, "a.2": 2}));
    assert_eq!((&info["total"], &info["limit"]), (&json!(3), &json!(100_000)));
    // 22 bytes, the subject, the payload and 8 bytes each; the block of headers and 4 bytes where there is
    // one.
    assert_eq!(state["bytes"], 7 * (22 + 3 + 2 + 8) + 3 * (4 + 18));
    assert_eq!(info["cluster"]["leader"], "tailrace-1");
    let listed = asker.api("STREAM.LIST", "").await;
    assert_eq!(listed["streams"][0]["state"]["messages"], 7);
    assert_eq!(listed["streams"][0]["config"]["metadata"]["_nats.ver"], Value::Null);
    assert_eq!(asker.api("INFO", "").await["storage"], state["bytes"]);
}

#[tokio::test]
async fn one_message_is_found_by_sequence_by_subject_and_by_time() {
    let (_server, mut asker) = with_messages(7).await;
    for (body, sequence) in [
        (r#"{"seq":2}"#, 2),
        (r#"{"last_by_subj":"a.0"}"#, 7),
        (r#"{"last_by_subj":"a.*"}"#, 7),
        (r#"{"next_by_subj":"a.2"}"#, 3),
        (r#"{"seq":4,"next_by_subj":"a.2"}"#, 6),
        (r#"{"start_time":"2020-01-01T00:00:00Z"}"#, 1),
    ] {
        let found = asker.api("STREAM.MSG.GET.S", body).await;
        assert_eq!(found["message"]["seq"], sequence, "{body}: {found}");
        let direct = asker.ask("$JS.API.DIRECT.GET.S", body).await;
        assert_eq!(header(&direct, "Nats-Sequence"), Some(&*sequence.to_string()), "{body}: {direct:?}");
        assert_eq!(direct.payload, format!("m{}", sequence - 1));
    }
    let first = &asker.api("STREAM.MSG.GET.S", r#"{"seq":1}"#).await["message"];
    assert_eq!((&first["subject"], &first["data"]), (&json!("a.0"), &json!("bTA=")));
    assert_eq!(first["hdrs"], "TkFUUy8xLjANClg6IHkNCg0K");
    let first = asker.ask("$JS.API.DIRECT.GET.S", r#"{"seq":1}"#).await;
    assert!(
        first.headers.starts_with("NATS/1.0\r\nX: y\r\nNats-Stream: S\r\nNats-Subject: a.0\r\n"),
        "{first:?}"
    );
    assert_eq!(asker.refusal("STREAM.MSG.GET.S", r#"{"seq":8}"#).await, 10037);
    assert_eq!(asker.refusal("STREAM.MSG.GET.S", "").await, 10003);
}

#[tokio::test]
async fn direct_gets_have_statuses() {
    let (_server, mut asker) = with_messages(4).await;
    for (body, status) in [
        ("", "408 Empty Request"),
        ("x", "408 Malformed Request"),
        (r#"{"seq":1,"last_by_subj":"a"}"#, "408 Bad Request"),
        (r#"{"seq":9}"#, "404 Message Not Found"),
        (r#"{"multi_last":["z"]}"#, "404 No Results"),
    ] {
        let answer = asker.ask("$JS.API.DIRECT.GET.S", body).await;
        assert_eq!(answer.headers, format!("NATS/1.0 {status}\r\n\r\n"), "{body}");
    }
    let last = asker.ask("$JS.API.DIRECT.GET.S.a.1", "").await;
    assert_eq!((header(&last, "Nats-Sequence"), &*last.payload), (Some("2"), "m1"));
    let bare = asker.ask("$JS.API.DIRECT.GET.S.a.1", r#"{"no_hdr":true}"#).await;
    assert_eq!((&*bare.headers, &*bare.payload), ("", "m1"));
    asker.api("STREAM.UPDATE.S", r#"{"name":"S","subjects":["a.>"]}"#).await;
    let closed = asker.ask("$JS.API.DIRECT.GET.S", r#"{"seq":1}"#).await;
    assert!(closed.headers.starts_with("NATS/1.0 503\r\n"), "{closed:?}");
}

/// The answers to one request, up to the end of the batch.
async fn batch(asker: &mut Asker, body: &str) -> Vec<Answered> {
    let reply = asker.publish("$JS.API.DIRECT.GET.S", "", body).await;
    let mut answers = Vec::new();
    loop {
        let answer = asker.answer(&reply).await;
        let is_last = answer.headers.starts_with("NATS/1.0 ");
        answers.push(answer);
        if is_last {
            return answers;
        }
    }
}

fn sequences(answers: &[Answered]) -> Vec<&str> {
    answers.iter().filter_map(|answer| header(answer, "Nats-Sequence")).collect()
}

#[tokio::test]
async fn a_batch_comes_message_by_message_and_has_an_end() {
    let (_server, mut asker) = with_messages(9).await;
    let answers = batch(&mut asker, r#"{"seq":2,"batch":3}"#).await;
    assert_eq!(sequences(&answers), ["2", "3", "4"]);
    assert_eq!(header(&answers[0], "Nats-Num-Pending"), Some("7"));
    assert_eq!(header(&answers[0], "Nats-Last-Sequence"), Some("0"));
    assert_eq!(header(&answers[2], "Nats-Last-Sequence"), Some("3"));
    assert_eq!(
        answers[3].headers,
        "NATS/1.0 204 EOB\r\nNats-Num-Pending: 5\r\nNats-Last-Sequence: 4\r\n\r\n"
    );
    let filtered = batch(&mut asker, r#"{"next_by_subj":"a.1","batch":99}"#).await;
    assert_eq!(sequences(&filtered), ["2", "5", "8"]);
    // The message that reaches the number of bytes still comes.
    let few = batch(&mut asker, r#"{"seq":1,"batch":9,"max_bytes":6}"#).await;
    assert_eq!(sequences(&few), ["1"]);
}

#[tokio::test]
async fn the_last_messages_of_many_subjects_come_as_of_one_moment() {
    let (_server, mut asker) = with_messages(9).await;
    let all = batch(&mut asker, r#"{"multi_last":["a.0","a.2"]}"#).await;
    assert_eq!(sequences(&all), ["7", "9"]);
    assert_eq!(header(&all[2], "Nats-UpTo-Sequence"), Some("9"));
    let before = batch(&mut asker, r#"{"multi_last":["a.>"],"up_to_seq":5}"#).await;
    assert_eq!(sequences(&before), ["3", "4", "5"]);
    let page = batch(&mut asker, r#"{"multi_last":["a.>"],"batch":2}"#).await;
    assert_eq!(sequences(&page), ["7", "8"]);
    assert_eq!(header(&page[2], "Nats-Num-Pending"), Some("1"));
}
