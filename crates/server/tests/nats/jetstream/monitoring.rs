//! What the monitoring pages tell of JetStream.

use serde_json::{Value, json};

use super::{Asker, ON};
use crate::accounts;
use crate::common::TestServer;

async fn page(server: &TestServer, path: &str) -> Value {
    serde_json::from_str(&server.get(path).await.1).unwrap()
}

#[tokio::test]
async fn pages_tell_whether_there_is_jetstream() {
    let server = TestServer::start().await;
    assert_eq!(page(&server, "/jsz").await["disabled"], true);
    assert_eq!(page(&server, "/varz").await["jetstream"], json!({}));
    let server = TestServer::with(&[ON]).await;
    let mut asker = Asker::new(&server).await;
    asker.api("STREAM.CREATE.S", r#"{"name":"S"}"#).await;
    asker.refusal("STREAM.INFO.X", "").await;
    let jsz = page(&server, "/jsz").await;
    assert_eq!(jsz["disabled"], Value::Null);
    assert_eq!((&jsz["streams"], &jsz["api"]), (&json!(1), &json!({"level": 5, "total": 2, "errors": 1})));
    assert_eq!(page(&server, "/varz").await["jetstream"]["stats"]["api"], jsz["api"]);
    assert_eq!(page(&server, "/accountz?acc=$G").await["account_detail"]["jetstream_enabled"], true);
}

#[tokio::test]
async fn health_does_not_miss_jetstream_where_it_is() {
    let users =
        "[[accounts]]\nname = \"$SYS\"\n[[users]]\nuser = \"s\"\npassword = \"p\"\naccount = \"$SYS\"\n";
    for (settings, status) in [(&[][..], "unavailable"), (&[ON][..], "ok")] {
        let world = accounts::world(users, settings).await;
        let mut system = Asker::with(&world.server, r#""user":"s","pass":"p""#).await;
        let answer = system.ask("$SYS.REQ.SERVER.PING.HEALTHZ", r#"{"js-enabled-only":true}"#).await;
        let health: Value = serde_json::from_str(&answer.payload).unwrap();
        assert_eq!(health["data"]["status"], status, "{health}");
        let answer = system.ask("$SYS.REQ.ACCOUNT.$G.JSZ", "").await;
        let jsz: Value = serde_json::from_str(&answer.payload).unwrap();
        assert_eq!(jsz["error"]["code"], 500, "{jsz}");
    }
}
