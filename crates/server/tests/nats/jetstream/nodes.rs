//! Three nodes: any of them answers, whichever leads a stream.

use serde_json::Value;

use super::{Asker, ON};
use crate::cluster::cluster;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_node_makes_changes_lists_and_deletes_streams() {
    let nodes = cluster(3, &[ON]).await;
    let mut askers = Vec::new();
    for node in &nodes {
        askers.push(Asker::new(node).await);
    }
    let config = r#"{"name":"S","subjects":["s.>"],"num_replicas":3}"#;
    let made = askers[1].api("STREAM.CREATE.S", config).await;
    assert_eq!(made["error"], Value::Null, "{made}");
    assert_eq!(made["config"]["num_replicas"], 3);
    assert_eq!(made["cluster"]["replicas"].as_array().map(Vec::len), Some(2), "{made}");
    // The others know it when it is made.
    for asker in &mut askers {
        assert_eq!(asker.api("STREAM.NAMES", "").await["streams"][0], "S");
    }
    let four = r#"{"name":"F","num_replicas":4}"#;
    assert_eq!(askers[0].refusal("STREAM.CREATE.F", four).await, 10005);
    let tags = r#"{"name":"F","placement":{"tags":["ssd"]}}"#;
    assert_eq!(askers[0].refusal("STREAM.CREATE.F", tags).await, 10005);
    let ack = askers[2].ask("s.x", "hello").await;
    assert_eq!(ack.payload, r#"{"stream":"S","seq":1}"#);
    assert_eq!(askers[2].api("STREAM.DELETE.S", "").await["success"], true);
    for asker in &mut askers {
        assert_eq!(asker.api("STREAM.NAMES", "").await["total"], 0);
    }
}
