//! Whether what was told is true.

use std::collections::{BTreeMap, BTreeSet};

use tailrace_node::Caller;
use tailrace_node::partitions::{Isolation, PartitionHandle, ReadTerms};
use tailrace_types::{Offset, PartitionId, TopicPartition};

use super::clients::{Hiding, Interest};
use super::history::{BatchFate, BatchName, History};
use super::site::{DATA_TOPIC, OUT_TOPIC, TOPIC, TOPICS, replicas_of, topic_partition};
use crate::computer::Computer;
use crate::history::{History as Partitions, Seen};

/// Bytes that one read gives at most.
const READ_BYTES: u64 = 1 << 20;

/// A batch of a log, and whether readers of committed records see it.
struct Held {
    base: Offset,
    seen: Seen,
    is_visible: bool,
}

fn all_partitions() -> impl Iterator<Item = (&'static str, i32)> {
    TOPICS.into_iter().flat_map(|(topic, partitions)| (0..partitions).map(move |number| (topic, number)))
}

/// True if all replicas have all that is committed, and no transaction is open.
pub(super) fn is_whole(computers: &[Computer]) -> bool {
    all_partitions().all(|(topic, number)| is_partition_whole(computers, topic, number))
}

/// True if the share group has accepted all records of the output that it can see.
pub(super) fn is_all_shared(computers: &[Computer], history: &History) -> bool {
    let log = computers.iter().find_map(|computer| {
        let topic = computer.node()?.topics().by_name(OUT_TOPIC)?;
        let partition = topic.here(0).ok()?;
        computer.machine().enter(|| content(partition)).ok()
    });
    log.is_some_and(|log| {
        let mut visible = log.iter().filter(|held| held.is_visible);
        visible.all(|held| history.may_have_accepted(held.base.get()))
    })
}

/// What a node has of each partition, for people.
pub(super) fn marks(computer: &Computer) -> String {
    let one = |(topic, number)| {
        let found = computer.node()?.topics().by_name(topic)?;
        Some(match found.here(number) {
            Ok(partition) => {
                let bounds = partition.bounds();
                format!("{topic}-{number} to {}/{}", bounds.last_stable_offset, bounds.high_watermark)
            }
            Err(why) => format!("{topic}-{number}: {why:?}"),
        })
    };
    all_partitions().filter_map(one).collect::<Vec<_>>().join(", ")
}

fn is_partition_whole(computers: &[Computer], topic: &str, number: i32) -> bool {
    let mut marks = Vec::new();
    for computer in computers {
        let found = computer.node().and_then(|node| node.topics().by_name(topic));
        let Some(found) = found else { return false };
        if let Ok(partition) = found.here(number) {
            let bounds = partition.bounds();
            marks.push((bounds.log_start, bounds.last_stable_offset, bounds.high_watermark));
        }
    }
    let is_decided = |(_, last_stable, high): &(Offset, Offset, Offset)| last_stable == high;
    marks.len() == replicas_of(topic, computers.len())
        && marks.iter().all(|mark| *mark == marks[0] && is_decided(mark))
}

/// Compares what lies in the logs with what was told and seen.
pub(super) fn judge(computers: &[Computer], history: &History) -> Result<(), String> {
    if let Some(anomaly) = history.anomaly() {
        return Err(anomaly.to_owned());
    }
    let mut logs = BTreeMap::new();
    for (topic, number) in all_partitions() {
        let id = topic_partition(topic, PartitionId(number));
        let log = replicated(computers, history, &id)?;
        logs.insert(id, log);
    }
    compare(&logs[&topic_partition(TOPIC, PartitionId(0))], history)?;
    let visible = |log: &Vec<Held>| -> Vec<String> {
        log.iter().filter(|held| held.is_visible).map(|held| held.seen.value.clone()).collect()
    };
    let visible: BTreeMap<&TopicPartition, Vec<String>> =
        logs.iter().map(|(id, log)| (id, visible(log))).collect();
    let all: BTreeSet<_> = visible
        .iter()
        .flat_map(|(id, values)| values.iter().map(|value| ((*id).clone(), value.clone())))
        .collect();
    history.partitions.judge_transactions(&all)?;
    let of = |topic| &visible[&topic_partition(topic, PartitionId(0))][..];
    judge_copy(of(DATA_TOPIC), of(OUT_TOPIC))?;
    judge_heard(history)
}

/// What all replicas of a partition hold.
fn replicated(computers: &[Computer], history: &History, id: &TopicPartition) -> Result<Vec<Held>, String> {
    let mut first: Option<(Vec<Held>, BTreeMap<i64, Seen>)> = None;
    for (index, computer) in computers.iter().enumerate() {
        let node = computer.node().ok_or("a node is gone")?;
        let topic = node.topics().by_name(id.topic.as_str()).ok_or("the topic is gone")?;
        let Ok(partition) = topic.here(id.partition.0) else { continue };
        let log = computer.machine().enter(|| content(partition));
        let log = log.map_err(|error| format!("{id} on node {}: {error}", index + 1))?;
        let held: BTreeMap<i64, Seen> = log.iter().map(|held| (held.base.get(), held.seen.clone())).collect();
        history.partitions.judge(id, &held, index as u64 + 1)?;
        match &first {
            None => first = Some((log, held)),
            Some((_, before)) if *before == held => {}
            Some(_) => {
                return Err(format!("{id}: node {} holds something else than another one", index + 1));
            }
        }
    }
    first.map(|(log, _)| log).ok_or_else(|| format!("{id} is nowhere"))
}

/// All that is committed.
fn content(partition: &PartitionHandle) -> Result<Vec<Held>, String> {
    let (mut found, mut from) = (Vec::new(), partition.bounds().log_start);
    loop {
        let terms = ReadTerms::new(from, Isolation::TxnCommitted, READ_BYTES);
        let outcome = partition.read(Caller::internal(), &terms).map_err(|error| error.to_string())?;
        let Some(slice) = outcome.slice else { return Ok(found) };
        let mut bytes = vec![0; usize::try_from(slice.extent.bytes()).map_err(|error| error.to_string())?];
        slice.extent.read_at(&mut bytes, 0).map_err(|error| error.to_string())?;
        let aborted = outcome.aborted.iter().map(|one| (one.producer_id.get(), one.first_offset)).collect();
        let mut hiding = Hiding::new(aborted);
        for (base, seen) in Partitions::parse(&bytes, from)? {
            from = seen.next;
            let is_visible = hiding.shows(&seen);
            found.push(Held { base, seen, is_visible });
        }
    }
}

/// What was offered at a node's face, by producers and by publishers: each batch lies where it was acknowledged, and only there.
fn compare(log: &[Held], history: &History) -> Result<(), String> {
    let (mut found, mut last) = (BTreeMap::new(), BTreeMap::new());
    for Held { base: offset, seen, .. } in log {
        let name = BatchName::parse(seen.value.as_bytes()).ok_or("a record that nobody wrote")?;
        if seen.next != offset.plus(1) {
            return Err(format!("{name} at {offset} has other records behind it in its batch"));
        }
        if let Some(before) = found.insert(name, *offset) {
            return Err(format!("{name} is stored twice, at {before} and {offset}"));
        }
        let writer = (name.node, name.start, name.writer);
        match history.fates().get(&name) {
            Some(BatchFate::Stored(_)) => {
                // What was given up may come at any time.
                if last.insert(writer, name.number).is_some_and(|before| before > name.number) {
                    return Err(format!("{name} at {offset} comes behind a later one"));
                }
            }
            None => return Err(format!("{name} at {offset} was never offered")),
            Some(BatchFate::Refused) => {
                return Err(format!("{name} at {offset} was refused, and is stored"));
            }
            Some(BatchFate::Unknown) => {}
        }
    }
    for (name, fate) in history.fates() {
        let there = found.get(name);
        if let BatchFate::Stored(offset) = fate
            && there != Some(offset)
        {
            return Err(format!("{name} was acknowledged at {offset}, and lies at {there:?}"));
        }
    }
    Ok(())
}

/// What was processed is in the output exactly once, in order.
fn judge_copy(input: &[String], output: &[String]) -> Result<(), String> {
    let copied = output.iter().filter_map(|value| Some(value.split_once('@')?.1));
    for (at, value) in copied.enumerate() {
        if input.get(at).map(String::as_str) != Some(value) {
            return Err(format!("output {at} is {value}, the input there is {:?}", input.get(at)));
        }
    }
    Ok(())
}

/// What was published after the storm was heard once: by each subscriber, and by one of each queue group.
fn judge_heard(history: &History) -> Result<(), String> {
    for (who, value) in history.published_at_the_end() {
        let times = history.heard_by(who).and_then(|heard| heard.get(value)).copied().unwrap_or(0);
        if times != 1 {
            return Err(format!("{who} heard {value} {times} times"));
        }
    }
    let queue = history.heard_by(Interest::Queue.name());
    match queue.into_iter().flatten().find(|(_, times)| **times > 1) {
        Some((value, times)) => Err(format!("a queue group heard {value} {times} times")),
        None => Ok(()),
    }
}
