//! Transactions over the plain protocol: both versions of it, repetitions and delays, fences, timeouts, restarts.

mod common;

use common::rig::{bytes_of, eventually, fetch_request, now, only_partition};
use common::{Client, OK, TestServer, batch, error};
use tailrace_kafka_wire::ErrorCode::{
    self, InvalidProducerEpoch, InvalidTransactionTimeout, InvalidTxnState, ProducerFenced,
    TransactionAbortable, TransactionalIdNotFound,
};
use tailrace_kafka_wire::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnTopic,
};
use tailrace_kafka_wire::messages::add_partitions_to_txn_response::AddPartitionsToTxnResponse;
use tailrace_kafka_wire::messages::describe_transactions_request::DescribeTransactionsRequest;
use tailrace_kafka_wire::messages::describe_transactions_response::TransactionState;
use tailrace_kafka_wire::messages::end_txn_request::EndTxnRequest;
use tailrace_kafka_wire::messages::find_coordinator_request::FindCoordinatorRequest;
use tailrace_kafka_wire::messages::init_producer_id_request::InitProducerIdRequest;
use tailrace_kafka_wire::messages::list_offsets_request::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic,
};
use tailrace_kafka_wire::messages::list_transactions_request::ListTransactionsRequest;
use tailrace_kafka_wire::messages::produce_request::{
    PartitionProduceData, ProduceRequest, TopicProduceData,
};
use tailrace_kafka_wire::messages::produce_response::ProduceResponse;
use tailrace_kafka_wire::messages::write_txn_markers_request::{
    WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest,
};
use tailrace_kafka_wire::{Records, Request};
use tailrace_records::{BatchOptions, DecodedBatch, split_batches};
use tailrace_types::{ProducerEpoch, ProducerId};

/// Who a producer is: id and epoch.
type Who = (i64, i16);

/// Newest versions with an epoch per transaction, and those of a client of Kafka 3.
const NEW: i16 = 5;
const OLD: i16 = 3;

async fn init(client: &mut Client, id: &str) -> Result<Who, ErrorCode> {
    init_with(client, id, 60_000).await
}

async fn init_with(client: &mut Client, id: &str, timeout_ms: i32) -> Result<Who, ErrorCode> {
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

fn ending(id: &str, who: Who, committed: bool) -> EndTxnRequest {
    EndTxnRequest {
        transactional_id: id.to_owned(),
        producer_id: who.0,
        producer_epoch: who.1,
        committed,
        ..Default::default()
    }
}

/// Ends a transaction, asking again while it cannot be told yet. Who goes on is told in new versions only.
async fn end(
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

async fn add(client: &mut Client, id: &str, who: Who, partitions: &[i32]) -> Vec<ErrorCode> {
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

fn transactional(who: Who, sequence: i32) -> BatchOptions {
    BatchOptions {
        producer_id: ProducerId(who.0),
        producer_epoch: ProducerEpoch(who.1),
        base_sequence: sequence,
        transactional: true,
        ..Default::default()
    }
}

/// Calls again while the transaction before is still being completed, as clients do.
async fn call_until_done<R: Request>(
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

/// One record in a transaction. It is of now, as markers are: one that is a week later rolls the segment, and there a fetch
/// ends.
fn producing(id: &str, who: Who, (partition, sequence): (i32, i32)) -> ProduceRequest {
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

fn produced(answer: &ProduceResponse) -> ErrorCode {
    error(answer.responses[0].partition_responses[0].error_code)
}

async fn produce(
    client: &mut Client,
    version: i16,
    id: &str,
    who: Who,
    (partition, sequence): (i32, i32),
) -> ErrorCode {
    let request = producing(id, who, (partition, sequence));
    produced(&call_until_done(client, version, &request, produced).await)
}

/// Offsets of the records that a reader of committed records sees; markers and aborted ones are left out.
async fn committed(client: &mut Client, partition: i32) -> Vec<i64> {
    let mut offsets = Vec::new();
    let mut at = 0;
    while let Some(next) = committed_from(client, partition, at, &mut offsets).await {
        at = next;
    }
    offsets
}

/// One fetch. Returns where the next one goes on; `None` if there is nothing more.
async fn committed_from(
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

async fn until_committed(client: &mut Client, partition: i32, offsets: &[i64]) {
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

async fn describe(client: &mut Client, id: &str) -> TransactionState {
    let request =
        DescribeTransactionsRequest { transactional_ids: vec![id.to_owned()], ..Default::default() };
    client.call(0, &request).await.transaction_states.remove(0)
}

async fn list(client: &mut Client, request: ListTransactionsRequest) -> Vec<(String, String)> {
    let answer = client.call(2, &request).await;
    assert_eq!(error(answer.error_code), OK);
    let mut all: Vec<_> = answer
        .transaction_states
        .into_iter()
        .map(|one| (one.transactional_id, one.transaction_state))
        .collect();
    all.sort();
    all
}

async fn started() -> (TestServer, Client) {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    client.create_topic("t", 3, &[]).await;
    (server, client)
}

#[tokio::test]
async fn an_epoch_per_transaction() {
    let (_server, mut client) = started().await;
    let who = init(&mut client, "tx").await.expect("a producer");
    assert_eq!(who.1, 0);
    // The partition comes into the transaction with its first batch.
    for (partition, sequence) in [(0, 0), (0, 1), (1, 0)] {
        assert_eq!(produce(&mut client, 12, "tx", who, (partition, sequence)).await, OK);
    }
    assert_eq!(committed(&mut client, 0).await, [0; 0], "nothing is committed yet");
    let next = end(&mut client, NEW, "tx", who, true).await.expect("it is committed");
    assert_eq!(next, (who.0, 1));
    until_committed(&mut client, 0, &[0, 1]).await;
    until_committed(&mut client, 1, &[0]).await;

    // The next transaction, into which requests of the one before are delayed.
    assert_eq!(produce(&mut client, 12, "tx", next, (0, 0)).await, OK);
    assert_eq!(produce(&mut client, 12, "tx", who, (0, 2)).await, InvalidProducerEpoch);
    assert_eq!(produce(&mut client, 12, "tx", who, (2, 0)).await, InvalidProducerEpoch);
    assert_eq!(end(&mut client, NEW, "tx", who, true).await, Err(ProducerFenced));
    assert_eq!(end(&mut client, NEW, "tx", who, false).await, Err(ProducerFenced));
    let state = describe(&mut client, "tx").await;
    assert_eq!(
        (state.transaction_state.as_str(), state.producer_epoch, state.transaction_timeout_ms),
        ("Ongoing", 1, 60_000)
    );
    assert_eq!(state.topics.len(), 1);
    assert_eq!((state.topics[0].topic.as_str(), &state.topics[0].partitions), ("t", &vec![0]));

    // It is aborted; the repetition gets the same answer.
    let third = end(&mut client, NEW, "tx", next, false).await.expect("it is aborted");
    assert_eq!(third, (who.0, 2));
    assert_eq!(end(&mut client, NEW, "tx", next, false).await, Ok(third));
    assert_eq!(end(&mut client, NEW, "tx", next, true).await, Err(InvalidTxnState));
    // Offsets 2 and 4 are markers, 3 is aborted.
    assert_eq!(produce(&mut client, 12, "tx", third, (0, 0)).await, OK);
    end(&mut client, NEW, "tx", third, true).await.expect("it is committed");
    until_committed(&mut client, 0, &[0, 1, 5]).await;
}

/// The first batch of a transaction arrives before the markers of the one before are written: here it is sent before EndTxn
/// is answered.
#[tokio::test]
async fn the_next_transaction_begins_while_the_one_before_is_completed() {
    const TURNS: i64 = 20;
    let (_server, mut client) = started().await;
    let mut who = init(&mut client, "tx").await.expect("a producer");
    assert_eq!(produce(&mut client, 12, "tx", who, (0, 0)).await, OK);
    let mut expected = Vec::new();
    for turn in 0..TURNS {
        let (commits, next) = (turn % 5 != 4, (who.0, who.1 + 1));
        client.send(NEW, &ending("tx", who, commits)).await;
        client.send(12, &producing("tx", next, (0, 0))).await;
        let (_, ended) = client.answer::<EndTxnRequest>(NEW).await;
        assert_eq!((error(ended.error_code), ended.producer_epoch), (OK, next.1), "turn {turn}");
        let (_, answer) = client.answer::<ProduceRequest>(12).await;
        // Markers that take long are waited for by the client.
        if produced(&answer) != ErrorCode::ConcurrentTransactions {
            assert_eq!(produced(&answer), OK, "turn {turn}");
        } else {
            assert_eq!(produce(&mut client, 12, "tx", next, (0, 0)).await, OK, "turn {turn}");
        }
        // Each turn is a record and a marker.
        expected.extend(commits.then_some(2 * turn));
        who = next;
    }
    until_committed(&mut client, 0, &expected).await;
}

#[tokio::test]
async fn clients_of_the_classic_protocol() {
    let (_server, mut client) = started().await;
    let who = init(&mut client, "tx").await.expect("a producer");
    // Nothing may be written to a partition that is not in the transaction.
    assert_eq!(produce(&mut client, 9, "tx", who, (0, 0)).await, InvalidTxnState);
    assert_eq!(produce(&mut client, 11, "tx", who, (0, 0)).await, TransactionAbortable);
    assert_eq!(
        add(&mut client, "tx", who, &[0, 7]).await,
        [ErrorCode::OperationNotAttempted, ErrorCode::UnknownTopicOrPartition]
    );
    assert_eq!(produce(&mut client, 9, "tx", who, (0, 0)).await, InvalidTxnState);
    assert_eq!(add(&mut client, "tx", who, &[0, 1]).await, [OK, OK]);
    assert_eq!(produce(&mut client, 9, "tx", who, (0, 0)).await, OK);
    assert_eq!(produce(&mut client, 9, "tx", who, (0, 1)).await, OK);
    assert_eq!(end(&mut client, OLD, "tx", who, true).await, Ok((-1, -1)));
    until_committed(&mut client, 0, &[0, 1]).await;
    assert_eq!(end(&mut client, OLD, "tx", who, true).await, Ok((-1, -1)), "a repetition");
    // After its end a transaction takes nothing more.
    assert_eq!(produce(&mut client, 9, "tx", who, (0, 2)).await, InvalidTxnState);
    // The same epoch serves the next one.
    assert_eq!(add(&mut client, "tx", who, &[0]).await, [OK]);
    assert_eq!(produce(&mut client, 9, "tx", who, (0, 2)).await, OK);
    assert_eq!(end(&mut client, OLD, "tx", who, false).await, Ok((-1, -1)));
    assert_eq!(end(&mut client, OLD, "tx", who, true).await, Err(InvalidTxnState));
    until_committed(&mut client, 0, &[0, 1]).await;
    // PRODUCER_FENCED has another name for the oldest.
    let fenced = (who.0, who.1 + 1);
    assert_eq!(end(&mut client, 1, "tx", fenced, true).await, Err(InvalidProducerEpoch));
    assert_eq!(end(&mut client, 2, "tx", fenced, true).await, Err(ProducerFenced));
}

#[tokio::test]
async fn a_second_producer_takes_over() {
    let (server, mut first) = started().await;
    let old = init(&mut first, "tx").await.expect("a producer");
    assert_eq!(produce(&mut first, 12, "tx", old, (0, 0)).await, OK);
    let mut second = server.connect().await;
    // Its first request aborts what is open, and waits for that; as a client, it asks again if it took long.
    let new = loop {
        match init(&mut second, "tx").await {
            Ok(who) => break who,
            Err(code) => assert_eq!(code, ErrorCode::ConcurrentTransactions),
        }
    };
    assert!(new.0 == old.0 && new.1 > old.1 + 1, "{new:?} after {old:?}");
    assert_eq!(produce(&mut first, 12, "tx", old, (0, 1)).await, InvalidProducerEpoch);
    assert_eq!(produce(&mut first, 12, "tx", old, (1, 0)).await, InvalidProducerEpoch);
    assert_eq!(end(&mut first, NEW, "tx", old, true).await, Err(ProducerFenced));
    assert_eq!(end(&mut first, NEW, "tx", old, false).await, Err(ProducerFenced));
    assert_eq!(produce(&mut second, 12, "tx", new, (0, 0)).await, OK);
    end(&mut second, NEW, "tx", new, true).await.expect("it is committed");
    // 0 was aborted, 1 is its marker.
    until_committed(&mut second, 0, &[2]).await;
}

#[tokio::test]
async fn what_is_left_open_is_aborted_and_its_producer_fenced_off() {
    let server =
        TestServer::with(&[("transaction.abort.timed.out.transaction.cleanup.interval.ms", "10")]).await;
    let mut client = server.connect().await;
    client.create_topic("t", 1, &[]).await;
    assert_eq!(init_with(&mut client, "tx", 900_001).await, Err(InvalidTransactionTimeout));
    assert_eq!(init_with(&mut client, "tx", 0).await, Err(InvalidTransactionTimeout));
    let who = init_with(&mut client, "tx", 50).await.expect("a producer");
    assert_eq!(produce(&mut client, 12, "tx", who, (0, 0)).await, OK);
    eventually("it is aborted", || async {
        let mut client = server.connect().await;
        describe(&mut client, "tx").await.transaction_state == "CompleteAbort"
    })
    .await;
    assert_eq!(produce(&mut client, 12, "tx", who, (0, 1)).await, InvalidProducerEpoch);
    assert_eq!(end(&mut client, NEW, "tx", who, true).await, Err(ProducerFenced));
    assert_eq!(committed(&mut client, 0).await, [0; 0]);
    // What comes after is not held up.
    client.produce("t", 0, &[1]).await;
    until_committed(&mut client, 0, &[2]).await;
}

#[tokio::test]
async fn open_and_prepared_transactions_survive_a_restart_and_a_crash() {
    let (mut server, mut client) = started().await;
    let open = init(&mut client, "open").await.expect("a producer");
    let done = init(&mut client, "done").await.expect("a producer");
    assert_eq!(produce(&mut client, 12, "open", open, (0, 0)).await, OK);
    assert_eq!(produce(&mut client, 12, "done", done, (1, 0)).await, OK);
    let next = end(&mut client, NEW, "done", done, true).await.expect("it is committed");
    // A copy of the files at this moment: markers may be there or not.
    let crashed = server.crashed_copy().await;
    let mut there = crashed.connect().await;
    until_committed(&mut there, 1, &[0]).await;
    assert_eq!(end(&mut there, NEW, "done", done, true).await, Ok(next), "the repetition after a crash");
    assert_eq!(produce(&mut there, 12, "open", open, (0, 1)).await, OK);
    let after = end(&mut there, NEW, "open", open, true).await.expect("it is committed");
    assert_eq!(after, (open.0, open.1 + 1));
    until_committed(&mut there, 0, &[0, 1]).await;

    server.restart().await;
    let mut client = server.connect().await;
    until_committed(&mut client, 1, &[0]).await;
    assert_eq!(describe(&mut client, "open").await.transaction_state, "Ongoing");
    end(&mut client, NEW, "open", open, false).await.expect("it is aborted");
    let who = init(&mut client, "open").await.expect("a producer");
    assert_eq!(who.0, open.0);
    assert!(who.1 > open.1);
    assert_eq!(committed(&mut client, 0).await, [0; 0]);
}

#[tokio::test]
async fn transactions_are_listed_and_described() {
    let (server, mut client) = started().await;
    let all = ListTransactionsRequest { duration_filter: -1, ..Default::default() };
    assert_eq!(list(&mut client, all.clone()).await, []);
    let a = init(&mut client, "orders-a").await.expect("a producer");
    let b = init(&mut client, "orders-b").await.expect("a producer");
    init(&mut client, "payments").await.expect("a producer");
    assert_eq!(produce(&mut client, 12, "orders-b", b, (2, 0)).await, OK);
    let entry = |id: &str, state: &str| (id.to_owned(), state.to_owned());
    let (empty_a, ongoing_b) = (entry("orders-a", "Empty"), entry("orders-b", "Ongoing"));
    let listed = list(&mut client, all.clone()).await;
    assert_eq!(listed, [empty_a.clone(), ongoing_b.clone(), entry("payments", "Empty")]);
    let of_a = ListTransactionsRequest { producer_id_filters: vec![a.0], ..all.clone() };
    assert_eq!(list(&mut client, of_a).await, std::slice::from_ref(&empty_a));
    let ongoing = ListTransactionsRequest { state_filters: vec!["Ongoing".to_owned()], ..all.clone() };
    assert_eq!(list(&mut client, ongoing).await, std::slice::from_ref(&ongoing_b));
    let long = ListTransactionsRequest { duration_filter: 3_600_000, ..all.clone() };
    assert_eq!(list(&mut client, long).await, []);
    let orders =
        ListTransactionsRequest { transactional_id_pattern: Some("orders-.".to_owned()), ..all.clone() };
    assert_eq!(list(&mut client, orders).await, [empty_a, ongoing_b]);
    let bad = ListTransactionsRequest { transactional_id_pattern: Some("(".to_owned()), ..all.clone() };
    let refused = client.call(2, &bad).await;
    assert_eq!(error(refused.error_code), ErrorCode::InvalidRegularExpression);
    let odd = ListTransactionsRequest { state_filters: vec!["Odd".to_owned()], ..all };
    assert_eq!(client.call(0, &odd).await.unknown_state_filters, ["Odd"]);

    assert_eq!(error(describe(&mut client, "nobody").await.error_code), TransactionalIdNotFound);
    assert_eq!(error(describe(&mut client, "").await.error_code), ErrorCode::InvalidRequest);
    let long_id = "x".repeat(5000);
    assert_eq!(init(&mut client, &long_id).await, Err(ErrorCode::InvalidRequest));
    let find = FindCoordinatorRequest {
        key_type: 1,
        coordinator_keys: vec!["orders-a".to_owned()],
        ..Default::default()
    };
    let found = client.call(6, &find).await.coordinators.remove(0);
    assert_eq!((error(found.error_code), found.port), (OK, i32::from(server.kafka().port())));
}

#[tokio::test]
async fn administrators_end_transactions_in_a_partition() {
    let (_server, mut client) = started().await;
    let who = init(&mut client, "tx").await.expect("a producer");
    assert_eq!(produce(&mut client, 12, "tx", who, (0, 0)).await, OK);
    let marker = |producer_epoch, index| {
        let topic = WritableTxnMarkerTopic {
            name: "t".to_owned(),
            partition_indexes: vec![index],
            ..Default::default()
        };
        let marker = WritableTxnMarker {
            producer_id: who.0,
            producer_epoch,
            transaction_result: false,
            topics: vec![topic],
            coordinator_epoch: 1,
            ..Default::default()
        };
        WriteTxnMarkersRequest { markers: vec![marker], ..Default::default() }
    };
    let code =
        |mut answer: tailrace_kafka_wire::messages::write_txn_markers_response::WriteTxnMarkersResponse| {
            error(answer.markers.remove(0).topics.remove(0).partitions.remove(0).error_code)
        };
    assert_eq!(code(client.call(1, &marker(-1, 0)).await), ErrorCode::InvalidRequest);
    assert_eq!(code(client.call(1, &marker(who.1, 9)).await), ErrorCode::UnknownTopicOrPartition);
    assert_eq!(code(client.call(1, &marker(who.1, 0)).await), OK);
    client.produce("t", 0, &[1]).await;
    until_committed(&mut client, 0, &[2]).await;
}

/// Records in the coordinators' log.
async fn coordinator_records(client: &mut Client) -> i64 {
    let partition =
        |partition_index| ListOffsetsPartition { partition_index, timestamp: -1, ..Default::default() };
    let topic = ListOffsetsTopic {
        name: "__transaction_state".to_owned(),
        partitions: (0..50).map(partition).collect(),
        ..Default::default()
    };
    let request = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
    let answer = client.call(11, &request).await.topics.remove(0);
    answer.partitions.iter().map(|partition| partition.offset).sum()
}

/// A request with several partitions brings them into the transaction at once.
#[tokio::test]
async fn one_request_for_several_partitions_costs_one_record_of_the_coordinator() {
    let (_server, mut client) = started().await;
    let who = init(&mut client, "tx").await.expect("a producer");
    assert_eq!(coordinator_records(&mut client).await, 1);
    let request = |who: Who, sequence| {
        let data = |index| PartitionProduceData {
            index,
            records: Records::Bytes(batch(transactional(who, sequence), &[now().0])),
            ..Default::default()
        };
        let partition_data = (0..3).chain([9]).map(data).collect();
        let topic = TopicProduceData { name: "t".to_owned(), partition_data, ..Default::default() };
        ProduceRequest {
            transactional_id: Some("tx".to_owned()),
            acks: -1,
            timeout_ms: 10_000,
            topic_data: vec![topic],
            ..Default::default()
        }
    };
    let codes = |answer: &ProduceResponse| {
        let partitions = answer.responses[0].partition_responses.iter();
        partitions.map(|partition| error(partition.error_code)).collect::<Vec<_>>()
    };
    let first = |answer: &ProduceResponse| codes(answer)[0];
    let unknown = ErrorCode::UnknownTopicOrPartition;
    assert_eq!(
        codes(&call_until_done(&mut client, 12, &request(who, 0), first).await),
        [OK, OK, OK, unknown]
    );
    assert_eq!(
        codes(&call_until_done(&mut client, 12, &request(who, 0), first).await),
        [OK, OK, OK, unknown],
        "a repetition"
    );
    assert_eq!(
        codes(&call_until_done(&mut client, 12, &request(who, 1), first).await),
        [OK, OK, OK, unknown]
    );
    assert_eq!(coordinator_records(&mut client).await, 2);
    assert_eq!(describe(&mut client, "tx").await.topics[0].partitions, [0, 1, 2]);
    let next = end(&mut client, NEW, "tx", who, true).await.expect("it is committed");
    let old = InvalidProducerEpoch;
    assert_eq!(
        codes(&call_until_done(&mut client, 12, &request(who, 2), first).await),
        [old, old, old, unknown]
    );
    assert_eq!(
        codes(&call_until_done(&mut client, 12, &request(next, 0), first).await),
        [OK, OK, OK, unknown]
    );
    end(&mut client, NEW, "tx", next, false).await.expect("it is aborted");
    for partition in 0..3 {
        until_committed(&mut client, partition, &[0, 1]).await;
    }
}

/// A fetch gives as many whole batches as fit, whatever became of their transactions.
#[tokio::test]
async fn a_fetch_of_committed_records_goes_up_to_the_last_stable_offset() {
    let (mut server, mut client) = started().await;
    let mut who = init(&mut client, "tx").await.expect("a producer");
    for round in 0..24 {
        assert_eq!(produce(&mut client, 12, "tx", who, (0, 0)).await, OK);
        who = end(&mut client, NEW, "tx", who, round % 2 == 0).await.expect("it ends");
        // A server that stops before it has noted that the marker is written writes it once more: not here.
        eventually("it is complete", || async {
            let mut client = server.connect().await;
            describe(&mut client, "tx").await.transaction_state.starts_with("Complete")
        })
        .await;
        if round == 11 {
            server.restart().await;
            client = server.connect().await;
        }
        let end = 2 * (round + 1);
        for from in (0..end).rev() {
            let (stable, batches, bytes) = whole_batches(&mut client, from, i32::MAX).await;
            assert_eq!((stable, batches), (end, (from..end).collect()), "from {from} of {end}");
            // A byte less than all: the last one stays behind.
            let limit = i32::try_from(bytes - 1).expect("few");
            let (_, batches, _) = whole_batches(&mut client, from, limit).await;
            let last = if from + 1 == end { end } else { end - 1 };
            assert_eq!(batches, (from..last).collect::<Vec<_>>(), "from {from} of {end}, {limit} bytes");
        }
    }
}

/// One fetch: the last stable offset, the offsets of the batches, which have one record each, and their bytes.
async fn whole_batches(client: &mut Client, from: i64, bytes_max: i32) -> (i64, Vec<i64>, usize) {
    let mut request = fetch_request("t", 0, from);
    request.isolation_level = 1;
    request.max_wait_ms = 0;
    request.topics[0].partitions[0].partition_max_bytes = bytes_max;
    let data = only_partition(client.call(12, &request).await);
    assert_eq!(error(data.error_code), OK);
    let bytes = bytes_of(&data);
    let batches = split_batches(&bytes).map(|one| one.expect("whole batches").0.base_offset.get()).collect();
    (data.last_stable_offset, batches, bytes.len())
}

#[tokio::test]
async fn many_transactions_over_many_partitions_are_all_or_nothing() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    client.create_topic("t", 8, &[]).await;
    let mut tasks = tokio::task::JoinSet::new();
    for producer in 0..6 {
        let mut client = server.connect().await;
        tasks.spawn(async move {
            let id = format!("tx-{producer}");
            let mut who = init(&mut client, &id).await.expect("a producer");
            for round in 0..20 {
                for partition in 0..8 {
                    let code = produce(&mut client, 12, &id, who, (partition, 0)).await;
                    assert_eq!(code, OK, "{id} in round {round}");
                }
                who = end(&mut client, NEW, &id, who, round % 2 == 0).await.expect("it ends");
            }
        });
    }
    tasks.join_all().await;
    for partition in 0..8 {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while committed(&mut client, partition).await.len() != 60 {
            assert!(std::time::Instant::now() < deadline, "partition {partition} has other records");
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }
}
