//! How the members of a group become those that are wanted, one step at a time.

use tailrace_types::ReplicaId;

use super::quorum::ControllerMembers;

/// What the leader of a group does next to its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Adds a member that receives the log and does not vote.
    AddLearner(ReplicaId),
    /// Lets a learner vote.
    Promote(ReplicaId),
    /// Hands leadership over; the next leader goes on.
    TransferTo(ReplicaId),
    /// Takes a member out.
    Remove(ReplicaId),
    /// Nothing is left to do.
    Finished,
}

/// The next step that brings a partition's members to exactly `target`; `None` while it has to wait for a replica to catch
/// up. The leader asks again when a step is done, and from time to time.
///
/// * New replicas come in as learners and vote once they have caught up.
/// * Voters are exchanged one by one: there is never more than one above the number that is wanted, or that there was.
/// * A voter that is not wanted goes when another one has taken its place. One that is behind, or gone, goes first: it
///   holds up every majority.
/// * At least a majority of the wanted number of voters is left, and a majority of those left has caught up.
/// * The leader never takes itself out. It hands over when it is the last to go.
///
/// `caught_up` says whether a member answers and has nearly all of the log.
pub fn next_member_change(
    target: &[ReplicaId],
    voters: &[ReplicaId],
    learners: &[ReplicaId],
    leader: ReplicaId,
    caught_up: impl Fn(ReplicaId) -> bool,
) -> Option<Step> {
    next(&Wanted { voters: target, learners: &[] }, voters, learners, leader, caught_up)
}

/// As [`next_member_change`], for group 0, in which some only follow. A voter that is to follow from now on is taken out
/// and comes back.
pub fn next_controller_change(
    wanted: &ControllerMembers,
    voters: &[ReplicaId],
    learners: &[ReplicaId],
    leader: ReplicaId,
    caught_up: impl Fn(ReplicaId) -> bool,
) -> Option<Step> {
    let wanted = Wanted { voters: &wanted.voters, learners: &wanted.learners };
    next(&wanted, voters, learners, leader, caught_up)
}

struct Wanted<'a> {
    voters: &'a [ReplicaId],
    learners: &'a [ReplicaId],
}

fn next(
    wanted: &Wanted<'_>,
    voters: &[ReplicaId],
    learners: &[ReplicaId],
    leader: ReplicaId,
    caught_up: impl Fn(ReplicaId) -> bool,
) -> Option<Step> {
    let target = wanted.voters;
    if target.is_empty() {
        return None;
    }
    let caught_up = |replica: ReplicaId| replica == leader || caught_up(replica);
    let all = || target.iter().chain(wanted.learners).copied();
    if let Some(stray) = learners.iter().copied().find(|replica| !all().any(|known| known == *replica)) {
        return Some(Step::Remove(stray));
    }
    if let Some(missing) = all().find(|replica| !voters.contains(replica) && !learners.contains(replica)) {
        return Some(Step::AddLearner(missing));
    }
    let surplus = || voters.iter().copied().filter(|replica| !target.contains(replica));
    let behind =
        surplus().find(|replica| !caught_up(*replica) && may_go(target, voters, *replica, &caught_up));
    if let Some(behind) = behind {
        return Some(Step::Remove(behind));
    }
    let coming = || target.iter().copied().filter(|replica| !voters.contains(replica));
    if voters.len() <= target.len()
        && let Some(ready) = coming().find(|replica| caught_up(*replica))
    {
        return Some(Step::Promote(ready));
    }
    if surplus().next().is_none() {
        return coming().next().is_none().then_some(Step::Finished);
    }
    if voters.len() <= target.len() && coming().next().is_some() {
        return None;
    }
    let leaves = surplus().find(|replica| *replica != leader && may_go(target, voters, *replica, &caught_up));
    match leaves {
        Some(leaves) => Some(Step::Remove(leaves)),
        None if target.contains(&leader) => None,
        None => {
            let heir = target.iter().copied().find(|replica| voters.contains(replica) && caught_up(*replica));
            heir.map(Step::TransferTo)
        }
    }
}

/// True if the group still works without this voter.
fn may_go(
    target: &[ReplicaId],
    voters: &[ReplicaId],
    leaves: ReplicaId,
    caught_up: &impl Fn(ReplicaId) -> bool,
) -> bool {
    let left = voters.len() - 1;
    let ready = voters.iter().filter(|replica| **replica != leaves && caught_up(**replica)).count();
    left > target.len() / 2 && ready > left / 2
}
