//! Producers that are replaced or go away: the server ends what they left open and fences them.

use tailrace_kafka_wire::ErrorCode::{
    self, InvalidProducerEpoch, InvalidTransactionTimeout, InvalidTxnState, ProducerFenced,
};

use super::client::{NEW, committed, describe, end, init, init_with, produce, started, until_committed};
use crate::common::rig::eventually;
use crate::common::{OK, TestServer};

#[tokio::test]
async fn a_second_producer_takes_over() {
    let (server, mut first) = started().await;
    let old = init(&mut first, "tx").await.expect("a producer");
    assert_eq!(produce(&mut first, 12, "tx", old, (0, 0)).await, OK);
    let mut second = server.connect().await;
    // The new producer's first request aborts the open transaction and waits for the abort. Like any client,
    // the producer retries if that takes long.
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
    end(&mut second, NEW, "tx", new, true).await.expect("the transaction commits");
    // 0 was aborted, 1 is its marker.
    until_committed(&mut second, 0, &[2]).await;
}

#[tokio::test]
async fn what_is_left_open_is_aborted_and_its_producer_goes_on() {
    let server =
        TestServer::with(&[("transaction.abort.timed.out.transaction.cleanup.interval.ms", "10")]).await;
    let mut client = server.connect().await;
    client.create_topic("t", 1, &[]).await;
    assert_eq!(init_with(&mut client, "tx", 900_001).await, Err(InvalidTransactionTimeout));
    assert_eq!(init_with(&mut client, "tx", 0).await, Err(InvalidTransactionTimeout));
    let who = init_with(&mut client, "tx", 50).await.expect("a producer");
    assert_eq!(produce(&mut client, 12, "tx", who, (0, 0)).await, OK);
    eventually("the transaction is aborted", || async {
        let mut client = server.connect().await;
        describe(&mut client, "tx").await.transaction_state == "CompleteAbort"
    })
    .await;
    assert_eq!(produce(&mut client, 12, "tx", who, (0, 1)).await, InvalidProducerEpoch);
    assert_eq!(
        end(&mut client, NEW, "tx", who, true).await,
        Err(InvalidTxnState),
        "the transaction was already aborted"
    );
    let next = (who.0, who.1 + 1);
    assert_eq!(
        end(&mut client, NEW, "tx", who, false).await,
        Ok(next),
        "as if the producer itself had aborted it"
    );
    assert_eq!(committed(&mut client, 0).await, [0; 0]);
    // Later records are not held up.
    client.produce("t", 0, &[1]).await;
    until_committed(&mut client, 0, &[2]).await;
    assert_eq!(produce(&mut client, 12, "tx", next, (0, 0)).await, OK);
    end(&mut client, NEW, "tx", next, true).await.expect("the transaction commits");
    until_committed(&mut client, 0, &[2, 3]).await;
}

#[tokio::test]
async fn open_and_prepared_transactions_survive_a_restart_and_a_crash() {
    let (mut server, mut client) = started().await;
    let open = init(&mut client, "open").await.expect("a producer");
    let done = init(&mut client, "done").await.expect("a producer");
    assert_eq!(produce(&mut client, 12, "open", open, (0, 0)).await, OK);
    assert_eq!(produce(&mut client, 12, "done", done, (1, 0)).await, OK);
    let next = end(&mut client, NEW, "done", done, true).await.expect("the transaction commits");
    // A copy of the files at this moment. The markers may or may not be in it.
    let crashed = server.crashed_copy().await;
    let mut there = crashed.connect().await;
    until_committed(&mut there, 1, &[0]).await;
    assert_eq!(end(&mut there, NEW, "done", done, true).await, Ok(next), "a retry after a crash");
    assert_eq!(produce(&mut there, 12, "open", open, (0, 1)).await, OK);
    let after = end(&mut there, NEW, "open", open, true).await.expect("the transaction commits");
    assert_eq!(after, (open.0, open.1 + 1));
    until_committed(&mut there, 0, &[0, 1]).await;

    server.restart().await;
    let mut client = server.connect().await;
    until_committed(&mut client, 1, &[0]).await;
    assert_eq!(describe(&mut client, "open").await.transaction_state, "Ongoing");
    end(&mut client, NEW, "open", open, false).await.expect("the transaction aborts");
    let who = init(&mut client, "open").await.expect("a producer");
    assert_eq!(who.0, open.0);
    assert!(who.1 > open.1);
    assert_eq!(committed(&mut client, 0).await, [0; 0]);
}
