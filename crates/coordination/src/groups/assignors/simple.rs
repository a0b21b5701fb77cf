//! `simple`: for share groups, in which several members may read one partition.
//!
//! Every partition gets a member, and every member gets a partition if it reads any. If there are at least as
//! many partitions as members, no partition is shared, and the shares are as equal as `uniform` makes them.
//! If there are more members than partitions, each member has one partition, and the numbers of members per
//! partition are as equal as the subscriptions allow. Members keep their partitions where possible.

use std::collections::BTreeSet;

use super::board::{Board, NOBODY};
use super::task::{AssignmentTask, Partitions};
use super::uniform;

pub(super) fn assign(task: &AssignmentTask<'_>) -> Vec<Partitions> {
    let mut board = Board::new(task);
    if task.members.is_empty() || board.slots() == 0 {
        return vec![Partitions::new(); task.members.len()];
    }
    // If there are more members than partitions, each partition's first member should be one that already has
    // it, if any.
    uniform::balance(task, &mut board);
    let mut assignments = board.assignments();
    share(task, &board, &mut assignments);
    assignments
}

/// Maximum number of passes over the members that share. Each pass but the last makes the partitions more
/// equal.
const ROUNDS_MAX: usize = 16;

/// Gives every member without partitions one to share. At the end, no single subscription could spread its
/// members more equally. Members keep their shared partition where possible, so nothing moves if nothing has
/// changed.
fn share(task: &AssignmentTask<'_>, board: &Board<'_>, assignments: &mut [Partitions]) {
    let mut idle: Vec<usize> =
        (0..task.members.len()).filter(|member| assignments[*member].is_empty()).collect();
    if idle.is_empty() {
        return;
    }
    let topics = |member: usize| &task.members[member].topics;
    idle.sort_by(|one, other| topics(*one).cmp(topics(*other)).then(one.cmp(other)));
    let mut members_of: Vec<usize> = board.owner.iter().map(|owner| usize::from(*owner != NOBODY)).collect();
    let mut placed: Vec<Option<usize>> =
        idle.iter().map(|member| kept(task, board, *member).next()).collect();
    placed.iter().flatten().for_each(|slot| members_of[*slot] += 1);
    for _ in 0..ROUNDS_MAX {
        let (mut first, mut has_changed) = (0, false);
        for same in idle.chunk_by(|one, other| topics(*one) == topics(*other)) {
            let slots: Vec<usize> = topics(same[0])
                .iter()
                .filter_map(|id| board.topic(*id))
                .flat_map(|topic| board.slots_of(topic))
                .collect();
            let places = &mut placed[first..first + same.len()];
            has_changed |= !slots.is_empty() && spread(&slots, places, &mut members_of);
            first += same.len();
        }
        if !has_changed {
            break;
        }
    }
    for (member, slot) in idle.iter().zip(placed) {
        if let Some(slot) = slot {
            let (topic, partition) = board.partition(slot);
            assignments[*member].entry(topic).or_default().push(partition);
        }
    }
}

/// Places members with the same subscription, which may have `slots`, as equally as the other members allow.
/// Returns true if any of them moved.
fn spread(slots: &[usize], places: &mut [Option<usize>], members_of: &mut [usize]) -> bool {
    let before = places.to_vec();
    before.iter().flatten().for_each(|slot| members_of[*slot] -= 1);
    let room_below = |level: usize, members_of: &[usize]| -> usize {
        slots.iter().map(|slot| level.saturating_sub(members_of[*slot])).sum()
    };
    // The lowest level up to which all of them fit, and the number of partitions that reach it.
    let least = slots.iter().map(|slot| members_of[*slot]).min().unwrap_or(0);
    let levels: Vec<usize> = (least..=least + places.len()).collect();
    let level = levels[levels.partition_point(|level| room_below(*level, members_of) < places.len())];
    let mut full = places.len() - room_below(level.saturating_sub(1), members_of);
    let mut homeless: Vec<usize> = Vec::new();
    for (number, place) in places.iter_mut().enumerate() {
        match place {
            Some(slot) if members_of[*slot] + 1 < level => members_of[*slot] += 1,
            _ => homeless.push(number),
        }
    }
    homeless.retain(|number| match places[*number] {
        Some(slot) if members_of[slot] < level && full > 0 => {
            members_of[slot] += 1;
            full -= 1;
            false
        }
        _ => true,
    });
    let mut queue: BTreeSet<(usize, usize)> = slots.iter().map(|slot| (members_of[*slot], *slot)).collect();
    for number in homeless {
        let Some((_, slot)) = queue.pop_first() else { break };
        members_of[slot] += 1;
        places[number] = Some(slot);
        queue.insert((members_of[slot], slot));
    }
    before != *places
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
