//! A transactional producer: a few batches to two partitions, then a commit or an abort. Whatever goes wrong, it presents itself anew.

use std::collections::BTreeSet;

use tailrace_coordination::coordinator::TransactionalProducer;
use tailrace_coordination::transactions::{TransactionError, TransactionProtocol};
use tailrace_metadata::TRANSACTION_STATE_TOPIC;
use tailrace_records::BatchOptions;
use tailrace_types::{PartitionId, TopicPartition};

use super::client::Client;
use crate::cluster::messages::{Request, Response};
use crate::cluster::options::{DATA_TOPIC, topic_partition};
use crate::history::Outcome;

/// A transaction as its producer knows it.
#[derive(Clone, Copy)]
pub(in crate::cluster) struct Transaction<'a> {
    /// The transactional id.
    pub(in crate::cluster) id: &'a str,
    /// What its records begin with.
    pub(in crate::cluster) name: &'a str,
    pub(in crate::cluster) producer: TransactionalProducer,
    pub(in crate::cluster) protocol: TransactionProtocol,
}

impl Transaction<'_> {
    /// For a batch whose first record has this sequence.
    pub(in crate::cluster) fn batch_options(&self, base_sequence: i32) -> BatchOptions {
        BatchOptions {
            producer_id: self.producer.id,
            producer_epoch: self.producer.epoch,
            base_sequence,
            transactional: true,
            ..BatchOptions::default()
        }
    }
}

pub(super) async fn run(mut client: Client, number: u64) {
    let id = format!("x{number}");
    let protocol =
        [TransactionProtocol::Classic, TransactionProtocol::EpochPerTransaction][number as usize % 2];
    let mut attempt = 0_u64;
    client.sim.world().busy += 1;
    while !client.stops() {
        let Some(mut producer) = init(&mut client, &id).await else { continue };
        let mut sequences = [0_i32; 2];
        while !client.stops() {
            let pause = client.rng.between(1, 60);
            client.sim.sleep(pause).await;
            let name = format!("t{number}.{attempt}");
            attempt += 1;
            let transaction = Transaction { id: &id, name: &name, producer, protocol };
            match one(&mut client, &transaction, &mut sequences).await {
                Some(next) => {
                    if next != producer {
                        sequences = [0; 2];
                    }
                    producer = next;
                }
                None => break,
            }
        }
    }
    // What is open is aborted.
    while init(&mut client, &id).await.is_none() {}
    client.sim.world().busy -= 1;
}

/// Presents itself: whoever was there before is fenced off.
pub(in crate::cluster) async fn init(client: &mut Client, id: &str) -> Option<TransactionalProducer> {
    client.sim.sleep(10).await;
    let node = client.coordinator(TRANSACTION_STATE_TOPIC, id).await?;
    match client.ask(node, Request::InitProducer { id: id.to_owned() }).await {
        Some(Response::Producer(producer)) => Some(producer),
        Some(Response::Transaction(TransactionError::Concurrent)) => None,
        _ => {
            client.refresh().await;
            None
        }
    }
}

/// One transaction. Who goes on; `None` if that is not known.
async fn one(
    client: &mut Client,
    transaction: &Transaction<'_>,
    sequences: &mut [i32; 2],
) -> Option<TransactionalProducer> {
    let batches = client.rng.between(1, 4);
    for number in 0..batches {
        let at = if number < 2 { number as usize } else { client.rng.below(2) as usize };
        let partition = topic_partition(DATA_TOPIC, PartitionId(at as i32));
        if transaction.protocol == TransactionProtocol::Classic {
            add(client, transaction, &partition).await?;
        }
        let value = format!("{}:{number}", transaction.name);
        let batch = client.batch(&value, transaction.batch_options(sequences[at]));
        send(client, transaction, &partition, &value, batch).await?;
        sequences[at] += 1;
    }
    let committed = client.rng.percent(65);
    end(client, transaction, committed).await
}

/// Adds a partition to the transaction, as clients of the classic protocol do.
pub(in crate::cluster) async fn add(
    client: &mut Client,
    transaction: &Transaction<'_>,
    partition: &TopicPartition,
) -> Option<()> {
    let Transaction { id, producer, .. } = *transaction;
    for _ in 0..20 {
        if let Some(node) = client.coordinator(TRANSACTION_STATE_TOPIC, id).await {
            let partitions = BTreeSet::from([partition.clone()]);
            match client.ask(node, Request::AddPartitions { id: id.to_owned(), producer, partitions }).await {
                Some(Response::Done) => return Some(()),
                Some(Response::Transaction(TransactionError::Concurrent)) => client.sim.sleep(20).await,
                Some(Response::Transaction(_)) => return None,
                _ => client.refresh().await,
            }
        }
    }
    None
}

pub(in crate::cluster) async fn send(
    client: &mut Client,
    transaction: &Transaction<'_>,
    partition: &TopicPartition,
    value: &str,
    batch: bytes::Bytes,
) -> Option<()> {
    for _ in 0..10 {
        let Some((node, _)) = client.leader(partition).await else { continue };
        let transaction = Some((transaction.id.to_owned(), transaction.protocol));
        let request = Request::Produce { partition: partition.clone(), batch: batch.clone(), transaction };
        match client.ask(node, request).await {
            Some(Response::Produced { base, .. }) => {
                let fits = client.sim.world().history.acknowledged(partition, value, base);
                client.check(fits);
                return Some(());
            }
            Some(Response::Transaction(TransactionError::Concurrent)) => client.sim.sleep(20).await,
            Some(Response::OutOfOrder(_) | Response::Transaction(_)) => {
                client.sim.world().count("a transactional batch was refused");
                return None;
            }
            _ => client.refresh().await,
        }
    }
    None
}

/// Ends the transaction, asking until the outcome is known or somebody else has taken over.
pub(in crate::cluster) async fn end(
    client: &mut Client,
    transaction: &Transaction<'_>,
    committed: bool,
) -> Option<TransactionalProducer> {
    let Transaction { id, name, producer, protocol } = *transaction;
    if committed {
        client.sim.world().history.set_outcome(name, Outcome::Unknown);
    }
    for _ in 0..20 {
        let Some(node) = client.coordinator(TRANSACTION_STATE_TOPIC, id).await else { continue };
        let request = Request::End { id: id.to_owned(), producer, committed, protocol };
        match client.ask(node, request).await {
            Some(Response::Producer(next)) => {
                let mut world = client.sim.world();
                let outcome = if committed { Outcome::Committed } else { Outcome::Aborted };
                world.history.set_outcome(name, outcome);
                world.note(b't', &[u64::from(committed), u64::from(crc32c::crc32c(name.as_bytes()))]);
                world.count(if committed {
                    "a transaction was committed"
                } else {
                    "a transaction was aborted"
                });
                return Some(next);
            }
            Some(Response::Transaction(TransactionError::Concurrent)) => client.sim.sleep(20).await,
            Some(Response::Transaction(_)) => {
                client.sim.world().count("a transactional producer was fenced off");
                return None;
            }
            _ => client.refresh().await,
        }
    }
    None
}
