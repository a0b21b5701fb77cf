//! An idempotent producer that resends each batch until it is acknowledged.

use bytes::Bytes;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::InitProducerIdRequest;
use tailrace_records::BatchOptions;
use tailrace_types::{PartitionId, TopicPartition};

use super::client::{Client, Produce, Producer, batch, pause};
use crate::storm::history::{BatchFate, BatchName};
use crate::storm::site::{TOPIC, topic_partition};

const INIT_PRODUCER_ID: i16 = 4;
const PRODUCE: Produce<'static> = Produce { version: 9, transactional_id: None };

/// `number` identifies the client in the history, after the nodes.
pub(super) async fn run(mut client: Client, number: usize, topic: &'static str) {
    let partition = topic_partition(topic, PartitionId(0));
    client.history.lock().begins();
    client.history.lock().writes_to(number, topic);
    let producer = loop {
        match begin(&mut client, number).await {
            Some(producer) => break producer,
            None => client.refresh().await,
        }
    };
    let mut next = BatchName { node: number, start: 0, writer: 0, number: 0 };
    while !client.history.lock().has_ended(number) {
        let batch = offer(&client, next, producer);
        while !is_settled(&mut client, &partition, next, batch.clone()).await {
            client.refresh().await;
        }
        next.number += 1;
        pause(100).await;
    }
    client.history.lock().finishes();
}

async fn begin(client: &mut Client, number: usize) -> Option<Producer> {
    let request = InitProducerIdRequest {
        transactional_id: None,
        producer_id: -1,
        producer_epoch: -1,
        ..InitProducerIdRequest::default()
    };
    // Any node will do. This one is known to lead something.
    let (node, _) = client.leader(&topic_partition(TOPIC, PartitionId(0))).await?;
    let answer = client.ask(node, INIT_PRODUCER_ID, &request).await?;
    (answer.error_code == 0).then(|| {
        let given = Producer::new(answer.producer_id, answer.producer_epoch);
        client.history.lock().was_given(given.id, given.epoch, &format!("p{number}"));
        given
    })
}

/// Builds the next batch.
fn offer(client: &Client, name: BatchName, producer: Producer) -> Bytes {
    let base_sequence = i32::try_from(name.number).expect("a small number");
    let Producer { id: producer_id, epoch: producer_epoch } = producer;
    let options = BatchOptions { producer_id, producer_epoch, base_sequence, ..BatchOptions::default() };
    client.history.lock().offered(name);
    batch(Some(&name.key()), &name.to_string(), options)
}

/// Sends a batch. Returns true if nothing is left to do for it.
async fn is_settled(client: &mut Client, partition: &TopicPartition, name: BatchName, batch: Bytes) -> bool {
    match client.produce(partition, batch, PRODUCE).await {
        Some(Ok(offset)) => {
            client.history.lock().told(name, BatchFate::Stored(offset));
            true
        }
        // Each batch is sent until it is acknowledged, before the next one, so none can be missing.
        Some(Err(
            code @ (ErrorCode::OutOfOrderSequenceNumber
            | ErrorCode::UnknownProducerId
            | ErrorCode::InvalidProducerEpoch
            | ErrorCode::DuplicateSequenceNumber),
        )) => {
            client.history.lock().found(format!("{name} was answered with {code:?}"));
            true
        }
        Some(Err(_)) | None => false,
    }
}
