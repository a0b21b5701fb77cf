//! Topics and the nodes of a cluster. The leader of a partition captures messages published on any node, once
//! and in order. Every node delivers records of Kafka clients once.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::collections::BTreeSet;
use std::time::Duration;

use async_nats::Subscriber;
use rdkafka::producer::FutureRecord;

use crate::cluster::{client, clients, cluster, counted, known};
use crate::common::TestServer;
use crate::crossing::{count_of_records, create, next, producer, publish_for_ack, records, send, settled};

/// Creates a topic and waits until every node knows it and its partitions have leaders.
async fn topic(nodes: &[TestServer], name: &str, partitions: i32) {
    let subjects = format!("{name}.>");
    create(&nodes[0], name, partitions, &[("tailrace.subjects", &subjects)]).await.unwrap();
    for node in nodes {
        let client = client(node).await;
        for partition in 0..partitions * 4 {
            // Until the node knows the topic, nobody acknowledges.
            let began = tokio::time::Instant::now();
            loop {
                let answer = client.request(format!("{name}.ready.{partition}"), "ready".into()).await;
                if answer.is_ok_and(|ack| !ack.payload.windows(5).any(|word| word == b"error")) {
                    break;
                }
                assert!(began.elapsed() < Duration::from_secs(20), "the topic takes messages on every node");
            }
        }
    }
}

/// Checks that subscribers receive nothing more. A final record in each of the three partitions of `orders`
/// must be the next that each subscriber receives. A duplicate would be read from the logs, and before it.
async fn nothing_more(node: &TestServer, live: &mut [Subscriber], key: &str) {
    let producer = producer(node);
    for partition in 0..3 {
        send(&producer, FutureRecord::to("orders").partition(partition).key(key.as_bytes()).payload(b""))
            .await;
    }
    for subscriber in live {
        for _ in 0..3 {
            assert_eq!(
                next(subscriber).await.subject.as_str(),
                format!("orders.{key}"),
                "a message arrived twice"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_published_on_any_node_is_stored_once_and_in_order() {
    let nodes = cluster(3, &[]).await;
    topic(&nodes, "orders", 3).await;
    let before = count_of_records(&nodes[0], "orders", 3).await;
    let clients = clients(&nodes).await;
    let mut live = Vec::new();
    for client in &clients {
        live.push(client.subscribe("orders.n.*").await.unwrap());
    }
    for to in &clients {
        for of in &clients {
            known(of, to).await;
        }
    }
    // Without a reply subject. PONG means that the message is in the log.
    for (number, client) in clients.iter().enumerate() {
        for n in 0..300 {
            client.publish(format!("orders.n.{number}"), n.to_string().into()).await.unwrap();
        }
        settled(client).await;
    }
    for subscriber in &mut live {
        let mut heard = BTreeSet::new();
        for _ in 0..900 {
            let message = next(subscriber).await;
            assert!(heard.insert((message.subject.to_string(), message.payload)), "heard twice");
        }
    }
    nothing_more(&nodes[1], &mut live, "n.end").await;
    // With a reply subject, each node says where the record is.
    let mut acks = BTreeSet::new();
    for (number, client) in clients.iter().enumerate() {
        for n in 0..20 {
            let ack = publish_for_ack(client, &format!("orders.a.{number}.{n}"), "x").await;
            let place = (ack["stream"].as_str().unwrap().to_owned(), ack["seq"].as_u64().unwrap());
            assert!(acks.insert(place), "{ack}: two records have the same place");
        }
    }
    let count = count_of_records(&nodes[2], "orders", 3).await;
    assert_eq!(count, before + 963, "no message is stored twice");
    let all = records(&nodes[2], "orders", 3, usize::try_from(count).unwrap()).await;
    for number in 0..3 {
        let key = format!("orders.n.{number}").into_bytes();
        let of_key = all.iter().filter(|record| record.key.as_ref() == Some(&key));
        let values: Vec<_> =
            of_key.map(|record| String::from_utf8(record.value.clone().unwrap()).unwrap()).collect();
        assert_eq!(values, (0..300).map(|n| n.to_string()).collect::<Vec<_>>(), "in the order of publishing");
    }
    let mut forwarded = 0;
    for node in &nodes {
        let (_, metrics) = node.get("/metrics").await;
        forwarded += counted(&metrics, "nats_capture_forwarded_messages_total");
        assert_eq!(counted(&metrics, "nats_capture_errors_total"), 0);
    }
    assert!(forwarded > 0, "some partitions have a leader on another node");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_kafka_clients_produce_is_heard_on_every_node_once() {
    let nodes = cluster(3, &[]).await;
    topic(&nodes, "orders", 3).await;
    let clients = clients(&nodes).await;
    let mut live = Vec::new();
    for client in &clients {
        live.push(client.subscribe("orders.k.*").await.unwrap());
    }
    for to in &clients {
        for of in &clients {
            known(of, to).await;
        }
    }
    let producer = producer(&nodes[1]);
    for n in 0..60 {
        let (key, value) = (format!("k.{n}"), n.to_string());
        send(&producer, FutureRecord::to("orders").key(key.as_bytes()).payload(value.as_bytes())).await;
    }
    for subscriber in &mut live {
        let mut heard = BTreeSet::new();
        for _ in 0..60 {
            let message = next(subscriber).await;
            assert!(heard.insert(message.subject.to_string()), "heard twice: {}", message.subject);
        }
    }
    nothing_more(&nodes[1], &mut live, "k.end").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_does_not_come_back_in_time_is_an_error() {
    let quick = [("tailrace.nats.capture.forward.timeout.ms", "1500")];
    let mut nodes = cluster(2, &quick).await;
    topic(&nodes, "orders", 4).await;
    let client = client(&nodes[0]).await;
    // There is one replica each, so nobody takes over.
    nodes.remove(1).stop().await;
    let mut refused = 0;
    for n in 0..8 {
        let ack = publish_for_ack(&client, &format!("orders.ready.{n}"), "x").await;
        if let Some(error) = ack["error"].as_object() {
            refused += 1;
            assert_eq!((&error["code"], &error["err_code"]), (&503.into(), &10077.into()), "{ack}");
            let text = error["description"].as_str().unwrap();
            assert!(text.contains("leader"), "{text}");
        }
    }
    assert!((1..8).contains(&refused), "only partitions led by the other node are refused: {refused}");
}
