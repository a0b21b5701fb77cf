//! What was offered, and what clients were told and saw of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tailrace_types::{Offset, ProducerEpoch, ProducerId};
use tracing::{debug, error, info};

use super::copies::Copies;
use super::site::{Habits, Keeps, TOPIC};
use crate::history::History as Partitions;

/// Each client has so many batches or transactions acknowledged once faults have ended.
const AT_THE_END: u32 = 3;

/// Keys of each writer.
const KEYS: u32 = 7;

/// A batch by who offered it, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BatchName {
    /// The node that it was offered to; or a client, behind the nodes.
    pub(super) node: usize,
    /// Which start of that.
    pub(super) start: u32,
    /// Which of the writers there.
    pub(super) writer: u32,
    /// How many that one offered before.
    pub(super) number: u32,
}

impl BatchName {
    /// Its key, where that matters: each writer has a few.
    pub(super) fn key(&self) -> String {
        format!("{}.{}", self.node, self.number % KEYS)
    }

    /// What stands in the log.
    pub(super) fn parse(value: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(value).ok()?.split('.');
        let name = Self {
            node: parts.next()?.parse().ok()?,
            start: parts.next()?.parse().ok()?,
            writer: parts.next()?.parse().ok()?,
            number: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(name)
    }
}

impl fmt::Display for BatchName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}.{}", self.node, self.start, self.writer, self.number)
    }
}

/// What was told of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BatchFate {
    /// Nothing, or that it may be stored.
    Unknown,
    /// It is stored, from this offset on.
    Stored(Offset),
    /// It is not stored.
    Refused,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    #[default]
    Storm,
    /// The faults have ended, and subscribers find their last node.
    Settling,
    /// Some of a queue group leave.
    Leaving,
    /// A few more batches of each client. All are heard.
    Ending,
}

#[derive(Default)]
pub(super) struct History {
    phase: Phase,
    fates: BTreeMap<BatchName, BatchFate>,
    /// What clients write to, where it is another topic than the one for all.
    topics: BTreeMap<usize, &'static str>,
    /// Up to which offset somebody asked to delete old records, and up to which that was acknowledged.
    deleted: (i64, i64),
    habits: Habits,
    /// What was written to and read from the topics that have transactions.
    pub(super) partitions: Partitions,
    /// What should not have happened, found on the way.
    anomaly: Option<String>,
    /// Acknowledged since the end began, of each client.
    at_the_end: BTreeMap<usize, u32>,
    /// Clients that have something to finish.
    busy: usize,
    /// Messages acknowledged, and records committed, since the end began, with who has to hear of them.
    published: BTreeSet<(&'static str, String)>,
    /// What each subscriber heard since the end began.
    heard: BTreeMap<&'static str, BTreeMap<String, u32>>,
    /// Subscribers that a node knows of.
    listening: BTreeSet<usize>,
    /// Which member of each consumer group owns each partition.
    owners: BTreeMap<(&'static str, i32), usize>,
    /// Who was given each producer id, and its epoch at that time.
    producers: BTreeMap<ProducerId, (String, ProducerEpoch)>,
    /// Offsets of the output that a share group has accepted, and as the how many-th; `None` if the answer was lost.
    accepted: BTreeMap<i64, Option<u64>>,
    /// How many acceptances were answered.
    acceptances: u64,
    /// Offsets of the output that another share group may have accepted since it was last deleted.
    successor: BTreeSet<i64>,
    /// Of each topic of the name that comes again: what was acknowledged, as long as nobody asked to delete it.
    again: BTreeMap<[u8; 16], Vec<String>>,
    /// Those of them that somebody asked to delete.
    doomed: BTreeSet<[u8; 16]>,
    /// What the processor did with its position.
    pub(super) copies: Copies,
    /// How often what happened.
    counts: BTreeMap<&'static str, u64>,
}

/// The history, as all clients share it.
#[derive(Clone)]
pub(super) struct SharedHistory(Arc<Mutex<History>>);

impl SharedHistory {
    /// Nothing yet.
    pub(super) fn new(habits: Habits) -> Self {
        Self(Arc::new(Mutex::new(History { habits, ..History::default() })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, History> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.fates.insert(name, BatchFate::Unknown);
    }

    pub(super) fn told(&mut self, name: BatchName, fate: BatchFate) {
        debug!(%name, ?fate, "what is told of a batch");
        if matches!(fate, BatchFate::Stored(_)) {
            self.done(name.node);
        }
        self.fates.insert(name, fate);
    }

    pub(super) fn keeps(&self, topic: &str) -> Keeps {
        Keeps::of(topic, self.habits)
    }

    /// All that a client writes goes to this topic.
    pub(super) fn writes_to(&mut self, client: usize, topic: &'static str) {
        self.topics.insert(client, topic);
    }

    /// What was told of all batches for a topic.
    pub(super) fn fates_in(&self, topic: &str) -> impl Iterator<Item = (&BatchName, &BatchFate)> {
        let of = |name: &BatchName| self.topics.get(&name.node).copied().unwrap_or(TOPIC);
        self.fates.iter().filter(move |(name, _)| of(name) == topic)
    }

    /// The highest offset in a topic that was acknowledged.
    pub(super) fn highest_in(&self, topic: &str) -> Option<Offset> {
        let offset =
            |fate: &BatchFate| if let BatchFate::Stored(offset) = fate { Some(*offset) } else { None };
        self.fates_in(topic).filter_map(|(_, fate)| offset(fate)).max()
    }

    /// Somebody asks to delete old records up to an offset.
    pub(super) fn asked_to_delete(&mut self, to: i64) {
        self.deleted.0 = to.max(self.deleted.0);
    }

    /// Old records are deleted up to an offset, as a leader says.
    pub(super) fn was_deleted(&mut self, to: i64) {
        self.deleted.1 = to.max(self.deleted.1);
    }

    /// Up to which offset somebody asked to delete old records, and up to which that was acknowledged.
    pub(super) fn deleted(&self) -> (i64, i64) {
        self.deleted
    }

    /// Something of a client was acknowledged.
    pub(super) fn done(&mut self, client: usize) {
        if self.phase == Phase::Ending {
            *self.at_the_end.entry(client).or_default() += 1;
        }
    }

    /// A client has had enough acknowledged since the end began.
    pub(super) fn has_ended(&self, client: usize) -> bool {
        self.at_the_end.get(&client).is_some_and(|count| *count >= AT_THE_END)
    }

    /// A client has something to finish before the run can end.
    pub(super) fn begins(&mut self) {
        self.busy += 1;
    }

    pub(super) fn finishes(&mut self) {
        self.busy -= 1;
    }

    pub(super) fn all_have_finished(&self) -> bool {
        self.busy == 0
    }

    /// Somebody was given a producer id. It is for him alone, and each time with a later epoch.
    pub(super) fn was_given(&mut self, id: ProducerId, epoch: ProducerEpoch, owner: &str) {
        if let Some((before, last)) = self.producers.insert(id, (owner.to_owned(), epoch))
            && (before != owner || epoch <= last)
        {
            self.found(format!("{owner} was given producer {id} with epoch {epoch}, {before} had {last}"));
        }
    }

    /// Something should not have happened. The first one counts.
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

    /// How often what happened, and what was told of batches.
    pub(super) fn all_counts(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = self.counts.clone();
        for fate in self.fates.values() {
            let what = match fate {
                BatchFate::Stored(_) => "a batch was acknowledged",
                BatchFate::Unknown => "nothing was known of a batch",
                BatchFate::Refused => "a batch was refused",
            };
            *counts.entry(what).or_default() += 1;
        }
        counts
    }

    /// A message was published and acknowledged, or a record committed. These subscribers have to hear it.
    pub(super) fn published(&mut self, value: &str, hear: &[&'static str]) {
        self.published.extend(hear.iter().map(|who| (*who, value.to_owned())));
    }

    /// A subscriber, or a queue group, heard a message.
    pub(super) fn heard(&mut self, who: &'static str, value: &str) {
        *self.heard.entry(who).or_default().entry(value.to_owned()).or_default() += 1;
    }

    pub(super) fn published_at_the_end(&self) -> &BTreeSet<(&'static str, String)> {
        &self.published
    }

    /// How often a subscriber, or a queue group, heard each message.
    pub(super) fn heard_by(&self, who: &str) -> Option<&BTreeMap<String, u32>> {
        self.heard.get(who)
    }

    /// A member of a consumer group owns a partition from now on.
    pub(super) fn owned(&mut self, group: &'static str, member: usize, partition: i32) {
        if let Some(other) = self.owners.insert((group, partition), member) {
            self.found(format!("members {other} and {member} of {group} own partition {partition}"));
        }
    }

    /// A member of a consumer group owns a partition no more.
    pub(super) fn released(&mut self, group: &'static str, member: usize, partition: i32) {
        self.owners.retain(|owned, owner| (*owned, *owner) != ((group, partition), member));
    }

    /// How many acceptances of the share group were answered so far.
    pub(super) fn acceptances(&self) -> u64 {
        self.acceptances
    }

    /// A member of the share group has accepted records; `is_known` unless nothing was answered. It has asked for them when there were
    /// so many acceptances: none of those may be of the same records. (A leader that is deposed, and does not know it yet, may hand them
    /// out; but what is said of them then does not count.)
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
                    "the share group accepted offset {offset}, which it had accepted before it got it"
                ));
            }
        }
    }

    /// A member of the share group got records when everything was whole again.
    pub(super) fn acquired_at_the_end(&mut self, mut offsets: RangeInclusive<i64>) {
        if let Some(offset) = offsets.find(|offset| self.accepted.get(offset).is_some_and(Option::is_some)) {
            self.found(format!("the share group got offset {offset} again, which it had accepted"));
        }
    }

    /// A share group was deleted: the next one of its name begins at the beginning.
    pub(super) fn successor_begins(&mut self) {
        self.successor.clear();
    }

    /// That one may have accepted records.
    pub(super) fn successor_accepted(&mut self, offsets: RangeInclusive<i64>) {
        self.successor.extend(offsets);
    }

    /// True if both share groups may have accepted a record.
    pub(super) fn may_have_accepted(&self, offset: i64) -> bool {
        self.accepted.contains_key(&offset) && self.successor.contains(&offset)
    }

    /// Up to which offset the share groups have accepted all records from the first on, for people.
    fn shared(&self) -> [Option<i64>; 2] {
        let first = self.accepted.keys().chain(&self.successor).min().copied();
        let run = |has: &dyn Fn(i64) -> bool| {
            first.map(|first| (first..).find(|offset| !has(*offset)).unwrap_or(first))
        };
        [run(&|offset| self.accepted.contains_key(&offset)), run(&|offset| self.successor.contains(&offset))]
    }

    /// A record of a topic that comes again was acknowledged.
    pub(super) fn stored_again(&mut self, topic: [u8; 16], value: String) {
        self.again.entry(topic).or_default().push(value);
    }

    /// Somebody asks to delete a topic that comes again.
    pub(super) fn dooms(&mut self, topic: [u8; 16]) {
        self.doomed.insert(topic);
        self.again.remove(&topic);
    }

    pub(super) fn is_doomed(&self, topic: [u8; 16]) -> bool {
        self.doomed.contains(&topic)
    }

    /// What was acknowledged of topics that nobody asked to delete.
    pub(super) fn again(&self) -> &BTreeMap<[u8; 16], Vec<String>> {
        &self.again
    }

    /// How many partitions somebody owns.
    pub(super) fn owned_partitions(&self) -> usize {
        self.owners.len()
    }

    /// A node has begun to serve a subscription, or a connection was lost.
    pub(super) fn listens(&mut self, subscriber: usize, is_known: bool) {
        if is_known {
            self.listening.insert(subscriber);
        } else {
            self.listening.remove(&subscriber);
        }
    }

    /// How far clients are.
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
