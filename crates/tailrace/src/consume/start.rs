//! Where consuming starts and ends, per partition.

use std::collections::BTreeMap;

use tailrace_cli::failure::Failure;

use super::arguments::ConsumeArguments;
use super::range::{From, Range};
use crate::client::{Cluster, OffsetQuery, Topic, list_offsets};

/// Finds the ranges of all chosen partitions.
pub(super) async fn ranges(
    cluster: &mut Cluster,
    topic: &Topic,
    arguments: &ConsumeArguments,
) -> Result<BTreeMap<i32, Range>, Failure> {
    let partitions = topic.choose(&arguments.partition)?;
    let committed = arguments.is_read_committed();
    let earliest = list_offsets(cluster, topic, &partitions, OffsetQuery::Earliest, false).await?;
    let latest = list_offsets(cluster, topic, &partitions, OffsetQuery::Latest, committed).await?;
    let by_time = match arguments.from {
        From::Time(ms) => {
            list_offsets(cluster, topic, &partitions, OffsetQuery::AtTime(ms), committed).await?
        }
        _ => BTreeMap::new(),
    };
    let mut ranges = BTreeMap::new();
    for partition in partitions {
        let of = |offsets: &BTreeMap<i32, i64>| offsets.get(&partition).copied().unwrap_or(0);
        let (earliest, latest) = (of(&earliest), of(&latest));
        let from = match arguments.from {
            From::Beginning => earliest,
            From::End => latest,
            From::Last(count) => latest.saturating_sub(count).max(earliest),
            From::Time(_) => Some(of(&by_time)).filter(|&offset| offset >= 0).unwrap_or(latest),
            From::Offset(offset) => inside(offset, earliest, latest, &topic.name, partition)?,
        };
        ranges.insert(partition, Range { from, until: (!arguments.follow).then_some(latest) });
    }
    Ok(ranges)
}

fn inside(offset: i64, earliest: i64, latest: i64, topic: &str, partition: i32) -> Result<i64, Failure> {
    if (earliest..=latest).contains(&offset) {
        return Ok(offset);
    }
    Err(format!(
        "{topic}-{partition} has no offset {offset}: it holds {earliest} up to, not including, {latest}; choose one of \
         these, or --from beginning"
    )
    .into())
}
