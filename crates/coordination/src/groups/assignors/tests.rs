use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tailrace_types::TopicId;

use super::*;

/// Members by name, each with the numbers of the topics that it reads and its assignment.
#[derive(Clone, Debug)]
struct Case {
    /// Number of partitions of each topic.
    topics: Vec<i32>,
    members: BTreeMap<String, (BTreeSet<usize>, Partitions)>,
}

fn topic(number: usize) -> TopicId {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&(number as u64 + 1).to_be_bytes());
    TopicId(id)
}

impl Case {
    fn new(topics: &[i32], members: usize) -> Self {
        let all: BTreeSet<usize> = (0..topics.len()).collect();
        let members = (0..members).map(|number| (name(number), (all.clone(), Partitions::new()))).collect();
        Self { topics: topics.to_vec(), members }
    }

    fn run(&mut self, assign: impl Fn(&AssignmentTask<'_>) -> Vec<Partitions>) {
        let read: BTreeSet<usize> = self.members.values().flat_map(|(topics, _)| topics).copied().collect();
        let topics: Partitions = read
            .iter()
            .filter(|number| **number < self.topics.len() && self.topics[**number] > 0)
            .map(|number| (topic(*number), (0..self.topics[*number]).collect()))
            .collect();
        let members = self.members.iter().map(|(id, (read, current))| AssignmentMember {
            id,
            instance: None,
            topics: read.iter().map(|number| topic(*number)).collect(),
            current: Some(current),
        });
        let task = AssignmentTask { topics: &topics, members: members.collect() };
        let result = assign(&task);
        assert_eq!(result.len(), self.members.len());
        for ((_, current), assigned) in self.members.values_mut().zip(result) {
            *current = assigned;
        }
    }

    fn loads(&self) -> Vec<usize> {
        self.members.values().map(|(_, current)| load(current)).collect()
    }

    /// Checks that each member reads the topics it is assigned, and that partitions with readers have between
    /// 1 and `most` members.
    fn check(&self, most: usize) {
        let mut owners: BTreeMap<(usize, i32), usize> = BTreeMap::new();
        for (read, current) in self.members.values() {
            for (id, partitions) in current {
                let number = (0..self.topics.len()).find(|number| topic(*number) == *id);
                let number = number.expect("an assigned topic exists");
                assert!(read.contains(&number), "only topics that the member reads");
                assert!(!partitions.is_empty() && partitions.is_sorted());
                for partition in partitions {
                    assert!((0..self.topics[number]).contains(partition));
                    *owners.entry((number, *partition)).or_default() += 1;
                }
            }
        }
        for (number, partitions) in self.topics.iter().enumerate() {
            let read = self.members.values().any(|(read, _)| read.contains(&number));
            for partition in 0..*partitions {
                let found = owners.get(&(number, partition)).copied().unwrap_or_default();
                assert!(
                    if read { (1..=most).contains(&found) } else { found == 0 },
                    "{number}-{partition}: {found}"
                );
            }
        }
    }

    fn moved_since(&self, before: &Self) -> usize {
        let had = |id: &String| before.members.get(id).map(|(_, current)| current);
        self.members
            .iter()
            .map(|(id, (_, current))| load(current) - had(id).map_or(0, |before| common(before, current)))
            .sum()
    }

    /// Returns the least number of partitions that must move to make the shares equal.
    fn moves_at_least(&self, before: &Self) -> usize {
        let partitions = self.loads().iter().sum::<usize>();
        let (share, more) = (partitions / self.members.len(), partitions % self.members.len());
        let had = |id: &String| before.members.get(id).map_or(0, |(_, current)| load(current));
        let kept: usize = self.members.keys().map(|id| had(id).min(share)).sum();
        partitions - kept - self.members.keys().filter(|id| had(id) > share).count().min(more)
    }
}

fn name(number: usize) -> String {
    format!("m{number:05}")
}

fn load(partitions: &Partitions) -> usize {
    partitions.values().map(Vec::len).sum()
}

fn common(one: &Partitions, other: &Partitions) -> usize {
    let both = |id, partitions: &Vec<i32>| -> usize {
        one.get(id).map_or(0, |before: &Vec<i32>| partitions.iter().filter(|p| before.contains(p)).count())
    };
    other.iter().map(|(id, partitions)| both(id, partitions)).sum()
}

fn uniform(task: &AssignmentTask<'_>) -> Vec<Partitions> {
    ConsumerAssignor::Uniform.assign(task)
}

fn range(task: &AssignmentTask<'_>) -> Vec<Partitions> {
    ConsumerAssignor::Range.assign(task)
}

#[test]
fn uniform_gives_equal_shares_and_moves_no_more_than_it_must() {
    let mut case = Case::new(&[7, 5], 5);
    case.run(uniform);
    case.check(1);
    assert_eq!(case.loads(), [3, 3, 2, 2, 2]);

    // A new member takes one partition each from the members with most.
    let before = case.clone();
    case.members.insert(name(9), ((0..2).collect(), Partitions::new()));
    case.run(uniform);
    case.check(1);
    assert_eq!(case.loads(), [2, 2, 2, 2, 2, 2]);
    assert_eq!(case.moved_since(&before), 2);

    // When a member leaves, only its partitions move.
    let before = case.clone();
    case.members.remove(&name(0));
    case.run(uniform);
    case.check(1);
    assert_eq!(case.moved_since(&before), 2);
}

#[test]
fn range_puts_equal_numbers_together() {
    let mut case = Case::new(&[4, 4], 3);
    case.run(range);
    case.check(1);
    let shares: Vec<_> = case.members.values().map(|(_, current)| current.clone()).collect();
    assert_eq!(shares[0], Partitions::from([(topic(0), vec![0, 1]), (topic(1), vec![0, 1])]));
    assert_eq!(shares[1], Partitions::from([(topic(0), vec![2]), (topic(1), vec![2])]));
    assert_eq!(shares[2], Partitions::from([(topic(0), vec![3]), (topic(1), vec![3])]));
}

#[test]
fn simple_shares_partitions_when_there_are_more_members() {
    let mut case = Case::new(&[3], 8);
    case.run(assign_shares);
    case.check(3);
    assert_eq!(case.loads(), [1; 8]);

    // With fewer members than partitions, no partition is shared.
    let mut case = Case::new(&[3, 4], 2);
    case.run(assign_shares);
    case.check(1);
    assert_eq!(case.loads(), [4, 3]);
}

/// Members that read different topics choose one after the other. Earlier members might have chosen
/// differently if they had known the later choices. Still nothing may move.
#[test]
fn nothing_moves_when_nothing_has_changed_whatever_each_member_reads() {
    let reads: [&[usize]; 10] = [
        &[2, 4, 5],
        &[1, 2, 4],
        &[2, 3, 4, 5],
        &[0, 2, 4, 5],
        &[2],
        &[1, 3],
        &[2, 4, 5],
        &[0, 2, 4, 5],
        &[1],
        &[5],
    ];
    let members = |reads: &[&[usize]], from: usize| -> Vec<_> {
        let read = |(number, read): (usize, &&[usize])| {
            (name(from + number), (read.iter().copied().collect(), Partitions::new()))
        };
        reads.iter().enumerate().map(read).collect()
    };
    let mut case = Case { topics: vec![0, 1, 2], members: members(&reads, 0).into_iter().collect() };
    case.run(assign_shares);
    case.members.remove(&name(0));
    case.members.extend(members(&[&[1, 3], &[0, 2], &[1, 2]], 100));
    case.run(assign_shares);
    let before = case.clone();
    case.run(assign_shares);
    assert_eq!(case.moved_since(&before), 0);
}

#[test]
fn nobody_and_nothing() {
    for assign in [uniform, range, assign_shares] {
        let mut case = Case::new(&[3], 0);
        case.run(assign);
        let mut case = Case::new(&[], 3);
        case.run(assign);
        assert_eq!(case.loads(), [0, 0, 0]);
        let mut case = Case::new(&[0, 3], 1);
        case.run(assign);
        assert_eq!(case.loads(), [3]);
    }
}

/// Topics, members with subscriptions (some to missing topics), and then members that leave and join.
fn cases() -> impl Strategy<Value = (Case, BTreeSet<usize>, Vec<BTreeSet<usize>>)> {
    let topics = prop::collection::vec(0..12_i32, 1..6);
    let subscription = || prop::collection::btree_set(0..6_usize, 0..6);
    (topics, prop::collection::vec(subscription(), 1..12), any::<bool>()).prop_flat_map(
        move |(topics, subscriptions, same)| {
            let members = subscriptions.iter().enumerate().map(|(number, read)| {
                let read = if same { &subscriptions[0] } else { read };
                (name(number), (read.clone(), Partitions::new()))
            });
            let case = Case { topics, members: members.collect() };
            let going = prop::collection::btree_set(0..12_usize, 0..4);
            (Just(case), going, prop::collection::vec(subscription(), 0..4))
        },
    )
}

fn change(case: &mut Case, going: &BTreeSet<usize>, coming: &[BTreeSet<usize>]) {
    let same = case.members.values().next().map(|(read, _)| read.clone()).unwrap_or_default();
    let homogeneous = case.members.values().all(|(read, _)| *read == same);
    for number in going {
        case.members.remove(&name(*number));
    }
    for (number, read) in coming.iter().enumerate() {
        let read = if homogeneous { &same } else { read };
        case.members.insert(name(100 + number), (read.clone(), Partitions::new()));
    }
}

fn is_homogeneous(case: &Case) -> bool {
    let mut reads = case.members.values().map(|(read, _)| read);
    let first = reads.next();
    reads.all(|read| Some(read) == first)
}

proptest! {
    #[test]
    fn uniform_is_complete_equal_and_steady((mut case, going, coming) in cases()) {
        for step in 0..2 {
            let before = case.clone();
            case.run(uniform);
            case.check(1);
            let loads = case.loads();
            if is_homogeneous(&case) && !loads.is_empty() {
                let (low, high) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
                prop_assert!(high - low <= 1, "{loads:?}");
                prop_assert_eq!(case.moved_since(&before), case.moves_at_least(&before));
            }
            // No single move may make two members more equal.
            for (read, current) in case.members.values() {
                for id in current.keys() {
                    for ((other, _), load_of_other) in case.members.values().zip(&loads) {
                        let reads = other.iter().any(|number| topic(*number) == *id);
                        prop_assert!(!reads || load(current) <= load_of_other + 1, "{read:?} {loads:?}");
                    }
                }
            }
            let again = case.clone();
            case.run(uniform);
            prop_assert_eq!(case.moved_since(&again), 0);
            if step == 0 {
                change(&mut case, &going, &coming);
            }
        }
    }

    #[test]
    fn range_is_complete((mut case, going, coming) in cases()) {
        case.run(range);
        case.check(1);
        change(&mut case, &going, &coming);
        case.run(range);
        case.check(1);
    }

    #[test]
    fn simple_leaves_nobody_idle((mut case, going, coming) in cases()) {
        for _ in 0..2 {
            case.run(assign_shares);
            case.check(case.members.len());
            for (read, current) in case.members.values() {
                let something = read.iter().any(|number| case.topics.get(*number).is_some_and(|count| *count > 0));
                prop_assert_eq!(something, load(current) > 0);
            }
            if is_homogeneous(&case) {
                let partitions = case.topics.iter().enumerate()
                    .filter(|(number, _)| case.members.values().any(|(read, _)| read.contains(number)))
                    .map(|(_, count)| *count as usize).sum::<usize>();
                case.check(case.members.len().div_ceil(partitions.max(1)).max(1));
            }
            let again = case.clone();
            case.run(assign_shares);
            prop_assert_eq!(case.moved_since(&again), 0);
            change(&mut case, &going, &coming);
        }
    }
}
