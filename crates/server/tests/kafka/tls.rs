//! TLS on the Kafka and HTTP listeners: which clients get in, what a fetch returns, and which clients are
//! turned away quickly.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common;
use crate::common::certificates::{Authority, handshake};
use crate::common::local_disk;
use crate::common::rig::{bytes_of, eventually, fetch_request, numbered, only_partition, value};
use crate::common::{Client, TestServer};
use rustls::ClientConfig;
use tailrace_kafka_wire::messages::MetadataRequest;
use tailrace_server::{StartError, Startup, start};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// A refused client notices within this time.
const QUICK: Duration = Duration::from_secs(3);

async fn server(authority: &Authority, more: &[(&str, &str)]) -> TestServer {
    let settings = authority.settings(more);
    let settings: Vec<_> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    TestServer::with(&settings).await
}

async fn connect(server: &TestServer, config: Arc<ClientConfig>) -> std::io::Result<TlsStream<TcpStream>> {
    handshake(config, server.stream().await).await
}

/// In TLS 1.3 a client learns that it was refused only after its own part of the handshake.
async fn is_refused(server: &TestServer, config: Arc<ClientConfig>) -> String {
    let refused = async {
        match connect(server, config).await {
            Err(error) => error.to_string(),
            Ok(mut stream) => match stream.read(&mut [0; 16]).await {
                Ok(count) => format!("no alert, but {count} bytes"),
                Err(error) => error.to_string(),
            },
        }
    };
    tokio::time::timeout(QUICK, refused).await.unwrap()
}

#[tokio::test]
async fn a_large_fetch_over_tls_is_byte_for_byte_the_plain_one() {
    let authority = Authority::new();
    let mut server = server(&authority, &[("tailrace.kafka.tls", "true")]).await;
    let mut client = Client::over(connect(&server, authority.client(None)).await.unwrap());
    client.create_topic("t", 1, &[]).await;
    // 24 batches of 1 MB: many times what is staged, and what a socket holds.
    for first in 0..24 {
        let answer = client.produce_to("t", 0, -1, numbered(first * 10, 10, 100_000)).await;
        assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
    }
    let mut request = fetch_request("t", 0, 0);
    request.topics[0].partitions[0].partition_max_bytes = 50 << 20;
    let secure = only_partition(client.call(12, &request).await);
    assert!(bytes_of(&secure).len() > 24_000_000, "{}", bytes_of(&secure).len());
    let records = common::rig::decoded(&secure);
    assert_eq!(records.len(), 240);
    for (offset, found) in records {
        let number = u64::try_from(offset).unwrap();
        assert_eq!(found, value(number, 100_000), "offset {offset}");
    }
    // The same folder, served without TLS.
    server.stop().await;
    let data_dir = server.data_dir().display().to_string();
    let plain = TestServer::with(&[("data.dir", &data_dir)]).await;
    let unencrypted = only_partition(plain.connect().await.call(12, &request).await);
    assert!(bytes_of(&unencrypted) == bytes_of(&secure), "the same bytes");
}

#[tokio::test]
async fn requests_that_were_sent_at_once_are_answered_in_order_over_tls() {
    let authority = Authority::new();
    let server = server(&authority, &[("tailrace.kafka.tls", "true")]).await;
    let mut client = Client::over(connect(&server, authority.client(None)).await.unwrap());
    client.create_topic("t", 1, &[]).await;
    client.produce_to("t", 0, -1, numbered(0, 10, 100_000)).await;
    let mut expected = Vec::new();
    for _ in 0..20 {
        expected.push(client.send(12, &fetch_request("t", 0, 0)).await);
        expected.push(client.send(12, &MetadataRequest::default()).await);
    }
    for pair in expected.chunks(2) {
        let (first, data) = client.answer::<tailrace_kafka_wire::messages::FetchRequest>(12).await;
        let (second, _) = client.answer::<MetadataRequest>(12).await;
        assert_eq!([first, second], pair);
        assert_eq!(common::rig::decoded(&only_partition(data)).len(), 10);
    }
}

#[tokio::test]
async fn a_client_that_reads_slowly_gets_everything_and_one_that_does_not_read_is_cut() {
    let authority = Authority::new();
    let settings = [("tailrace.kafka.tls", "true"), ("tailrace.response.write.timeout.ms", "1500")];
    let server = server(&authority, &settings).await;
    let mut client = Client::over(connect(&server, authority.client(None)).await.unwrap());
    client.create_topic("t", 1, &[]).await;
    for first in 0..20 {
        client.produce_to("t", 0, -1, numbered(first * 10, 10, 100_000)).await;
    }
    let mut request = fetch_request("t", 0, 0);
    request.topics[0].partitions[0].partition_max_bytes = 50 << 20;
    // A client that reads with pauses. Together they exceed the limit, but each of them is shorter.
    client.send(12, &request).await;
    let mut left = usize::try_from(client.stream().read_i32().await.unwrap()).unwrap();
    let mut buffer = vec![0; 4_000_000];
    while left > 0 {
        // The pace of the reader, which is what this tests.
        tokio::time::sleep(Duration::from_millis(400)).await;
        let part = left.min(buffer.len());
        client.stream().read_exact(&mut buffer[..part]).await.unwrap();
        left -= part;
    }
    // A client that sends requests and never reads.
    for _ in 0..4 {
        client.send(12, &request).await;
    }
    let line = "tailrace_kafka_connections_cut_total{reason=\"slow_reader\"}";
    eventually("the client is cut off", || async { server.metric(line).await == 1.0 }).await;
    server.until_connections(0.0).await;
}

#[tokio::test]
async fn the_wrong_protocol_is_turned_away_at_once() {
    let authority = Authority::new();
    let secure = server(&authority, &[("tailrace.kafka.tls", "true"), ("tailrace.http.tls", "true")]).await;
    let began = Instant::now();
    // A Kafka client that does not use TLS.
    let mut plain = secure.connect().await;
    assert!(plain.try_call(12, &MetadataRequest::default()).await.is_none());
    let mut web = TcpStream::connect(secure.http()).await.unwrap();
    web.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    // A TLS alert, then the end of the connection.
    let _ = web.read_to_end(&mut answer).await;
    assert!(answer.len() <= 7, "{answer:?}");
    assert!(began.elapsed() < QUICK);

    let server = TestServer::start().await;
    let began = Instant::now();
    let error = connect(&server, authority.client(None)).await.unwrap_err();
    let web = TcpStream::connect(server.http()).await.unwrap();
    handshake(authority.client(None), web).await.unwrap_err();
    assert!(began.elapsed() < QUICK, "{error}");
    let line = "tailrace_kafka_connections_cut_total{reason=\"tls_on_plain\"}";
    assert_eq!(server.metric(line).await, 1.0);
    server.until_connections(0.0).await;
}

#[tokio::test]
async fn clients_must_show_a_certificate_where_that_is_demanded() {
    let authority = Authority::new();
    let stranger = Authority::new();
    let settings = [("tailrace.kafka.tls", "true"), ("tailrace.tls.client.auth", "required")];
    let server = server(&authority, &settings).await;
    let mine = authority.client(Some((&authority, "client")));
    let mut client = Client::over(connect(&server, mine).await.unwrap());
    client.create_topic("t", 1, &[]).await;

    let none = is_refused(&server, authority.client(None)).await;
    assert!(none.contains("CertificateRequired"), "{none}");
    let wrong = is_refused(&server, authority.client(Some((&stranger, "client")))).await;
    assert!(wrong.contains("UnknownCA") || wrong.contains("DecryptError"), "{wrong}");
    // A server's certificate is not valid for clients.
    let purpose = is_refused(&server, authority.client(Some((&authority, "server")))).await;
    assert!(purpose.contains("received fatal alert"), "{purpose}");
    // A client that does not know the server's authority refuses to talk to it.
    let other =
        connect(&server, stranger.client(Some((&authority, "client")))).await.unwrap_err().to_string();
    assert!(other.contains("invalid peer certificate"), "{other}");
    let line = "tailrace_kafka_connections_cut_total{reason=\"tls_handshake\"}";
    eventually("four failed handshakes are counted", || async { server.metric(line).await == 4.0 }).await;
    server.until_connections(1.0).await;
}

#[tokio::test]
async fn a_handshake_that_does_not_go_on_is_cut_and_one_with_garbage_too() {
    let authority = Authority::new();
    let settings = [("tailrace.kafka.tls", "true"), ("tailrace.tls.handshake.timeout.ms", "500")];
    let mut server = server(&authority, &settings).await;
    let began = Instant::now();
    let mut silent = server.stream().await;
    let mut half = server.stream().await;
    // This announces a ClientHello of 512 bytes, which never comes.
    half.write_all(&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]).await.unwrap();
    let mut garbage = server.stream().await;
    garbage.write_all(&[0x16, 3, 1, 0xff, 0xff, 7, 7, 7, 7]).await.unwrap();
    for stream in [&mut silent, &mut half, &mut garbage] {
        let mut rest = Vec::new();
        let _ = tokio::time::timeout(QUICK, stream.read_to_end(&mut rest)).await.unwrap();
        assert!(rest.len() <= 7);
    }
    assert!(began.elapsed() < QUICK);
    server.until_connections(0.0).await;
    // A server that stops does not wait for handshakes.
    let _silent = server.stream().await;
    server.until_connections(1.0).await;
    let began = Instant::now();
    server.stop().await;
    assert!(began.elapsed() < QUICK);
}

#[tokio::test]
async fn the_end_of_a_connection_is_told_by_tls_itself() {
    let authority = Authority::new();
    let mut server = server(&authority, &[("tailrace.kafka.tls", "true")]).await;
    let mut client = Client::over(connect(&server, authority.client(None)).await.unwrap());
    client.create_topic("t", 1, &[]).await;
    server.stop().await;
    // rustls reports an error if a connection ends without a close_notify.
    assert_eq!(client.stream().read(&mut [0; 16]).await.unwrap(), 0);
}

#[tokio::test]
async fn health_and_metrics_are_served_over_tls() {
    let authority = Authority::new();
    let server = server(&authority, &[("tailrace.http.tls", "true")]).await;
    let stream = TcpStream::connect(server.http()).await.unwrap();
    let mut stream = handshake(authority.client(None), stream).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("{\"status\":\"ok\"}\n"), "{answer}");
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let authority = Authority::new();
    let stranger = Authority::new();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    let key_of = |authority: &Authority| authority.path("server.key").display().to_string();
    let text = file("text", "hello");
    let torn = file("torn", "-----BEGIN CERTIFICATE-----\nMIIB");
    let encrypted = file(
        "encrypted",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
    );
    let certificate = "tailrace.tls.certificate.file";
    for (key, value, part) in [
        (
            certificate,
            "/nowhere/c.pem".to_owned(),
            "cannot read /nowhere/c.pem (tailrace.tls.certificate.file)",
        ),
        (certificate, text.clone(), "no certificate"),
        (certificate, torn, "not PEM"),
        (certificate, key_of(&authority), "no certificate"),
        (
            "tailrace.tls.key.file",
            "/nowhere/k.pem".to_owned(),
            "cannot read /nowhere/k.pem (tailrace.tls.key.file)",
        ),
        ("tailrace.tls.key.file", text.clone(), "no unencrypted private key"),
        ("tailrace.tls.key.file", encrypted, "no unencrypted private key"),
        ("tailrace.tls.key.file", key_of(&stranger), "does not belong to the certificate"),
        ("tailrace.tls.ca.file", text, "no certificate"),
    ] {
        let on = [
            ("tailrace.kafka.tls", "true"),
            ("tailrace.tls.client.auth", "required"),
            ("kafka", "127.0.0.1:0"),
        ];
        let settings = authority.settings(&on).into_iter().chain([("http", "127.0.0.1:0".to_owned())]);
        let mut settings: std::collections::BTreeMap<_, _> =
            settings.map(|(key, value)| (key.to_owned(), value)).collect();
        settings.insert("data.dir".to_owned(), folder.path().join("data").display().to_string());
        settings.insert(key.to_owned(), value);
        match start(Startup { settings, disk: local_disk() }).await.err() {
            Some(StartError::Tls(error)) => assert!(error.to_string().contains(part), "{error}"),
            other => panic!("{key}: {other:?}"),
        }
    }
}
