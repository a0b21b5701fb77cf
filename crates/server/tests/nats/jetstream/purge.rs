//! Purges: what goes, what stays, and that it stays gone.

use serde_json::{Value, json};

use super::messages::with_messages;
use super::{Asker, ON};
use crate::common::TestServer;

/// Messages, first and last sequence.
async fn state(asker: &mut Asker) -> (u64, u64, u64) {
    let state = &asker.api("STREAM.INFO.S", "").await["state"];
    let number = |name: &str| state[name].as_u64().unwrap();
    (number("messages"), number("first_seq"), number("last_seq"))
}

async fn purged(asker: &mut Asker, body: &str) -> Value {
    let answer = asker.api("STREAM.PURGE.S", body).await;
    assert_eq!(answer["success"], true, "{answer}");
    answer["purged"].clone()
}

#[tokio::test]
async fn a_purge_removes_what_it_says_for_good() {
    let (mut server, mut asker) = with_messages(9).await;
    assert_eq!(purged(&mut asker, r#"{"seq":3}"#).await, 2);
    assert_eq!(state(&mut asker).await, (7, 3, 9));
    assert_eq!(purged(&mut asker, r#"{"seq":3}"#).await, 0);
    assert_eq!(purged(&mut asker, r#"{"keep":4,"filter":">"}"#).await, 3);
    assert_eq!(state(&mut asker).await, (4, 6, 9));
    assert_eq!(purged(&mut asker, r#"{"keep":4}"#).await, 0);
    assert_eq!(asker.refusal("STREAM.MSG.GET.S", r#"{"seq":5}"#).await, 10037);
    assert_eq!(asker.api("STREAM.MSG.GET.S", r#"{"seq":6}"#).await["message"]["seq"], 6);
    server.restart().await;
    let mut asker = Asker::new(&server).await;
    assert_eq!(state(&mut asker).await, (4, 6, 9));
    // Kafka clients do not see them either.
    let mut kafka = server.connect().await;
    assert_eq!(kafka.read_all("S", 0, 5).await.len(), 4);
    assert_eq!(purged(&mut asker, "").await, 4);
    assert_eq!(state(&mut asker).await, (0, 10, 9));
    assert_eq!(purged(&mut asker, "").await, 0);
    assert_eq!(asker.ask("a.0", "new").await.payload, r#"{"stream":"S","seq":10}"#);
    server.restart().await;
    let mut asker = Asker::new(&server).await;
    assert_eq!(state(&mut asker).await, (1, 10, 10));
    assert_eq!(asker.refusal("STREAM.PURGE.S", r#"{"seq":2,"keep":1}"#).await, 10003);
    assert_eq!(asker.refusal("STREAM.PURGE.S", r#"{"seqs":2}"#).await, 10025);
    assert_eq!(asker.refusal("STREAM.PURGE.S", r#"{"seq":12}"#).await, 10110);
    assert_eq!(asker.refusal("STREAM.PURGE.X", "").await, 10059);
    assert_eq!(state(&mut asker).await, (1, 10, 10));
}

#[tokio::test]
async fn a_stream_may_forbid_purges() {
    let server = TestServer::with(&[ON]).await;
    let mut asker = Asker::new(&server).await;
    asker.api("STREAM.CREATE.S", r#"{"name":"S","deny_purge":true}"#).await;
    asker.ask("S", "x").await;
    let answer = asker.api("STREAM.PURGE.S", "").await;
    let error = json!({"code": 500, "err_code": 10110, "description": "stream purge not permitted"});
    assert_eq!(answer["error"], error);
    assert_eq!(state(&mut asker).await, (1, 1, 1));
}
