//! DescribeTransactions (65): what the coordinator knows about transactional ids.

use std::sync::Arc;

use tailrace_coordination::transactions::{TransactionDescription, TransactionEvent, TransactionReply};
use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::messages::describe_transactions_request::DescribeTransactionsRequest;
use tailrace_kafka_wire::messages::describe_transactions_response::{
    DescribeTransactionsResponse, TopicData, TransactionState,
};
use tailrace_kafka_wire::{ErrorCode, Reader};

use crate::closed::Closed;
use crate::commands::ITEMS_MAX;
use crate::context::{Context, Decided, answer_later, decode};
use crate::transactions::{ask, unexpected};

pub(crate) async fn decide(context: Context, reader: Reader) -> Result<Decided, Closed> {
    let request: DescribeTransactionsRequest = decode(&context, reader)?;
    let context = Arc::new(context);
    Ok(answer_later(Arc::clone(&context), async move {
        let mut transaction_states = Vec::new();
        // Each answer is longer than its entry in the request, and no client needs this many transactional
        // ids.
        for transactional_id in request.transactional_ids.into_iter().take(ITEMS_MAX) {
            if let Err(code) = context.rights().transactional_id(Operation::Describe, &transactional_id) {
                transaction_states.push(TransactionState { transactional_id, ..refused(code) });
                continue;
            }
            let id = transactional_id.clone();
            let event = move |token, _| TransactionEvent::Describe { token, transactional_id: id.clone() };
            let asked = ask(context.node(), context.caller(), &transactional_id, event);
            let answer = match asked.await.reply().await {
                Ok(TransactionReply::Described(description)) => {
                    let mut state = state(description);
                    let rights = context.rights();
                    state.topics.retain(|topic| rights.sees_topic(Operation::Describe, &topic.topic));
                    state
                }
                Ok(reply) => refused(unexpected(&reply).code),
                Err(refusal) => refused(refusal.code),
            };
            transaction_states.push(TransactionState { transactional_id, ..answer });
        }
        DescribeTransactionsResponse { transaction_states, ..Default::default() }
    }))
}

fn refused(code: ErrorCode) -> TransactionState {
    TransactionState { error_code: code.code(), ..Default::default() }
}

fn state(description: TransactionDescription) -> TransactionState {
    let mut topics: Vec<TopicData> = Vec::new();
    // The partitions are sorted, so those of one topic are adjacent.
    for partition in description.partitions {
        let (topic, index) = (partition.topic.as_str(), partition.partition.0);
        match topics.last_mut().filter(|last| last.topic == topic) {
            Some(last) => last.partitions.push(index),
            None => topics.push(TopicData {
                topic: topic.to_owned(),
                partitions: vec![index],
                ..Default::default()
            }),
        }
    }
    TransactionState {
        transaction_state: description.state.name().to_owned(),
        transaction_timeout_ms: description.timeout_ms,
        transaction_start_time_ms: description.started.map_or(-1, |started| started.0),
        producer_id: description.producer.id.get(),
        producer_epoch: description.producer.epoch.get(),
        topics,
        ..Default::default()
    }
}
