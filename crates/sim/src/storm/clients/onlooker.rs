//! A client that asks all nodes how far partitions are committed, in epochs that may have only just begun.
//! The leader answers at once.

use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::ListOffsetsRequest;
use tailrace_kafka_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use tailrace_types::{LeaderEpoch, Offset, PartitionId, TopicPartition};

use super::client::{Client, below, code, index, pause};
use crate::storm::site::{DATA_TOPIC, OUT_TOPIC, topic_partition};

const LIST_OFFSETS: i16 = 6;

/// The timestamp that asks how far a partition is committed.
const LATEST: i64 = -1;

/// The longest pause between two requests.
const PAUSE_MS: u64 = 15;

/// The number of epochs to guess from: the newest known one and those after it.
const GUESSES: u64 = 3;

pub(super) async fn run(mut client: Client) {
    let all = [(DATA_TOPIC, 0), (DATA_TOPIC, 1), (OUT_TOPIC, 0)];
    let begin = |(topic, number)| (topic_partition(topic, PartitionId(number)), 0);
    let mut known = all.map(begin);
    loop {
        pause(PAUSE_MS).await;
        let (partition, epoch) = &mut known[index(all.len())];
        let guess = *epoch + i32::try_from(below(GUESSES)).expect("a small number");
        *epoch = look(&mut client, partition, guess).await.unwrap_or(*epoch);
    }
}

/// Asks any node as if it led in the epoch `guess`. Returns the newest epoch that is now known, or `None` if
/// the answer tells nothing new.
async fn look(client: &mut Client, id: &TopicPartition, guess: i32) -> Option<i32> {
    let partition = ListOffsetsPartition {
        partition_index: id.partition.0,
        current_leader_epoch: guess,
        timestamp: LATEST,
        ..Default::default()
    };
    let (name, partitions) = (id.topic.as_str().to_owned(), vec![partition]);
    let topic = ListOffsetsTopic { name, partitions, ..Default::default() };
    let request = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
    let answer = client.ask(client.any_node(), LIST_OFFSETS, &request).await?;
    let partition = answer.topics.first()?.partitions.first()?;
    match code(partition.error_code) {
        ErrorCode::None => {
            let committed = Offset(partition.offset);
            let mut history = client.history.lock();
            history.count("a leader reported its commit");
            let told = history.partitions.told(id, LeaderEpoch(guess), committed, Offset(0));
            history.check(told);
            Some(guess)
        }
        ErrorCode::FencedLeaderEpoch => Some(guess + 1),
        _ => None,
    }
}
