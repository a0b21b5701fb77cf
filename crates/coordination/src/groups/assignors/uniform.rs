//! `uniform`: all members get equal shares, and keep their partitions where possible.
//!
//! If all members read the same topics, their shares differ by at most one, and only the necessary partitions
//! move. Otherwise shares are as equal as moving single partitions can make them.

use std::collections::BTreeSet;

use super::board::{Board, NOBODY};
use super::task::{AssignmentTask, Partitions};

/// Maximum number of passes over all topics in which single partitions are moved. Each pass makes shares more
/// equal, and few are needed. The bound keeps an unusual group from taking too much of the coordinator's
/// time.
const ROUNDS_MAX: usize = 32;

pub(super) fn assign(task: &AssignmentTask<'_>) -> Vec<Partitions> {
    let mut board = Board::new(task);
    if task.members.is_empty() {
        return Vec::new();
    }
    if task.is_homogeneous() {
        equal_shares(task, &mut board);
    } else {
        balance(task, &mut board);
    }
    board.assignments()
}

/// Returns the slots that a member has and may keep: those that no other member has taken, of topics that it
/// still reads.
fn kept(task: &AssignmentTask<'_>, board: &Board<'_>, member: usize) -> Vec<usize> {
    let member = &task.members[member];
    let mut slots = Vec::new();
    for (id, partitions) in member.current.into_iter().flatten() {
        if member.topics.binary_search(id).is_err() {
            continue;
        }
        let Some(topic) = board.topic(*id) else { continue };
        let own = partitions.iter().filter_map(|partition| board.slot(topic, *partition));
        slots.extend(own.filter(|slot| board.owner[*slot] == NOBODY));
    }
    slots
}

fn equal_shares(task: &AssignmentTask<'_>, board: &mut Board<'_>) {
    if task.members[0].topics.is_empty() {
        return;
    }
    let members = task.members.len();
    let (share, mut more) = (board.slots() / members, board.slots() % members);
    let mut wanted = vec![share; members];
    for (member, wanted) in wanted.iter_mut().enumerate() {
        let kept = kept(task, board, member);
        if kept.len() > share && more > 0 {
            more -= 1;
            *wanted += 1;
        }
        for slot in kept.into_iter().take(*wanted) {
            board.give(slot, member);
        }
    }
    // The remainder goes first to members that need more partitions anyway.
    for hungry in [true, false] {
        for (member, wanted) in wanted.iter_mut().enumerate() {
            if more > 0 && *wanted == share && ((board.load[member] as usize) < share) == hungry {
                more -= 1;
                *wanted += 1;
            }
        }
    }
    let free: Vec<usize> = (0..board.slots()).filter(|slot| board.owner[*slot] == NOBODY).collect();
    let mut free = free.into_iter();
    for (member, wanted) in wanted.iter().enumerate() {
        let missing = wanted - board.load[member] as usize;
        for slot in free.by_ref().take(missing) {
            board.give(slot, member);
        }
    }
}

/// Returns the readers of each topic.
pub(super) fn readers(task: &AssignmentTask<'_>, board: &Board<'_>) -> Vec<Vec<usize>> {
    let mut readers = vec![Vec::new(); board.topic_count()];
    for (number, member) in task.members.iter().enumerate() {
        for topic in member.topics.iter().filter_map(|id| board.topic(*id)) {
            readers[topic].push(number);
        }
    }
    readers
}

/// Assigns when subscriptions differ.
pub(super) fn balance(task: &AssignmentTask<'_>, board: &mut Board<'_>) {
    for member in 0..task.members.len() {
        for slot in kept(task, board, member) {
            board.give(slot, member);
        }
    }
    let readers = readers(task, board);
    // Topics with few readers come first, because their partitions have the least choice.
    let mut order: Vec<usize> = (0..readers.len()).filter(|topic| !readers[*topic].is_empty()).collect();
    order.sort_by_key(|topic| (readers[*topic].len(), *topic));
    for topic in &order {
        let free: Vec<usize> = board.slots_of(*topic).filter(|slot| board.owner[*slot] == NOBODY).collect();
        if free.is_empty() {
            continue;
        }
        let mut least: BTreeSet<_> =
            readers[*topic].iter().map(|reader| (board.load[*reader], *reader)).collect();
        for slot in free {
            let Some((_, member)) = least.pop_first() else { break };
            board.give(slot, member);
            least.insert((board.load[member], member));
        }
    }
    for _ in 0..ROUNDS_MAX {
        let moved = order.iter().map(|topic| level(board, *topic, &readers[*topic])).sum::<usize>();
        if moved == 0 {
            break;
        }
    }
}

/// Moves partitions of a topic from readers with many partitions to readers with few, until no move makes two
/// of them more equal. Returns the number of moves.
fn level(board: &mut Board<'_>, topic: usize, readers: &[usize]) -> usize {
    let (Some(low), Some(high)) = (
        readers.iter().map(|reader| board.load[*reader]).min(),
        readers.iter().map(|reader| board.load[*reader]).max(),
    ) else {
        return 0;
    };
    if high - low < 2 {
        return 0;
    }
    let mut least: BTreeSet<_> = readers.iter().map(|reader| (board.load[*reader], *reader)).collect();
    let mut slots: Vec<Vec<usize>> = Vec::new();
    let mut number_of = std::collections::BTreeMap::new();
    for slot in board.slots_of(topic) {
        let owner = board.owner[slot] as usize;
        let number = *number_of.entry(owner).or_insert_with(|| {
            slots.push(Vec::new());
            slots.len() - 1
        });
        slots[number].push(slot);
    }
    // Members with partitions of this topic. The one with most is last.
    let mut givers: BTreeSet<_> = number_of.keys().map(|owner| (board.load[*owner], *owner)).collect();
    let mut moves = 0;
    while let (Some(&(most, giver)), Some(&(fewest, taker))) = (givers.last(), least.first()) {
        if most < fewest + 2 {
            break;
        }
        let Some(slot) = slots[number_of[&giver]].pop() else {
            givers.remove(&(most, giver));
            continue;
        };
        givers.remove(&(most, giver));
        least.remove(&(most, giver));
        least.remove(&(fewest, taker));
        board.give(slot, taker);
        moves += 1;
        least.insert((board.load[giver], giver));
        least.insert((board.load[taker], taker));
        givers.insert((board.load[giver], giver));
        // A taker may become a giver only in a later pass: it has less than the giver had.
    }
    moves
}
