//! Whole transactions in both versions of the protocol, and many at once.

use tailrace_kafka_wire::ErrorCode::{
    self, InvalidProducerEpoch, InvalidTxnState, ProducerFenced, TransactionAbortable,
};

use super::client::{NEW, OLD, add, committed, describe, end, init, produce, started, until_committed};
use crate::common::{OK, TestServer};

#[tokio::test]
async fn an_epoch_per_transaction() {
    let (_server, mut client) = started().await;
    let who = init(&mut client, "tx").await.expect("a producer");
    assert_eq!(who.1, 0);
    // The first batch for a partition adds it to the transaction.
    for (partition, sequence) in [(0, 0), (0, 1), (1, 0)] {
        assert_eq!(produce(&mut client, 12, "tx", who, (partition, sequence)).await, OK);
    }
    assert_eq!(committed(&mut client, 0).await, [0; 0], "nothing is committed yet");
    let next = end(&mut client, NEW, "tx", who, true).await.expect("the transaction commits");
    assert_eq!(next, (who.0, 1));
    until_committed(&mut client, 0, &[0, 1]).await;
    until_committed(&mut client, 1, &[0]).await;

    // Delayed requests of the previous transaction arrive in the next one.
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

    // The transaction is aborted. A retry gets the same answer.
    let third = end(&mut client, NEW, "tx", next, false).await.expect("the transaction aborts");
    assert_eq!(third, (who.0, 2));
    assert_eq!(end(&mut client, NEW, "tx", next, false).await, Ok(third));
    assert_eq!(end(&mut client, NEW, "tx", next, true).await, Err(InvalidTxnState));
    // Offsets 2 and 4 are markers, 3 is aborted.
    assert_eq!(produce(&mut client, 12, "tx", third, (0, 0)).await, OK);
    end(&mut client, NEW, "tx", third, true).await.expect("the transaction commits");
    until_committed(&mut client, 0, &[0, 1, 5]).await;
}

#[tokio::test]
async fn clients_of_the_classic_protocol() {
    let (_server, mut client) = started().await;
    let who = init(&mut client, "tx").await.expect("a producer");
    // A batch is refused if its partition is not in the transaction.
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
    assert_eq!(end(&mut client, OLD, "tx", who, true).await, Ok((-1, -1)), "a retry");
    // A transaction accepts nothing after its end.
    assert_eq!(produce(&mut client, 9, "tx", who, (0, 2)).await, InvalidTxnState);
    // The next transaction uses the same epoch.
    assert_eq!(add(&mut client, "tx", who, &[0]).await, [OK]);
    assert_eq!(produce(&mut client, 9, "tx", who, (0, 2)).await, OK);
    assert_eq!(end(&mut client, OLD, "tx", who, false).await, Ok((-1, -1)));
    assert_eq!(end(&mut client, OLD, "tx", who, true).await, Err(InvalidTxnState));
    until_committed(&mut client, 0, &[0, 1]).await;
    // The oldest versions have another code for PRODUCER_FENCED.
    let fenced = (who.0, who.1 + 1);
    assert_eq!(end(&mut client, 1, "tx", fenced, true).await, Err(InvalidProducerEpoch));
    assert_eq!(end(&mut client, 2, "tx", fenced, true).await, Err(ProducerFenced));
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
                who = end(&mut client, NEW, &id, who, round % 2 == 0).await.expect("the transaction ends");
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
