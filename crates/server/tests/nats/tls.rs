//! TLS on the NATS listener: by upgrade and from the first byte, with and without client certificates, and
//! with clients that speak the wrong protocol.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use crate::common::TestServer;
use crate::common::certificates::{Authority, handshake};
use crate::common::lines::Lines;
use crate::common::rig::eventually;
use async_nats::{Client, ConnectError, ConnectOptions};
use futures_util::StreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// A refused client notices within this time.
const QUICK: Duration = Duration::from_secs(3);

async fn server(authority: &Authority, more: &[(&str, &str)]) -> TestServer {
    let settings = authority.settings(&[&[("tailrace.nats.tls", "required")], more].concat());
    let settings: Vec<_> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    TestServer::with(&settings).await
}

fn trusting(authority: &Authority) -> ConnectOptions {
    ConnectOptions::new()
        .add_root_certificates(authority.path("ca.pem"))
        .connection_timeout(Duration::from_secs(5))
}

fn showing(options: ConnectOptions, owner: &Authority) -> ConnectOptions {
    options.add_client_certificate(owner.path("client.pem"), owner.path("client.key"))
}

async fn connect(server: &TestServer, options: ConnectOptions) -> Result<Client, ConnectError> {
    options.connect(format!("nats://localhost:{}", server.nats().port())).await
}

async fn works(client: &Client) {
    let mut subscription = client.subscribe("works").await.unwrap();
    client.publish("works", "yes".into()).await.unwrap();
    let message = tokio::time::timeout(Duration::from_secs(5), subscription.next()).await.unwrap().unwrap();
    assert_eq!(&message.payload[..], b"yes");
}

/// Connects a client that upgrades to TLS by hand.
async fn upgrade(server: &TestServer, authority: &Authority) -> Lines<TlsStream<TcpStream>> {
    let mut plain = Lines::over(TcpStream::connect(server.nats()).await.unwrap());
    assert_eq!(plain.info().await["tls_required"], true);
    Lines::over(handshake(authority.client(None), plain.stream).await.unwrap())
}

async fn cut(server: &TestServer, count: f64) {
    let line = "tailrace_nats_connections_cut_total{reason=\"tls_handshake_error\"}";
    eventually("the connections are counted", || async { server.metric(line).await == count }).await;
}

#[tokio::test]
async fn a_client_upgrades_after_info_and_everything_works() {
    let authority = Authority::new();
    let server = server(&authority, &[]).await;
    let (publisher, subscriber) = (
        connect(&server, trusting(&authority)).await.unwrap(),
        connect(&server, trusting(&authority)).await.unwrap(),
    );
    let mut subscription = subscriber.subscribe("data.>").await.unwrap();
    subscriber.flush().await.unwrap();
    let payload = |number: usize| vec![u8::try_from(number % 251).unwrap(); number * 977 % 200_000];
    let sending = tokio::spawn(async move {
        for number in 0..500 {
            publisher.publish(format!("data.{number}"), payload(number).into()).await.unwrap();
        }
        publisher.flush().await.unwrap();
        publisher
    });
    for number in 0..500 {
        let message =
            tokio::time::timeout(Duration::from_secs(20), subscription.next()).await.unwrap().unwrap();
        assert_eq!(message.subject.as_str(), format!("data.{number}"));
        assert!(message.payload == payload(number), "message {number}");
    }
    let publisher = sending.await.unwrap();
    let mut requests = subscriber.subscribe("echo").await.unwrap();
    subscriber.flush().await.unwrap();
    tokio::spawn(async move {
        while let Some(request) = requests.next().await {
            subscriber.publish(request.reply.unwrap(), request.payload).await.unwrap();
        }
    });
    assert_eq!(&publisher.request("echo", "hello".into()).await.unwrap().payload[..], b"hello");
}

#[tokio::test]
async fn info_comes_before_the_upgrade_and_not_again_until_connect() {
    let authority = Authority::new();
    let server =
        server(&authority, &[("tailrace.nats.user", "alice"), ("tailrace.nats.password", "p")]).await;
    let mut lines = upgrade(&server, &authority).await;
    lines
        .send("CONNECT {\"verbose\":false,\"protocol\":1,\"user\":\"alice\",\"pass\":\"p\"}\r\nPING\r\n")
        .await;
    assert_eq!(lines.line().await.unwrap(), "PONG\r\n");
    assert_eq!(lines.info().await["tls_required"], true);
    let mut lines = upgrade(&server, &authority).await;
    lines.send("CONNECT {\"user\":\"alice\",\"pass\":\"q\"}\r\n").await;
    assert_eq!(lines.until_end().await, ["-ERR 'Authorization Violation'"]);
}

#[tokio::test]
async fn an_nkey_signs_the_nonce_that_came_before_the_upgrade() {
    let authority = Authority::new();
    let pair = nkeys::KeyPair::new_user();
    let server = server(&authority, &[("tailrace.nats.nkey", &pair.public_key())]).await;
    let options =
        ConnectOptions::with_nkey(pair.seed().unwrap()).add_root_certificates(authority.path("ca.pem"));
    works(&connect(&server, options).await.unwrap()).await;
}

#[tokio::test]
async fn tls_may_come_first() {
    let authority = Authority::new();
    let settings =
        [("tailrace.nats.tls.handshake.first", "true"), ("tailrace.tls.handshake.timeout.ms", "500")];
    let server = server(&authority, &settings).await;
    works(&connect(&server, trusting(&authority).tls_first()).await.unwrap()).await;
    let stream = TcpStream::connect(server.nats()).await.unwrap();
    let mut lines = Lines::over(handshake(authority.client(None), stream).await.unwrap());
    assert_eq!(lines.info().await["tls_required"], true);
    assert!(lines.until_pong().await.is_empty());
    // A client that waits for INFO gets none, not even after a while.
    let mut waiting = Lines::over(TcpStream::connect(server.nats()).await.unwrap());
    assert_eq!(waiting.until_end().await, ["-ERR 'Secure Connection - TLS Required'"]);
    cut(&server, 1.0).await;
}

#[tokio::test]
async fn clients_must_show_a_certificate_where_that_is_demanded() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let server = server(&authority, &[("tailrace.tls.client.auth", "required")]).await;
    let mut asked = Lines::over(TcpStream::connect(server.nats()).await.unwrap());
    assert_eq!(asked.info().await["tls_verify"], true);
    drop(asked);
    works(&connect(&server, showing(trusting(&authority), &authority)).await.unwrap()).await;
    assert!(connect(&server, trusting(&authority)).await.is_err(), "the client has no certificate");
    assert!(
        connect(&server, showing(trusting(&authority), &stranger)).await.is_err(),
        "the certificate is from another authority"
    );
    assert!(
        connect(&server, showing(trusting(&stranger), &authority)).await.is_err(),
        "the client does not trust the server"
    );
}

#[tokio::test]
async fn the_wrong_protocol_is_turned_away_at_once() {
    let authority = Authority::new();
    let secure = server(&authority, &[("tailrace.tls.handshake.timeout.ms", "1000")]).await;
    let began = Instant::now();
    let mut plain = Lines::over(TcpStream::connect(secure.nats()).await.unwrap());
    plain.info().await;
    plain.send("CONNECT {\"verbose\":false}\r\nPING\r\nSUB > 1\r\n").await;
    // At most an alert comes, which is not a line.
    assert!(plain.until_end().await.is_empty());
    // A client that only waits is told what it should have done.
    let mut silent = Lines::over(TcpStream::connect(secure.nats()).await.unwrap());
    silent.info().await;
    assert_eq!(silent.until_end().await, ["-ERR 'Secure Connection - TLS Required'"]);
    assert!(began.elapsed() < QUICK);
    cut(&secure, 2.0).await;

    // A TLS client at a listener without TLS.
    let plain = TestServer::start().await;
    let began = Instant::now();
    let stream = TcpStream::connect(plain.nats()).await.unwrap();
    handshake(authority.client(None), stream).await.unwrap_err();
    let mut hello = TcpStream::connect(plain.nats()).await.unwrap();
    hello.write_all(&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0xd, 0xa]).await.unwrap();
    let mut said = String::new();
    hello.read_to_string(&mut said).await.unwrap();
    assert!(said.ends_with("-ERR 'Unknown Protocol Operation'\r\n"), "{said}");
    assert!(began.elapsed() < QUICK);
    let open = "tailrace_nats_connections";
    eventually("the connections end", || async { plain.metric(open).await == 0.0 }).await;
}

#[tokio::test]
async fn handshakes_count_as_connections_and_do_not_hold_up_a_stop() {
    let authority = Authority::new();
    let settings = [("tailrace.nats.max.connections", "2"), ("tailrace.tls.handshake.timeout.ms", "60000")];
    let mut server = server(&authority, &settings).await;
    let mut waiting = Vec::new();
    for _ in 0..2 {
        let mut lines = Lines::over(TcpStream::connect(server.nats()).await.unwrap());
        lines.info().await;
        waiting.push(lines);
    }
    let mut third = Lines::over(TcpStream::connect(server.nats()).await.unwrap());
    let said = third.until_end().await;
    assert_eq!(said.last().unwrap(), "-ERR 'maximum connections exceeded'");
    drop(waiting.pop());
    let (mut next, began) = (None, Instant::now());
    while next.is_none() {
        assert!(began.elapsed() < QUICK);
        let mut lines = Lines::over(TcpStream::connect(server.nats()).await.unwrap());
        lines.info().await;
        next = handshake(authority.client(None), lines.stream).await.ok();
    }
    let began = Instant::now();
    server.stop().await;
    assert!(began.elapsed() < QUICK);
    assert!(waiting[0].until_end().await.is_empty());
}

#[tokio::test]
async fn a_subscriber_over_tls_that_does_not_read_is_cut_and_others_are_not_harmed() {
    let authority = Authority::new();
    let settings =
        [("tailrace.nats.write.deadline.ms", "1000"), ("tailrace.nats.max.pending.bytes", "8388608")];
    let server = server(&authority, &settings).await;
    let mut deaf = upgrade(&server, &authority).await;
    deaf.send("CONNECT {\"verbose\":false}\r\nSUB flood 1\r\n").await;
    assert!(deaf.until_pong().await.is_empty());
    let client = connect(&server, trusting(&authority)).await.unwrap();
    let flood = vec![7; 100_000];
    let line = "tailrace_nats_slow_consumers_total";
    let began = Instant::now();
    while server.metric(line).await < 1.0 {
        assert!(began.elapsed() < Duration::from_secs(20), "the slow consumer was not cut off");
        for _ in 0..10 {
            client.publish("flood", flood.clone().into()).await.unwrap();
        }
        client.flush().await.unwrap();
    }
    works(&client).await;
}
