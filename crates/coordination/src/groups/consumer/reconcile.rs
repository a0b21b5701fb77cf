//! Moves a member from its current assignment to its target. No two members ever have the same partition.
//!
//! A member is in one of three states. It is stable. Or it has to give partitions back before it can go on.
//! Or it has all partitions that are free, and waits for those that other members have not given back yet. A
//! member gets a new epoch only when it has given back all that it had to.

use std::collections::BTreeMap;

use tailrace_types::TopicId;

use crate::groups::assignors::Partitions;

/// A member's partitions, each with the epoch since which it has it.
pub(crate) type Held = BTreeMap<TopicId, BTreeMap<i32, i32>>;

/// The state of a member's reconciliation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MemberState {
    /// It has its target assignment of its epoch.
    #[default]
    Stable,
    /// It has to give partitions back.
    Unrevoked,
    /// It waits for partitions that other members have to give back.
    Unreleased,
}

impl MemberState {
    /// Returns the number in records.
    pub(crate) const fn number(self) -> i8 {
        match self {
            Self::Stable => 1,
            Self::Unrevoked => 2,
            Self::Unreleased => 3,
        }
    }

    /// Returns the state with this number. An unknown number is from a newer version: such a member waits for
    /// all of its partitions.
    pub(crate) const fn of_number(number: i8) -> Self {
        match number {
            1 => Self::Stable,
            2 => Self::Unrevoked,
            _ => Self::Unreleased,
        }
    }
}

/// A member's current assignment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Its epoch. -2 for a static member that will come back.
    pub(crate) epoch: i32,
    /// The previous epoch, which the member may still send if it missed the reply with the new one.
    pub(crate) previous_epoch: i32,
    /// The state of its reconciliation.
    pub(crate) state: MemberState,
    /// The partitions that it may use.
    pub(crate) assigned: Held,
    /// The partitions that it has to give back.
    pub(crate) revoking: Held,
}

/// The partitions that the member reports to own, by topic. `None` if it sent none.
pub(crate) type Reported = Option<Vec<(TopicId, Vec<i32>)>>;

/// The goal of a member's reconciliation.
pub(crate) struct Goal<'a> {
    /// The epoch of the target assignment.
    pub(crate) epoch: i32,
    /// The member's target assignment.
    pub(crate) target: &'a Partitions,
    /// Reports whether the member reads a topic.
    pub(crate) reads: &'a dyn Fn(TopicId) -> bool,
    /// True if its subscription has just changed: partitions that it no longer reads are taken from it at
    /// once.
    pub(crate) subscription_changed: bool,
    /// Reports whether no other member has a partition.
    pub(crate) is_free: &'a dyn Fn(TopicId, i32) -> bool,
    /// The partitions that it reports to own.
    pub(crate) reported: &'a Reported,
}

impl Goal<'_> {
    fn still_owns(&self, revoking: &Held) -> bool {
        let Some(reported) = self.reported else { return true };
        reported.iter().any(|(topic, partitions)| {
            let revoked = revoking.get(topic);
            revoked.is_some_and(|revoked| partitions.iter().any(|partition| revoked.contains_key(partition)))
        })
    }
}

impl Standing {
    /// Returns the next step towards the goal. It equals `self` if no step can be taken now.
    pub(crate) fn next(&self, goal: &Goal<'_>) -> Self {
        let waits = match self.state {
            MemberState::Stable => self.epoch == goal.epoch,
            MemberState::Unrevoked => goal.still_owns(&self.revoking),
            MemberState::Unreleased => false,
        };
        match (waits, goal.subscription_changed) {
            (false, _) => self.advance(goal),
            (true, true) => self.without_unread(goal),
            (true, false) => self.clone(),
        }
    }

    /// As in Kafka, any change makes the current epoch the previous one: an older request is no longer
    /// accepted.
    fn moved(&self, epoch: i32, state: MemberState, assigned: Held, revoking: Held) -> Self {
        Self { epoch, previous_epoch: self.epoch, state, assigned, revoking }
    }

    fn without_unread(&self, goal: &Goal<'_>) -> Self {
        let (mut assigned, mut revoking) = (self.assigned.clone(), self.revoking.clone());
        assigned.retain(|topic, partitions| {
            let reads = (goal.reads)(*topic);
            if !reads {
                revoking.entry(*topic).or_default().append(partitions);
            }
            reads
        });
        if assigned.len() == self.assigned.len() {
            return self.clone();
        }
        if goal.still_owns(&revoking) {
            return self.moved(self.epoch, MemberState::Unrevoked, assigned, revoking);
        }
        self.moved(self.epoch, self.state, assigned, self.revoking.clone())
    }

    fn advance(&self, goal: &Goal<'_>) -> Self {
        let wanted = |topic: &TopicId, partition: &i32| {
            let target = goal.target.get(topic);
            target.is_some_and(|target| target.binary_search(partition).is_ok()) && (goal.reads)(*topic)
        };
        let (mut assigned, mut revoking) = (Held::new(), Held::new());
        for (topic, partitions) in &self.assigned {
            for (partition, epoch) in partitions {
                let part = if wanted(topic, partition) { &mut assigned } else { &mut revoking };
                part.entry(*topic).or_default().insert(*partition, *epoch);
            }
        }
        if !revoking.is_empty() && goal.still_owns(&revoking) {
            return self.moved(self.epoch, MemberState::Unrevoked, assigned, revoking);
        }
        let mut state = MemberState::Stable;
        for (topic, partitions) in goal.target.iter().filter(|(topic, _)| (goal.reads)(**topic)) {
            for partition in partitions {
                if assigned.get(topic).is_some_and(|assigned| assigned.contains_key(partition)) {
                    continue;
                }
                if (goal.is_free)(*topic, *partition) {
                    assigned.entry(*topic).or_default().insert(*partition, goal.epoch);
                } else {
                    state = MemberState::Unreleased;
                }
            }
        }
        let next = self.moved(goal.epoch, state, assigned, Held::new());
        // A member that waited and still has to wait has not moved.
        let same = Self { previous_epoch: self.previous_epoch, ..next.clone() };
        if same == *self { same } else { next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: TopicId = TopicId([1; 16]);
    const B: TopicId = TopicId([2; 16]);

    fn held(topics: &[(TopicId, &[(i32, i32)])]) -> Held {
        topics.iter().map(|(topic, partitions)| (*topic, partitions.iter().copied().collect())).collect()
    }

    fn target(topics: &[(TopicId, &[i32])]) -> Partitions {
        topics.iter().map(|(topic, partitions)| (*topic, partitions.to_vec())).collect()
    }

    fn stable(epoch: i32, assigned: &[(TopicId, &[(i32, i32)])]) -> Standing {
        Standing { epoch, previous_epoch: epoch - 1, assigned: held(assigned), ..Standing::default() }
    }

    struct Case<'a> {
        epoch: i32,
        target: &'a [(TopicId, &'a [i32])],
        taken: &'a [i32],
        reported: Option<&'a [i32]>,
    }

    fn step(standing: &Standing, case: &Case<'_>) -> Standing {
        let target = target(case.target);
        let reported = case.reported.map(|partitions| vec![(A, partitions.to_vec())]);
        standing.next(&Goal {
            epoch: case.epoch,
            target: &target,
            reads: &|_| true,
            subscription_changed: false,
            is_free: &|_, partition| !case.taken.contains(&partition),
            reported: &reported,
        })
    }

    #[test]
    fn a_new_member_gets_what_is_free_and_then_the_rest() {
        let case = Case { epoch: 5, target: &[(A, &[0, 1, 2])], taken: &[2], reported: Some(&[]) };
        let first = step(&Standing::default(), &case);
        assert_eq!((first.epoch, first.state), (5, MemberState::Unreleased));
        assert_eq!(first.assigned, held(&[(A, &[(0, 5), (1, 5)])]));
        // If nothing changes, it does not move.
        assert_eq!(step(&first, &case), first);
        let second = step(&first, &Case { taken: &[], ..case });
        assert_eq!((second.epoch, second.previous_epoch, second.state), (5, 5, MemberState::Stable));
        assert_eq!(second.assigned, held(&[(A, &[(0, 5), (1, 5), (2, 5)])]));
    }

    #[test]
    fn partitions_are_given_back_before_the_epoch_moves() {
        let before = stable(3, &[(A, &[(0, 2), (1, 3)])]);
        let case = Case { epoch: 4, target: &[(A, &[1, 2])], taken: &[], reported: None };
        let revoking = step(&before, &case);
        assert_eq!((revoking.epoch, revoking.state), (3, MemberState::Unrevoked));
        assert_eq!(revoking.assigned, held(&[(A, &[(1, 3)])]));
        assert_eq!(revoking.revoking, held(&[(A, &[(0, 2)])]));
        // It reports nothing, or that it still has the partition.
        assert_eq!(step(&revoking, &case), revoking);
        assert_eq!(step(&revoking, &Case { reported: Some(&[0, 1]), ..case }), revoking);
        let done = step(&revoking, &Case { reported: Some(&[1]), ..case });
        assert_eq!((done.epoch, done.state), (4, MemberState::Stable));
        assert_eq!(done.assigned, held(&[(A, &[(1, 3), (2, 4)])]));
    }

    #[test]
    fn what_is_already_given_back_needs_no_detour() {
        let before = stable(3, &[(A, &[(0, 2)])]);
        let case = Case { epoch: 4, target: &[(A, &[2])], taken: &[], reported: Some(&[]) };
        let done = step(&before, &case);
        assert_eq!((done.epoch, done.state), (4, MemberState::Stable));
        assert_eq!(done.assigned, held(&[(A, &[(2, 4)])]));
    }

    #[test]
    fn topics_that_are_no_longer_read_are_taken_at_once() {
        let before = stable(3, &[(A, &[(0, 2)]), (B, &[(0, 2)])]);
        let target = target(&[(A, &[0]), (B, &[0])]);
        let goal = |reported| {
            before.next(&Goal {
                epoch: 3,
                target: &target,
                reads: &|topic| topic == B,
                subscription_changed: true,
                is_free: &|_, _| true,
                reported,
            })
        };
        let revoking = goal(&None);
        assert_eq!((revoking.epoch, revoking.state), (3, MemberState::Unrevoked));
        assert_eq!(
            (revoking.assigned, revoking.revoking),
            (held(&[(B, &[(0, 2)])]), held(&[(A, &[(0, 2)])]))
        );
        let gone = goal(&Some(vec![(B, vec![0])]));
        assert_eq!((gone.state, gone.assigned), (MemberState::Stable, held(&[(B, &[(0, 2)])])));
    }
}
