//! Offsets committed in transactions (TxnOffsetCommit), over the plain protocol: with and without a preceding
//! AddOffsetsToTxn, across restarts, and with requests that come too late.

use crate::common::rig::eventually;
use crate::common::{Client, OK, TestServer, error};
use tailrace_kafka_wire::ErrorCode::{
    self, IllegalGeneration, InvalidProducerEpoch, InvalidTxnState, TransactionAbortable, UnknownMemberId,
    UnknownTopicOrPartition, UnstableOffsetCommit,
};
use tailrace_kafka_wire::messages::DeleteTopicsRequest;
use tailrace_kafka_wire::messages::add_offsets_to_txn_request::AddOffsetsToTxnRequest;
use tailrace_kafka_wire::messages::delete_topics_request::DeleteTopicState;
use tailrace_kafka_wire::messages::describe_transactions_request::DescribeTransactionsRequest;
use tailrace_kafka_wire::messages::end_txn_request::EndTxnRequest;
use tailrace_kafka_wire::messages::init_producer_id_request::InitProducerIdRequest;
use tailrace_kafka_wire::messages::offset_fetch_request::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use tailrace_kafka_wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};

/// A producer's id and epoch.
type Who = (i64, i16);

/// Versions of EndTxn with an epoch per transaction, and without.
const NEW: i16 = 5;
const OLD: i16 = 3;

async fn init(client: &mut Client) -> Who {
    let request = InitProducerIdRequest {
        transactional_id: Some("tx".to_owned()),
        transaction_timeout_ms: 60_000,
        ..Default::default()
    };
    loop {
        let answer = client.call(5, &request).await;
        match error(answer.error_code) {
            OK => return (answer.producer_id, answer.producer_epoch),
            code => assert_eq!(code, ErrorCode::ConcurrentTransactions),
        }
    }
}

async fn end(client: &mut Client, version: i16, who: Who, committed: bool) -> Who {
    let request = EndTxnRequest {
        transactional_id: "tx".to_owned(),
        producer_id: who.0,
        producer_epoch: who.1,
        committed,
        ..Default::default()
    };
    let answer = client.call(version, &request).await;
    assert_eq!(error(answer.error_code), OK);
    if version >= NEW { (answer.producer_id, answer.producer_epoch) } else { who }
}

async fn add_offsets(client: &mut Client, who: Who) -> ErrorCode {
    let request = AddOffsetsToTxnRequest {
        transactional_id: "tx".to_owned(),
        producer_id: who.0,
        producer_epoch: who.1,
        group_id: "g".to_owned(),
        ..Default::default()
    };
    // As clients do, retry while the previous transaction is still being completed.
    loop {
        match error(client.call(3, &request).await.error_code) {
            ErrorCode::ConcurrentTransactions => tokio::task::yield_now().await,
            code => return code,
        }
    }
}

fn request(who: Who, partition: i32, offset: i64) -> TxnOffsetCommitRequest {
    let partition = TxnOffsetCommitRequestPartition {
        partition_index: partition,
        committed_offset: offset,
        committed_metadata: Some(format!("m{offset}")),
        ..Default::default()
    };
    TxnOffsetCommitRequest {
        transactional_id: "tx".to_owned(),
        group_id: "g".to_owned(),
        producer_id: who.0,
        producer_epoch: who.1,
        generation_id: -1,
        topics: vec![TxnOffsetCommitRequestTopic {
            name: "t".to_owned(),
            partitions: vec![partition],
            ..Default::default()
        }],
        ..Default::default()
    }
}

async fn send(client: &mut Client, version: i16, request: &TxnOffsetCommitRequest) -> ErrorCode {
    error(client.call(version, request).await.topics.remove(0).partitions.remove(0).error_code)
}

/// Commits an offset of partition 0. Retries while the previous transaction is still being completed.
async fn commit(client: &mut Client, version: i16, who: Who, offset: i64) -> ErrorCode {
    loop {
        match send(client, version, &request(who, 0, offset)).await {
            ErrorCode::ConcurrentTransactions | ErrorCode::CoordinatorNotAvailable => {
                tokio::task::yield_now().await;
            }
            code => return code,
        }
    }
}

/// Returns the group's offset of partition 0. With `stable`, returns an error while an open transaction may
/// change it.
async fn offset(client: &mut Client, stable: bool) -> Result<i64, ErrorCode> {
    let topic =
        OffsetFetchRequestTopics { name: "t".to_owned(), partition_indexes: vec![0], ..Default::default() };
    let group = OffsetFetchRequestGroup {
        group_id: "g".to_owned(),
        topics: Some(vec![topic]),
        member_epoch: -1,
        ..Default::default()
    };
    let request = OffsetFetchRequest { groups: vec![group], require_stable: stable, ..Default::default() };
    let mut group = client.call(9, &request).await.groups.remove(0);
    assert_eq!(error(group.error_code), OK);
    let partition = group.topics.remove(0).partitions.remove(0);
    match error(partition.error_code) {
        OK => Ok(partition.committed_offset),
        code => Err(code),
    }
}

async fn until_offset(server: &TestServer, expected: i64) {
    eventually("the offset is committed", || async {
        let mut client = server.connect().await;
        offset(&mut client, true).await == Ok(expected)
    })
    .await;
}

async fn started() -> (TestServer, Client) {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    client.create_topic("t", 2, &[]).await;
    (server, client)
}

#[tokio::test]
async fn from_version_5_on_the_commit_itself_brings_the_partition_in() {
    let (server, mut client) = started().await;
    let who = init(&mut client).await;
    assert_eq!(commit(&mut client, 5, who, 10).await, OK);
    assert_eq!(offset(&mut client, true).await, Err(UnstableOffsetCommit));
    assert_eq!(offset(&mut client, false).await, Ok(-1), "nothing is committed yet");
    let describe =
        DescribeTransactionsRequest { transactional_ids: vec!["tx".to_owned()], ..Default::default() };
    let state = client.call(0, &describe).await.transaction_states.remove(0);
    assert_eq!((state.transaction_state.as_str(), state.topics.len()), ("Ongoing", 1));
    assert_eq!(state.topics[0].topic, "__consumer_offsets");
    let next = end(&mut client, NEW, who, true).await;
    assert_eq!(next, (who.0, who.1 + 1));
    until_offset(&server, 10).await;

    // A late commit of the previous transaction: its epoch has passed.
    assert_eq!(commit(&mut client, 5, who, 11).await, InvalidProducerEpoch);
    assert_eq!(commit(&mut client, 5, next, 20).await, OK);
    assert_eq!(commit(&mut client, 5, who, 11).await, InvalidProducerEpoch);
    let third = end(&mut client, NEW, next, false).await;
    until_offset(&server, 10).await;
    assert_eq!(commit(&mut client, 5, third, 30).await, OK);
    assert_eq!(commit(&mut client, 5, third, 31).await, OK, "the last offset counts");
    end(&mut client, NEW, third, true).await;
    until_offset(&server, 31).await;
}

#[tokio::test]
async fn before_version_5_the_partition_has_to_be_brought_in() {
    let (server, mut client) = started().await;
    let who = init(&mut client).await;
    assert_eq!(commit(&mut client, 3, who, 10).await, InvalidTxnState);
    assert_eq!(commit(&mut client, 4, who, 10).await, TransactionAbortable);
    assert_eq!(add_offsets(&mut client, who).await, OK);
    for version in [0, 1, 2, 3, 4] {
        assert_eq!(commit(&mut client, version, who, 10).await, OK, "{version}");
    }
    end(&mut client, OLD, who, true).await;
    until_offset(&server, 10).await;
    // The next transaction has the same epoch, so only the coordinator knows that this one is over.
    assert_eq!(commit(&mut client, 3, who, 11).await, InvalidTxnState);
    assert_eq!(add_offsets(&mut client, who).await, OK);
    assert_eq!(commit(&mut client, 3, who, 12).await, OK);
    end(&mut client, OLD, who, false).await;
    until_offset(&server, 10).await;
}

#[tokio::test]
async fn who_is_refused_changes_nothing() {
    let (server, mut client) = started().await;
    let who = init(&mut client).await;
    assert_eq!(send(&mut client, 5, &request(who, 7, 1)).await, UnknownTopicOrPartition);
    let of_a_member = |member: &str, generation_id| TxnOffsetCommitRequest {
        member_id: member.to_owned(),
        generation_id,
        ..request(who, 0, 1)
    };
    assert_eq!(send(&mut client, 5, &of_a_member("nobody", 3)).await, IllegalGeneration);
    assert_eq!(commit(&mut client, 5, who, 5).await, OK);
    assert_eq!(send(&mut client, 5, &of_a_member("nobody", 3)).await, UnknownMemberId);
    for (id, epoch) in [(who.0, who.1 + 1), (who.0, -1)] {
        assert_eq!(commit(&mut client, 5, (id, epoch), 6).await, InvalidProducerEpoch);
    }
    assert_eq!(commit(&mut client, 5, (who.0 + 99, 0), 6).await, ErrorCode::InvalidProducerIdMapping);
    end(&mut client, NEW, who, true).await;
    until_offset(&server, 5).await;
}

/// As in Kafka, a commit of which nothing can be stored opens no transaction.
#[tokio::test]
async fn what_is_not_there_brings_nothing_into_the_transaction() {
    let (_server, mut client) = started().await;
    let who = init(&mut client).await;
    let named = |mut request: TxnOffsetCommitRequest, name: &str| {
        request.topics[0].name = name.to_owned();
        request
    };
    for version in 0..=5 {
        let unknown = named(request(who, 0, 1), "nothing");
        assert_eq!(send(&mut client, version, &unknown).await, UnknownTopicOrPartition, "version {version}");
        assert_eq!(send(&mut client, version, &request(who, 77, 1)).await, UnknownTopicOrPartition);
        let nameless = TxnOffsetCommitRequest { group_id: String::new(), ..request(who, 0, 1) };
        assert_eq!(send(&mut client, version, &nameless).await, ErrorCode::InvalidGroupId);
        assert_eq!(describe(&mut client).await, "Empty", "version {version}");
    }
    let mut both = request(who, 0, 1);
    both.topics.push(named(request(who, 0, 1), "nothing").topics.remove(0));
    let codes: Vec<_> = client
        .call(5, &both)
        .await
        .topics
        .iter()
        .map(|topic| error(topic.partitions[0].error_code))
        .collect();
    assert_eq!(codes, [OK, UnknownTopicOrPartition]);
    assert_eq!(describe(&mut client).await, "Ongoing");
}

/// If a topic is deleted before the transaction ends, the offsets committed for it in the transaction are
/// dropped. They do not count for a new topic of the same name either.
#[tokio::test]
async fn offsets_of_a_topic_that_goes_before_the_end_are_forgotten() {
    let (mut server, mut client) = started().await;
    let mut who = init(&mut client).await;
    for created_again in [false, true] {
        assert_eq!(commit(&mut client, 5, who, 7).await, OK);
        let topic = DeleteTopicState { name: Some("t".to_owned()), ..Default::default() };
        let delete = DeleteTopicsRequest { topics: vec![topic], timeout_ms: 10_000, ..Default::default() };
        assert_eq!(error(client.call(6, &delete).await.responses[0].error_code), OK);
        if created_again {
            client.create_topic("t", 1, &[]).await;
        }
        who = end(&mut client, NEW, who, true).await;
        while describe(&mut client).await != "CompleteCommit" {
            tokio::task::yield_now().await;
        }
        until_offset(&server, -1).await;
        server.restart().await;
        client = server.connect().await;
        assert_eq!(offset(&mut client, true).await, Ok(-1), "created again: {created_again}");
        if !created_again {
            client.create_topic("t", 1, &[]).await;
        }
    }
}

async fn describe(client: &mut Client) -> String {
    let asked =
        DescribeTransactionsRequest { transactional_ids: vec!["tx".to_owned()], ..Default::default() };
    client.call(0, &asked).await.transaction_states.remove(0).transaction_state
}

#[tokio::test]
async fn a_transaction_with_offsets_survives_restarts_and_crashes() {
    let (mut server, mut client) = started().await;
    let who = init(&mut client).await;
    assert_eq!(commit(&mut client, 5, who, 10).await, OK);
    // The transaction stays open across two orderly restarts. The second restart finds the snapshot of the
    // first.
    for _ in 0..2 {
        server.restart().await;
        client = server.connect().await;
        assert_eq!(offset(&mut client, true).await, Err(UnstableOffsetCommit));
        assert_eq!(offset(&mut client, false).await, Ok(-1));
    }
    // The transaction stays open across a crash.
    let crashed = server.crashed_copy().await;
    let mut there = crashed.connect().await;
    assert_eq!(offset(&mut there, true).await, Err(UnstableOffsetCommit));
    assert_eq!(commit(&mut there, 5, who, 11).await, OK);
    end(&mut there, NEW, who, true).await;
    until_offset(&crashed, 11).await;
    drop((there, crashed));

    let next = end(&mut client, NEW, who, true).await;
    // The transaction is decided. Its markers may or may not be written.
    let crashed = server.crashed_copy().await;
    until_offset(&crashed, 10).await;
    drop(crashed);
    until_offset(&server, 10).await;
    assert_eq!(commit(&mut client, 5, next, 20).await, OK);
    server.restart().await;
    client = server.connect().await;
    // Another producer takes over, so the open transaction is aborted.
    let other = init(&mut client).await;
    assert_eq!(offset(&mut client, true).await, Ok(10));
    assert_eq!(commit(&mut client, 5, next, 21).await, InvalidProducerEpoch);
    assert_eq!(commit(&mut client, 5, other, 30).await, OK);
    end(&mut client, NEW, other, true).await;
    until_offset(&server, 30).await;
    server.restart().await;
    client = server.connect().await;
    assert_eq!(offset(&mut client, true).await, Ok(30));
}

/// Commits of an old client race with the end of their transaction. None may be left undecided afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn commits_that_race_with_the_end_leave_nothing_open() {
    let (server, mut client) = started().await;
    let who = init(&mut client).await;
    for round in 0..40 {
        assert_eq!(add_offsets(&mut client, who).await, OK);
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..4 {
            let mut late = server.connect().await;
            tasks.spawn(async move { commit(&mut late, 3, who, round * 10 + number).await });
        }
        let mut ending = server.connect().await;
        tasks.spawn(async move {
            end(&mut ending, OLD, who, false).await;
            OK
        });
        for code in tasks.join_all().await {
            assert!([OK, InvalidTxnState].contains(&code), "{code:?}");
        }
        until_offset(&server, -1).await;
    }
}
