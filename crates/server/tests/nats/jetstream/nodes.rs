//! Three nodes: any of them answers, whichever leads a stream.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Asker, ON};
use crate::cluster::cluster;
use crate::common::PATIENCE;

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
    for asker in &mut askers {
        until(asker, 1).await;
    }
    for (asker, text) in askers.iter_mut().zip(["a", "b", "c"]) {
        let ack = asker.ask("s.x", text).await.payload;
        assert!(ack.starts_with(r#"{"stream":"S","seq":"#), "{ack}");
    }
    // Whichever node leads it, each reads what any other has stored, and removes it.
    for (asker, purged) in askers.iter_mut().zip([1, 0, 2]) {
        assert_eq!(asker.api("STREAM.INFO.S", "").await["state"]["last_seq"], 3);
        let body = if purged == 2 { "" } else { r#"{"seq":2}"# };
        assert_eq!(asker.api("STREAM.PURGE.S", body).await["purged"], purged);
    }
    assert_eq!(askers[0].api("STREAM.INFO.S", "").await["state"]["first_seq"], 4);
    let four = r#"{"name":"F","num_replicas":4}"#;
    assert_eq!(askers[0].refusal("STREAM.CREATE.F", four).await, 10005);
    let tags = r#"{"name":"F","placement":{"tags":["ssd"]}}"#;
    assert_eq!(askers[0].refusal("STREAM.CREATE.F", tags).await, 10005);
    assert_eq!(askers[2].api("STREAM.DELETE.S", "").await["success"], true);
    for asker in &mut askers {
        until(asker, 0).await;
    }
}

/// A list does not wait for ever for the streams of a node that is gone, and tells which they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_whose_leader_is_gone_are_missing_in_a_list() {
    let mut nodes = cluster(3, &[ON]).await;
    let mut asker = Asker::new(&nodes[0]).await;
    let (mut kept, mut lost) = (Vec::new(), Vec::new());
    while kept.is_empty() || lost.is_empty() {
        let name = format!("S{:03}", kept.len() + lost.len());
        let made = asker.api(&format!("STREAM.CREATE.{name}"), &format!("{{\"name\":\"{name}\"}}")).await;
        assert_eq!(made["error"], Value::Null, "{made}");
        if made["cluster"]["leader"] == "tailrace-3" { lost.push(name) } else { kept.push(name) }
    }
    let all = kept.len() + lost.len();
    nodes[2].stop().await;
    let missing = async {
        loop {
            let list = asker.api("STREAM.LIST", "").await;
            assert_eq!(list["total"], all);
            // On a slow machine others may be late, too.
            if list["missing"] == json!(lost) {
                assert_eq!(list["streams"].as_array().unwrap().len(), kept.len());
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, missing).await.expect("the others are listed");
    assert_eq!(asker.api("INFO", "").await["streams"], all);
}

/// Waits until a node knows so many streams. A node that has just joined may have no link to the one that
/// made the change.
async fn until(asker: &mut Asker, count: usize) {
    let known = async {
        while asker.api("STREAM.NAMES", "").await["total"] != count {
            // For the other node to get the metadata.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, known).await.expect("the node learns of the change");
}
