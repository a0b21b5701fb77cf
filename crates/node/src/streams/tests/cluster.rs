//! Streams of three nodes: asked at any of them, and after the leader has changed.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;

pub(super) async fn nodes() -> (Vec<RunningNode>, Vec<TempDir>) {
    let (mut nodes, mut folders) = (Vec::<RunningNode>::new(), Vec::new());
    for number in 1..=3 {
        let folder = TempDir::new().unwrap();
        let id = number.to_string();
        let seed = nodes.first().and_then(|first| first.addresses()?.cluster).map(|at| at.to_string());
        let mut settings = vec![("node.id", id.as_str()), ("cluster.listen", "127.0.0.1:0")];
        settings.extend(seed.as_ref().map(|seed| ("tailrace.cluster.seeds", seed.as_str())));
        nodes.push(start_with(&folder, &settings, fronts()).await);
        folders.push(folder);
    }
    (nodes, folders)
}

/// Starts a node again that was stopped.
pub(super) async fn start_again(others: &[RunningNode], folder: &TempDir) -> RunningNode {
    let seed = others[0].addresses().and_then(|at| at.cluster).map(|at| at.to_string()).unwrap();
    let id = (1..=3).find(|id| others.iter().all(|node| node.node().id().0 != *id)).unwrap().to_string();
    let settings = [
        ("node.id", id.as_str()),
        ("cluster.listen", "127.0.0.1:0"),
        ("tailrace.cluster.seeds", seed.as_str()),
    ];
    start_with(folder, &settings, fronts()).await
}

/// Waits until something is so. The test runner ends a test that waits forever.
pub(super) async fn until<T>(mut what: impl FnMut() -> Option<T>) -> T {
    loop {
        match what() {
            Some(found) => return found,
            // For other nodes to elect a leader, or to learn of a topic.
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

pub(super) fn leading(nodes: &[RunningNode]) -> Option<usize> {
    let leads = |node: &RunningNode| {
        let topic = node.node().topics().by_name("orders");
        topic.is_some_and(|topic| topic.led(0).is_ok())
    };
    nodes.iter().position(leads)
}

async fn send_to_leader(nodes: &[RunningNode], sent: &[Sent<'_>]) {
    let leader = until(|| leading(nodes)).await;
    let node = nodes[leader].node();
    let topic = node.topics().by_name("orders").unwrap();
    send(node, topic.led(0).unwrap(), None, sent).await;
}

async fn all(node: &Arc<Node>) -> BTreeMap<u64, String> {
    let topic = until(|| node.topics().by_name("orders")).await;
    // The leader may be about to change. A question ends after some seconds.
    loop {
        match messages(node, Caller::internal(), &topic, next("", 0), ALL).await {
            Ok(found) => {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                return found.messages.iter().map(|one| (one.sequence, text(&one.payload))).collect();
            }
            Err(StreamFailure::NoLeader(_)) => {}
            Err(failure) => panic!("{failure:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_node_answers_for_a_stream_and_another_leader_has_the_same() {
    let (mut nodes, _folders) = nodes().await;
    let (node, topic) = (nodes[0].node(), TopicId::from_random([7; 16]));
    let create = CreateTopic::with_defaults("orders", topic, node.now(), Requester::Stream);
    let configs = vec![("tailrace.jetstream.stream".to_owned(), Some(config().to_stored()))];
    let create = Command::CreateTopic(CreateTopic { replication_factor: 3, configs, ..create });
    node.execute(Caller::internal(), create).await.unwrap();
    send_to_leader(&nodes, &[("a", b"one", None), ("b", b"\xc3\xa4", None)]).await;
    let mut expected = BTreeMap::from([(1, "one".to_owned()), (2, "\u{e4}".to_owned())]);
    for node in &nodes {
        assert_eq!(all(node.node()).await, expected);
    }
    let leader = until(|| leading(&nodes)).await;
    let gone = nodes.remove(leader);
    gone.stop().await;
    for node in &nodes {
        assert_eq!(all(node.node()).await, expected);
    }
    send_to_leader(&nodes, &[("a", b"three", None)]).await;
    expected.insert(3, "three".to_owned());
    for node in &nodes {
        let node = node.node();
        assert_eq!(all(node).await, expected);
        let topic = node.topics().by_name("orders").unwrap();
        let found = messages(node, Caller::internal(), &topic, Select::At(9), ALL).await;
        assert_eq!(found, Err(StreamFailure::NoMessage));
        let found = state(node, Caller::internal(), &topic, StateTerms::default()).await.unwrap();
        assert_eq!((found.messages, found.subjects, found.last_seq), (3, 2, 3));
        // Only the leader has a table.
        let is_led = topic.led(0).is_ok();
        assert_eq!(node.streams.tables(), usize::from(is_led));
    }
    for node in nodes {
        node.stop().await;
    }
}
