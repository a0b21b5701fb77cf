//! Malformed frames and headers.

use super::*;
use std::time::Duration;

use crate::common::TestServer;
use tailrace_kafka_wire::messages::ApiVersionsRequest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn frames_of_impossible_lengths_end_the_connection() {
    let server = server().await;
    for length in [-1, i32::MIN, 0, 1_048_577, i32::MAX] {
        assert!(is_cut(&server, &[&length.to_be_bytes()[..], &[0; 32]].concat()).await, "{length}");
    }
    assert!(is_cut(&server, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await);
    assert!(is_cut(&server, &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]).await, "a TLS client hello");
    let cut = async |reason| {
        server.metric(&format!("tailrace_kafka_connections_cut_total{{reason=\"{reason}\"}}")).await
    };
    assert_eq!((cut("frame_length").await, cut("tls_on_plain").await), (6.0, 1.0));
    server.until_connections(0.0).await;
    server.is_healthy("t").await;
}

#[tokio::test]
async fn headers_that_make_no_sense_end_the_connection() {
    let server = server().await;
    let long_client = [&header(3, 1)[..8], &5000_i16.to_be_bytes()].concat();
    let bodies = [
        vec![0],
        header(3, 0)[..4].to_vec(),
        header(3, 0)[..9].to_vec(),
        header(999, 0),
        header(-1, 0),
        header(4, 0),
        header(71, 0),
        header(52, 0),
        header(3, 14),
        header(3, -1),
        header(0, 2),
        header(0, 14),
        header(1, 3),
        header(2, 0),
        header(19, 1),
        header(11, 0),
        long_client,
    ];
    for body in &bodies {
        assert!(is_cut(&server, &framed(body)).await, "{body:?}");
    }
    server.until_connections(0.0).await;
    server.is_healthy("t").await;
}

/// Up to 1024 unknown tagged fields in a header are accepted. More of them end the connection.
#[tokio::test]
async fn a_header_full_of_unknown_tagged_fields_ends_the_connection() {
    let server = server().await;
    // ApiVersions version 3 allows tagged fields in its header and body. The body names the client's
    // software.
    let request = |tags: usize| {
        let mut body = header(18, 3);
        body.extend(varint(tags));
        for tag in 0..tags {
            body.extend(varint(1000 + tag));
            // Smaller tags would hit the limit on decoding memory first.
            body.extend(b"\x04tags");
        }
        body.extend([2, b'a', 2, b'1', 0]);
        framed(&body)
    };
    let mut stream = server.stream().await;
    stream.write_all(&request(1024)).await.unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).await.expect("an answer");
    assert!(is_cut(&server, &request(1025)).await);
    assert!(is_cut(&server, &request(100_000)).await);
    server.is_healthy("t").await;
}

/// Encodes an unsigned varint.
fn varint(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// KIP-511: the server answers with error 35 in the layout of version 0 and keeps the connection.
#[tokio::test]
async fn an_unknown_version_of_api_versions_is_answered() {
    let server = server().await;
    let mut client = server.connect().await;
    for version in [5, 99, -1, 32_767] {
        // Headers from version 3 on end with tagged fields.
        let tags: &[u8] = if version >= 3 { &[0] } else { &[] };
        let answer = client.raw(&[&header(18, version), tags].concat()).await.expect("an answer");
        assert_eq!(answer.to_vec(), [0, 0, 0, 7, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 4]);
    }
    assert_eq!(client.call(0, &ApiVersionsRequest::default()).await.error_code, 0);
}

#[tokio::test]
async fn counts_and_lengths_beyond_the_frame_end_the_connection() {
    let server = server().await;
    let metadata = |tail: &[u8]| [&header(3, 1), tail].concat();
    let flexible = |key, version, tail: &[u8]| [&header(key, version)[..], &[0], tail].concat();
    let bodies = [
        metadata(&i32::MAX.to_be_bytes()),
        metadata(&[&1_i32.to_be_bytes()[..], &100_i16.to_be_bytes()].concat()),
        metadata(&[&1_i32.to_be_bytes()[..], &(-2_i16).to_be_bytes()].concat()),
        // Varint lengths: too many bytes, the largest number, endless tags.
        flexible(3, 12, &[0xff; 6]),
        flexible(3, 12, &[0xff, 0xff, 0xff, 0xff, 0x0f]),
        [&header(3, 12)[..], &[0xff, 0xff, 0xff, 0xff, 0x0f]].concat(),
        flexible(0, 9, &[0, 0, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f]),
        flexible(1, 12, &[0xff; 40]),
    ];
    for body in &bodies {
        assert!(is_cut(&server, &framed(body)).await, "{body:?}");
    }
    server.until_connections(0.0).await;
    server.is_healthy("t").await;
}

#[tokio::test]
async fn a_request_cut_short_anywhere_ends_the_connection() {
    let server = server().await;
    for request in good_requests() {
        assert!(!is_cut_or_answered(&server, &request).await, "the whole request is answered");
        for bytes in 1..request.len() {
            assert!(is_cut(&server, &framed(&request[..bytes])).await, "{bytes} bytes of {request:?}");
        }
    }
    server.until_connections(0.0).await;
    server.is_healthy("t").await;
}

/// Returns true if the server closes the connection, false if it answers.
async fn is_cut_or_answered(server: &TestServer, body: &[u8]) -> bool {
    server.connect().await.raw(body).await.is_none()
}

#[tokio::test]
async fn requests_with_random_damage_harm_nobody() {
    let server = server().await;
    let requests = good_requests();
    let mut state = 0x5eed_u64;
    let mut random = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).expect("31 bits") % bound
    };
    for number in 0..600 {
        let mut body = requests[number % requests.len()].to_vec();
        for _ in 0..=random(3) {
            let at = random(body.len());
            body[at] = [0, 0x7f, 0x80, 0xff, u8::try_from(random(256)).expect("a byte")][random(5)];
        }
        let mut stream = server.stream().await;
        stream.write_all(&framed(&body)).await.expect("the connection is open");
        // Answered, closed, or waiting (a fetch whose waiting time was altered): all are fine.
        let mut answer = [0; 64];
        let _ = tokio::time::timeout(Duration::from_millis(5), stream.read(&mut answer)).await;
    }
    server.until_connections(0.0).await;
    server.is_healthy("t").await;
}
