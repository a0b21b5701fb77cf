//! Bounds of the NATS front. It deals with clients that are too slow, too many or too large, and other
//! clients notice nothing.

use std::time::{Duration, Instant};

use crate::common::TestServer;
use crate::common::nats::{Raw, Said};
use crate::common::rig::eventually;
use tokio::io::AsyncWriteExt;

fn publish(subject: &str, payload: &[u8]) -> Vec<u8> {
    [format!("PUB {subject} {}\r\n", payload.len()).as_bytes(), payload, b"\r\n"].concat()
}

fn count(said: &[Said]) -> usize {
    said.iter().filter(|said| matches!(said, Said::Message { .. })).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_that_never_reads_is_cut_and_the_others_get_everything() {
    let pending_max = 8 << 20;
    let server = TestServer::with(&[
        ("tailrace.nats.max.pending.bytes", "8388608"),
        ("tailrace.nats.max.payload.bytes", "65536"),
    ])
    .await;
    let mut deaf = server.raw().await;
    deaf.send("SUB flood 1\r\n").await;
    deaf.sync().await;
    let mut good = server.raw().await;
    good.send("SUB flood 1\r\n").await;
    good.sync().await;
    let mut publisher = server.raw().await;
    let payload = vec![b'x'; 32 * 1024];
    let messages = 3 * pending_max / payload.len();
    let reading = tokio::spawn(async move {
        let mut got = 0;
        while got < messages {
            got += usize::from(matches!(good.next().await, Some(Said::Message { .. })));
        }
        good
    });
    for _ in 0..messages {
        publisher.send(publish("flood", &payload)).await;
    }
    publisher.sync().await;
    let mut good = reading.await.unwrap();
    assert_eq!(good.sync().await, []);
    eventually("the deaf subscriber is cut off", || async {
        server.metric("tailrace_nats_slow_consumers_total").await == 1.0
    })
    .await;
    assert!(server.metric("tailrace_nats_stalls_total").await > 0.0, "the publisher was stalled first");
    assert_eq!(server.metric("tailrace_nats_connections").await, 2.0);
    assert_eq!(server.metric("tailrace_nats_subscriptions").await, 1.0);
}

#[tokio::test]
async fn a_subscriber_that_takes_nothing_is_cut_at_the_write_deadline() {
    let server = TestServer::with(&[("tailrace.nats.write.deadline.ms", "300")]).await;
    let mut deaf = server.raw().await;
    deaf.send("SUB flood 1\r\n").await;
    deaf.sync().await;
    let mut publisher = server.raw().await;
    // More than socket buffers hold, and less than may be pending.
    for _ in 0..24 {
        publisher.send(publish("flood", &vec![b'x'; 1 << 20])).await;
    }
    publisher.sync().await;
    eventually("the slow consumer is cut off", || async {
        server.metric("tailrace_nats_slow_consumers_total").await == 1.0
    })
    .await;
    let cut = "tailrace_nats_connections_cut_total{reason=\"slow_consumer_write_deadline\"}";
    assert_eq!(server.metric(cut).await, 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_that_keeps_reading_gets_everything() {
    let server = TestServer::with(&[("tailrace.nats.max.payload.bytes", "65536")]).await;
    let mut slow = server.raw().await;
    slow.send("SUB steady 1\r\n").await;
    slow.sync().await;
    let mut publisher = server.raw().await;
    let sending = tokio::spawn(async move {
        for number in 0..2000_u32 {
            let mut payload = vec![b'x'; 16 * 1024];
            payload[..4].copy_from_slice(&number.to_be_bytes());
            publisher.send(publish("steady", &payload)).await;
        }
        publisher.sync().await;
    });
    for number in 0..2000_u32 {
        let Some(Said::Message { payload, .. }) = slow.next().await else { panic!("cut at {number}") };
        assert_eq!(payload[..4], number.to_be_bytes());
        if number % 100 == 0 {
            // A reader that pauses now and then.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    sending.await.unwrap();
}

#[tokio::test]
async fn a_hundred_thousand_subscriptions_on_one_connection() {
    let server = TestServer::with(&[("tailrace.nats.max.subscriptions", "100000")]).await;
    let mut many = server.raw().await;
    let mut text = Vec::new();
    for number in 0..100_000 {
        text.extend_from_slice(format!("SUB many.{number}.* {number}\r\n").as_bytes());
    }
    many.send(&text).await;
    assert_eq!(many.sync().await, []);
    assert_eq!(server.metric("tailrace_nats_subscriptions").await, 100_000.0);
    many.send("PUB many.99999.x 2\r\nhi\r\nPUB many.0.x 2\r\nho\r\nPUB many.100000.x 2\r\nno\r\n").await;
    assert_eq!(count(&many.sync().await), 2);
    drop(many);
    eventually("the subscriptions end", || async {
        server.metric("tailrace_nats_subscriptions").await == 0.0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn storms_of_subscriptions_from_a_thousand_connections() {
    let server = TestServer::start().await;
    let mut steady = server.raw().await;
    steady.send("SUB steady.> 1\r\n").await;
    steady.sync().await;
    let address = server.nats();
    let storms: Vec<_> = (0..1000)
        .map(|number| {
            tokio::spawn(async move {
                let mut raw = Raw::to(address).await;
                raw.send("CONNECT {\"verbose\":false}\r\n").await;
                for round in 0..20 {
                    raw.send(format!("SUB storm.{number}.* {round}\r\nSUB storm.> q {round}q\r\nUNSUB {round}\r\nUNSUB {round}q\r\n")).await;
                }
                assert_eq!(raw.sync().await, []);
                raw.send("SUB storm.end 99\r\n").await;
                assert_eq!(raw.sync().await, []);
                raw
            })
        })
        .collect();
    for number in 0..200 {
        let before = Instant::now();
        steady.send(format!("PUB steady.{number} 1\r\nx\r\n")).await;
        assert_eq!(count(&steady.sync().await), 1);
        // Far more than a slow machine needs, and far less than the storm lasts.
        assert!(before.elapsed() < Duration::from_secs(20), "other clients were delayed");
    }
    let mut stormers = Vec::new();
    for storm in storms {
        stormers.push(storm.await.unwrap());
    }
    steady.send("PUB storm.end 1\r\nx\r\n").await;
    assert_eq!(count(&steady.sync().await), 0);
    for stormer in &mut stormers {
        assert!(matches!(stormer.next().await, Some(Said::Message { .. })));
    }
    assert_eq!(server.metric("tailrace_nats_subscriptions").await, 1001.0);
}

#[tokio::test]
async fn a_queue_group_never_loses_a_message_to_a_member_that_is_gone() {
    let server = TestServer::start().await;
    let mut stays = server.raw().await;
    stays.send("SUB job workers 1\r\n").await;
    stays.sync().await;
    let mut publisher = server.raw().await;
    let mut delivered = 0;
    for _ in 0..50 {
        let mut leaves = server.raw().await;
        leaves.send("SUB job workers 1\r\n").await;
        leaves.sync().await;
        leaves.send("UNSUB 1\r\n").await;
        leaves.sync().await;
        drop(leaves);
        publisher.send("PUB job 1\r\nx\r\n").await;
        publisher.sync().await;
        delivered += count(&stays.sync().await);
    }
    assert_eq!(delivered, 50);
}

#[tokio::test]
async fn a_message_that_never_ends_holds_little_memory_and_nobody_up() {
    let server = TestServer::start().await;
    let mut hostile = Vec::new();
    for _ in 0..50 {
        let mut raw = server.raw().await;
        raw.send("PUB never.ends 1048576\r\nonly this").await;
        hostile.push(raw);
    }
    let mut good = server.raw().await;
    good.send("SUB fine 1\r\nPUB fine 1\r\nx\r\n").await;
    assert_eq!(count(&good.sync().await), 1);
    for raw in &mut hostile {
        raw.stream.shutdown().await.unwrap();
        assert_eq!(raw.rest().await, []);
    }
    eventually("the other connections end", || async {
        server.metric("tailrace_nats_connections").await == 1.0
    })
    .await;
}

#[tokio::test]
async fn lame_duck_mode_closes_one_after_the_other_and_takes_nobody_new() {
    let server = TestServer::with(&[
        ("tailrace.nats.lame.duck.grace.ms", "200"),
        ("tailrace.nats.lame.duck.duration.ms", "3200"),
    ])
    .await;
    let mut ducks = Vec::new();
    for _ in 0..5 {
        let mut raw = Raw::to(server.nats()).await;
        raw.send("CONNECT {\"verbose\":false,\"protocol\":1}\r\n").await;
        raw.sync().await;
        ducks.push(raw);
    }
    let address = server.nats();
    let began = Instant::now();
    let retiring = async { server.lame_duck().await };
    let watching = ducks.iter_mut().map(|duck| async {
        let said = duck.rest().await;
        assert!(
            said.iter().any(|said| matches!(said, Said::Info(info) if info.contains("\"ldm\":true"))),
            "{said:?}"
        );
        began.elapsed()
    });
    let (_, mut ends) = tokio::join!(retiring, futures_util::future::join_all(watching));
    ends.sort_unstable();
    assert!(
        ends[0] >= Duration::from_millis(200),
        "no connection closes before the grace period ends: {ends:?}"
    );
    // Two ends are 600 ms apart, or less if the machine was slow to close the earlier connection.
    let pauses = ends.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(pauses.filter(|pause| *pause >= Duration::from_millis(100)).count() >= 3, "{ends:?}");
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "the server accepts no new connections");
}

#[tokio::test]
async fn thousands_of_queue_groups_on_one_subject_each_get_the_message_once_and_soon() {
    const GROUPS: usize = 20_000;
    let server = TestServer::start().await;
    let (mut one, mut two) = (server.raw().await, server.raw().await);
    let mut text = String::new();
    for group in 0..GROUPS {
        text += &format!("SUB crowd g{group} {group}\r\n");
    }
    one.send(&text).await;
    two.send(&text).await;
    one.sync().await;
    two.sync().await;
    let began = Instant::now();
    let mut publisher = server.raw().await;
    publisher.send("PUB crowd 1\r\nx\r\n").await;
    publisher.sync().await;
    let (first, second) = (one.sync().await, two.sync().await);
    assert_eq!(count(&first) + count(&second), GROUPS);
    // Searching all groups for each one would take minutes in a test build.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    // A uniform share is half. The probability of falling outside the range is below 1e-12.
    assert!((9_000..11_000).contains(&count(&first)), "{}", count(&first));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_connections_gets_no_more_places_than_there_are() {
    let server = TestServer::with(&[("tailrace.nats.max.connections", "20")]).await;
    let address = server.nats();
    let attempts: Vec<_> = (0..300)
        .map(|_| {
            tokio::spawn(async move {
                let mut raw = Raw::to(address).await;
                match raw.next_within(Duration::from_millis(1500)).await {
                    // A client that is in receives nothing more.
                    None => Some(raw),
                    Some(said) => {
                        assert_eq!(said, Some(Said::Error("maximum connections exceeded".to_owned())));
                        None
                    }
                }
            })
        })
        .collect();
    let mut inside = Vec::new();
    for attempt in attempts {
        inside.extend(attempt.await.unwrap());
    }
    assert_eq!(inside.len(), 20);
    let refused = "tailrace_nats_connections_refused_total{reason=\"tailrace.nats.max.connections\"}";
    assert_eq!(server.metric(refused).await, 280.0);
    drop(inside);
    eventually("the connections end", || async { server.metric("tailrace_nats_connections").await == 0.0 })
        .await;
    Raw::to(address).await.sync().await;
}

/// Measures the longest time between two turns of a task that always wants the next one.
struct Gap {
    ticking: tokio::task::JoinHandle<Duration>,
    stop: tokio::sync::oneshot::Sender<()>,
}

impl Gap {
    fn measure() -> Self {
        let (stop, mut stopped) = tokio::sync::oneshot::channel();
        let ticking = tokio::spawn(async move {
            let (mut longest, mut last) = (Duration::ZERO, Instant::now());
            while stopped.try_recv().is_err() {
                tokio::task::yield_now().await;
                longest = longest.max(last.elapsed());
                last = Instant::now();
            }
            longest
        });
        Self { ticking, stop }
    }

    async fn end(self) -> Duration {
        let _ = self.stop.send(());
        self.ticking.await.expect("the ticking task does not panic")
    }
}

/// The server and the test share one thread. Long work in one turn delays the ticking task.
#[tokio::test]
async fn a_message_for_very_many_subscriptions_is_delivered_in_turns() {
    const SUBSCRIPTIONS: usize = 60_000;
    let server = TestServer::start().await;
    let (mut many, mut publisher) = (server.raw().await, server.raw().await);
    let mut text = String::new();
    for number in 0..SUBSCRIPTIONS {
        let queue = if number % 3 == 0 { format!("q{} ", number % 300) } else { String::new() };
        text += &format!("SUB crowd {queue}{number}\r\n");
    }
    many.send(&text).await;
    assert_eq!(many.sync().await, []);
    let (gap, began) = (Gap::measure(), Instant::now());
    // Nothing that follows is carried out before the message has reached every subscription.
    publisher.send("PUB crowd 1\r\nx\r\nPUB last 0\r\n\r\n").await;
    publisher.sync().await;
    let (longest, whole) = (gap.end().await, began.elapsed());
    assert!(2 * longest < whole, "other clients waited {longest:?} of {whole:?}");
    let said = many.sync().await;
    let mut sids: Vec<usize> = said
        .iter()
        .map(|said| match said {
            Said::Message { sid, .. } => sid.parse().unwrap(),
            other => panic!("{other:?}"),
        })
        .collect();
    sids.sort_unstable();
    assert!(sids.windows(2).all(|pair| pair[0] < pair[1]), "a subscription got the message twice");
    let (queued, plain): (Vec<_>, Vec<_>) = sids.into_iter().partition(|sid| sid % 3 == 0);
    assert_eq!(plain.len(), SUBSCRIPTIONS / 3 * 2);
    assert_eq!(queued.len(), 100, "one member of each queue group");
}

#[tokio::test]
async fn very_many_subscriptions_end_in_turns() {
    const SUBSCRIPTIONS: usize = 60_000;
    let server = TestServer::start().await;
    for by_themselves in [false, true] {
        let mut many = server.raw().await;
        let mut text = String::new();
        for number in 0..SUBSCRIPTIONS {
            text += &format!("SUB end.{number} {number}\r\n");
            if by_themselves {
                text += &format!("SUB all {number}x\r\nUNSUB {number}x 1\r\nUNSUB {number}\r\n");
            }
        }
        many.send(&text).await;
        many.sync().await;
        assert_eq!(server.metric("tailrace_nats_subscriptions").await, SUBSCRIPTIONS as f64);
        let (gap, began) = (Gap::measure(), Instant::now());
        if by_themselves {
            let mut publisher = server.raw().await;
            publisher.send("PUB all 1\r\nx\r\n").await;
            publisher.sync().await;
            assert_eq!(count(&many.sync().await), SUBSCRIPTIONS);
        } else {
            drop(many);
        }
        eventually("the subscriptions end", || async {
            server.metric("tailrace_nats_subscriptions").await == 0.0
        })
        .await;
        let (longest, whole) = (gap.end().await, began.elapsed());
        assert!(2 * longest < whole, "other clients waited {longest:?} of {whole:?}");
    }
}

#[tokio::test]
async fn one_connection_has_so_many_shapes_of_pattern_and_leaves_the_others_theirs() {
    let server = TestServer::start().await;
    let (mut one, mut other) = (server.raw().await, server.raw().await);
    let shape = |number: usize| {
        let words: Vec<_> = (0..8).map(|bit| if number >> bit & 1 == 1 { "*" } else { "a" }).collect();
        words.join(".")
    };
    let mut text = String::new();
    for number in 1..=64 {
        text += &format!("SUB {} {number}\r\n", shape(number));
    }
    one.send(&text).await;
    assert_eq!(one.sync().await, []);
    one.send(format!("SUB {} 65\r\n", shape(65))).await;
    let refused = Said::Error("maximum subscriptions exceeded".to_owned());
    assert_eq!(one.sync().await, [refused]);
    let metric = "tailrace_nats_subscriptions_refused_total{reason=\"shapes\"}";
    assert_eq!(server.metric(metric).await, 1.0);
    // Subscriptions are accepted if they share an existing shape, have no wildcard, or reuse the place of a
    // removed shape.
    one.send(format!("SUB *.b.b.b.b.b.b.b 66\r\nSUB a.b.c 67\r\nUNSUB 2\r\nSUB {} 65\r\n", shape(65))).await;
    assert_eq!(one.sync().await, []);
    other.send(format!("SUB {} 1\r\nSUB {} 2\r\n", shape(128), shape(200))).await;
    assert_eq!(other.sync().await, []);
    other.send("PUB a.a.a.a.a.a.a.a 0\r\n\r\n").await;
    other.sync().await;
    assert_eq!(count(&one.sync().await), 64);
}
