//! How long clients wait for their quotas: as long as Kafka's formula says, and no longer. What a client is
//! told depends on the bytes that passed, so a slow machine changes nothing. For what a client really waits,
//! some seconds are allowed on top.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use tailrace_kafka_wire::messages::fetch_response::FetchResponse;
use tailrace_kafka_wire::messages::{FetchRequest, MetadataRequest};

use super::quotas::limit;
use crate::common::rig::{bytes_of, fetch_request, numbered, produce_request};
use crate::common::{Client, TestServer};

const TOPIC: &str = "t";

/// Bytes per second.
const LIMIT: usize = 10_000;

/// How much larger a request or an answer is than the values in it, at most.
const ENVELOPE_BYTES_MAX: usize = 300;

/// What a slow machine may add to all waits of a test together.
const SLOW: Duration = Duration::from_secs(5);

/// What has passed, and since when.
struct Passed {
    began: Instant,
    bytes: usize,
    pieces: usize,
}

impl Passed {
    fn new() -> Self {
        Self { began: Instant::now(), bytes: 0, pieces: 0 }
    }

    fn add(&mut self, bytes: usize) {
        (self.bytes, self.pieces) = (self.bytes + bytes, self.pieces + 1);
    }

    /// Checks what a client was told when so much had passed, or would have passed. The window has ten
    /// seconds at least, so that nobody waits longer than until `bytes / (10 s + wait)` is the limit. It has
    /// eleven at most while the first byte is younger than ten seconds.
    fn check(&self, throttle_ms: i32) {
        let told = i64::from(throttle_ms);
        let wait_ms = |bytes: usize, window_ms: usize| {
            i64::try_from(bytes * 1000 / LIMIT).unwrap() - i64::try_from(window_ms).unwrap()
        };
        let most = wait_ms(self.bytes + self.pieces * ENVELOPE_BYTES_MAX, 10_000).max(0) + 1;
        assert!(told <= most, "{told} ms after {} bytes, at most {most} ms", self.bytes);
        if self.began.elapsed() < Duration::from_secs(10) {
            let least = wait_ms(self.bytes, 11_000).max(0);
            assert!(told >= least, "{told} ms after {} bytes, at least {least} ms", self.bytes);
        }
    }
}

fn millis(throttle_ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(throttle_ms).unwrap())
}

async fn limited(key: &str) -> (TestServer, Client) {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    client.create_topic(TOPIC, 1, &[]).await;
    limit(&mut client, key, LIMIT as f64).await;
    (server, client)
}

#[tokio::test]
async fn a_producer_is_told_to_wait_for_what_is_beyond_its_quota_and_no_longer() {
    let (server, _) = limited("producer_byte_rate").await;
    let mut passed = Passed::new();
    for _ in 0..12 {
        let request = produce_request(TOPIC, 0, 1, numbered(0, 1, 20_000));
        // On a connection that is not held up.
        let answer = server.connect().await.call(9, &request).await;
        passed.add(20_000);
        passed.check(answer.throttle_time_ms);
    }
}

#[tokio::test]
async fn a_producer_that_is_held_up_again_and_again_waits_for_as_long_as_it_is_told() {
    let (_server, mut client) = limited("producer_byte_rate").await;
    client.call(9, &produce_request(TOPIC, 0, 1, numbered(0, 1, 95_000))).await;
    let (began, mut told) = (Instant::now(), Duration::ZERO);
    while told < Duration::from_secs(6) {
        let answer = client.call(9, &produce_request(TOPIC, 0, 1, numbered(0, 1, 10_000))).await;
        told += millis(answer.throttle_time_ms);
    }
    client.call(9, &MetadataRequest { topics: Some(Vec::new()), ..Default::default() }).await;
    let waited = began.elapsed();
    assert!(waited >= told && waited <= told + SLOW, "{waited:?}, told {told:?}");
}

/// Asks for one batch.
fn fetch_of_one(offset: i64, bytes: usize) -> FetchRequest {
    let mut fetch = fetch_request(TOPIC, 0, offset);
    fetch.topics[0].partitions[0].partition_max_bytes = i32::try_from(bytes).unwrap();
    fetch
}

/// Returns how many bytes of records came. `None` if the answer was withheld.
fn fetched(answer: &FetchResponse) -> Option<usize> {
    Some(bytes_of(&answer.responses.first()?.partitions[0]).len())
}

#[tokio::test]
async fn a_consumer_gets_its_quota_in_the_long_run_and_waits_for_as_long_as_it_is_told() {
    const BATCHES: i64 = 36;
    const BYTES: usize = 5_000;
    let (server, mut client) = limited("consumer_byte_rate").await;
    for number in 0..BATCHES {
        client.call(9, &produce_request(TOPIC, 0, 1, numbered(number.unsigned_abs(), 1, BYTES))).await;
    }
    let mut reader = server.connect().await;
    let (mut passed, mut told, mut offset) = (Passed::new(), Duration::ZERO, 0);
    while offset < BATCHES {
        let answer = reader.call(11, &fetch_of_one(offset, BYTES)).await;
        told += millis(answer.throttle_time_ms);
        if let Some(bytes) = fetched(&answer) {
            assert_eq!(answer.throttle_time_ms, 0, "what is within the quota is not held up");
            assert!((BYTES..BYTES + ENVELOPE_BYTES_MAX).contains(&bytes), "one batch, not {bytes} bytes");
            passed.add(BYTES);
            offset += 1;
            let most = (passed.began.elapsed().as_secs_f64() + 11.0) * LIMIT as f64 + BYTES as f64;
            assert!(passed.bytes as f64 <= most, "{} bytes, at most {most}", passed.bytes);
        } else {
            assert!(answer.throttle_time_ms > 0, "what is withheld is held up");
            let withheld = Passed { bytes: passed.bytes + BYTES, pieces: passed.pieces + 1, ..passed };
            withheld.check(answer.throttle_time_ms);
        }
    }
    let waited = passed.began.elapsed();
    assert!(told > Duration::from_secs(5), "ten seconds of the limit passed at once, and then it waited");
    assert!(waited <= told + SLOW, "{waited:?}, told {told:?}");
    // 180,000 bytes. It takes twelve seconds.
    let least = 0.7 * LIMIT as f64 * waited.as_secs_f64();
    assert!(passed.bytes as f64 >= least, "{} bytes in {waited:?}, at least {least}", passed.bytes);
}
