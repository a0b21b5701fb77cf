//! Many producers at once, some of which disconnect in the middle. Offsets have no gaps, and each
//! acknowledged number is present once, at the offset that was acknowledged.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::rig::*;
use common::{Client, TestServer};
use tailrace_kafka_wire::decode_response;
use tailrace_kafka_wire::messages::ProduceRequest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

const CONNECTIONS: u64 = 50;
const PARTITIONS: i32 = 4;
const IN_FLIGHT: usize = 16;

/// The acknowledged numbers, by partition and offset.
type Acknowledged = BTreeMap<(i32, i64), u64>;

/// Produces numbers from `first` on, each at most once. Numbers without an answer are not sent again. A new
/// connection replaces one that was cut off.
async fn produce(address: SocketAddr, first: u64, strict: bool, done: Arc<AtomicBool>) -> Acknowledged {
    let topic = if strict { "strict" } else { "relaxed" };
    let mut acknowledged = Acknowledged::new();
    let mut next = first;
    let mut random = first + 1;
    while !done.load(Ordering::Relaxed) {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let requests = 20 + (random >> 58);
        let client = Client::to(address).await;
        next = one_connection(client, topic, next, requests, &done, &mut acknowledged).await;
    }
    acknowledged
}

/// Sends `requests` requests, then drops the connection while answers are pending.
async fn one_connection(
    mut client: Client,
    topic: &str,
    first: u64,
    requests: u64,
    done: &AtomicBool,
    acknowledged: &mut Acknowledged,
) -> u64 {
    let mut under_way = std::collections::VecDeque::new();
    let mut next = first;
    for _ in 0..requests {
        let partition =
            i32::try_from(next % u64::try_from(PARTITIONS).expect("a small number")).expect("small");
        let count = 1 + next % 3;
        let frame = client.frame(9, &produce_request(topic, partition, -1, numbered(next, count, 120)));
        client.stream().write_all(&frame).await.expect("the connection is open");
        under_way.push_back((partition, next, count));
        next += count;
        if under_way.len() == IN_FLIGHT {
            take_answer(&mut client, &mut under_way, acknowledged).await;
        }
    }
    // A connection that ends properly waits for all of its answers.
    while done.load(Ordering::Relaxed) && !under_way.is_empty() {
        take_answer(&mut client, &mut under_way, acknowledged).await;
    }
    next
}

async fn take_answer(
    client: &mut Client,
    under_way: &mut std::collections::VecDeque<(i32, u64, u64)>,
    acknowledged: &mut Acknowledged,
) {
    let length = client.stream().read_i32().await.expect("an answer");
    let mut bytes = vec![0; usize::try_from(length).expect("a length")];
    client.stream().read_exact(&mut bytes).await.expect("an answer");
    let answer = only_answer(decode_response::<ProduceRequest>(bytes.into(), 9).expect("legal").1);
    assert_eq!(answer.error_code, 0);
    let (partition, first, count) = under_way.pop_front().expect("the response belongs to a request");
    for number in 0..count {
        let offset = answer.base_offset + number.cast_signed();
        assert_eq!(
            acknowledged.insert((partition, offset), first + number),
            None,
            "an offset was assigned twice"
        );
    }
}

async fn check(server: &TestServer, topic: &str, acknowledged: &Acknowledged) {
    let mut client = server.connect().await;
    let mut stored = Acknowledged::new();
    let mut numbers = BTreeSet::new();
    for partition in 0..PARTITIONS {
        for (expected, (offset, value)) in client.read_all(topic, partition, 0).await.into_iter().enumerate()
        {
            assert_eq!(offset, i64::try_from(expected).expect("a small number"), "offsets have no gaps");
            assert!(numbers.insert(number(&value)), "{} is stored twice", number(&value));
            stored.insert((partition, offset), number(&value));
        }
    }
    for (place, number) in acknowledged {
        assert_eq!(stored.get(place), Some(number), "{topic} {place:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn producers_that_are_cut_off_leave_order_behind() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let small: (&str, &str) = ("internal.segment.bytes", "200000");
    client.create_topic("strict", PARTITIONS, &[small]).await;
    client.create_topic("relaxed", PARTITIONS, &[small, ("flush.messages", "500")]).await;
    drop(client);
    let done = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for producer in 0..CONNECTIONS {
        let (address, done) = (server.kafka(), Arc::clone(&done));
        let strict = producer % 2 == 0;
        tasks.spawn(async move { (strict, produce(address, producer << 32, strict, done).await) });
    }
    // The duration of the load.
    tokio::time::sleep(Duration::from_secs(3)).await;
    done.store(true, Ordering::Relaxed);
    let mut acknowledged: [Acknowledged; 2] = Default::default();
    while let Some(told) = tasks.join_next().await {
        let (strict, told) = told.expect("the producer does not panic");
        for (place, number) in told {
            assert_eq!(
                acknowledged[usize::from(strict)].insert(place, number),
                None,
                "an offset was assigned twice"
            );
        }
    }
    server.until_connections(0.0).await;
    println!("{} and {} records acknowledged", acknowledged[0].len(), acknowledged[1].len());
    assert!(acknowledged[0].len() > 1000 && acknowledged[1].len() > 1000);
    check(&server, "relaxed", &acknowledged[0]).await;
    check(&server, "strict", &acknowledged[1]).await;
    // Check again after a crash.
    let copy = server.crashed_copy().await;
    check(&copy, "strict", &acknowledged[1]).await;
    check(&copy, "relaxed", &acknowledged[0]).await;
    assert_eq!(copy.get("/healthz").await.0, 200);
}
