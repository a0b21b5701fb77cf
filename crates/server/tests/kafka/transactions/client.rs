//! Plain requests of a producer, and what readers of committed records then see.

use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnTopic,
};
use tailrace_kafka_wire::messages::add_partitions_to_txn_response::AddPartitionsToTxnResponse;
use tailrace_kafka_wire::messages::describe_transactions_request::DescribeTransactionsRequest;
use tailrace_kafka_wire::messages::describe_transactions_response::TransactionState;
use tailrace_kafka_wire::messages::end_txn_request::EndTxnRequest;
use tailrace_kafka_wire::messages::init_producer_id_request::InitProducerIdRequest;
use tailrace_kafka_wire::messages::produce_request::{
    PartitionProduceData, ProduceRequest, TopicProduceData,
};
use tailrace_kafka_wire::messages::produce_response::ProduceResponse;
use tailrace_kafka_wire::{Records, Request};
use tailrace_records::{BatchOptions, DecodedBatch, split_batches};
use tailrace_types::{ProducerEpoch, ProducerId};

use crate::common::rig::{fetch_request, now, only_partition};
use crate::common::{Client, OK, TestServer, batch, error};

/// A producer's id and epoch.
pub(super) type Who = (i64, i16);

/// EndTxn versions: the newest, with an epoch per transaction, and that of a Kafka 3 client.
pub(super) const NEW: i16 = 5;
pub(super) const OLD: i16 = 3;

pub(super) async fn init(client: &mut Client, id: &str) -> Result<Who, ErrorCode> {
    init_with(client, id, 60_000).await
}

pub(super) async fn init_with(client: &mut Client, id: &str, timeout_ms: i32) -> Result<Who, ErrorCode> {
    let request = InitProducerIdRequest {
        transactional_id: Some(id.to_owned()),
        transaction_timeout_ms: timeout_ms,
        ..Default::default()
    };
    let answer = client.call(5, &request).await;
    match error(answer.error_code) {
        OK => Ok((answer.producer_id, answer.producer_epoch)),
        code => Err(code),
    }
}

pub(super) fn ending(id: &str, who: Who, committed: bool) -> EndTxnRequest {
    EndTxnRequest {
        transactional_id: id.to_owned(),
        producer_id: who.0,
        producer_epoch: who.1,
        committed,
        ..Default::default()
    }
}

/// Ends a transaction. Retries while the coordinator has no answer yet. Only new versions return the producer
/// that continues.
pub(super) async fn end(
    client: &mut Client,
    version: i16,
    id: &str,
    who: Who,
    committed: bool,
) -> Result<Who, ErrorCode> {
    let request = ending(id, who, committed);
    let answer = call_until_done(client, version, &request, |answer| error(answer.error_code)).await;
    match error(answer.error_code) {
        OK => Ok((answer.producer_id, answer.producer_epoch)),
        code => Err(code),
    }
}

pub(super) async fn add(client: &mut Client, id: &str, who: Who, partitions: &[i32]) -> Vec<ErrorCode> {
    let topic = AddPartitionsToTxnTopic {
        name: "t".to_owned(),
        partitions: partitions.to_vec(),
        ..Default::default()
    };
    let request = AddPartitionsToTxnRequest {
        v3_and_below_transactional_id: id.to_owned(),
        v3_and_below_producer_id: who.0,
        v3_and_below_producer_epoch: who.1,
        v3_and_below_topics: vec![topic],
        ..Default::default()
    };
    let first = |answer: &AddPartitionsToTxnResponse| {
        error(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)
    };
    let mut answer = call_until_done(client, OLD, &request, first).await;
    let results = answer.results_by_topic_v3_and_below.remove(0).results_by_partition;
    results.iter().map(|result| error(result.partition_error_code)).collect()
}

pub(super) fn transactional(who: Who, sequence: i32) -> BatchOptions {
    BatchOptions {
        producer_id: ProducerId(who.0),
        producer_epoch: ProducerEpoch(who.1),
        base_sequence: sequence,
        transactional: true,
        ..Default::default()
    }
}

/// As clients do, retries while the previous transaction is still being completed.
pub(super) async fn call_until_done<R: Request>(
    client: &mut Client,
    version: i16,
    request: &R,
    code: impl Fn(&R::Response) -> ErrorCode,
) -> R::Response {
    loop {
        let answer = client.call(version, request).await;
        if code(&answer) != ErrorCode::ConcurrentTransactions {
            return answer;
        }
        tokio::task::yield_now().await;
    }
}

/// Builds a request for one record in a transaction. Its timestamp is the current time, like that of markers.
/// If they were a week apart, the segment would roll, and a fetch ends there.
pub(super) fn producing(id: &str, who: Who, (partition, sequence): (i32, i32)) -> ProduceRequest {
    let data = PartitionProduceData {
        index: partition,
        records: Records::Bytes(batch(transactional(who, sequence), &[now().0])),
        ..Default::default()
    };
    let topic = TopicProduceData { name: "t".to_owned(), partition_data: vec![data], ..Default::default() };
    ProduceRequest {
        transactional_id: Some(id.to_owned()),
        acks: -1,
        timeout_ms: 10_000,
        topic_data: vec![topic],
        ..Default::default()
    }
}

pub(super) fn produced(answer: &ProduceResponse) -> ErrorCode {
    error(answer.responses[0].partition_responses[0].error_code)
}

pub(super) async fn produce(
    client: &mut Client,
    version: i16,
    id: &str,
    who: Who,
    (partition, sequence): (i32, i32),
) -> ErrorCode {
    let request = producing(id, who, (partition, sequence));
    produced(&call_until_done(client, version, &request, produced).await)
}

/// Returns the offsets of the records that a reader of committed records sees. Leaves out markers and aborted
/// records.
pub(super) async fn committed(client: &mut Client, partition: i32) -> Vec<i64> {
    let mut offsets = Vec::new();
    let mut at = 0;
    while let Some(next) = committed_from(client, partition, at, &mut offsets).await {
        at = next;
    }
    offsets
}

/// Fetches once. Returns the offset of the next fetch. `None` if there is nothing more.
pub(super) async fn committed_from(
    client: &mut Client,
    partition: i32,
    from: i64,
    offsets: &mut Vec<i64>,
) -> Option<i64> {
    let mut request = fetch_request("t", partition, from);
    request.isolation_level = 1;
    request.max_wait_ms = 0;
    let data = only_partition(client.call(12, &request).await);
    assert_eq!(error(data.error_code), OK);
    let mut aborted = data.aborted_transactions.unwrap_or_default();
    let Records::Bytes(bytes) = data.records else { return None };
    let mut skipped = Vec::new();
    let mut next = None;
    for one in split_batches(&bytes) {
        let (header, bytes) = one.expect("whole batches");
        next = Some(header.next_offset().get());
        aborted.retain(|transaction| {
            let begins = transaction.first_offset <= header.base_offset.get();
            if begins {
                skipped.push(transaction.producer_id);
            }
            !begins
        });
        if header.attributes.is_control() {
            skipped.retain(|&id| id != header.producer_id.get());
            continue;
        }
        if header.attributes.is_transactional() && skipped.contains(&header.producer_id.get()) {
            continue;
        }
        let decoded = DecodedBatch::new(bytes, 1 << 20).expect("a legal batch");
        offsets.extend(decoded.records().map(|record| record.expect("a legal record").offset.get()));
    }
    next
}

pub(super) async fn until_committed(client: &mut Client, partition: i32, offsets: &[i64]) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let found = committed(client, partition).await;
        if found == offsets {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "{found:?}, not {offsets:?}");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

pub(super) async fn describe(client: &mut Client, id: &str) -> TransactionState {
    let request =
        DescribeTransactionsRequest { transactional_ids: vec![id.to_owned()], ..Default::default() };
    client.call(0, &request).await.transaction_states.remove(0)
}

pub(super) async fn started() -> (TestServer, Client) {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    client.create_topic("t", 3, &[]).await;
    (server, client)
}
