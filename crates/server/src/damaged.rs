//! Damage that a read has met: whether the records may come back, which decides what those who want them are told.

use tailrace_log::{DamagedRange, LogError};
use tailrace_types::Offset;

use crate::partitions::{PartitionHandle, TopicTable};

/// The damaged range that a read from `from` on has failed at; `None` if `error` tells of something else, such as an index, which is built
/// again.
pub(crate) fn met(handle: &PartitionHandle, from: Offset, error: &LogError) -> Option<DamagedRange> {
    let LogError::Damaged { file, position, .. } = error else { return None };
    let range = handle.reader.log().damaged().into_iter().find(|range| range.end_offset > from)?;
    (range.damage.file == *file && range.damage.position == *position).then_some(range)
}

/// The same where no other replica can give the records back: it is the only one, or the others have lost them too. Readers do best to go
/// on behind the range.
pub(crate) fn met_for_good(
    topics: &TopicTable,
    handle: &PartitionHandle,
    from: Offset,
    error: &LogError,
) -> Option<DamagedRange> {
    met(handle, from, error).filter(|range| range.is_lost || is_only_copy(topics, handle))
}

fn is_only_copy(topics: &TopicTable, handle: &PartitionHandle) -> bool {
    let Some(own) = handle.replica() else { return true };
    let topic = topics.by_id(handle.group.topic.0);
    let partition = topic.as_ref().and_then(|topic| topic.image.partition(handle.group.partition));
    partition.is_some_and(|partition| partition.replicas == [own] && !partition.is_reassigned())
}
