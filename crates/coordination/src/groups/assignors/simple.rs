//! `simple`: for share groups, in which several members may read one partition.
//!
//! Every partition has a member and every member a partition, if there is any that it reads. With at least as many
//! partitions as members nobody shares and shares are as equal as `uniform` makes them; with more members than partitions
//! each member has one partition, and partitions have as equally many members as subscriptions allow. Members keep what
//! they have where that is possible.

use std::collections::BTreeSet;

use super::board::{Board, NOBODY};
use super::task::{AssignmentTask, Partitions};
use super::uniform;

pub(super) fn assign(task: &AssignmentTask<'_>) -> Vec<Partitions> {
    let mut board = Board::new(task);
    if task.members.is_empty() || board.slots() == 0 {
        return vec![Partitions::new(); task.members.len()];
    }
    // With more members than partitions it matters who is the first of a partition: one who has it, if any.
    uniform::balance(task, &mut board);
    let mut assignments = board.assignments();
    share(task, &board, &mut assignments);
    assignments
}

/// Gives those who have nothing the partition with the fewest members among those that they read.
fn share(task: &AssignmentTask<'_>, board: &Board<'_>, assignments: &mut [Partitions]) {
    let mut members_of = vec![0_usize; board.slots()];
    for (slot, owner) in board.owner.iter().enumerate() {
        members_of[slot] = usize::from(*owner != NOBODY);
    }
    let idle: Vec<usize> = (0..task.members.len()).filter(|member| assignments[*member].is_empty()).collect();
    if idle.is_empty() {
        return;
    }
    // At most this many members for a partition, where everybody reads everything.
    let fair = task.members.len().div_ceil(board.slots());
    let mut homeless = Vec::new();
    for member in idle {
        match kept(task, board, member).find(|slot| members_of[*slot] < fair) {
            Some(slot) => take(board, slot, &mut members_of, &mut assignments[member]),
            None => homeless.push(member),
        }
    }
    // Members with the same subscription choose from one queue, made when the first of them comes.
    homeless.sort_by(|one, other| {
        task.members[*one].topics.cmp(&task.members[*other].topics).then(one.cmp(other))
    });
    for same in homeless.chunk_by(|one, other| task.members[*one].topics == task.members[*other].topics) {
        let mut queue: BTreeSet<(usize, usize)> = task.members[same[0]]
            .topics
            .iter()
            .filter_map(|id| board.topic(*id))
            .flat_map(|topic| board.slots_of(topic))
            .map(|slot| (members_of[slot], slot))
            .collect();
        for member in same {
            let Some((_, slot)) = queue.pop_first() else { break };
            take(board, slot, &mut members_of, &mut assignments[*member]);
            queue.insert((members_of[slot], slot));
        }
    }
}

fn kept<'a>(
    task: &'a AssignmentTask<'_>,
    board: &'a Board<'_>,
    member: usize,
) -> impl Iterator<Item = usize> + 'a {
    let member = &task.members[member];
    let read = move |id: &_| member.topics.binary_search(id).is_ok();
    let current = member.current.into_iter().flatten().filter(move |(id, _)| read(*id));
    current.flat_map(move |(id, partitions)| {
        let topic = board.topic(*id);
        partitions.iter().filter_map(move |partition| board.slot(topic?, *partition))
    })
}

fn take(board: &Board<'_>, slot: usize, members_of: &mut [usize], assignment: &mut Partitions) {
    members_of[slot] += 1;
    let (topic, partition) = board.partition(slot);
    assignment.entry(topic).or_default().push(partition);
}
