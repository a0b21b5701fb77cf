//! Tests a share-partition and its coordinator against a simple model, offset by offset: members that
//! acknowledge late, twice or not at all, locks that expire, members that leave, records that are deleted,
//! and restarts from the stored state at any moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use tailrace_types::{Offset, TimestampMs};

use super::in_flight::RecordState;
use super::*;
use crate::share::tests::{Rig, key};
use crate::share::{DeliveryState, ShareAnswer, ShareRequest};

const LIMIT: i16 = 4;
const LOCK_MS: i64 = 10;
const TERMS: GroupTerms = GroupTerms {
    record_locks_max: 12,
    delivery_count_limit: LIMIT,
    lock_duration_ms: LOCK_MS,
    renewal_allowed: true,
};

#[derive(Clone, Debug)]
enum Step {
    Produce {
        hole: i64,
        length: i64,
        visible: bool,
    },
    Acquire {
        member: u8,
        most: u64,
        strict: bool,
        read: usize,
    },
    Acknowledge {
        member: u8,
        back: i64,
        kinds: Vec<u8>,
    },
    /// Sends an earlier acknowledgement again.
    Again {
        which: usize,
    },
    Wait {
        ms: i64,
        ticks: bool,
    },
    Leave {
        member: u8,
    },
    /// Stores the changes, and sends the replies that wait for it.
    Save,
    Restart {
        compacted: bool,
    },
    Delete {
        share: i64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (prop_oneof![4 => Just(0_i64), 1 => 1_i64..3], 1_i64..5, prop::bool::weighted(0.85))
            .prop_map(|(hole, length, visible)| Step::Produce { hole, length, visible }),
        6 => (0_u8..3, 1_u64..8, any::<bool>(), 1_usize..6)
            .prop_map(|(member, most, strict, read)| Step::Acquire { member, most, strict, read }),
        8 => (0_u8..3, 0_i64..14, prop::collection::vec(0_u8..5, 1..5))
            .prop_map(|(member, back, kinds)| Step::Acknowledge { member, back, kinds }),
        2 => (0_usize..20).prop_map(|which| Step::Again { which }),
        3 => (1_i64..8, any::<bool>()).prop_map(|(ms, ticks)| Step::Wait { ms, ticks }),
        1 => (0_u8..3).prop_map(|member| Step::Leave { member }),
        4 => Just(Step::Save),
        1 => any::<bool>().prop_map(|compacted| Step::Restart { compacted }),
        1 => (0_i64..10).prop_map(|share| Step::Delete { share }),
    ]
}

/// The model's state of one delivered offset.
#[derive(Clone, Debug, PartialEq)]
enum Fate {
    Available(i16),
    Held { member: u8, until: i64, count: i16 },
    Done,
}

struct World {
    rig: Rig,
    partition: SharePartition,
    state_epoch: i32,
    log: Vec<FetchedBatch>,
    log_end: i64,
    log_start: i64,
    now: i64,
    fates: BTreeMap<i64, Fate>,
    /// Offsets that are final, with the acknowledgement confirmed to the member.
    confirmed: BTreeSet<i64>,
    /// Offsets that are final, but not stored yet.
    waiting: BTreeSet<i64>,
    delivered: BTreeSet<i64>,
    history: Vec<(u8, i64, Vec<AcknowledgeKind>)>,
}

fn member_name(member: u8) -> Arc<str> {
    Arc::from(format!("m{member}"))
}

impl World {
    fn new() -> Self {
        let mut rig = Rig::new(3);
        let made = rig.ask(ShareRequest::Initialize { key: key(), generation: 1 });
        made.expect("it is made");
        let mut world = Self {
            rig,
            partition: SharePartition::new(Offset(0)),
            state_epoch: 0,
            log: Vec::new(),
            log_end: 0,
            log_start: 0,
            now: 0,
            fates: BTreeMap::new(),
            confirmed: BTreeSet::new(),
            waiting: BTreeSet::new(),
            delivered: BTreeSet::new(),
            history: Vec::new(),
        };
        world.save();
        world
    }

    fn is_visible(&self, offset: i64) -> bool {
        self.log.iter().any(|batch| batch.visible && batch.first.0 <= offset && offset <= batch.last.0)
    }

    fn is_held(&self, offset: i64, by: u8) -> bool {
        matches!(self.fates.get(&offset), Some(Fate::Held { member, .. }) if *member == by)
    }

    fn expire(&mut self) {
        for fate in self.fates.values_mut() {
            if let Fate::Held { until, count, .. } = *fate
                && until <= self.now
            {
                *fate = Fate::Available(count);
            }
        }
        self.archive_exhausted();
    }

    fn archive_exhausted(&mut self) {
        for (&offset, fate) in &mut self.fates {
            if matches!(*fate, Fate::Available(count) if count >= LIMIT) {
                *fate = Fate::Done;
                self.waiting.insert(offset);
            }
        }
    }

    fn acquire(&mut self, member: u8, most: u64, strict: bool, read: usize) -> usize {
        self.partition.tick(TimestampMs(self.now), &TERMS);
        self.expire();
        self.partition.log_start_moved(Offset(self.log_start));
        let Some(from) = self.partition.next_fetch(&TERMS) else { return 0 };
        let found: Vec<_> = self.log.iter().copied().filter(|batch| batch.last >= from).take(read).collect();
        let mode = if strict { AcquireMode::RecordLimit } else { AcquireMode::BatchOptimized };
        let terms = AcquireTerms { member: member_name(member), records_max: most, batch_size: 2, mode };
        let fetched = Fetched { from, batches: &found };
        let acquired = self.partition.acquire(&terms, &TERMS, fetched, TimestampMs(self.now));
        let mut count = 0;
        for batch in acquired {
            for offset in batch.first.0..=batch.last.0 {
                count += 1;
                assert!(self.is_visible(offset), "{offset} has no visible record");
                assert!(!self.confirmed.contains(&offset), "{offset} is final and was delivered again");
                assert!(batch.delivery_count <= LIMIT, "{offset} was delivered too often");
                let before = self.fates.get(&offset).cloned().unwrap_or(Fate::Available(0));
                assert_eq!(before, Fate::Available(batch.delivery_count - 1), "offset {offset}");
                let until = self.now + LOCK_MS;
                let held = Fate::Held { member, until, count: batch.delivery_count };
                self.fates.insert(offset, held);
                self.delivered.insert(offset);
            }
        }
        if strict {
            assert!(count as u64 <= most);
        }
        count
    }

    fn acknowledge(&mut self, member: u8, first: i64, kinds: &[AcknowledgeKind]) {
        let last = first + kinds.len() as i64 - 1;
        let batch = Acknowledgement { first: Offset(first), last: Offset(last), kinds: kinds.to_vec() };
        let name = member_name(member);
        let result = self.partition.acknowledge(&name, &[batch], &TERMS, TimestampMs(self.now));
        self.expire();
        let start = self.partition.start().0;
        if let Err(error) = result {
            let is_held = (first.max(start)..=last).all(|offset| self.is_held(offset, member));
            let is_wrong = last >= self.partition.end().0 || !is_held;
            assert!(last >= start && is_wrong, "{first} to {last} from {name}: {error}");
            return;
        }
        for (offset, kind) in (first..).zip(kinds) {
            match self.fates.get(&offset).cloned() {
                Some(Fate::Held { member: holder, count, .. }) if offset >= self.log_start => {
                    assert_eq!(holder, member, "offset {offset} was acknowledged by another member");
                    let fate = match kind {
                        AcknowledgeKind::Renew => Fate::Held { member, until: self.now + LOCK_MS, count },
                        AcknowledgeKind::Release => Fate::Available(count),
                        _ => {
                            self.waiting.insert(offset);
                            Fate::Done
                        }
                    };
                    self.fates.insert(offset, fate);
                }
                _ => assert!(offset < start, "offset {offset} was not held and was acknowledged"),
            }
        }
        self.archive_exhausted();
    }

    fn save(&mut self) {
        while let Some(write) = self.partition.take_unsaved() {
            let (state_epoch, leader_epoch) = (self.state_epoch, 0);
            let request = ShareRequest::Write { key: key(), generation: 1, state_epoch, leader_epoch, write };
            assert_eq!(self.rig.ask(request), Ok(ShareAnswer::Done));
        }
        self.confirmed.append(&mut self.waiting);
    }

    fn restart(&mut self, compacted: bool) {
        self.rig.restart(compacted);
        let kept = self.rig.state();
        self.state_epoch = kept.state_epoch;
        self.partition = SharePartition::restore(kept.start.expect("it was decided"), &kept.batches);
        // Changes that were not stored are undone. Delivery counts survive only if they were stored.
        let waiting = std::mem::take(&mut self.waiting);
        for (&offset, fate) in &mut self.fates {
            if *fate != Fate::Done || waiting.contains(&offset) {
                *fate = Fate::Available(0);
            }
        }
        for batch in &kept.batches {
            for offset in batch.first.0..=batch.last.0 {
                if batch.state == DeliveryState::Available {
                    self.fates.insert(offset, Fate::Available(batch.delivery_count));
                }
            }
        }
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Produce { hole, length, visible } => {
                let first = self.log_end + hole;
                self.log_end = first + length;
                self.log.push(FetchedBatch { first: Offset(first), last: Offset(self.log_end - 1), visible });
            }
            Step::Acquire { member, most, strict, read } => {
                self.acquire(member, most, strict, read);
            }
            Step::Acknowledge { member, back, kinds } => {
                let first = (self.partition.end().0 - back).max(0);
                let kinds: Vec<_> = kinds
                    .iter()
                    .map(|&kind| AcknowledgeKind::from_code(kind.cast_signed()).expect("0 to 4"))
                    .collect();
                self.acknowledge(member, first, &kinds);
                self.history.push((member, first, kinds));
            }
            Step::Again { which } => {
                if let Some((member, first, kinds)) = self.history.get(which).cloned() {
                    self.acknowledge(member, first, &kinds);
                }
            }
            Step::Wait { ms, ticks } => {
                self.now += ms;
                // Without a tick, the next request has to notice the expired locks.
                if ticks {
                    self.partition.tick(TimestampMs(self.now), &TERMS);
                    self.expire();
                }
            }
            Step::Leave { member } => {
                self.partition.release_member(&member_name(member), &TERMS);
                for fate in self.fates.values_mut() {
                    if let Fate::Held { member: holder, count, .. } = *fate
                        && holder == member
                    {
                        *fate = Fate::Available(count);
                    }
                }
                self.archive_exhausted();
            }
            Step::Save => self.save(),
            Step::Restart { compacted } => self.restart(compacted),
            Step::Delete { share } => {
                self.log_start += (self.log_end - self.log_start) * share / 10;
                let log_start = self.log_start;
                self.log.retain(|batch| batch.last.0 >= log_start);
                self.partition.log_start_moved(Offset(log_start));
            }
        }
    }

    fn check(&self) {
        let (start, end) = (self.partition.start().0, self.partition.end().0);
        assert!(start <= end);
        let mut covered = start;
        for run in self.partition.runs.iter() {
            assert_eq!(run.first, covered, "offsets between start and end are all known");
            covered = run.last + 1;
            for offset in run.first..=run.last {
                let fate = self.fates.get(&offset).cloned().unwrap_or(Fate::Available(0));
                let count = run.value.delivery_count;
                match &run.value.state {
                    RecordState::Available => assert_eq!(fate, Fate::Available(count), "offset {offset}"),
                    RecordState::Acquired(lock) => {
                        let Fate::Held { member, until, count: held } = fate else {
                            panic!("offset {offset} is acquired, the model has {fate:?}")
                        };
                        assert_eq!(
                            (member_name(member), until, held),
                            (lock.member.clone(), lock.until.0, count)
                        );
                        let deadline = self.partition.deadline();
                        assert!(deadline.is_some_and(|deadline| deadline <= lock.until));
                    }
                    RecordState::Acknowledged => assert_eq!(fate, Fate::Done, "offset {offset}"),
                    RecordState::Archived => {
                        assert!(fate == Fate::Done || !self.is_visible(offset), "offset {offset}: {fate:?}");
                    }
                }
            }
        }
        assert_eq!(covered, end);
        for (&offset, fate) in &self.fates {
            let lost = offset < start && offset >= self.log_start && *fate != Fate::Done;
            assert!(!lost, "offset {offset} lies before the start and is {fate:?}");
        }
        assert!(self.partition.runs.len() <= 40);
    }

    /// Delivers everything that is left to a member that accepts it.
    fn drain(&mut self) {
        self.now += LOCK_MS;
        for _ in 0..500 {
            self.acquire(0, 100, false, 3);
            for offset in self.partition.start().0..self.partition.end().0 {
                self.acknowledge(0, offset, &[AcknowledgeKind::Accept]);
            }
            self.check();
        }
        self.save();
        let end = self.log.last().map_or(self.partition.end().0, |batch| batch.last.0 + 1);
        assert_eq!(self.partition.start().0, end.max(self.log_start), "delivery does not come to an end");
        for offset in self.log_start..self.log_end {
            if self.is_visible(offset) {
                assert!(self.delivered.contains(&offset), "offset {offset} was never delivered");
                assert!(self.confirmed.contains(&offset), "offset {offset} was lost");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn nothing_final_comes_again_and_nothing_is_lost(steps in prop::collection::vec(step(), 1..80)) {
        let mut world = World::new();
        for step in steps {
            world.run(step);
            world.check();
        }
        world.drain();
    }
}
