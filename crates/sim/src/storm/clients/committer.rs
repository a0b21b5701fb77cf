//! Commits ever higher offsets, and reads them back in between.

use std::collections::BTreeSet;

use tailrace_kafka_wire::ErrorCode;
use tailrace_types::{Offset, PartitionId};

use super::client::{Client, below, pause};
use super::offsets::{commit, committed};
use crate::storm::site::{DATA_TOPIC, topic_partition};

/// `number` identifies the client in the history, after the nodes.
pub(super) async fn run(mut client: Client, number: usize) {
    let (group, partition) = (format!("g{number}"), topic_partition(DATA_TOPIC, PartitionId(0)));
    let (mut next, mut acknowledged) = (0_i64, -1_i64);
    // Commits without an answer may still be carried out later.
    let mut given_up = BTreeSet::new();
    client.history.lock().begins();
    while !client.history.lock().has_ended(number) {
        pause(80).await;
        if below(2) == 0 {
            next += 1;
            match commit(&mut client, &group, &partition, Offset(next)).await {
                Some(ErrorCode::None) => {
                    acknowledged = next;
                    client.count("an offset was committed");
                }
                _ => {
                    given_up.insert(next);
                    client.refresh().await;
                }
            }
            continue;
        }
        let Some(found) = committed(&mut client, &group, &partition).await else {
            client.refresh().await;
            continue;
        };
        client.history.lock().done(number);
        let fits = found.get() == acknowledged || given_up.contains(&found.get());
        // A deposed coordinator that does not know yet still returns what it knew, so check only at the end.
        if !fits && client.is_ending() {
            let what = format!("{group}: offset {found} is committed, and {acknowledged} was acknowledged");
            client.history.lock().found(what);
        }
    }
    client.history.lock().finishes();
}
