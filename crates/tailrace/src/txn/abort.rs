//! `tailrace txn abort`.

use std::process::ExitCode;

use serde_json::json;
use tailrace_cli::failure::Failure;
use tailrace_cli::output::{Output, print, print_json};
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::describe_producers_request::TopicRequest;
use tailrace_kafka_wire::messages::describe_producers_response::ProducerState;
use tailrace_kafka_wire::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use tailrace_kafka_wire::messages::{
    DescribeProducersRequest, DescribeTransactionsRequest, InitProducerIdRequest, WriteTxnMarkersRequest,
};

use super::arguments::AbortArguments;
use super::coordinator::coordinator;
use crate::client::{ClientError, Cluster, check, find_topic, retrying};

/// The transaction timeout of a producer that never starts a transaction.
const TIMEOUT_MS: i32 = 1000;

pub(super) async fn run(cluster: &mut Cluster, arguments: &AbortArguments) -> Result<ExitCode, Failure> {
    match (&arguments.transactional_id, &arguments.topic, arguments.partition) {
        (Some(id), ..) => by_id(cluster, id, arguments).await,
        (None, Some(topic), Some(partition)) => in_partition(cluster, topic, partition, arguments).await,
        _ => Err("name a transactional id, or a topic and a partition".to_owned().into()),
    }
}

/// Initializes a new producer with the id, so that its coordinator aborts the open transaction. Rejects
/// unknown ids, since the request would create them.
async fn by_id(cluster: &mut Cluster, id: &str, arguments: &AbortArguments) -> Result<ExitCode, Failure> {
    let described = retrying(cluster, async |cluster| {
        let connection = coordinator(cluster, id).await?;
        let version = connection.version::<DescribeTransactionsRequest>()?;
        let request =
            DescribeTransactionsRequest { transactional_ids: vec![id.to_owned()], ..Default::default() };
        let answer = connection.begin(&request, version).await?.answer().await?;
        let state = answer.transaction_states.first();
        let code = state.map_or(-1, |state| state.error_code);
        if ErrorCode::from_code(code) == Some(ErrorCode::TransactionalIdNotFound) {
            return Err(ClientError::NoTransactionalId(id.to_owned()));
        }
        check(code, None, || format!("cannot abort the transaction of '{id}'"))?;
        Ok(state.map(|state| state.transaction_state.clone()).unwrap_or_default())
    });
    let state = described.await?;
    let (producer, epoch) = retrying(cluster, async |cluster| {
        let connection = coordinator(cluster, id).await?;
        let version = connection.version::<InitProducerIdRequest>()?;
        let request = InitProducerIdRequest {
            transactional_id: Some(id.to_owned()),
            transaction_timeout_ms: TIMEOUT_MS,
            producer_id: -1,
            producer_epoch: -1,
            ..Default::default()
        };
        let answer = connection.begin(&request, version).await?.answer().await?;
        check(answer.error_code, None, || format!("cannot fence off the producer of '{id}'"))?;
        Ok((answer.producer_id, answer.producer_epoch))
    })
    .await?;
    match arguments.common.output {
        Output::Text if state == "Ongoing" => print(&format!(
            "{id}: aborted; its producer is fenced off by epoch {epoch} of producer {producer}\n"
        ))?,
        Output::Text => print(&format!(
            "{id}: nothing was open ({state}); its producer is fenced off by epoch {epoch} of producer {producer}\n"
        ))?,
        Output::Json => print_json(&json!({
            "transactional_id": id,
            "state_before": state,
            "aborted": state == "Ongoing",
            "producer_id": producer,
            "producer_epoch": epoch,
        }))?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn in_partition(
    cluster: &mut Cluster,
    topic: &str,
    partition: i32,
    arguments: &AbortArguments,
) -> Result<ExitCode, Failure> {
    let producers = producers(cluster, topic, partition).await?;
    let is_meant = |producer: &&ProducerState| {
        let start = producer.current_txn_start_offset;
        start >= 0
            && arguments.start_offset.is_none_or(|offset| offset == start)
            && arguments.producer_id.is_none_or(|id| id == producer.producer_id)
    };
    let Some(producer) = producers.iter().find(is_meant) else {
        let open: Vec<_> = producers
            .iter()
            .filter(|producer| producer.current_txn_start_offset >= 0)
            .map(|producer| {
                format!("{} at offset {}", producer.producer_id, producer.current_txn_start_offset)
            })
            .collect();
        let open = if open.is_empty() { "none is".to_owned() } else { format!("open: {}", open.join(", ")) };
        return Err(format!("no such transaction is open in {topic}-{partition}; {open}").into());
    };
    write_marker(cluster, topic, partition, producer).await?;
    let (id, epoch, start) =
        (producer.producer_id, producer.producer_epoch, producer.current_txn_start_offset);
    match arguments.common.output {
        Output::Text => print(&format!(
            "{topic}-{partition}: aborted the transaction of producer {id} (epoch {epoch}) that began at offset {start}\n"
        ))?,
        Output::Json => print_json(&json!({
            "topic": topic,
            "partition": partition,
            "producer_id": id,
            "producer_epoch": epoch,
            "start_offset": start,
        }))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the leader of a partition.
async fn leader(cluster: &mut Cluster, topic: &str, partition: i32) -> Result<i32, ClientError> {
    let topic = find_topic(cluster, topic).await?;
    let found = topic.partitions.iter().find(|candidate| candidate.index == partition);
    let found = found.ok_or_else(|| topic.no_partition(partition))?;
    Ok(found.leader)
}

async fn producers(
    cluster: &mut Cluster,
    topic: &str,
    partition: i32,
) -> Result<Vec<ProducerState>, ClientError> {
    retrying(cluster, async |cluster| {
        let leader = leader(cluster, topic, partition).await?;
        let connection = cluster.node(leader).await?;
        let version = connection.version::<DescribeProducersRequest>()?;
        let wanted =
            TopicRequest { name: topic.to_owned(), partition_indexes: vec![partition], ..Default::default() };
        let request = DescribeProducersRequest { topics: vec![wanted], ..Default::default() };
        let answer = connection.begin(&request, version).await?.answer().await?;
        let mut found = Vec::new();
        for result in answer.topics.into_iter().flat_map(|topic| topic.partitions) {
            let what = || format!("cannot ask {topic}-{partition} for its producers");
            check(result.error_code, result.error_message.as_ref(), what)?;
            found.extend(result.active_producers);
        }
        Ok(found)
    })
    .await
}

async fn write_marker(
    cluster: &mut Cluster,
    topic: &str,
    partition: i32,
    producer: &ProducerState,
) -> Result<(), ClientError> {
    let what = || format!("cannot end the transaction in {topic}-{partition}");
    let producer_epoch = i16::try_from(producer.producer_epoch)
        .map_err(|_| ClientError::refused(what(), ErrorCode::InvalidProducerEpoch.code(), None))?;
    retrying(cluster, async |cluster| {
        let leader = leader(cluster, topic, partition).await?;
        let connection = cluster.node(leader).await?;
        let version = connection.version::<WriteTxnMarkersRequest>()?;
        let place = WritableTxnMarkerTopic {
            name: topic.to_owned(),
            partition_indexes: vec![partition],
            ..Default::default()
        };
        let marker = WritableTxnMarker {
            producer_id: producer.producer_id,
            producer_epoch,
            transaction_result: false,
            topics: vec![place],
            // No coordinator has ended a transaction of this producer in this partition, so any epoch will
            // do.
            coordinator_epoch: producer.coordinator_epoch.max(0),
            ..Default::default()
        };
        let request = WriteTxnMarkersRequest { markers: vec![marker], ..Default::default() };
        let answer = connection.begin(&request, version).await?.answer().await?;
        let results = answer.markers.into_iter().flat_map(|marker| marker.topics);
        results.flat_map(|topic| topic.partitions).try_for_each(|result| check(result.error_code, None, what))
    })
    .await
}
