//! Changes the members of a group to the wanted ones, one step at a time.

use tailrace_types::ReplicaId;

use super::quorum::ControllerMembers;

/// The next step by which the leader of a group changes its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Adds a member that receives the log and does not vote.
    AddLearner(ReplicaId),
    /// Lets a learner vote.
    Promote(ReplicaId),
    /// Transfers leadership. The next leader continues.
    TransferTo(ReplicaId),
    /// Removes a member.
    Remove(ReplicaId),
    /// No steps are left.
    Finished,
}

/// Returns the next step that brings a partition's members to exactly `target`. `None` while it has to wait
/// for a replica to catch up. The leader asks again when a step is done, and periodically.
///
/// * New replicas join as learners and are promoted to voters when they have caught up.
/// * Voters are exchanged one by one. There is never more than one voter above the wanted number, or above
///   the initial number.
/// * An unwanted voter is removed when another one has taken its place. One that is behind, or dead, is
///   removed first if that makes the majority smaller, that is, if the number of voters is even. If the
///   number is odd, removing it would not help: should it come back, it would be missing when another voter
///   is lost.
/// * At least a majority of the wanted number of voters remains, and a majority of the remaining ones has
///   caught up.
/// * The leader never removes itself. It transfers leadership when it is the last to go.
///
/// `caught_up` reports whether a member responds and has nearly all of the log.
pub fn next_member_change(
    target: &[ReplicaId],
    voters: &[ReplicaId],
    learners: &[ReplicaId],
    leader: ReplicaId,
    caught_up: impl Fn(ReplicaId) -> bool,
) -> Option<Step> {
    next(&WantedMembers { voters: target, learners: &[] }, voters, learners, leader, caught_up)
}

/// Works as [`next_member_change`], for group 0, which has permanent learners. A voter that is to become a
/// learner is removed and added again.
pub fn next_controller_change(
    wanted: &ControllerMembers,
    voters: &[ReplicaId],
    learners: &[ReplicaId],
    leader: ReplicaId,
    caught_up: impl Fn(ReplicaId) -> bool,
) -> Option<Step> {
    let wanted = WantedMembers { voters: &wanted.voters, learners: &wanted.learners };
    next(&wanted, voters, learners, leader, caught_up)
}

struct WantedMembers<'a> {
    voters: &'a [ReplicaId],
    learners: &'a [ReplicaId],
}

fn next(
    wanted: &WantedMembers<'_>,
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
    if let Some(behind) = behind.filter(|_| voters.len().is_multiple_of(2)) {
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
    match behind.or(leaves) {
        Some(leaves) => Some(Step::Remove(leaves)),
        None if target.contains(&leader) => None,
        None => {
            let heir = target.iter().copied().find(|replica| voters.contains(replica) && caught_up(*replica));
            heir.map(Step::TransferTo)
        }
    }
}

/// Reports whether the group still works without this voter.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use proptest::sample::subsequence;

    use super::*;

    /// A group that carries out steps as long as a majority of it is alive.
    #[derive(Clone, Debug)]
    struct Group {
        voters: Vec<ReplicaId>,
        learners: Vec<ReplicaId>,
        leader: ReplicaId,
        dead: Vec<ReplicaId>,
    }

    impl Group {
        fn lives(&self, replica: ReplicaId) -> bool {
            !self.dead.contains(&replica)
        }

        fn has_majority(&self) -> bool {
            let living = self.voters.iter().filter(|replica| self.lives(**replica)).count();
            living > self.voters.len() / 2
        }

        fn step(&mut self, step: Step) {
            match step {
                Step::AddLearner(replica) => self.learners.push(replica),
                Step::Promote(replica) => {
                    self.learners.retain(|other| *other != replica);
                    self.voters.push(replica);
                }
                Step::TransferTo(replica) => self.leader = replica,
                Step::Remove(replica) => {
                    self.learners.retain(|other| *other != replica);
                    self.voters.retain(|other| *other != replica);
                }
                Step::Finished => {}
            }
        }

        fn check(&self, step: Step, wanted: &ControllerMembers) {
            match step {
                Step::AddLearner(replica) => {
                    assert!(!self.voters.contains(&replica) && !self.learners.contains(&replica));
                }
                Step::Promote(replica) => {
                    assert!(self.learners.contains(&replica) && self.lives(replica));
                    assert!(wanted.voters.contains(&replica));
                }
                Step::TransferTo(replica) => {
                    assert!(replica != self.leader && !wanted.voters.contains(&self.leader));
                    assert!(self.voters.contains(&replica) && self.lives(replica));
                    assert!(wanted.voters.contains(&replica));
                }
                Step::Remove(replica) => {
                    assert_ne!(replica, self.leader);
                    assert!(!wanted.voters.contains(&replica));
                    assert!(self.voters.contains(&replica) || self.learners.contains(&replica));
                }
                Step::Finished => {}
            }
        }
    }

    fn set(replicas: &[ReplicaId]) -> BTreeSet<ReplicaId> {
        replicas.iter().copied().collect()
    }

    /// Takes steps until there are none left. Returns them.
    fn run(group: &mut Group, wanted: &ControllerMembers) -> Vec<Step> {
        let most = group.voters.len().max(wanted.voters.len() + 1);
        let mut steps = Vec::new();
        loop {
            let before = group.clone();
            let (voters, learners, leader) = (&before.voters, &before.learners, before.leader);
            let caught_up = |replica| before.lives(replica);
            let step = next_controller_change(wanted, voters, learners, leader, caught_up);
            if wanted.learners.is_empty() {
                assert_eq!(step, next_member_change(&wanted.voters, voters, learners, leader, caught_up));
            }
            let Some(step) = step else { return steps };
            group.check(step, wanted);
            group.step(step);
            steps.push(step);
            assert!(group.voters.len() <= most, "{steps:?}");
            assert!(group.has_majority(), "{steps:?}");
            let voter_left = before.voters.len() > group.voters.len();
            assert!(!voter_left || group.voters.len() > wanted.voters.len() / 2, "{steps:?}");
            assert!(steps.len() < 60, "{steps:?}");
            if step == Step::Finished {
                return steps;
            }
        }
    }

    fn ids() -> Vec<ReplicaId> {
        (1..9).map(ReplicaId).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn members_become_those_wanted_without_a_step_that_stops_the_group(
            voters in subsequence(ids(), 1..6),
            learners in subsequence(ids(), 0..4),
            target in subsequence(ids(), 1..6).prop_shuffle(),
            follow in subsequence(ids(), 0..4),
            dead in subsequence(ids(), 0..3),
            leader in any::<prop::sample::Index>(),
        ) {
            let learners = learners.into_iter().filter(|replica| !voters.contains(replica)).collect();
            let leader = *leader.get(&voters);
            let dead: Vec<_> = dead.into_iter().filter(|replica| *replica != leader).collect();
            let follow = follow.into_iter().filter(|replica| !target.contains(replica)).collect();
            let wanted = ControllerMembers { voters: target, learners: follow };
            let mut group = Group { voters, learners, leader, dead };
            prop_assume!(group.has_majority());
            let steps = run(&mut group, &wanted);
            if wanted.voters.iter().all(|replica| group.lives(*replica)) {
                prop_assert_eq!(steps.last(), Some(&Step::Finished));
            }
            if steps.last() == Some(&Step::Finished) {
                prop_assert_eq!(set(&group.voters), set(&wanted.voters));
                prop_assert_eq!(set(&group.learners), set(&wanted.learners));
            }
        }
    }

    fn replicas(numbers: &[u64]) -> Vec<ReplicaId> {
        numbers.iter().copied().map(ReplicaId).collect()
    }

    fn steps(voters: &[u64], leader: u64, dead: &[u64], target: &[u64]) -> Vec<Step> {
        let (voters, leader, dead) = (replicas(voters), ReplicaId(leader), replicas(dead));
        let wanted = ControllerMembers { voters: replicas(target), learners: Vec::new() };
        run(&mut Group { voters, learners: Vec::new(), leader, dead }, &wanted)
    }

    #[test]
    fn known_paths() {
        use Step::{AddLearner, Finished, Promote, Remove, TransferTo};
        let id = ReplicaId;
        // A single node grows to three.
        let grown = [AddLearner(id(2)), AddLearner(id(3)), Promote(id(2)), Promote(id(3)), Finished];
        assert_eq!(steps(&[1], 1, &[], &[1, 2, 3]), grown);
        // A dead member is removed when its substitute votes. Until then two of three are a majority, and it
        // may come back.
        let mended = [AddLearner(id(4)), Promote(id(4)), Remove(id(3)), Finished];
        assert_eq!(steps(&[1, 2, 3], 1, &[3], &[1, 2, 4]), mended);
        // One of four is removed first: two live voters are a majority of three, but not of four.
        let mended = [AddLearner(id(5)), Remove(id(4)), Promote(id(5)), Finished];
        assert_eq!(steps(&[1, 2, 3, 4], 1, &[4], &[1, 2, 3, 5]), mended);
        // The only replica moves to another node.
        let moved = [AddLearner(id(2)), Promote(id(2)), TransferTo(id(2)), Remove(id(1)), Finished];
        assert_eq!(steps(&[1], 1, &[], &[2]), moved);
        // Without its substitute, no voter is removed.
        assert_eq!(steps(&[1, 2, 3], 1, &[4], &[1, 2, 4]), [AddLearner(id(4))]);
        // Three become one.
        assert_eq!(steps(&[1, 2, 3], 2, &[], &[2]), [Remove(id(1)), Remove(id(3)), Finished]);
        assert_eq!(next_member_change(&[], &[id(1)], &[], id(1), |_| true), None);
    }
}
