//! Faults that depend on rare events. In some runs leaders are cut off soon after their election, for about
//! as long as the next election takes, so that other leaders finish or overwrite what one has begun. In some
//! runs coordinators of transactions move while one of their links is slow, so that what they have begun
//! arrives after their successors have gone on. In some runs connections are reset all the time. In some runs
//! with users, nodes hear late of changes. In all of them, some node hears late that the deputy's right is
//! taken.

use std::collections::BTreeMap;
use std::time::Duration;

use tailrace_metadata::TRANSACTION_STATE_TOPIC;
use tailrace_node::cluster::leaders::{controller, leader_of};
use tailrace_types::LeaderEpoch;

use super::fault::{Fault, What};
use super::site::{
    DATA_PARTITIONS, DATA_TOPIC, INTERNAL_PARTITIONS, INTERNAL_TOPICS, OUT_TOPIC, Site, TOPIC,
};
use crate::computer::Computer;
use crate::rng::Rng;

/// Percentage of runs in which leaders are cut off.
const RUNS_PERCENT: u64 = 25;

/// Percentage of elections that are followed by a cut.
const ELECTIONS_PERCENT: u64 = 20;

/// Longest time between an election and the cut of the leader.
const AFTER_MS: u64 = 60;

/// How long the cut lasts.
const LASTS_MS: (u64, u64) = (200, 700);

/// The topics whose leaders of partition 0 are watched.
const WATCHED: [&str; 6] =
    [TOPIC, DATA_TOPIC, OUT_TOPIC, INTERNAL_TOPICS[0], INTERNAL_TOPICS[1], INTERNAL_TOPICS[2]];

/// Time between two moves of a coordinator.
const MOVES_EVERY_MS: (u64, u64) = (500, 1_500);

/// How much slower the link of a coordinator becomes that is about to move.
const SLOWER_MS: (u64, u64) = (250, 900);

/// How long the link is slow, and how long the coordinator waits for a transaction that is ending.
const HANDOVER_TIMEOUT: Duration = Duration::from_millis(700);

/// Percentage of runs with users in which nodes hear late of changes.
const LATE_PERCENT: u64 = 40;

/// Time between two nodes that hear late, how much later, and for how long.
const LATE_EVERY_MS: (u64, u64) = (300, 1_200);
const LATE_MS: (u64, u64) = (100, 500);
const LATE_FOR: Duration = Duration::from_secs(1);

/// How much later a node hears that a right was taken, and how long its link is slow. Within this time the
/// administrator takes the right, the deputy asks, and the controller is told.
const TAKEN_LATE_MS: (u64, u64) = (100, 250);
const TAKEN_LATE_FOR: Duration = Duration::from_millis(500);

/// Time between two resets.
const RESETS_EVERY_MS: (u64, u64) = (20, 200);

pub(super) struct Aim {
    rng: Rng,
    /// The newest epoch of each topic that any node knows. `None` if no leaders are cut off.
    epochs: Option<BTreeMap<&'static str, LeaderEpoch>>,
    /// When the next coordinator moves. `None` if none does.
    moves_at: Option<Duration>,
    /// When the next connection is reset, besides those of the schedule. `None` if none is.
    resets_at: Option<Duration>,
    /// When the next node hears late of changes. `None` if none does.
    late_at: Option<Duration>,
    /// Until when some node hears late. There is never more than one.
    late_until: Duration,
    /// A node already hears late of the right that is being taken.
    is_foretold: bool,
}

impl Aim {
    pub(super) fn draw(mut rng: Rng, site: &Site) -> Self {
        let epochs = rng.percent(RUNS_PERCENT).then(BTreeMap::new);
        let moves_at = site.habits.moves_coordinators.then_some(Duration::ZERO);
        let resets_at = site.habits.loses_answers.then_some(Duration::ZERO);
        let hears_late = site.habits.has_users && rng.percent(LATE_PERCENT);
        let late_at = hears_late.then_some(Duration::ZERO);
        Self { rng, epochs, moves_at, resets_at, late_at, late_until: Duration::ZERO, is_foretold: false }
    }

    /// Returns the faults to inject because of what has happened.
    pub(super) fn take(&mut self, site: &Site) -> Vec<Fault> {
        let mut faults = self.cuts(site);
        faults.extend(self.moves(site).into_iter().flatten());
        faults.extend(self.reset(site));
        faults.extend(self.hear_late(site));
        faults.extend(self.hear_late_of_right(site));
        faults
    }

    /// Cuts off leaders that were elected since the last call.
    fn cuts(&mut self, site: &Site) -> Vec<Fault> {
        let (now, mut cuts) = (site.universe.now(), Vec::new());
        let Some(epochs) = &mut self.epochs else { return cuts };
        for topic in WATCHED {
            let newest = site.computers.iter().filter_map(|computer| {
                let node = computer.node()?;
                let found = node.topics().by_name(topic)?;
                leader_of(&node, &found, 0)
            });
            let Some((node, epoch)) = newest.max_by_key(|(_, epoch)| *epoch) else { continue };
            let is_new = epochs.insert(topic, epoch).is_some_and(|before| before < epoch);
            if is_new && self.rng.percent(ELECTIONS_PERCENT) {
                let Ok(computer) = usize::try_from(node.get() - 1) else { continue };
                let at = now + Duration::from_millis(self.rng.below(AFTER_MS));
                let lasts = Duration::from_millis(self.rng.between(LASTS_MS.0, LASTS_MS.1));
                cuts.push(Fault { at, what: What::CutOff { computer }, lasts });
            }
        }
        cuts
    }

    /// Resets a connection between two nodes, or between a node and a client.
    fn reset(&mut self, site: &Site) -> Option<Fault> {
        let now = site.universe.now();
        if self.resets_at? > now {
            return None;
        }
        self.resets_at =
            Some(now + Duration::from_millis(self.rng.between(RESETS_EVERY_MS.0, RESETS_EVERY_MS.1)));
        let nodes = site.computers.len() as u64;
        let one = usize::try_from(self.rng.below(nodes)).ok()?;
        // The index of the clients follows those of the nodes.
        let other = usize::try_from(if self.rng.percent(50) { nodes } else { self.rng.below(nodes) }).ok()?;
        let what = What::Reset { one, other, choice: self.rng.next_u64() };
        Some(Fault { at: now, what, lasts: Duration::ZERO })
    }

    /// Slows down the link between the controller and another node. Until that node hears of a change, it
    /// decides by what was before.
    fn hear_late(&mut self, site: &Site) -> Option<Fault> {
        let now = site.universe.now();
        if self.late_at? > now || self.late_until > now {
            return None;
        }
        self.late_at = Some(now + Duration::from_millis(self.rng.between(LATE_EVERY_MS.0, LATE_EVERY_MS.1)));
        let (one, other) = self.controller_and_other(site)?;
        let ms = self.rng.between(LATE_MS.0, LATE_MS.1);
        self.late_until = now + LATE_FOR;
        Some(Fault { at: now, what: What::Slow { one, other, ms }, lasts: LATE_FOR })
    }

    /// Slows down such a link when the deputy's right is about to be taken, unless one is slow already.
    fn hear_late_of_right(&mut self, site: &Site) -> Option<Fault> {
        let (now, was_foretold) = (site.universe.now(), self.is_foretold);
        self.is_foretold = site.takes_right;
        if was_foretold || !site.takes_right || self.late_until > now {
            return None;
        }
        let (one, other) = self.controller_and_other(site)?;
        let ms = self.rng.between(TAKEN_LATE_MS.0, TAKEN_LATE_MS.1);
        self.late_until = now + TAKEN_LATE_FOR;
        Some(Fault { at: now, what: What::HearLate { one, other, ms }, lasts: TAKEN_LATE_FOR })
    }

    /// Returns the computer of the controller, and any other one.
    fn controller_and_other(&mut self, site: &Site) -> Option<(usize, usize)> {
        let believed = site.computers.iter().find_map(|computer| controller(&*computer.node()?));
        let one = usize::try_from(believed?.get() - 1).ok()?;
        let others: Vec<_> = (0..site.computers.len()).filter(|other| *other != one).collect();
        let other = *others.get(usize::try_from(self.rng.below(others.len().max(1) as u64)).ok()?)?;
        Some((one, other))
    }

    /// Moves a coordinator of transactions to another node while its link to a third one is slow.
    fn moves(&mut self, site: &Site) -> Option<[Fault; 2]> {
        let now = site.universe.now();
        if self.moves_at? > now {
            return None;
        }
        self.moves_at =
            Some(now + Duration::from_millis(self.rng.between(MOVES_EVERY_MS.0, MOVES_EVERY_MS.1)));
        let partition = i32::try_from(self.rng.below(INTERNAL_PARTITIONS.unsigned_abs().into())).ok()?;
        let from = leader_on(site, TRANSACTION_STATE_TOPIC, partition)?;
        // The slow link leads to a node that receives markers.
        let others: Vec<usize> = (0..site.computers.len()).filter(|other| *other != from).collect();
        let data = 0..i32::try_from(DATA_PARTITIONS).ok()?;
        let leaders: Vec<usize> =
            data.filter_map(|partition| leader_on(site, DATA_TOPIC, partition)).collect();
        let slow = *leaders.iter().find(|leader| **leader != from)?;
        let to = *others.iter().find(|other| **other != slow)?;
        let ms = self.rng.between(SLOWER_MS.0, SLOWER_MS.1);
        Some([
            Fault { at: now, what: What::Slow { one: from, other: slow, ms }, lasts: HANDOVER_TIMEOUT },
            Fault { at: now, what: What::Move { from, to }, lasts: HANDOVER_TIMEOUT },
        ])
    }
}

/// Returns the computer whose node believes that it leads a partition.
fn leader_on(site: &Site, topic: &str, partition: i32) -> Option<usize> {
    let leads = |computer: &Computer| {
        let node = computer.node()?;
        let found = node.topics().by_name(topic)?;
        Some(leader_of(&node, &found, partition)?.0 == node.id())
    };
    site.computers.iter().position(|computer| leads(computer) == Some(true))
}
