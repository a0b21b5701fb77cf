//! The batches that were offered, and what clients were told and saw of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tailrace_types::{Offset, ProducerEpoch, ProducerId};
use tracing::{debug, error, info};

use super::access::AccessHistory;
pub(super) use super::batch_name::BatchName;
use super::copies::Copies;
use super::site::{Habits, Keeps, TOPIC};
use crate::history::History as Partitions;

/// After the faults have ended, each client must get this many batches or transactions acknowledged.
const AT_THE_END: u32 = 3;

/// What a client was told of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BatchFate {
    /// The client was told nothing, or that the batch may be stored.
    Unknown,
    /// The batch is stored, at this offset.
    Stored(Offset),
    /// The batch is not stored.
    Refused,
}

/// The phase of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    #[default]
    Storm,
    /// The faults have ended, and subscribers settle on their last node.
    Settling,
    /// Some members of a queue group leave.
    Leaving,
    /// Each client writes a few more batches, and subscribers must hear all of them.
    Ending,
}

#[derive(Default)]
pub(super) struct History {
    phase: Phase,
    fates: BTreeMap<BatchName, BatchFate>,
    /// The topic of each client that does not write to the common one.
    topics: BTreeMap<usize, &'static str>,
    /// The highest offset to which deletion was requested, and the highest to which it was acknowledged.
    deleted: (i64, i64),
    habits: Habits,
    /// What was written to and read from the topics with transactions.
    pub(super) partitions: Partitions,
    /// The first anomaly found during the run.
    anomaly: Option<String>,
    /// How much each client got acknowledged since the end began.
    at_the_end: BTreeMap<usize, u32>,
    /// The number of clients that still have something to finish.
    busy: usize,
    /// Messages acknowledged, and records committed, since the end began, each with a subscriber that must
    /// hear it.
    published: BTreeSet<(&'static str, String)>,
    /// How often each subscriber heard each message since the end began.
    heard: BTreeMap<&'static str, BTreeMap<String, u32>>,
    /// The subscribers whose node knows of them.
    listening: BTreeSet<usize>,
    /// The member of each consumer group that owns each partition.
    owners: BTreeMap<(&'static str, i32), usize>,
    /// The owner of each producer id, and its epoch at that time.
    producers: BTreeMap<ProducerId, (String, ProducerEpoch)>,
    /// Offsets of the output that the share group has accepted, each with the number of the acceptance.
    /// `None` if the answer was lost.
    accepted: BTreeMap<i64, Option<u64>>,
    /// The number of acceptances that were answered.
    acceptances: u64,
    /// Offsets of the output that the other share group may have accepted since it was last deleted.
    successor: BTreeSet<i64>,
    /// Acknowledged records of each topic that is recreated, until its deletion is requested.
    again: BTreeMap<[u8; 16], Vec<String>>,
    /// Topics whose deletion was requested.
    doomed: BTreeSet<[u8; 16]>,
    /// Users and rules, in runs that have them.
    pub(super) access: AccessHistory,
    /// What the processor did with its position.
    pub(super) copies: Copies,
    /// How often each event happened.
    counts: BTreeMap<&'static str, u64>,
}

/// The history, shared by all clients.
#[derive(Clone)]
pub(super) struct SharedHistory(Arc<Mutex<History>>);

impl SharedHistory {
    /// Returns an empty history.
    pub(super) fn new(habits: Habits) -> Self {
        Self(Arc::new(Mutex::new(History { habits, ..History::default() })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, History> {
        self.0.lock()
    }
}

impl History {
    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    pub(super) fn set_phase(&mut self, phase: Phase) {
        info!(?phase, "the run goes on");
        self.phase = phase;
    }

    pub(super) fn offered(&mut self, name: BatchName) {
        debug!(%name, "a batch is offered");
        if self.habits.has_users {
            self.access.offers(name);
        }
        self.fates.insert(name, BatchFate::Unknown);
    }

    pub(super) fn told(&mut self, name: BatchName, fate: BatchFate) {
        debug!(%name, ?fate, "a client is told the fate of a batch");
        if matches!(fate, BatchFate::Stored(_)) {
            self.done(name.node);
        }
        self.fates.insert(name, fate);
    }

    pub(super) fn habits(&self) -> Habits {
        self.habits
    }

    pub(super) fn keeps(&self, topic: &str) -> Keeps {
        Keeps::of(topic, self.habits)
    }

    /// Records that a client writes only to this topic.
    pub(super) fn writes_to(&mut self, client: usize, topic: &'static str) {
        self.topics.insert(client, topic);
    }

    /// Returns the fates of all batches for a topic.
    pub(super) fn fates_in(&self, topic: &str) -> impl Iterator<Item = (&BatchName, &BatchFate)> {
        let of = |name: &BatchName| self.topics.get(&name.node).copied().unwrap_or(TOPIC);
        self.fates.iter().filter(move |(name, _)| of(name) == topic)
    }

    /// Returns the highest acknowledged offset in a topic.
    pub(super) fn highest_in(&self, topic: &str) -> Option<Offset> {
        let offset =
            |fate: &BatchFate| if let BatchFate::Stored(offset) = fate { Some(*offset) } else { None };
        self.fates_in(topic).filter_map(|(_, fate)| offset(fate)).max()
    }

    /// Records a request to delete old records up to an offset.
    pub(super) fn asked_to_delete(&mut self, to: i64) {
        self.deleted.0 = to.max(self.deleted.0);
    }

    /// Records that a leader has confirmed the deletion up to an offset.
    pub(super) fn was_deleted(&mut self, to: i64) {
        self.deleted.1 = to.max(self.deleted.1);
    }

    /// Returns the highest offset to which deletion was requested, and the highest to which it was
    /// acknowledged.
    pub(super) fn deleted(&self) -> (i64, i64) {
        self.deleted
    }

    /// Records that something of a client was acknowledged.
    pub(super) fn done(&mut self, client: usize) {
        if self.phase == Phase::Ending {
            *self.at_the_end.entry(client).or_default() += 1;
        }
    }

    /// Reports whether a client has got enough acknowledged since the end began.
    pub(super) fn has_ended(&self, client: usize) -> bool {
        self.at_the_end.get(&client).is_some_and(|count| *count >= AT_THE_END)
    }

    /// Records that a client has something to finish before the run can end.
    pub(super) fn begins(&mut self) {
        self.busy += 1;
    }

    pub(super) fn finishes(&mut self) {
        self.busy -= 1;
    }

    pub(super) fn all_have_finished(&self) -> bool {
        self.busy == 0
    }

    /// Records that a client was given a producer id. No other client may get it, and each time its epoch
    /// must be higher.
    pub(super) fn was_given(&mut self, id: ProducerId, epoch: ProducerEpoch, owner: &str) {
        if let Some((before, last)) = self.producers.insert(id, (owner.to_owned(), epoch))
            && (before != owner || epoch <= last)
        {
            self.found(format!("{owner} was given producer {id} with epoch {epoch}, {before} had {last}"));
        }
    }

    /// Records an anomaly. The first one counts.
    pub(super) fn found(&mut self, anomaly: String) {
        error!("{anomaly}");
        self.anomaly.get_or_insert(anomaly);
    }

    pub(super) fn check(&mut self, fact: Result<(), String>) {
        if let Err(anomaly) = fact {
            self.found(anomaly);
        }
    }

    pub(super) fn anomaly(&self) -> Option<&str> {
        self.anomaly.as_deref()
    }

    pub(super) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Returns how often each event happened, including the fates of batches.
    pub(super) fn all_counts(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = self.counts.clone();
        for fate in self.fates.values() {
            let what = match fate {
                BatchFate::Stored(_) => "a batch was acknowledged",
                BatchFate::Unknown => "the fate of a batch was unknown",
                BatchFate::Refused => "a batch was refused",
            };
            *counts.entry(what).or_default() += 1;
        }
        counts
    }

    /// Records that a message was published and acknowledged, or a record committed, and which subscribers
    /// must hear it.
    pub(super) fn published(&mut self, value: &str, hear: &[&'static str]) {
        self.published.extend(hear.iter().map(|who| (*who, value.to_owned())));
    }

    /// Records that a subscriber, or a queue group, heard a message.
    pub(super) fn heard(&mut self, who: &'static str, value: &str) {
        *self.heard.entry(who).or_default().entry(value.to_owned()).or_default() += 1;
    }

    pub(super) fn published_at_the_end(&self) -> &BTreeSet<(&'static str, String)> {
        &self.published
    }

    /// Returns how often a subscriber, or a queue group, heard each message.
    pub(super) fn heard_by(&self, who: &str) -> Option<&BTreeMap<String, u32>> {
        self.heard.get(who)
    }

    /// Records that a member of a consumer group now owns a partition.
    pub(super) fn owned(&mut self, group: &'static str, member: usize, partition: i32) {
        if let Some(other) = self.owners.insert((group, partition), member) {
            self.found(format!("members {other} and {member} of {group} own partition {partition}"));
        }
    }

    /// Records that a member of a consumer group no longer owns a partition.
    pub(super) fn released(&mut self, group: &'static str, member: usize, partition: i32) {
        self.owners.retain(|owned, owner| (*owned, *owner) != ((group, partition), member));
    }

    /// Returns how many acceptances of the share group were answered so far.
    pub(super) fn acceptances(&self) -> u64 {
        self.acceptances
    }

    /// Records that a member of the share group has accepted records. `is_known` is false if there was no
    /// answer. `asked_at` is the number of acceptances when the member fetched the records: none of those
    /// acceptances may cover the same records. (A deposed leader that does not know yet may deliver records
    /// again, but acknowledgements to it do not count.)
    pub(super) fn accepted(&mut self, offsets: RangeInclusive<i64>, is_known: bool, asked_at: u64) {
        self.acceptances += u64::from(is_known);
        for offset in offsets {
            let before = self.accepted.entry(offset).or_default();
            let again = is_known && before.is_some_and(|number| number <= asked_at);
            if is_known {
                before.get_or_insert(self.acceptances);
            }
            if again {
                self.found(format!(
                    "the share group accepted offset {offset} again, which it had accepted before it was acquired"
                ));
            }
        }
    }

    /// Records that a member of the share group got records when everything was whole again.
    pub(super) fn acquired_at_the_end(&mut self, mut offsets: RangeInclusive<i64>) {
        if let Some(offset) = offsets.find(|offset| self.accepted.get(offset).is_some_and(Option::is_some)) {
            self.found(format!("the share group acquired offset {offset} again, which it had accepted"));
        }
    }

    /// Records that a share group was deleted. The next group of its name starts over.
    pub(super) fn successor_begins(&mut self) {
        self.successor.clear();
    }

    /// Records that the next group may have accepted records.
    pub(super) fn successor_accepted(&mut self, offsets: RangeInclusive<i64>) {
        self.successor.extend(offsets);
    }

    /// Reports whether both share groups may have accepted a record.
    pub(super) fn may_have_accepted(&self, offset: i64) -> bool {
        self.accepted.contains_key(&offset) && self.successor.contains(&offset)
    }

    /// Returns the offsets up to which the share groups have accepted every record, for people.
    fn shared(&self) -> [Option<i64>; 2] {
        let first = self.accepted.keys().chain(&self.successor).min().copied();
        let run = |has: &dyn Fn(i64) -> bool| {
            first.map(|first| (first..).find(|offset| !has(*offset)).unwrap_or(first))
        };
        [run(&|offset| self.accepted.contains_key(&offset)), run(&|offset| self.successor.contains(&offset))]
    }

    /// Records that a record of a recreated topic was acknowledged.
    pub(super) fn stored_again(&mut self, topic: [u8; 16], value: String) {
        self.again.entry(topic).or_default().push(value);
    }

    /// Records a request to delete a recreated topic.
    pub(super) fn dooms(&mut self, topic: [u8; 16]) {
        self.doomed.insert(topic);
        self.again.remove(&topic);
    }

    pub(super) fn is_doomed(&self, topic: [u8; 16]) -> bool {
        self.doomed.contains(&topic)
    }

    /// Returns the acknowledged records of the recreated topics whose deletion was not requested.
    pub(super) fn again(&self) -> &BTreeMap<[u8; 16], Vec<String>> {
        &self.again
    }

    /// Returns how many partitions have an owner.
    pub(super) fn owned_partitions(&self) -> usize {
        self.owners.len()
    }

    /// Records that a node serves a subscription, or that the subscriber's connection was lost.
    pub(super) fn listens(&mut self, subscriber: usize, is_known: bool) {
        if is_known {
            self.listening.insert(subscriber);
        } else {
            self.listening.remove(&subscriber);
        }
    }

    /// Describes the progress of the clients.
    pub(super) fn state(&self) -> String {
        let (busy, ended, listening) = (self.busy, &self.at_the_end, &self.listening);
        let (owners, shared) = (&self.owners, self.shared());
        format!(
            "{busy} clients are busy, acknowledged at the end {ended:?}, listening {listening:?}, owners {owners:?}, \
             shared without a gap to {shared:?}"
        )
    }

    pub(super) fn listening(&self) -> usize {
        self.listening.len()
    }
}
