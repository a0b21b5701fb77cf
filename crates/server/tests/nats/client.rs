//! What a real client, async-nats, can do with the NATS front.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::common;
use crate::common::TestServer;
use async_nats::{HeaderMap, Message, RequestErrorKind, Subscriber};
use futures_util::StreamExt;

async fn next(subscriber: &mut Subscriber) -> Message {
    tokio::time::timeout(Duration::from_secs(20), subscriber.next())
        .await
        .expect("in time")
        .expect("a message")
}

#[tokio::test]
async fn messages_reach_those_who_subscribed_in_order() {
    let server = TestServer::start().await;
    let (publisher, subscriber) = (server.client().await, server.client().await);
    let mut exact = subscriber.subscribe("orders.eu.new").await.unwrap();
    let mut star = subscriber.subscribe("orders.*.new").await.unwrap();
    let mut rest = subscriber.subscribe("orders.>").await.unwrap();
    subscriber.flush().await.unwrap();
    for number in 0..1000_u32 {
        publisher.publish("orders.eu.new", number.to_string().into()).await.unwrap();
    }
    publisher.publish("orders.eu.old", "last".into()).await.unwrap();
    publisher.flush().await.unwrap();
    for number in 0..1000_u32 {
        for subscription in [&mut exact, &mut star, &mut rest] {
            assert_eq!(next(subscription).await.payload, number.to_string());
        }
    }
    assert_eq!(next(&mut rest).await.subject.as_str(), "orders.eu.old");
}

#[tokio::test]
async fn headers_travel_with_order_and_duplicates() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let mut subscription = client.subscribe("h").await.unwrap();
    let mut headers = HeaderMap::new();
    headers.append("X-One", "1");
    headers.append("X-One", "2");
    headers.append("x-one", "three: with a colon");
    client.publish_with_headers("h", headers.clone(), "body".into()).await.unwrap();
    let message = next(&mut subscription).await;
    assert_eq!(message.headers, Some(headers));
    assert_eq!(message.payload, "body");
}

#[tokio::test]
async fn requests_are_answered_or_refused_at_once() {
    let server = TestServer::start().await;
    let (client, service) = (server.client().await, server.client().await);
    let mut requests = service.subscribe("service").await.unwrap();
    service.flush().await.unwrap();
    let answering = tokio::spawn(async move {
        while let Some(request) = requests.next().await {
            let answer = [b"re: ", &request.payload[..]].concat();
            service.publish(request.reply.unwrap(), answer.into()).await.unwrap();
        }
    });
    for number in 0..100 {
        let answer = client.request("service", number.to_string().into()).await.unwrap();
        assert_eq!(answer.payload, format!("re: {number}"));
    }
    let error = client.request("nobody", "x".into()).await.unwrap_err();
    assert_eq!(error.kind(), RequestErrorKind::NoResponders);
    answering.abort();
}

#[tokio::test]
async fn a_queue_group_shares_and_plain_subscribers_get_all() {
    let server = TestServer::start().await;
    let mut members = Vec::new();
    for _ in 0..4 {
        let client = server.client().await;
        let member = client.queue_subscribe("work.*", "workers".into()).await.unwrap();
        client.flush().await.unwrap();
        members.push((client, member));
    }
    let watcher = server.client().await;
    let mut all = watcher.subscribe("work.>").await.unwrap();
    watcher.flush().await.unwrap();
    let publisher = server.client().await;
    for number in 0..2000_u32 {
        publisher.publish("work.now", number.to_string().into()).await.unwrap();
    }
    publisher.publish("work.end.all", "".into()).await.unwrap();
    publisher.flush().await.unwrap();
    for number in 0..2000_u32 {
        assert_eq!(next(&mut all).await.payload, number.to_string());
    }
    let mut seen = BTreeMap::new();
    for (number, (client, member)) in members.into_iter().enumerate() {
        client.flush().await.unwrap();
        let mut member = member;
        member.unsubscribe().await.unwrap();
        let mut count = 0;
        while let Some(message) = member.next().await {
            assert!(seen.insert(message.payload.to_vec(), number).is_none(), "delivered twice");
            count += 1;
        }
        // A uniform share is 500 of 2,000. The probability of falling outside the range is below 1e-12.
        assert!((350..650).contains(&count), "member {number} got {count}");
    }
    assert_eq!(seen.len(), 2000);
}

#[tokio::test]
async fn a_subscription_ends_after_so_many_messages() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let mut subscription = client.subscribe("few").await.unwrap();
    subscription.unsubscribe_after(3).await.unwrap();
    for number in 0..10_u32 {
        client.publish("few", number.to_string().into()).await.unwrap();
    }
    client.flush().await.unwrap();
    let mut got = Vec::new();
    while let Some(message) = subscription.next().await {
        got.push(message.payload);
    }
    assert_eq!(got, ["0", "1", "2"]);
    // The server has dropped the subscription too.
    common::rig::eventually("the subscription is removed", || async {
        server.metric("tailrace_nats_subscriptions").await == 0.0
    })
    .await;
}

#[tokio::test]
async fn draining_loses_nothing() {
    let server = TestServer::start().await;
    let (mut publisher, subscriber) = (server.raw().await, server.client().await);
    let mut subscription = subscriber.subscribe("drain.*").await.unwrap();
    subscriber.flush().await.unwrap();
    for number in 0..500_u32 {
        let payload = number.to_string();
        publisher.send(format!("PUB drain.x {}\r\n{payload}\r\n", payload.len())).await;
    }
    // async-nats's flush only sends.
    publisher.sync().await;
    subscriber.drain().await.unwrap();
    let mut count = 0_u32;
    while let Some(message) = subscription.next().await {
        assert_eq!(message.payload, count.to_string());
        count += 1;
    }
    assert_eq!(count, 500);
}

#[tokio::test]
async fn payloads_of_every_size_arrive_whole() {
    let server = TestServer::start().await;
    let (publisher, one, two) = (server.client().await, server.client().await, server.client().await);
    let mut first = one.subscribe("big").await.unwrap();
    let mut second = two.subscribe("big").await.unwrap();
    one.flush().await.unwrap();
    two.flush().await.unwrap();
    let sizes = [0, 1, 100, 4096, 16_383, 16_384, 65_535, 65_536, 65_537, 300_000, 1_048_576];
    for (number, size) in sizes.into_iter().enumerate() {
        publisher.publish("big", pattern(number, size).into()).await.unwrap();
    }
    publisher.flush().await.unwrap();
    for (number, size) in sizes.into_iter().enumerate() {
        for subscription in [&mut first, &mut second] {
            assert!(next(subscription).await.payload == pattern(number, size), "{size} bytes");
        }
    }
}

fn pattern(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at.wrapping_mul(31) ^ (at >> 8) ^ seed) as u8).collect()
}

#[tokio::test]
async fn clients_come_back_after_a_restart() {
    // Connections on this machine come from 127.0.0.1, so none of them takes the port meanwhile.
    let mut server = TestServer::with(&[("nats", "127.0.0.2:0")]).await;
    let address = server.nats().to_string();
    server.stop().await;
    // The same port again, so that the client finds the server.
    let mut server = TestServer::with(&[("nats", &address)]).await;
    let client = server.client().await;
    let mut subscription = client.subscribe("after").await.unwrap();
    client.flush().await.unwrap();
    server.restart().await;
    let publisher = server.client().await;
    common::rig::eventually("the subscription is renewed", || async {
        server.metric("tailrace_nats_subscriptions").await == 1.0
    })
    .await;
    publisher.publish("after", "still here".into()).await.unwrap();
    assert_eq!(next(&mut subscription).await.payload, "still here");
}

#[tokio::test]
async fn what_was_published_before_the_server_stops_is_delivered() {
    let mut server = TestServer::start().await;
    let mut subscriber = server.raw().await;
    subscriber.send("SUB last.words 1\r\n").await;
    subscriber.sync().await;
    let mut publisher = server.raw().await;
    for _ in 0..1000 {
        publisher.send("PUB last.words 4\r\nfour\r\n").await;
    }
    publisher.sync().await;
    server.stop().await;
    let said = subscriber.rest().await;
    let messages = said.iter().filter(|said| matches!(said, common::nats::Said::Message { .. })).count();
    assert_eq!(messages, 1000);
}
