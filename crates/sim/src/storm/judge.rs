//! Judges whether what clients were told is true.

use std::collections::{BTreeMap, BTreeSet};

use tailrace_node::Caller;
use tailrace_node::partitions::{Bounds, Isolation, PartitionHandle, ReadTerms};
use tailrace_types::{NodeId, Offset, PartitionId, TopicPartition};

use super::clients::{Hiding, Interest};
use super::history::{BatchFate, BatchName, History};
use super::site::{
    DATA_TOPIC, Keeps, OLD_TOPIC, OUT_TOPIC, RETENTION_BYTES, Site, TOPIC, TOPICS, topic_partition,
};
use crate::computer::Computer;
use crate::history::{History as Partitions, Seen};
use crate::tables;

/// Maximum bytes of one read.
const READ_BYTES: u64 = 1 << 20;

/// How many uncommitted bytes a leader may have had besides the committed ones.
const UNCOMMITTED_BYTES: u64 = 1_000;

/// The committed part of a partition.
#[derive(Default)]
struct Log {
    start: Offset,
    bytes: u64,
    batches: Vec<Held>,
}

impl Log {
    fn by_offset(&self) -> BTreeMap<i64, Seen> {
        self.batches.iter().map(|held| (held.base.get(), held.seen.clone())).collect()
    }
}

/// A batch of a log, and whether readers of committed records see it.
struct Held {
    base: Offset,
    seen: Seen,
    is_visible: bool,
}

fn all_partitions() -> impl Iterator<Item = (&'static str, i32)> {
    TOPICS.into_iter().flat_map(|(topic, partitions)| (0..partitions).map(move |number| (topic, number)))
}

/// Reports whether every replica has everything that is committed, and no transaction is open.
pub(super) fn is_whole(computers: &[Computer]) -> bool {
    all_partitions().all(|(topic, number)| is_partition_whole(computers, topic, number))
}

/// Reports whether each replica of the topic of old records has everything that is committed at this moment.
pub(super) fn are_old_copies_complete(computers: &[Computer]) -> bool {
    let Some(all) = all_replicas(computers, OLD_TOPIC, 0) else { return false };
    let committed = all.iter().map(|bounds| bounds.high_watermark).max();
    all.iter().all(|bounds| Some(bounds.end(Isolation::LogEnd)) >= committed)
}

/// Reports whether each share group has accepted all records of the output that it can see. For the group
/// that is deleted and recreated, acceptances count since its last deletion.
pub(super) fn is_all_shared(computers: &[Computer], history: &History) -> bool {
    let log = computers.iter().find_map(|computer| {
        let topic = computer.node()?.topics().by_name(OUT_TOPIC)?;
        let partition = topic.here(0).ok()?;
        computer.machine().enter(|| content(partition, Keeps::All)).ok()
    });
    log.is_some_and(|log| {
        let mut visible = log.batches.iter().filter(|held| held.is_visible);
        visible.all(|held| history.may_have_accepted(held.base.get()))
    })
}

/// Describes what a node has of each partition, for people.
pub(super) fn marks(computer: &Computer) -> String {
    let one = |(topic, number)| {
        let found = computer.node()?.topics().by_name(topic)?;
        Some(match found.here(number) {
            Ok(partition) => {
                let bounds = partition.bounds();
                format!(
                    "{topic}-{number} {}..{}/{}",
                    bounds.log_start, bounds.last_stable_offset, bounds.high_watermark
                )
            }
            Err(why) => format!("{topic}-{number}: {why:?}"),
        })
    };
    all_partitions().filter_map(one).collect::<Vec<_>>().join(", ")
}

fn is_partition_whole(computers: &[Computer], topic: &str, number: i32) -> bool {
    let Some(all) = all_replicas(computers, topic, number) else { return false };
    // Each replica drops old records independently.
    let start = |bounds: &Bounds| (topic != OLD_TOPIC).then_some(bounds.log_start);
    let is_like_first =
        |bounds: &Bounds| start(bounds) == start(&all[0]) && bounds.high_watermark == all[0].high_watermark;
    all.iter().all(|bounds| is_like_first(bounds) && bounds.last_stable_offset == bounds.high_watermark)
}

/// Returns the bounds of all replicas in the metadata. `None` while one of them is not served, or is being
/// moved.
fn all_replicas(computers: &[Computer], topic: &str, number: i32) -> Option<Vec<Bounds>> {
    let mut all = Vec::new();
    for (computer, id) in computers.iter().zip(1..) {
        let topic = computer.node()?.topics().by_name(topic)?;
        let image = topic.image.partition(PartitionId(number))?;
        let is_wanted = image.replicas.iter().any(|replica| replica.node() == NodeId(id));
        let here = topic.here(number).ok();
        if !image.adding.is_empty() || !image.removing.is_empty() || is_wanted != here.is_some() {
            return None;
        }
        all.extend(here.map(|partition| partition.bounds()));
    }
    (!all.is_empty()).then_some(all)
}

/// Compares the logs with what clients were told and saw.
pub(super) fn judge(computers: &[Computer], history: &History) -> Result<(), String> {
    if let Some(anomaly) = history.anomaly() {
        return Err(anomaly.to_owned());
    }
    judge_again(computers, history)?;
    if history.habits().has_users {
        judge_access(computers, history)?;
    }
    let mut logs = BTreeMap::new();
    for (topic, number) in all_partitions() {
        let id = topic_partition(topic, PartitionId(number));
        let log = replicated(computers, history, &id)?;
        logs.insert(id, log);
    }
    compare(TOPIC, &logs[&topic_partition(TOPIC, PartitionId(0))], history)?;
    let visible = |log: &Log| -> Vec<String> {
        let visible = log.batches.iter().filter(|held| held.is_visible && !held.seen.value.is_empty());
        visible.map(|held| held.seen.value.clone()).collect()
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

/// Checks that replicas with the same log know the same of its producers. Compacted topics are left out: a
/// table that is rebuilt from a compacted log lacks what compaction removed.
pub(super) fn judge_tables(site: &Site) -> Result<(), String> {
    for (topic, partition) in
        all_partitions().filter(|(topic, _)| !Keeps::of(topic, site.habits).is_compacted())
    {
        let mut found = Vec::new();
        for (computer, node) in site.computers.iter().zip(1..) {
            let here =
                computer.node().and_then(|node| node.topics().by_name(topic)?.here(partition).ok().cloned());
            let Some(handle) = here else { continue };
            let start = handle.bounds().log_start;
            let looking = async move {
                handle
                    .look(|core| core.as_replica().map(|replica| replica.producers().clone()))
                    .await
                    .flatten()
            };
            let table =
                site.universe.run(computer.machine(), looking).map_err(|stalled| stalled.to_string())?;
            found.extend(table.map(|table| (node, start, table)));
        }
        let Some(from) = found.iter().map(|(_, start, _)| *start).max() else { continue };
        let of_each = found.iter().map(|(node, _, table)| (*node, table));
        tables::judge(of_each, from).map_err(|anomaly| format!("{topic}-{partition}: {anomaly}"))?;
    }
    Ok(())
}

/// Judges and compares the replicas of a partition. Returns the log of the first one.
fn replicated(computers: &[Computer], history: &History, id: &TopicPartition) -> Result<Log, String> {
    let (keeps, mut first) = (history.keeps(id.topic.as_str()), None::<(Log, BTreeMap<i64, Seen>)>);
    for (index, computer) in computers.iter().enumerate() {
        let node = computer.node().ok_or("a node is gone")?;
        let topic = node.topics().by_name(id.topic.as_str()).ok_or("the topic is gone")?;
        let Ok(partition) = topic.here(id.partition.0) else { continue };
        let log = computer.machine().enter(|| content(partition, keeps));
        let log = log.map_err(|error| format!("{id} on node {}: {error}", index + 1))?;
        let held = log.by_offset();
        let fits = match keeps {
            Keeps::All => history.partitions.judge(id, &held, index as u64 + 1),
            Keeps::Committed => history.partitions.judge_compacted(id, &held, index as u64 + 1),
            Keeps::Young | Keeps::Latest => history
                .partitions
                .judge_kept(id, &held, index as u64 + 1)
                .and_then(|()| compare(id.topic.as_str(), &log, history)),
        };
        fits.map_err(|anomaly| format!("{id} on node {}: {anomaly}", index + 1))?;
        match &first {
            None => first = Some((log, held)),
            Some((_, before)) if is_same(before, &held, keeps) => {}
            Some(_) => {
                return Err(format!("{id}: node {} differs from another one", index + 1));
            }
        }
    }
    first.map(|(log, _)| log).ok_or_else(|| format!("{id} is nowhere"))
}

/// Compares two replicas. Each of them drops old records independently.
fn is_same(one: &BTreeMap<i64, Seen>, other: &BTreeMap<i64, Seen>, keeps: Keeps) -> bool {
    if keeps == Keeps::All {
        return one == other;
    }
    let is_as_written = |seen: &&Seen| !seen.is_rewritten();
    let is_same = |(offset, seen): (&i64, &Seen)| {
        one.get(offset).filter(is_as_written).is_none_or(|found| found == seen)
    };
    other.iter().filter(|(_, seen)| is_as_written(seen)).all(is_same)
}

/// Reads everything that is committed.
fn content(partition: &PartitionHandle, keeps: Keeps) -> Result<Log, String> {
    let start = partition.bounds().log_start;
    let (mut log, mut from) = (Log { start, ..Log::default() }, start);
    loop {
        let terms = ReadTerms::new(from, Isolation::TxnCommitted, READ_BYTES);
        let outcome = partition.read(Caller::internal(), &terms).map_err(|error| error.to_string())?;
        let Some(slice) = outcome.slice else { return Ok(log) };
        log.bytes += slice.extent.bytes();
        let mut bytes = vec![0; usize::try_from(slice.extent.bytes()).map_err(|error| error.to_string())?];
        slice.extent.read_at(&mut bytes, 0).map_err(|error| error.to_string())?;
        let aborted = outcome.aborted.iter().map(|one| (one.producer_id.get(), one.first_offset)).collect();
        let mut hiding = Hiding::new(aborted);
        for (base, seen) in Partitions::parse(&bytes, from, keeps.is_compacted())? {
            from = seen.next;
            let is_visible = hiding.shows(&seen);
            log.batches.push(Held { base, seen, is_visible });
        }
    }
}

/// Reports whether all nodes have the same version of users and rules.
pub(super) fn is_access_known(computers: &[Computer]) -> bool {
    let version = |computer: &Computer| Some(computer.node()?.access_version());
    let first = version(&computers[0]);
    first.is_some() && computers.iter().all(|computer| version(computer) == first)
}

/// Checks that all nodes have the same users, rules, tokens and quotas: those that clients were told of.
fn judge_access(computers: &[Computer], history: &History) -> Result<(), String> {
    let mut images = Vec::new();
    for computer in computers {
        images.push(computer.node().ok_or("a node is gone")?.image());
    }
    for (image, node) in images.iter().zip(1..) {
        if image.access() != images[0].access() {
            return Err(format!("node {node} has other users and rules than node 1"));
        }
    }
    history.access.judge(images[0].access())
}

/// Checks that a recreated topic still exists if its deletion was not requested, with every acknowledged
/// record.
fn judge_again(computers: &[Computer], history: &History) -> Result<(), String> {
    for (id, acknowledged) in history.again() {
        let stored = |computer: &Computer| {
            let topic = computer.node()?.topics().by_id(*id)?;
            let partition = topic.here(0).ok()?;
            let log = computer.machine().enter(|| content(partition, Keeps::All)).ok()?;
            Some(log.batches.into_iter().map(|held| held.seen.value).collect::<BTreeSet<_>>())
        };
        let all: Vec<BTreeSet<_>> = computers.iter().filter_map(stored).collect();
        let is_there = |value: &&String| all.iter().any(|values| values.contains(*value));
        let missing: Vec<_> = acknowledged.iter().filter(|value| !is_there(value)).collect();
        if !missing.is_empty() {
            let what = format!("in a recreated topic, {missing:?} were acknowledged and are gone");
            return Err(format!("{what}; {} of {} replicas are there", all.len(), computers.len()));
        }
    }
    Ok(())
}

/// Checks the batches of writers, producers and publishers: each is at the offset where it was acknowledged,
/// and only there.
fn compare(topic: &str, log: &Log, history: &History) -> Result<(), String> {
    let (keeps, fates) = (history.keeps(topic), history.fates_in(topic).collect::<BTreeMap<_, _>>());
    let (mut found, mut last, mut latest) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for Held { base: offset, seen, .. } in &log.batches {
        if keeps == Keeps::Latest && seen.value.is_empty() {
            // The batch only remembers its producer, and its record is gone.
            continue;
        }
        let name = BatchName::parse(seen.value.as_bytes()).ok_or("a record that nobody wrote")?;
        if seen.next != offset.plus(1) {
            return Err(format!("{name} at {offset} has other records after it in its batch"));
        }
        if let Some(before) = found.insert(name, *offset) {
            return Err(format!("{name} is stored twice, at {before} and {offset}"));
        }
        latest.insert(name.key(), *offset);
        let writer = (name.node, name.start, name.writer);
        match fates.get(&name) {
            Some(BatchFate::Stored(_)) => {
                // A batch without an answer may arrive at any time, so only acknowledged ones are checked.
                if last.insert(writer, name.number).is_some_and(|before| before > name.number) {
                    return Err(format!("{name} at {offset} comes after a later one"));
                }
            }
            None => return Err(format!("{name} at {offset} was never offered")),
            Some(BatchFate::Refused) => {
                return Err(format!("{name} at {offset} was refused, and is stored"));
            }
            Some(BatchFate::Unknown) if history.access.is_forbidden(&name) => {
                return Err(format!(
                    "{name} at {offset} is stored, and no node has let its user write since"
                ));
            }
            Some(BatchFate::Unknown) => {}
        }
    }
    for (name, fate) in fates {
        let BatchFate::Stored(offset) = fate else { continue };
        let there = found.get(name);
        let may_be_gone = match keeps {
            Keeps::All | Keeps::Committed => false,
            Keeps::Young => *offset < log.start,
            Keeps::Latest => latest.get(&name.key()).is_some_and(|latest| latest > offset),
        };
        if there != Some(offset) && (there.is_some() || !may_be_gone) {
            return Err(format!("{name} was acknowledged at {offset}, but is at {there:?}"));
        }
    }
    if keeps == Keeps::Young { judge_start(log, history) } else { Ok(()) }
}

/// Checks that the old records that had to be deleted are gone, and no others.
fn judge_start(log: &Log, history: &History) -> Result<(), String> {
    let (asked, deleted) = history.deleted();
    let (start, bytes) = (log.start.get(), log.bytes);
    if start < deleted {
        return Err(format!("it starts at {start}, but was deleted up to {deleted}"));
    }
    // Retention also counted uncommitted records, which are gone now.
    if start > asked && bytes + UNCOMMITTED_BYTES < RETENTION_BYTES {
        return Err(format!("it starts at {start} with {bytes} bytes, and nobody asked for that"));
    }
    Ok(())
}

/// Checks that each processed record is in the output exactly once, in order.
fn judge_copy(input: &[String], output: &[String]) -> Result<(), String> {
    let copied = output.iter().filter_map(|value| Some(value.split_once('@')?.1));
    for (at, value) in copied.enumerate() {
        if input.get(at).map(String::as_str) != Some(value) {
            return Err(format!("output {at} is {value}, but the input there is {:?}", input.get(at)));
        }
    }
    Ok(())
}

/// Checks that each message published after the storm was heard once: by each subscriber, and by one member
/// of each queue group.
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
