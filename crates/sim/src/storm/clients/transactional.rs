//! A transactional producer. It sends a few batches to two partitions, then commits or aborts. If anything
//! goes wrong, it initializes again.

use bytes::Bytes;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use tailrace_kafka_wire::messages::{AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest};
use tailrace_records::BatchOptions;
use tailrace_types::{PartitionId, TopicPartition};

use super::client::{Client, Coordinated, Produce, Producer, batch, below, code, pause};
use super::subscriber::Interest;
use crate::history::Outcome;
use crate::storm::site::{DATA_TOPIC, topic_partition};

const INIT_PRODUCER_ID: i16 = 4;
const ADD_PARTITIONS_TO_TXN: i16 = 3;

/// Maximum number of attempts of a request.
const TRIES: u32 = 20;

/// Percentage of transactions that are slow, so that late requests of the previous one find them open.
const SLOW_PERCENT: u64 = 40;

/// The longest wait of a slow transaction before each batch.
const SLOW_MS: u64 = 150;

/// How transactions follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::storm) enum Protocol {
    /// One epoch for all transactions.
    Classic,
    /// An epoch for each transaction (KIP-890).
    EpochPerTransaction,
}

impl Protocol {
    fn produce(self) -> i16 {
        if self == Self::Classic { 11 } else { 12 }
    }

    fn end(self) -> i16 {
        if self == Self::Classic { 4 } else { 5 }
    }

    pub(super) fn commit_offsets(self) -> i16 {
        if self == Self::Classic { 3 } else { 5 }
    }
}

/// A transaction, as its producer knows it.
#[derive(Clone, Copy)]
pub(super) struct Transaction<'a> {
    /// The transactional id.
    pub(super) id: &'a str,
    /// The prefix of its records' values.
    pub(super) name: &'a str,
    pub(super) producer: Producer,
    pub(super) protocol: Protocol,
}

impl Transaction<'_> {
    /// Builds a batch of one record.
    pub(super) fn batch(&self, base_sequence: i32, value: &str) -> Bytes {
        let Producer { id: producer_id, epoch: producer_epoch } = self.producer;
        let options = BatchOptions {
            producer_id,
            producer_epoch,
            base_sequence,
            transactional: true,
            ..BatchOptions::default()
        };
        batch(Some(value), value, options)
    }
}

/// `number` identifies the client in the history, after the nodes.
pub(super) async fn run(mut client: Client, number: usize, protocol: Protocol) {
    let id = format!("x{number}");
    let mut attempt = 0_u64;
    client.history.lock().begins();
    while !client.history.lock().has_ended(number) {
        let Some(mut producer) = init(&mut client, &id).await else { continue };
        let (mut sequences, unanswered) = ([0_i32; 2], client.unanswered());
        while !client.history.lock().has_ended(number) {
            pause(120).await;
            let name = format!("t{number}.{attempt}");
            attempt += 1;
            let transaction = Transaction { id: &id, name: &name, producer, protocol };
            let is_committed = client.is_ending() || below(100) < 65;
            let Some(next) = one(&mut client, &transaction, &mut sequences, is_committed).await else {
                break;
            };
            client.history.lock().done(number);
            if next != producer {
                sequences = [0; 2];
            }
            producer = next;
            // A late request would be taken for a part of the next transaction, because nothing distinguishes
            // them.
            if protocol == Protocol::Classic && client.unanswered() != unanswered {
                break;
            }
        }
    }
    // Initializing aborts the open transaction.
    while init(&mut client, &id).await.is_none() {}
    client.history.lock().finishes();
}

/// Initializes the producer, which fences off an earlier producer of the same id.
pub(super) async fn init(client: &mut Client, id: &str) -> Option<Producer> {
    pause(20).await;
    let node = client.coordinator(Coordinated::Transaction, id).await?;
    let request = InitProducerIdRequest {
        transactional_id: Some(id.to_owned()),
        transaction_timeout_ms: i32::try_from(2_000 + below(20_000)).expect("a small number"),
        producer_id: -1,
        producer_epoch: -1,
        ..InitProducerIdRequest::default()
    };
    let answer = client.ask(node, INIT_PRODUCER_ID, &request).await;
    match answer.as_ref().map(|answer| code(answer.error_code)) {
        Some(ErrorCode::None) => {
            let given = answer.map(|answer| Producer::new(answer.producer_id, answer.producer_epoch))?;
            client.history.lock().was_given(given.id, given.epoch, id);
            Some(given)
        }
        Some(ErrorCode::ConcurrentTransactions) => None,
        _ => {
            client.refresh().await;
            None
        }
    }
}

/// Runs one transaction. Returns the producer of the next one. `None` if it is unknown.
async fn one(
    client: &mut Client,
    transaction: &Transaction<'_>,
    sequences: &mut [i32; 2],
    is_committed: bool,
) -> Option<Producer> {
    let (is_heard, mut values) = (client.is_ending(), Vec::new());
    let takes_its_time = below(100) < SLOW_PERCENT;
    for number in 0..=below(3) {
        if takes_its_time {
            pause(SLOW_MS).await;
        }
        let at = usize::try_from(if number < 2 { number } else { below(2) }).expect("a small number");
        let partition = topic_partition(DATA_TOPIC, PartitionId(i32::try_from(at).expect("a small number")));
        if transaction.protocol == Protocol::Classic {
            add(client, transaction, &partition).await?;
        }
        let value = format!("{}:{number}", transaction.name);
        send(client, transaction, &partition, sequences[at], &value).await?;
        sequences[at] += 1;
        values.push(value);
    }
    let next = end(client, transaction, is_committed).await?;
    if is_heard && is_committed {
        let mut history = client.history.lock();
        values.iter().for_each(|value| history.published(value, &[Interest::Records.name()]));
    }
    Some(next)
}

/// Adds a partition to the transaction, as clients of the classic protocol do.
pub(super) async fn add(
    client: &mut Client,
    transaction: &Transaction<'_>,
    partition: &TopicPartition,
) -> Option<()> {
    let Producer { id: producer_id, epoch: producer_epoch } = transaction.producer;
    let (name, partitions) = (partition.topic.as_str().to_owned(), vec![partition.partition.0]);
    let request = AddPartitionsToTxnRequest {
        v3_and_below_transactional_id: transaction.id.to_owned(),
        v3_and_below_producer_id: producer_id.get(),
        v3_and_below_producer_epoch: producer_epoch.get(),
        v3_and_below_topics: vec![AddPartitionsToTxnTopic { name, partitions, ..Default::default() }],
        ..AddPartitionsToTxnRequest::default()
    };
    for _ in 0..TRIES {
        let Some(node) = client.coordinator(Coordinated::Transaction, transaction.id).await else { continue };
        let answer = client.ask(node, ADD_PARTITIONS_TO_TXN, &request).await;
        let result = answer.and_then(|answer| {
            Some(
                answer
                    .results_by_topic_v3_and_below
                    .first()?
                    .results_by_partition
                    .first()?
                    .partition_error_code,
            )
        });
        if is_done(client, result).await? {
            return Some(());
        }
    }
    None
}

/// Sends a batch of the transaction.
pub(super) async fn send(
    client: &mut Client,
    transaction: &Transaction<'_>,
    partition: &TopicPartition,
    sequence: i32,
    value: &str,
) -> Option<()> {
    let (batch, version) = (transaction.batch(sequence, value), transaction.protocol.produce());
    let how = Produce { version, transactional_id: Some(transaction.id) };
    for _ in 0..TRIES / 2 {
        let answer = client.produce(partition, batch.clone(), how).await;
        let result = match answer {
            Some(Ok(offset)) => {
                let mut history = client.history.lock();
                let fits = history.partitions.acknowledged(partition, value, offset);
                history.check(fits);
                return Some(());
            }
            Some(Err(refused)) => Some(refused.code()),
            None => None,
        };
        match next_step(result) {
            Step::Done | Step::Refresh => client.refresh().await,
            Step::Wait => pause(40).await,
            Step::GiveUp => {
                client.count("a transactional batch was refused");
                return None;
            }
        }
    }
    None
}

/// Ends the transaction. Asks until the outcome is known or another producer has taken over.
pub(super) async fn end(
    client: &mut Client,
    transaction: &Transaction<'_>,
    is_committed: bool,
) -> Option<Producer> {
    let Transaction { id, name, producer, protocol } = *transaction;
    if is_committed {
        client.history.lock().partitions.set_outcome(name, Outcome::Unknown);
    }
    let request = EndTxnRequest {
        transactional_id: id.to_owned(),
        producer_id: producer.id.get(),
        producer_epoch: producer.epoch.get(),
        committed: is_committed,
        ..EndTxnRequest::default()
    };
    for _ in 0..TRIES {
        let Some(node) = client.coordinator(Coordinated::Transaction, id).await else { continue };
        let answer = client.ask(node, protocol.end(), &request).await;
        match next_step(answer.as_ref().map(|answer| answer.error_code)) {
            Step::Done => {
                let mut history = client.history.lock();
                let (outcome, what) = if is_committed {
                    (Outcome::Committed, "a transaction was committed")
                } else {
                    (Outcome::Aborted, "a transaction was aborted")
                };
                history.partitions.set_outcome(name, outcome);
                history.count(what);
                let next = answer.map(|next| Producer::new(next.producer_id, next.producer_epoch));
                return if protocol == Protocol::Classic { Some(producer) } else { next };
            }
            Step::Wait => pause(40).await,
            Step::Refresh => client.refresh().await,
            Step::GiveUp => {
                client.count("a transactional producer was fenced");
                return None;
            }
        }
    }
    None
}

/// Does what an answer requires. Returns true once the request is carried out. `None` if it never will be.
pub(super) async fn is_done(client: &mut Client, answer: Option<i16>) -> Option<bool> {
    match next_step(answer) {
        Step::Done => return Some(true),
        Step::Wait => pause(40).await,
        Step::Refresh => client.refresh().await,
        Step::GiveUp => return None,
    }
    Some(false)
}

/// The step that an answer requires.
enum Step {
    Done,
    Wait,
    Refresh,
    GiveUp,
}

/// Takes `None` if there was no answer.
fn next_step(answer: Option<i16>) -> Step {
    match answer.map(code) {
        Some(ErrorCode::None) => Step::Done,
        Some(ErrorCode::ConcurrentTransactions) => Step::Wait,
        Some(
            ErrorCode::InvalidProducerEpoch
            | ErrorCode::ProducerFenced
            | ErrorCode::InvalidTxnState
            | ErrorCode::InvalidProducerIdMapping
            | ErrorCode::TransactionAbortable
            | ErrorCode::OutOfOrderSequenceNumber
            | ErrorCode::UnknownProducerId
            | ErrorCode::DuplicateSequenceNumber,
        ) => Step::GiveUp,
        Some(_) | None => Step::Refresh,
    }
}
