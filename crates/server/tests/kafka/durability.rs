//! Where durability was promised, nothing is acknowledged or shown before it is on stable storage. Also, what
//! a failing or full disk does to a partition, to its neighbours and to the metadata.

use std::sync::Arc;
use std::time::Duration;

use crate::common;
use crate::common::rig::*;
use crate::common::tap::{Event, Fault, On, Tap, broken_promises};
use crate::common::{Client, TestServer, error};
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::{CreateTopicsRequest, ProduceRequest};
use tokio::task::JoinSet;

/// A short period during which something must not happen.
const MEANWHILE: Duration = Duration::from_millis(150);

const RECORDS: u64 = 3;

async fn server_with(tap: &Arc<Tap>, topics: &[(&str, &[(&str, &str)])]) -> (TestServer, Client) {
    let server = TestServer::on(tap.disk(), &[]).await;
    let mut client = server.connect().await;
    for (name, configs) in topics {
        client.create_topic(name, 2, configs).await;
    }
    (server, client)
}

/// Produces `batches` batches with up to four requests in flight, and records what the answers promise.
async fn produce_many(address: std::net::SocketAddr, tap: Arc<Tap>, partition: i32, batches: u64) {
    let mut client = Client::to(address).await;
    let (mut sent, mut answered) = (0, 0);
    while answered < batches {
        if sent < batches && sent - answered < 4 {
            let batch = numbered(sent * RECORDS, RECORDS, 300);
            client.send(9, &produce_request("strict", partition, -1, batch)).await;
            sent += 1;
            continue;
        }
        let (_, response) = client.answer::<ProduceRequest>(9).await;
        let answer = only_answer(response);
        assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
        let end = answer.base_offset + i64::try_from(RECORDS).expect("a small number");
        tap.told(&format!("strict-{partition}"), answer.base_offset..end);
        answered += 1;
    }
}

/// Reads up to `end` and records what it has seen.
async fn consume_all(address: std::net::SocketAddr, tap: Arc<Tap>, partition: i32, end: i64) {
    let mut client = Client::to(address).await;
    let mut at = 0;
    while at < end {
        let data = client.fetch_from("strict", partition, at).await;
        assert_eq!(data.error_code, 0);
        let seen = decoded(&data);
        let Some((last, _)) = seen.last() else { continue };
        assert!(*last < data.high_watermark);
        tap.told(&format!("strict-{partition}"), at..last + 1);
        at = last + 1;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledgement_waits_for_the_sync_that_covers_it() {
    const CONNECTIONS: u64 = 4;
    const BATCHES: u64 = 40;
    let tap = Tap::new();
    let (server, _client) = server_with(&tap, &[("strict", &[("internal.segment.bytes", "20000")])]).await;
    tap.delay_syncs(Duration::from_millis(1));
    let mut tasks = JoinSet::new();
    for partition in 0..2 {
        for _ in 0..CONNECTIONS {
            tasks.spawn(produce_many(server.kafka(), Arc::clone(&tap), partition, BATCHES));
        }
        let end = i64::try_from(CONNECTIONS * BATCHES * RECORDS).expect("a small number");
        tasks.spawn(consume_all(server.kafka(), Arc::clone(&tap), partition, end));
    }
    tasks.join_all().await;
    let events = tap.events();
    assert_eq!(broken_promises(&events), Vec::<String>::new());
    let count = |part: &str| {
        let wrote =
            |e: &&Event| matches!(e, Event::Wrote { path, .. } if path.display().to_string().contains(part));
        events.iter().filter(wrote).count()
    };
    assert_eq!(count("/strict-0/"), usize::try_from(CONNECTIONS * BATCHES).expect("a small number"));
    assert!(count("/strict-0/") > count("/strict-0/00000000000000000000.log"), "segments were rolled");
    assert!(tap.syncs("/strict-", ".log") < count("/strict-"), "one sync serves several batches");
}

#[tokio::test]
async fn a_skipped_sync_is_noticed() {
    let tap = Tap::new();
    let (server, _client) = server_with(&tap, &[("strict", &[])]).await;
    produce_many(server.kafka(), Arc::clone(&tap), 0, 3).await;
    assert_eq!(broken_promises(&tap.events()), Vec::<String>::new());
    tap.fail(On::Sync, "/strict-0/", ".log", 1, Fault::Swallow);
    produce_many(server.kafka(), Arc::clone(&tap), 0, 1).await;
    assert!(tap.is_spent());
    let broken = broken_promises(&tap.events());
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert!(broken[0].contains("not synced in time"));
}

#[tokio::test]
async fn a_skipped_sync_of_the_folder_is_noticed() {
    let tap = Tap::new();
    let (server, _client) = server_with(&tap, &[("strict", &[])]).await;
    tap.fail(On::Sync, "/strict-0", "/strict-0", 9, Fault::Swallow);
    produce_many(server.kafka(), Arc::clone(&tap), 0, 1).await;
    assert_eq!(broken_promises(&tap.events()).len(), 1);
}

#[tokio::test]
async fn only_who_asked_for_it_waits_for_a_sync() {
    let tap = Tap::new();
    let topics: [(&str, &[(&str, &str)]); 2] =
        [("strict", &[]), ("relaxed", &[("flush.messages", "1000000")])];
    let (server, mut client) = server_with(&tap, &topics).await;
    assert_eq!(client.produce_to("strict", 0, -1, numbered(0, 1, 50)).await.base_offset, 0);
    tap.hold("/strict-0/");
    tap.hold("/relaxed-0/");
    // With acks=1 the leader's append is enough. A relaxed topic commits at once.
    assert_eq!(client.produce_to("strict", 0, 1, numbered(1, 1, 50)).await.base_offset, 1);
    assert_eq!(client.produce_to("relaxed", 0, -1, numbered(0, 1, 50)).await.error_code, 0);
    assert_eq!(client.read_all("relaxed", 0, 0).await.len(), 1);

    let mut waiting = server.connect().await;
    waiting.send(9, &produce_request("strict", 0, -1, numbered(2, 1, 50))).await;
    let answer = waiting.answer::<ProduceRequest>(9);
    tokio::pin!(answer);
    assert!(tokio::time::timeout(MEANWHILE, &mut answer).await.is_err(), "acknowledged before the sync");
    let mut request = fetch_request("strict", 0, 1);
    request.max_wait_ms = 50;
    let unseen = only_partition(client.call(12, &request).await);
    assert_eq!((unseen.error_code, unseen.high_watermark, decoded(&unseen).len()), (0, 1, 0));

    let mut reader = server.connect().await;
    reader.send(12, &fetch_request("strict", 0, 1)).await;
    tap.release("/strict-0/");
    assert_eq!(only_answer(answer.await.1).base_offset, 2);
    let (_, fetched) = reader.answer::<tailrace_kafka_wire::messages::FetchRequest>(12).await;
    assert_eq!(decoded(&only_partition(fetched))[0].0, 1);
    assert_eq!(client.read_all("strict", 0, 1).await.len(), 2);
    tap.release("/relaxed-0/");
}

#[tokio::test]
async fn acks_0_and_1_on_a_strict_topic_are_synced_all_the_same() {
    let tap = Tap::new();
    let (_server, mut client) = server_with(&tap, &[("strict", &[])]).await;
    client.send(9, &produce_request("strict", 0, 0, numbered(0, 1, 50))).await;
    client.produce_to("strict", 1, 1, numbered(0, 1, 50)).await;
    for partition in 0..2 {
        let data = client.fetch_from("strict", partition, 0).await;
        assert_eq!(decoded(&data).len(), 1);
        tap.told(&format!("strict-{partition}"), 0..1);
    }
    assert_eq!(broken_promises(&tap.events()), Vec::<String>::new());
}

/// The server cuts the client off while its batch waits to be written. The batch is still written, so it must
/// be synced and shown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_whose_client_is_gone_is_synced_all_the_same() {
    let tap = Tap::new();
    // No checkpoint may happen to do the sync that the append should cause.
    let settings =
        [("tailrace.response.write.timeout.ms", "500"), ("tailrace.checkpoint.interval.ms", "3600000")];
    let server = TestServer::on(tap.disk(), &settings).await;
    let mut client = server.connect().await;
    client.create_topic("strict", 2, &[]).await;
    for _ in 0..16 {
        client.produce_to("strict", 0, -1, numbered(0, 1, 900_000)).await;
    }
    // The answer to the fetch comes after a while and is more than the socket takes. Before that, the client
    // appends to the partition for the first time.
    let mut gone = server.connect().await;
    let mut fetch = fetch_request("strict", 0, 0);
    (fetch.max_wait_ms, fetch.min_bytes) = (300, i32::MAX);
    fetch.topics[0].partitions[0].partition_max_bytes = 50 << 20;
    tap.hold("/strict-1/entries");
    gone.send(12, &fetch).await;
    gone.send(9, &produce_request("strict", 1, 1, numbered(0, 1, 50))).await;
    let cut = "tailrace_kafka_connections_cut_total{reason=\"slow_reader\"}";
    eventually("the connection is cut off", || async { server.metric(cut).await == 1.0 }).await;
    tap.release("/strict-1/entries");
    assert_eq!(decoded(&client.fetch_from("strict", 1, 0).await).len(), 1);
}

#[tokio::test]
async fn a_failed_sync_stops_the_partition_and_nothing_else() {
    let tap = Tap::new();
    let (server, mut client) = server_with(&tap, &[("strict", &[]), ("other", &[])]).await;
    assert_eq!(client.produce_to("strict", 0, -1, numbered(0, 2, 50)).await.error_code, 0);
    tap.fail(On::Sync, "/strict-0/", ".log", 1, Fault::Error(libc::EIO));
    let syncs = tap.syncs("/strict-0/", ".log");

    let answer = client.produce_to("strict", 0, -1, numbered(2, 2, 50)).await;
    assert_eq!(error(answer.error_code), ErrorCode::KafkaStorageError);
    for acks in [-1, 1] {
        let answer = client.produce_to("strict", 0, acks, numbered(4, 2, 50)).await;
        assert_eq!(error(answer.error_code), ErrorCode::KafkaStorageError);
        assert!(answer.error_message.expect("a reason").contains("accepts no writes"));
    }
    assert_eq!(tap.syncs("/strict-0/", ".log"), syncs, "a failed fdatasync must not be retried");

    let read = client.read_all("strict", 0, 0).await;
    assert_eq!(
        read.iter().map(|(offset, _)| *offset).collect::<Vec<_>>(),
        [0, 1],
        "durable records are readable"
    );
    for (topic, partition) in [("strict", 1), ("other", 0)] {
        assert_eq!(client.produce_to(topic, partition, -1, numbered(0, 1, 50)).await.error_code, 0);
    }
    let (status, body) = server.get("/healthz").await;
    assert_eq!(status, 503);
    assert!(body.contains("strict-0 accepts no writes") && body.contains("sync"), "{body}");
    assert!(!body.contains("other-0"), "{body}");
    assert_eq!(server.metric("tailrace_fsync_failures_total").await, 1.0);
}

/// Requests that wait for the failing sync get an error, and so do those queued behind them.
#[tokio::test]
async fn everyone_in_flight_learns_of_a_failed_sync() {
    let tap = Tap::new();
    let (server, mut client) = server_with(&tap, &[("strict", &[])]).await;
    client.produce_to("strict", 0, -1, numbered(0, 1, 50)).await;
    tap.hold("/strict-0/");
    tap.fail(On::Sync, "/strict-0/", ".log", 1, Fault::Error(libc::EIO));
    let mut waiting = Vec::new();
    for number in 1..6 {
        let mut other = server.connect().await;
        other.send(9, &produce_request("strict", 0, -1, numbered(number, 1, 50))).await;
        waiting.push(other);
    }
    // Batches count as produced once they are appended, so none of them waits to be written any more.
    eventually("all records are appended", || async {
        server.metric("tailrace_produced_records_total").await == 6.0
    })
    .await;
    tap.release("/strict-0/");
    for mut other in waiting {
        let (_, response) = other.answer::<ProduceRequest>(9).await;
        assert_eq!(error(only_answer(response).error_code), ErrorCode::KafkaStorageError);
    }
}

#[tokio::test]
async fn a_full_disk_refuses_writes_and_recovers() {
    let tap = Tap::new();
    let (server, mut client) = server_with(&tap, &[("strict", &[])]).await;
    assert_eq!(client.produce_to("strict", 0, -1, numbered(0, 2, 50)).await.error_code, 0);
    let mut expected = 2;
    for (suffix, fault) in [
        (".log", Fault::Error(libc::ENOSPC)),
        (".log", Fault::Torn),
        (".index", Fault::Error(libc::ENOSPC)),
        (".index", Fault::Torn),
        (".log", Fault::Error(libc::EDQUOT)),
    ] {
        tap.fail(On::Write, "/strict-0/", suffix, 2, fault);
        for _ in 0..2 {
            let answer = client.produce_to("strict", 0, -1, numbered(90, 2, 50)).await;
            assert_eq!(error(answer.error_code), ErrorCode::KafkaStorageError, "{suffix} {fault:?}");
        }
        assert!(tap.is_spent());
        assert_eq!(client.read_all("strict", 0, 0).await.len(), expected);
        let answer = client.produce_to("strict", 0, -1, numbered(expected as u64, 2, 50)).await;
        assert_eq!((answer.error_code, answer.base_offset), (0, expected as i64), "{suffix} {fault:?}");
        expected += 2;
    }
    let numbers: Vec<_> = client.read_all("strict", 0, 0).await.iter().map(|(_, v)| number(v)).collect();
    assert_eq!(numbers, (0..expected as u64).collect::<Vec<_>>());
    assert_eq!(server.get("/healthz").await.0, 200);
    // A crash now leaves exactly what was acknowledged.
    let copy = server.crashed_copy().await;
    assert_eq!(copy.connect().await.read_all("strict", 0, 0).await.len(), expected);
}

/// Health probes stay green, but people are told what is full, where, and how much space is free.
#[tokio::test]
async fn a_full_disk_is_told_while_it_lasts() {
    let tap = Tap::new();
    let (server, mut client) = server_with(&tap, &[("strict", &[])]).await;
    assert_eq!(client.produce_to("strict", 0, -1, numbered(0, 1, 50)).await.error_code, 0);
    assert_eq!(server.get("/healthz").await, (200, "{\"status\":\"ok\"}\n".to_owned()));
    assert_eq!(server.metric("tailrace_disk_full_refusals_total").await, 0.0);

    tap.fail(On::Write, "/strict-0/", ".log", 1, Fault::Error(libc::ENOSPC));
    let answer = client.produce_to("strict", 0, -1, numbered(1, 1, 50)).await;
    assert_eq!(error(answer.error_code), ErrorCode::KafkaStorageError);
    let (status, body) = server.get("/healthz").await;
    let page: serde_json::Value = serde_json::from_str(&body).expect("the page is JSON");
    let warning = page["warnings"][0].as_str().expect("a warning");
    let folder = server.data_dir().canonicalize().expect("the folder exists");
    let wanted = format!("the disk of {} is full: writes are refused, ", folder.display());
    assert!((status, &page["status"]) == (200, &"ok".into()) && warning.starts_with(&wanted), "{body}");
    assert!(warning.contains(" bytes are free; they resume by themselves when there is room"), "{body}");
    assert_eq!(server.metric("tailrace_disk_full_refusals_total").await, 1.0);
    assert_eq!(client.produce_to("strict", 0, -1, numbered(1, 1, 50)).await.error_code, 0);
    eventually("the warning ends", || async { !server.get("/healthz").await.1.contains("warnings") }).await;
}

#[tokio::test]
async fn a_disk_with_little_room_is_told() {
    let bound = u64::MAX >> 1;
    let settings = [("tailrace.disk.free.warning.bytes", &*bound.to_string())];
    let server = TestServer::on(Tap::new().disk(), &settings).await;
    let body = || async { server.get("/healthz").await.1 };
    eventually("the free space was checked", || async { body().await.contains("warnings") }).await;
    let free = server.metric("tailrace_disk_free_bytes").await;
    assert!(free > 0.0 && free < bound as f64, "{free}");
    let body = body().await;
    assert!(body.starts_with("{\"status\":\"ok\",\"warnings\":[\"the disk of "), "{body}");
    let what = format!(" bytes are free, fewer than tailrace.disk.free.warning.bytes ({bound})\"]}}\n");
    assert!(body.contains(" is nearly full: ") && body.ends_with(&what), "{body}");
}

/// With delayed allocation, a full disk may show only when a file is synced. Data that was not written back
/// by then may be lost, so this is a failed sync and not a refused write.
#[tokio::test]
async fn a_sync_that_fails_for_lack_of_space_is_not_tried_again() {
    for (file, acks) in [(".log", -1), ("entries", 1)] {
        let tap = Tap::new();
        let (server, mut client) = server_with(&tap, &[("strict", &[])]).await;
        tap.fail(On::Sync, "/strict-0/", file, 1, Fault::Error(libc::ENOSPC));
        for acks in [acks, -1, 1] {
            let answer = client.produce_to("strict", 0, acks, numbered(0, 1, 50)).await;
            assert_eq!(error(answer.error_code), ErrorCode::KafkaStorageError, "{file}");
        }
        assert_eq!(tap.syncs("/strict-0/", file), 0, "{file}");
        let (status, body) = server.get("/healthz").await;
        assert_eq!(status, 503, "{file}");
        assert!(body.contains("strict-0 accepts no writes"), "{body}");
    }
}

/// Checkpoints only make the next start faster.
#[tokio::test]
async fn a_disk_without_room_for_checkpoints_takes_what_fits() {
    let tap = Tap::new();
    let server = TestServer::on(tap.disk(), &[("tailrace.checkpoint.interval.ms", "20")]).await;
    let mut client = server.connect().await;
    client.create_topic("strict", 1, &[("internal.segment.bytes", "1000")]).await;
    tap.fail(On::Write, "/strict-0/", ".tmp", usize::MAX, Fault::Error(libc::ENOSPC));
    for number in 0..30 {
        let answer = client.produce_to("strict", 0, -1, numbered(number, 1, 100)).await;
        assert_eq!((answer.error_code, answer.base_offset), (0, number.cast_signed()));
        // Leave time for a checkpoint.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(server.get("/healthz").await.0, 200);
    let checkpoint = server.data_dir().join("strict-0/checkpoint");
    assert!(!checkpoint.exists());
    let copy = server.crashed_copy().await;
    assert_eq!(copy.connect().await.read_all("strict", 0, 0).await.len(), 30);
    tap.heal();
    client.produce_to("strict", 0, -1, numbered(30, 1, 100)).await;
    eventually("a checkpoint is written", || async { checkpoint.exists() }).await;
}

#[tokio::test]
async fn a_disk_without_room_for_reserves_takes_what_fits() {
    let tap = Tap::new();
    tap.fail(On::Preallocate, "", "", usize::MAX, Fault::Error(libc::ENOSPC));
    let (server, _client) = server_with(&tap, &[("strict", &[])]).await;
    server.is_healthy("strict").await;
}

#[tokio::test]
async fn a_full_disk_at_the_first_append_and_at_a_roll() {
    let tap = Tap::new();
    let (server, mut client) = server_with(&tap, &[("strict", &[("internal.segment.bytes", "300")])]).await;
    // The entry that starts the epoch, then each file of the segment, in the order in which they are written.
    let mut base = 0;
    for round in 0..3 {
        let files = ["entries", ".header", ".index", ".log"];
        for file in &files[usize::from(round > 0)..] {
            tap.fail(On::Write, "/strict-0/", file, 1, Fault::Error(libc::ENOSPC));
            let answer = client.produce_to("strict", 0, -1, numbered(99, 1, 150)).await;
            assert!(tap.is_spent(), "round {round}, {file}");
            assert_eq!(error(answer.error_code), ErrorCode::KafkaStorageError, "round {round}, {file}");
            tap.heal();
        }
        let answer = client.produce_to("strict", 0, -1, numbered(base as u64, 1, 150)).await;
        assert_eq!((answer.error_code, answer.base_offset), (0, base), "round {round}");
        base += 1;
    }
    assert_eq!(client.read_all("strict", 0, 0).await.len(), usize::try_from(base).expect("a small number"));
    let copy = server.crashed_copy().await;
    assert_eq!(
        copy.connect().await.read_all("strict", 0, 0).await.len(),
        usize::try_from(base).expect("a small number")
    );
    assert_eq!(copy.get("/healthz").await.0, 200);
}

#[tokio::test]
async fn a_first_append_whose_epoch_cannot_be_made_durable_is_refused() {
    for on in [On::Write, On::Sync] {
        let tap = Tap::new();
        let (server, mut client) = server_with(&tap, &[("strict", &[])]).await;
        tap.fail(on, "/strict-0/", "entries", 1, Fault::Error(libc::EIO));
        for acks in [-1, 1] {
            let answer = client.produce_to("strict", 0, acks, numbered(0, 1, 50)).await;
            assert_eq!(error(answer.error_code), ErrorCode::KafkaStorageError, "{on:?}");
        }
        assert_eq!(client.read_all("strict", 0, 0).await.len(), 0);
        assert_eq!(client.produce_to("strict", 1, -1, numbered(0, 1, 50)).await.error_code, 0);
        let (status, body) = server.get("/healthz").await;
        assert_eq!(status, 503);
        assert!(body.contains("strict-0 accepts no writes") && body.contains("entries"), "{body}");
    }
}

#[tokio::test]
async fn metadata_that_cannot_be_made_durable_is_refused_and_reported() {
    let tap = Tap::new();
    let (server, mut client) = server_with(&tap, &[("strict", &[])]).await;
    let create =
        |name: &str| CreateTopicsRequest { topics: vec![common::topic(name, 1, &[])], ..Default::default() };
    tap.fail(On::Write, "/__cluster_metadata-0/", ".log", 1, Fault::Error(libc::ENOSPC));
    let refused = client.call(7, &create("a")).await;
    assert_eq!(error(refused.topics[0].error_code), ErrorCode::KafkaStorageError);
    assert_eq!(server.get("/healthz").await.0, 200, "a full disk may have room again");
    assert_eq!(client.call(7, &create("a")).await.topics[0].error_code, 0);

    tap.fail(On::Sync, "/__cluster_metadata-0/", ".log", 1, Fault::Error(libc::EIO));
    for name in ["b", "c"] {
        let refused = client.call(7, &create(name)).await;
        assert_eq!(error(refused.topics[0].error_code), ErrorCode::KafkaStorageError);
        assert_eq!(error(client.topic(name).await.error_code), ErrorCode::UnknownTopicOrPartition);
    }
    server.is_healthy("strict").await;
    let (status, body) = server.get("/healthz").await;
    assert_eq!(status, 503);
    assert!(body.contains("metadata"), "{body}");
}
