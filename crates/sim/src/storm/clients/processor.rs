//! Copies a partition exactly once: what it reads, what it writes, and how far it has read are one
//! transaction.

use tailrace_kafka_wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use tailrace_kafka_wire::messages::{AddOffsetsToTxnRequest, TxnOffsetCommitRequest};
use tailrace_types::{LeaderEpoch, Offset, PartitionId, TopicPartition};

use super::client::{Client, Coordinated, Producer, pause};
use super::offsets::committed;
use super::reader::Asked;
use super::transactional::{Protocol, Transaction, add, end, init, is_done, send};
use crate::history::History as Partitions;
use crate::storm::site::{DATA_TOPIC, OUT_TOPIC, topic_partition};

const ADD_OFFSETS_TO_TXN: i16 = 3;

/// Maximum number of batches of one transaction.
const BATCHES: usize = 8;

/// Maximum number of attempts of a request.
const TRIES: u32 = 20;

/// The transactional id, which is also the group.
const COPY: &str = "copy";

pub(super) async fn run(mut client: Client, protocol: Protocol) {
    let mut attempt = 0_u64;
    client.history.lock().begins();
    while !client.is_ending() {
        round(&mut client, protocol, &mut attempt).await;
    }
    while init(&mut client, COPY).await.is_none() {}
    client.history.lock().finishes();
}

/// Runs until something goes wrong. Then the caller starts it again, as after a restart.
async fn round(client: &mut Client, protocol: Protocol, attempt: &mut u64) -> Option<()> {
    let [input, output] = [DATA_TOPIC, OUT_TOPIC].map(|topic| topic_partition(topic, PartitionId(0)));
    let mut producer = init(client, COPY).await?;
    let unanswered = client.unanswered();
    client.count("a processor started");
    let (mut position, mut sequence) = (position(client, &input).await?, 0);
    client.history.lock().copies.resume(position.get());
    while !client.is_ending() {
        pause(120).await;
        let (values, next) = read(client, &input, position).await?;
        if next == position {
            continue;
        }
        let name = format!("tc.{attempt}");
        *attempt += 1;
        let transaction = Transaction { id: COPY, name: &name, producer, protocol };
        client.history.lock().copies.begin(position.get(), next.get());
        for (number, value) in values.iter().enumerate() {
            if protocol == Protocol::Classic {
                add(client, &transaction, &output).await?;
            }
            let value = format!("{name}:{number}@{value}");
            send(client, &transaction, &output, sequence, &value).await?;
            sequence += 1;
        }
        commit(client, &transaction, &input, next).await?;
        producer = end(client, &transaction, true).await?;
        client.history.lock().copies.committed();
        if producer != transaction.producer {
            sequence = 0;
        }
        position = next;
        client.count("a processor's transaction was committed");
        // A late request would be taken for a part of the next transaction, because nothing distinguishes
        // them.
        if protocol == Protocol::Classic && client.unanswered() != unanswered {
            return None;
        }
    }
    Some(())
}

async fn position(client: &mut Client, input: &TopicPartition) -> Option<Offset> {
    for _ in 0..TRIES {
        match committed(client, COPY, input).await {
            Some(offset) => return Some(offset.max(Offset(0))),
            None => client.refresh().await,
        }
    }
    None
}

/// Returns some committed values, and the offset to continue from.
async fn read(client: &mut Client, input: &TopicPartition, from: Offset) -> Option<(Vec<String>, Offset)> {
    let (node, epoch) = client.leader(input).await?;
    let asked = Asked { node, from, epoch: Some(epoch), has_read: LeaderEpoch::UNKNOWN, committed: true };
    let Some(fetched) = asked.fetch(client, input).await else {
        client.refresh().await;
        return Some((Vec::new(), from));
    };
    let is_compacted = client.keeps(input).is_compacted();
    let Ok(batches) = Partitions::parse(&fetched.bytes, from, is_compacted) else {
        return Some((Vec::new(), from));
    };
    let (mut values, mut next, mut hiding) = (Vec::new(), from, fetched.hiding());
    for (_, seen) in batches.into_iter().take(BATCHES) {
        next = seen.next;
        if hiding.shows(&seen) && !seen.value.is_empty() {
            values.push(seen.value);
        }
    }
    Some((values, next))
}

/// Adds the position to the transaction.
async fn commit(
    client: &mut Client,
    transaction: &Transaction<'_>,
    input: &TopicPartition,
    next: Offset,
) -> Option<()> {
    if transaction.protocol == Protocol::Classic {
        add_offsets(client, transaction).await?;
    }
    let Producer { id: producer_id, epoch: producer_epoch } = transaction.producer;
    let partition = TxnOffsetCommitRequestPartition {
        partition_index: input.partition.0,
        committed_offset: next.get(),
        ..Default::default()
    };
    let name = input.topic.as_str().to_owned();
    let request = TxnOffsetCommitRequest {
        transactional_id: transaction.id.to_owned(),
        group_id: COPY.to_owned(),
        producer_id: producer_id.get(),
        producer_epoch: producer_epoch.get(),
        generation_id: -1,
        topics: vec![TxnOffsetCommitRequestTopic { name, partitions: vec![partition], ..Default::default() }],
        ..Default::default()
    };
    for _ in 0..TRIES {
        let Some(node) = client.coordinator(Coordinated::Group, COPY).await else { continue };
        let answer = client.ask(node, transaction.protocol.commit_offsets(), &request).await;
        let result = answer.and_then(|answer| Some(answer.topics.first()?.partitions.first()?.error_code));
        if is_done(client, result).await? {
            return Some(());
        }
    }
    None
}

/// Adds the group's offsets to the transaction, as clients of the classic protocol do.
async fn add_offsets(client: &mut Client, transaction: &Transaction<'_>) -> Option<()> {
    let Producer { id: producer_id, epoch: producer_epoch } = transaction.producer;
    let request = AddOffsetsToTxnRequest {
        transactional_id: transaction.id.to_owned(),
        producer_id: producer_id.get(),
        producer_epoch: producer_epoch.get(),
        group_id: COPY.to_owned(),
        ..Default::default()
    };
    for _ in 0..TRIES {
        let Some(node) = client.coordinator(Coordinated::Transaction, COPY).await else { continue };
        let answer = client.ask(node, ADD_OFFSETS_TO_TXN, &request).await;
        if is_done(client, answer.map(|answer| answer.error_code)).await? {
            return Some(());
        }
    }
    None
}
