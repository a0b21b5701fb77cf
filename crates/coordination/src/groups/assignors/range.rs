//! `range`: each topic is divided into as many ranges as it has readers, of nearly equal size, in the
//! readers' order.
//!
//! Readers of the same topics get the same range of each. So partitions with the same number go to the same
//! member, which joins need. Members with an instance id are ordered by it, so that a static member keeps its
//! ranges when it comes back.

use super::board::Board;
use super::task::{AssignmentTask, Partitions};

pub(super) fn assign(task: &AssignmentTask<'_>) -> Vec<Partitions> {
    let mut board = Board::new(task);
    let mut order: Vec<usize> = (0..task.members.len()).collect();
    order.sort_by_key(|member| {
        let member = &task.members[*member];
        (member.instance.unwrap_or(member.id), member.id)
    });
    let mut readers = vec![Vec::new(); board.topic_count()];
    for member in order {
        for topic in task.members[member].topics.iter().filter_map(|id| board.topic(*id)) {
            readers[topic].push(member);
        }
    }
    for (topic, readers) in readers.iter().enumerate().filter(|(_, readers)| !readers.is_empty()) {
        let mut slots = board.slots_of(topic);
        let (each, more) = (slots.len() / readers.len(), slots.len() % readers.len());
        for (position, member) in readers.iter().enumerate() {
            for slot in slots.by_ref().take(each + usize::from(position < more)) {
                board.give(slot, *member);
            }
        }
    }
    board.assignments()
}
