//! Whether what was told is true.

use std::collections::BTreeMap;

use tailrace_node::Caller;
use tailrace_node::partitions::{Isolation, PartitionHandle, ReadTerms};
use tailrace_records::{DecodedBatch, split_batches};
use tailrace_types::Offset;

use super::history::{BatchFate, BatchName, History};
use crate::computer::Computer;

/// Bytes that one read gives at most, and of one batch.
const READ_BYTES: u64 = 1 << 20;

/// True if all replicas have all that is committed.
pub(super) fn is_whole(computers: &[Computer], topic: &str) -> bool {
    let marks: Option<Vec<_>> = computers
        .iter()
        .map(|computer| {
            let topic = computer.node()?.topics().by_name(topic)?;
            let bounds = topic.here(0).ok()?.bounds();
            Some((bounds.log_start, bounds.high_watermark))
        })
        .collect();
    marks.is_some_and(|marks| marks.iter().all(|mark| *mark == marks[0]))
}

/// Compares what lies in the logs with what was told. Returns how often what was told.
pub(super) fn judge(
    computers: &[Computer],
    history: &History,
    topic: &str,
) -> Result<BTreeMap<&'static str, u64>, String> {
    if let Some(anomaly) = history.anomaly() {
        return Err(anomaly.to_owned());
    }
    let mut logs = Vec::new();
    for computer in computers {
        let node = computer.node().ok_or("a node is gone")?;
        let topic = node.topics().by_name(topic).ok_or("the topic is gone")?;
        let partition = topic.here(0).map_err(|error| format!("the partition is gone: {error:?}"))?;
        logs.push(computer.machine().enter(|| content(partition))?);
    }
    let shortest = logs.iter().map(Vec::len).min().unwrap_or(0);
    for (index, log) in logs.iter().enumerate() {
        if log[..shortest] != logs[0][..shortest] {
            return Err(format!("the replicas of 1 and {} differ", index + 1));
        }
    }
    let log = logs.iter().max_by_key(|log| log.len()).ok_or("there are no nodes")?;
    compare(log, history)
}

fn compare(log: &[(Offset, BatchName)], history: &History) -> Result<BTreeMap<&'static str, u64>, String> {
    let mut found = BTreeMap::new();
    let mut last = BTreeMap::new();
    for (offset, name) in log {
        if let Some(before) = found.insert(*name, *offset) {
            return Err(format!("{} is stored twice, at {before} and {offset}", name));
        }
        let writer = (name.node, name.start, name.writer);
        match history.fates().get(name) {
            Some(BatchFate::Stored(_)) => {
                // What was given up may come at any time.
                if last.insert(writer, name.number).is_some_and(|before| before > name.number) {
                    return Err(format!("{} at {offset} comes behind a later one", name));
                }
            }
            None => return Err(format!("{} at {offset} was never offered", name)),
            Some(BatchFate::Refused) => {
                return Err(format!("{} at {offset} was refused, and is stored", name));
            }
            Some(BatchFate::Unknown) => {}
        }
    }
    let mut counts = BTreeMap::new();
    for (name, fate) in history.fates() {
        let there = found.get(name);
        let label = match fate {
            BatchFate::Stored(offset) if there != Some(offset) => {
                return Err(format!("{} was acknowledged at {offset}, and lies at {there:?}", name));
            }
            BatchFate::Stored(_) => "a batch was acknowledged",
            BatchFate::Unknown => "nothing was known of a batch",
            BatchFate::Refused => "a batch was refused",
        };
        *counts.entry(label).or_default() += 1;
    }
    Ok(counts)
}

/// All that is committed.
fn content(partition: &PartitionHandle) -> Result<Vec<(Offset, BatchName)>, String> {
    let (mut found, mut from) = (Vec::new(), partition.bounds().log_start);
    loop {
        let terms = ReadTerms::new(from, Isolation::HighWatermark, READ_BYTES);
        let outcome = partition.read(Caller::internal(), &terms).map_err(|error| error.to_string())?;
        let Some(slice) = outcome.slice else { return Ok(found) };
        let mut bytes = vec![0; usize::try_from(slice.extent.bytes()).map_err(|error| error.to_string())?];
        slice.extent.read_at(&mut bytes, 0).map_err(|error| error.to_string())?;
        for batch in split_batches(&bytes) {
            let (_, batch) = batch.map_err(|error| error.to_string())?;
            let batch = DecodedBatch::new(batch, 1 << 20).map_err(|error| error.to_string())?;
            let mut offset = batch.header().base_offset;
            for record in batch.records() {
                let record = record.map_err(|error| error.to_string())?;
                if !batch.header().attributes.is_control() {
                    let name = record.value.and_then(BatchName::parse).ok_or("a record that nobody wrote")?;
                    found.push((offset, name));
                }
                offset = offset.plus(1);
            }
            from = offset;
        }
    }
}
