//! The end of a producer id: its last epoch is 32766. After that, the producer continues under another id, on
//! a running server.

use std::path::Path;

use crate::common::local_disk;
use bytes::Bytes;
use tailrace_kafka_wire::messages::init_producer_id_request::InitProducerIdRequest;
use tailrace_kafka_wire::{ErrorCode, Records};
use tailrace_records::{BatchBuilder, BatchOptions, DecodedBatch, split_batches};

use super::client::{self, NEW, Who, call_until_done};
use crate::common::rig::{decoded, fetch_request, now, only_partition};
use crate::common::{Client, OK, TestServer, error};

/// The last epoch that a client may have. A marker that fences it has the epoch after it.
const LAST: i16 = i16::MAX - 1;

async fn init(client: &mut Client, id: &str, claimed: Option<Who>) -> Result<Who, ErrorCode> {
    let (producer_id, producer_epoch) = claimed.unwrap_or((-1, -1));
    let request = InitProducerIdRequest {
        transactional_id: Some(id.to_owned()),
        transaction_timeout_ms: 60_000,
        producer_id,
        producer_epoch,
        ..Default::default()
    };
    let answer = call_until_done(client, NEW, &request, |answer| error(answer.error_code)).await;
    match error(answer.error_code) {
        OK => Ok((answer.producer_id, answer.producer_epoch)),
        code => Err(code),
    }
}

/// Produces one record in a transaction. The record adds its partition to the transaction.
async fn produce(client: &mut Client, id: &str, who: Who) -> ErrorCode {
    client::produce(client, 12, id, who, (0, 0)).await
}

/// Commits, and returns the producer that continues.
async fn commit(client: &mut Client, id: &str, who: Who) -> Result<Who, ErrorCode> {
    client::end(client, NEW, id, who, true).await
}

/// Edits the coordinator's log while the server is down, so that the producers of these ids have reached this
/// epoch.
fn age(folder: &Path, ids: &[(&str, i16)]) {
    let paths =
        std::fs::read_dir(folder).expect("the folder exists").map(|entry| entry.expect("an entry").path());
    let logs = paths.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
    let path = logs.max().expect("a segment");
    let mut log = std::fs::read(&path).expect("a readable file");
    let (mut last, mut options) = (Vec::new(), BatchOptions::default());
    for one in split_batches(&Bytes::from(log.clone())) {
        let (header, bytes) = one.expect("whole batches");
        (options.base_offset, options.leader_epoch) = (header.next_offset(), header.leader_epoch);
        let decoded = DecodedBatch::new(bytes, 1 << 20).expect("a sound batch");
        for record in decoded.records() {
            let record = record.expect("a sound record");
            let key = record.key.expect("a key").to_vec();
            last.push((key, record.value.expect("the id was not removed").to_vec()));
        }
    }
    let mut builder = BatchBuilder::new(options);
    for (id, epoch) in ids {
        let (key, value) =
            last.iter().rev().find(|(key, _)| key.ends_with(id.as_bytes())).expect("the log has the id");
        let mut value = value.clone();
        // TransactionLogValue: version i16, producer id i64, producer epoch i16, ...
        value[10..12].copy_from_slice(&epoch.to_be_bytes());
        builder.push(now(), Some(key), Some(&value), &[]).expect("the record fits into the batch");
    }
    log.extend_from_slice(&builder.build());
    std::fs::write(&path, log).expect("the file can be written");
}

#[tokio::test]
async fn a_producer_goes_on_under_another_id_after_its_last_epoch() {
    let mut server = TestServer::on(local_disk(), &[("transaction.state.log.num.partitions", "1")]).await;
    let mut client = server.connect().await;
    client.create_topic("t", 1, &[]).await;
    let (by_end, _) = init(&mut client, "by-end", None).await.expect("an id");
    let (by_init, _) = init(&mut client, "by-init", None).await.expect("an id");
    let (fenced, _) = init(&mut client, "fenced", None).await.expect("an id");
    server.stop().await;
    let folder = server.data_dir().join("__transaction_state-0");
    age(&folder, &[("by-end", LAST - 1), ("by-init", LAST), ("fenced", LAST - 1)]);
    server.begin(local_disk()).await;
    let mut client = server.connect().await;

    // Ending the transaction in the last epoch returns the next id.
    let who = init(&mut client, "by-end", Some((by_end, LAST - 1))).await.expect("the last epoch");
    assert_eq!(who, (by_end, LAST));
    assert_eq!(produce(&mut client, "by-end", who).await, OK); // 0, and the marker is 1
    let next = commit(&mut client, "by-end", who).await.expect("the transaction commits");
    assert_eq!(next.1, 0);
    assert!(![by_end, by_init, fenced].contains(&next.0), "{next:?} is not a new producer id");
    assert_eq!(commit(&mut client, "by-end", who).await, Ok(next), "a retry");
    assert_eq!(produce(&mut client, "by-end", next).await, OK); // 2 and 3
    assert_ne!(produce(&mut client, "by-end", who).await, OK, "the id has used its last epoch");
    assert_eq!(commit(&mut client, "by-end", next).await, Ok((next.0, 1)));

    // Asking for an epoch beyond the last also returns another id, and the client may ask twice.
    let renewed = init(&mut client, "by-init", Some((by_init, LAST))).await.expect("another id");
    assert_eq!(renewed.1, 0);
    assert_ne!(renewed.0, by_init);
    assert_eq!(init(&mut client, "by-init", Some((by_init, LAST))).await, Ok(renewed));

    // A producer that takes over from one in its last epoch aborts the old transaction, with a marker in the
    // largest possible epoch.
    let old = init(&mut client, "fenced", None).await.expect("the last epoch");
    assert_eq!(old, (fenced, LAST));
    assert_eq!(produce(&mut client, "fenced", old).await, OK); // 4 and 5
    let heir = init(&mut client, "fenced", None).await.expect("another id");
    assert_ne!(heir.0, fenced);
    assert!(commit(&mut client, "fenced", old).await.is_err(), "the old producer is fenced");
    assert_eq!(produce(&mut client, "fenced", heir).await, OK); // 6 and 7
    let heir = commit(&mut client, "fenced", heir).await.expect("the transaction commits");

    // Asking for the next epoch waits until the previous transaction is complete. Otherwise the next start
    // would complete it again.
    init(&mut client, "fenced", Some(heir)).await.expect("another epoch");
    assert_eq!(init(&mut client, "by-end", Some((next.0, 1))).await, Ok((next.0, 2)));
    server.stop().await;
    server.begin(local_disk()).await;
    let mut client = server.connect().await;
    assert_eq!(produce(&mut client, "by-end", (next.0, 2)).await, OK); // 8 and 9
    assert_eq!(commit(&mut client, "by-end", (next.0, 2)).await, Ok((next.0, 3)));
    let mut all = fetch_request("t", 0, 0);
    (all.isolation_level, all.min_bytes) = (1, i32::MAX);
    all.max_wait_ms = 0;
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let data = loop {
        let data = only_partition(client.call(12, &all).await);
        if data.last_stable_offset == 10 {
            break data;
        }
        assert!(std::time::Instant::now() < deadline, "not all markers were written in time: {data:?}");
        tokio::task::yield_now().await;
    };
    let aborted = data.aborted_transactions.as_ref().expect("a list");
    assert_eq!(aborted.iter().map(|a| (a.producer_id, a.first_offset)).collect::<Vec<_>>(), [(fenced, 4)]);
    let Records::Bytes(bytes) = &data.records else { panic!("records in memory") };
    let markers = split_batches(bytes).map(|one| one.expect("whole batches").0);
    let markers: Vec<_> = markers
        .filter(|header| header.attributes.is_control())
        .map(|header| (header.producer_id.get(), header.producer_epoch.get()))
        .collect();
    assert_eq!(markers[0], (by_end, i16::MAX));
    assert_eq!(markers[2], (fenced, i16::MAX));
    assert_eq!(markers.len(), 5);
    assert_eq!(decoded(&data).len(), 10);
    server.stop().await;
}
