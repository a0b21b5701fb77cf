//! Three nodes that publish what has to be judged, while the leader goes away again and again.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tailrace_types::PartitionId;

use super::cluster::{leading, nodes, start_again, until};
use super::publish::{built, post};
use super::*;
use crate::relay::{self, Batch, Judged};

/// Publishes one message on a node, and tells what became of it. `None` if that is not known.
async fn publish(node: &Arc<Node>, subject: &str, id: &str, expected: u64) -> Option<Published> {
    let topic = node.topics().by_name("orders")?;
    let expected = expected.to_string();
    let headers = [("Nats-Msg-Id", id), ("Nats-Expected-Last-Subject-Sequence", &expected)];
    let message = post(subject, &headers);
    let batch =
        Batch { topic: &topic, partition: PartitionId(0), builder: built(&[message], None), now: node.now() };
    let (told, outcome) = tokio::sync::oneshot::channel();
    let waiter = || -> relay::ToldEach { Box::new(move |outcome| drop(told.send(outcome))) };
    match relay::publish(node, Caller::internal(), batch, waiter).await {
        Ok(Judged::UnderWay(_)) => outcome.await.ok()?.ok()?.pop(),
        Ok(Judged::Here(_)) => panic!("several nodes may lead it"),
        Err(_) => None,
    }
}

/// Publishes until told to end: each message once, whatever happens. Returns the ids with their sequences.
async fn publisher(node: Arc<Node>, name: usize, ends: Arc<AtomicBool>) -> BTreeMap<String, u64> {
    let (mut stored, mut last, mut number) = (BTreeMap::new(), 0, 0);
    while !ends.load(Ordering::Relaxed) {
        let id = format!("{name}.{number}");
        match publish(&node, "cas", &id, last).await {
            Some(Published::Stored(seq) | Published::Duplicate(seq)) => {
                assert_eq!(stored.insert(id, seq), None);
                (last, number) = (seq, number + 1);
            }
            Some(Published::Refused(error)) => {
                let text = error.description();
                if let Some(found) = text.strip_prefix("wrong last sequence: ") {
                    last = found.parse().unwrap();
                }
            }
            // The same again, for it may be stored, once another leader is there.
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
    stored
}

/// What is in the log: id, and the expectation with which it was stored.
async fn contents(node: &Arc<Node>) -> BTreeMap<u64, (String, u64)> {
    let topic = node.topics().by_name("orders").unwrap();
    let (mut all, mut from) = (BTreeMap::new(), 1);
    loop {
        match messages(node, Caller::internal(), &topic, next("", from), ALL).await {
            Ok(page) => {
                for one in &page.messages {
                    let headers = tailrace_jetstream::publish::PublishHeaders::parse(&one.headers);
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                    let expected = text(headers.expected_last_subject_sequence).parse().unwrap();
                    all.insert(one.sequence, (text(headers.msg_id), expected));
                    from = one.sequence + 1;
                }
                if page.next.is_none() {
                    return all;
                }
            }
            Err(StreamFailure::NoMessage) => return all,
            Err(StreamFailure::NoLeader(_)) => {}
            Err(failure) => panic!("{failure:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_message_is_stored_once_and_only_if_its_expectation_holds() {
    let (mut nodes, mut folders) = nodes().await;
    let (node, topic) = (nodes[0].node(), TopicId::from_random([7; 16]));
    let create = CreateTopic::with_defaults("orders", topic, node.now(), Requester::Stream);
    let stream = StreamConfig { duplicate_window: 600_000_000_000, ..config() };
    let configs = vec![("tailrace.jetstream.stream".to_owned(), Some(stream.to_stored()))];
    let create = Command::CreateTopic(CreateTopic { replication_factor: 3, configs, ..create });
    node.execute(Caller::internal(), create).await.unwrap();
    let mut told = BTreeMap::new();
    for round in 0..4 {
        let ends = Arc::new(AtomicBool::new(false));
        let leader = until(|| leading(&nodes)).await;
        let mut publishers = Vec::new();
        for (at, node) in nodes.iter().enumerate().filter(|(at, _)| *at != leader) {
            let node = Arc::clone(node.node());
            publishers.push(tokio::spawn(publisher(node, round * 10 + at, Arc::clone(&ends))));
        }
        let (gone, folder) = (nodes.remove(leader), folders.remove(leader));
        // For some of them to be under way.
        tokio::time::sleep(Duration::from_millis(100)).await;
        gone.stop().await;
        let others = until(|| leading(&nodes)).await;
        let node = nodes[others].node();
        // Another leader takes over while they publish.
        let before = contents(node).await.len();
        while contents(node).await.len() < before + 3 {
            // For the others to publish.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        ends.store(true, Ordering::Relaxed);
        for publisher in publishers {
            told.extend(publisher.await.unwrap());
        }
        nodes.push(start_again(&nodes, &folder).await);
        folders.push(folder);
    }
    let leader = until(|| leading(&nodes)).await;
    let all = contents(nodes[leader].node()).await;
    let mut last = 0;
    let mut ids = BTreeMap::new();
    for (seq, (id, expected)) in &all {
        assert_eq!((*expected, ids.insert(id.clone(), *seq)), (last, None), "{id} at {seq}");
        last = *seq;
    }
    for (id, seq) in &told {
        assert_eq!(ids.get(id), Some(seq), "{id}");
    }
    assert!(told.len() >= 12, "{} messages", told.len());
    for node in nodes {
        node.stop().await;
    }
}
