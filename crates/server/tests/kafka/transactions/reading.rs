//! What fetches of committed records return, batch by batch.

use tailrace_records::split_batches;

use super::client::{NEW, describe, end, init, produce, started};
use crate::common::rig::{bytes_of, eventually, fetch_request, only_partition};
use crate::common::{Client, OK, error};

/// A fetch returns as many whole batches as fit, whatever the outcome of their transactions.
#[tokio::test]
async fn a_fetch_of_committed_records_goes_up_to_the_last_stable_offset() {
    let (mut server, mut client) = started().await;
    let mut who = init(&mut client, "tx").await.expect("a producer");
    for round in 0..24 {
        assert_eq!(produce(&mut client, 12, "tx", who, (0, 0)).await, OK);
        who = end(&mut client, NEW, "tx", who, round % 2 == 0).await.expect("the transaction ends");
        // Wait for completion: a server that stops before it has recorded that the marker is written would
        // write it again.
        eventually("the transaction is complete", || async {
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
            // With a limit one byte below the total, the last batch is left out.
            let limit = i32::try_from(bytes - 1).expect("a small number");
            let (_, batches, _) = whole_batches(&mut client, from, limit).await;
            let last = if from + 1 == end { end } else { end - 1 };
            assert_eq!(batches, (from..last).collect::<Vec<_>>(), "from {from} of {end}, {limit} bytes");
        }
    }
}

/// Fetches once. Returns the last stable offset, the offsets of the batches, which hold one record each, and
/// their bytes.
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
