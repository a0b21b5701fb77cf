//! The shipped coordinators on the partitions that their nodes lead: loaded from the log, stepped, their answers held back until what
//! they rest on is committed. What the server's coordinators shell does.

use std::collections::BTreeMap;
use std::sync::Arc;

use tailrace_coordination::coordinator::{
    Append, Coordinator, Effects, Moment, Replayed, Token, TransactionalProducer,
};
use tailrace_coordination::groups::{GroupCoordinator, GroupWork};
use tailrace_coordination::transactions::{TransactionCoordinator, TransactionWork};
use tailrace_metadata::{CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC};
use tailrace_records::{BatchBuilder, BatchOptions, DecodedBatch, EndTransactionMarker, split_batches};
use tailrace_replication::raft::ProposeError;
use tailrace_replication::{Appended, PartitionReader, TransactionMarker};
use tailrace_types::{HighWatermark, LeaderEpoch, PartitionId, RaftGroup, TimestampMs};

use super::node::{Running, leads};
use super::options::Bug;
use super::shard::{Awaited, Shard};
use super::sim::Sim;
use super::tasks::{Pending, Promise, promise};
use super::world::World;
use crate::SimDisk;

/// How long an answer may wait for the log, in milliseconds.
const PATIENCE_MS: u64 = 10_000;

/// What the shell needs to know of a kind of coordinators.
pub(super) trait Kind: Coordinator {
    const TOPIC: &'static str;
    fn new() -> Self;
    fn shards(running: &mut Running) -> &mut BTreeMap<i32, Shard<Self>>;
    fn perform(sim: &Sim, number: u64, partition: i32, work: Self::Work);
}

impl Kind for TransactionCoordinator {
    const TOPIC: &'static str = TRANSACTION_STATE_TOPIC;

    fn new() -> Self {
        Self::new()
    }

    fn shards(running: &mut Running) -> &mut BTreeMap<i32, Shard<Self>> {
        &mut running.transactions
    }

    fn perform(sim: &Sim, number: u64, partition: i32, work: TransactionWork) {
        let TransactionWork::WriteMarkers(markers) = work;
        super::markers::begin(sim, number, partition, markers);
    }
}

impl Kind for GroupCoordinator {
    const TOPIC: &'static str = CONSUMER_OFFSETS_TOPIC;

    fn new() -> Self {
        Self::new()
    }

    fn shards(running: &mut Running) -> &mut BTreeMap<i32, Shard<Self>> {
        &mut running.groups
    }

    fn perform(_: &Sim, _: u64, _: i32, _: GroupWork) {}
}

/// Nobody answers: the coordinator is elsewhere, was thrown away, or cannot write.
#[derive(Debug)]
pub(super) struct Elsewhere;

/// What may be told once the log is committed up to a point.
struct Release<C: Kind> {
    group: RaftGroup,
    at: Awaited,
    replies: Vec<(Promise<C::Reply>, C::Reply)>,
    work: Vec<C::Work>,
}

/// A coordinator, its group, and what its loading has brought about.
type Taken<C> = (Shard<C>, RaftGroup, Option<Release<C>>);

impl Sim {
    /// Submits an event to the coordinator of a partition. It is decided and written on return; the answer comes when it is committed.
    pub(super) fn submit<C: Kind>(
        &self,
        number: u64,
        partition: i32,
        event: impl FnOnce(Token) -> C::Event,
    ) -> Result<(Pending<C::Reply>, LeaderEpoch), Elsewhere> {
        let (answer, pending) = promise();
        let step = |shard: &mut Shard<C>, moment: &Moment<'_>| {
            let token = Token(shard.next_token);
            shard.next_token += 1;
            shard.waiting.insert(token, answer);
            shard.core.step(event(token), moment)
        };
        let epoch = self.act(number, partition, step)?;
        Ok((pending, epoch))
    }

    /// Lets a coordinator take a step.
    pub(super) fn act<C: Kind>(
        &self,
        number: u64,
        partition: i32,
        step: impl FnOnce(&mut Shard<C>, &Moment<'_>) -> Effects<C>,
    ) -> Result<LeaderEpoch, Elsewhere> {
        let (mut shard, group, loaded) = self.take::<C>(number, partition)?;
        let effects = self.world().with_moment(number, |moment| step(&mut shard, moment)).ok_or(Elsewhere)?;
        let epoch = shard.epoch;
        let release = self.world().carry_out_effects(number, group, &mut shard, effects)?;
        if let Some(running) = self.world().nodes.get_mut(&number).and_then(|node| node.running.as_mut()) {
            C::shards(running).insert(partition, shard);
        }
        for release in loaded.into_iter().chain([release]) {
            self.release(number, partition, release);
        }
        Ok(epoch)
    }

    /// Takes the coordinator out, loading it if need be: whatever goes wrong, what is left is one to be loaded anew.
    fn take<C: Kind>(&self, number: u64, partition: i32) -> Result<Taken<C>, Elsewhere> {
        let mut world = self.world();
        let unchecked = world.bug == Some(Bug::StaleLeaderReads);
        let applied = world.nodes.get(&number).and_then(|node| Some(node.running.as_ref()?.applied));
        let is_current = applied.is_some_and(|applied| world.has_newest_metadata(applied));
        let node = world.nodes.get_mut(&number).ok_or(Elsewhere)?;
        let running = node.running.as_mut().ok_or(Elsewhere)?;
        let topic = running.image.topic(C::TOPIC).ok_or(Elsewhere)?;
        let group = RaftGroup { topic: topic.id, partition: PartitionId(partition) };
        let slot = running.slots.get_mut(&group).ok_or(Elsewhere)?;
        let leads = leads(slot, unchecked);
        let reader = slot.core.as_ref().ok_or(Elsewhere)?.reader();
        let known = C::shards(running).remove(&partition);
        let epoch = leads.ok_or(Elsewhere)?;
        if let Some(shard) = known.filter(|shard| shard.epoch == epoch) {
            return Ok((shard, group, None));
        }
        // The server asks a majority of the controllers.
        if !is_current {
            world.count("a coordinator waited for newer metadata");
            return Err(Elsewhere);
        }
        let mut core = C::new();
        replay(&mut core, &reader).map_err(|_| Elsewhere)?;
        let end = reader.log_end().offset();
        let last = reader.log().epoch_at(end.plus(-1)).unwrap_or(epoch);
        let appended_to = Awaited { at: HighWatermark(end.get()), epoch: last };
        let mut shard = Shard { core, epoch, next_token: 0, waiting: BTreeMap::new(), appended_to };
        world.count("a coordinator was loaded");
        let effects = world.with_moment(number, |moment| shard.core.loaded(moment)).ok_or(Elsewhere)?;
        let release = world.carry_out_effects(number, group, &mut shard, effects)?;
        Ok((shard, group, Some(release)))
    }

    fn release<C: Kind>(&self, number: u64, partition: i32, release: Release<C>) {
        if release.replies.is_empty() && release.work.is_empty() {
            return;
        }
        let (sim, owner) = (self.clone(), self.world().owner(number));
        self.spawn(owner, async move {
            let Release { group, at, replies, work } = release;
            if !sim.committed(number, group, at, PATIENCE_MS).await {
                return;
            }
            replies.into_iter().for_each(|(promise, reply)| promise.keep(reply));
            work.into_iter().for_each(|work| C::perform(&sim, number, partition, work));
        });
    }

    /// Waits for a commit. False if it will not come, or has not after `ms`.
    pub(super) async fn committed(&self, number: u64, group: RaftGroup, awaited: Awaited, ms: u64) -> bool {
        let look = |world: &mut World| {
            let Some(slot) = world.nodes.get_mut(&number).and_then(|node| node.slot(group)) else {
                return Some(false);
            };
            let core = slot.core.as_ref()?;
            let reader = core.reader();
            let epoch = || reader.log().epoch_at(awaited.at.offset().plus(-1));
            if reader.high_watermark() >= awaited.at
                && (awaited.at.get() == 0 || epoch() == Some(awaited.epoch))
            {
                return Some(true);
            }
            (core.leads().is_none() || core.halted().is_some()).then_some(false)
        };
        self.wait(ms, look).await == Some(true)
    }

    /// Appends the marker of a transaction with group offsets, and lets the coordinator know.
    pub(super) fn mark_group(
        &self,
        number: u64,
        partition: i32,
        marker: &TransactionMarker,
    ) -> Result<Result<Awaited, ProposeError>, Elsewhere> {
        let (mut shard, group, loaded) = self.take::<GroupCoordinator>(number, partition)?;
        let appended = self.world().append_marker(number, group, marker, Some(shard.epoch));
        if let Some(Ok(appended)) = &appended {
            shard.appended_to = shard.appended_to.max(appended.into());
            let producer = TransactionalProducer { id: marker.producer_id, epoch: marker.producer_epoch };
            let (coordinator_epoch, committed) = (marker.coordinator_epoch, marker.committed);
            // A coordinator has nothing to say against a marker that is in its log.
            let _ = shard.core.replay(Replayed::Marker { producer, coordinator_epoch, committed });
        }
        if let Some(running) = self.world().nodes.get_mut(&number).and_then(|node| node.running.as_mut()) {
            GroupCoordinator::shards(running).insert(partition, shard);
        }
        if let Some(release) = loaded {
            self.release(number, partition, release);
        }
        Ok(appended.ok_or(Elsewhere)?.map(|appended| (&appended).into()))
    }

    /// Calls the coordinators whose time has come.
    pub(super) fn tick_coordinators(&self, number: u64) {
        self.tick_kind::<TransactionCoordinator>(number);
        self.tick_kind::<GroupCoordinator>(number);
    }

    fn tick_kind<C: Kind>(&self, number: u64) {
        let due: Vec<i32> = {
            let mut world = self.world();
            let now_ms = world.now_ms as i64;
            let Some(node) = world.nodes.get_mut(&number) else { return };
            let Some(running) = &mut node.running else { return };
            let now = TimestampMs(now_ms + running.steady_ms);
            let is_due = |shard: &Shard<C>| shard.core.deadline().is_some_and(|deadline| deadline <= now);
            C::shards(running)
                .iter()
                .filter(|(_, shard)| is_due(shard))
                .map(|(partition, _)| *partition)
                .collect()
        };
        for partition in due {
            let _ = self.act::<C>(number, partition, |shard, moment| shard.core.tick(moment));
        }
    }

    /// Loads what this node has come to coordinate, and tells the others of changed metadata.
    pub(super) fn nudge_coordinators(&self, number: u64) {
        let (groups, changed) = {
            let mut world = self.world();
            let groups = world.to_load.remove(&number).unwrap_or_default();
            (groups, world.to_tell.remove(&number))
        };
        for (topic, partition) in groups {
            if topic == TRANSACTION_STATE_TOPIC {
                let _ = self.act::<TransactionCoordinator>(number, partition, |_, _| Effects::default());
            } else {
                let _ = self.act::<GroupCoordinator>(number, partition, |_, _| Effects::default());
            }
        }
        if changed {
            self.tell::<TransactionCoordinator>(number);
            self.tell::<GroupCoordinator>(number);
        }
    }

    fn tell<C: Kind>(&self, number: u64) {
        let loaded: Vec<i32> = {
            let mut world = self.world();
            let Some(running) = world.nodes.get_mut(&number).and_then(|node| node.running.as_mut()) else {
                return;
            };
            C::shards(running).keys().copied().collect()
        };
        for partition in loaded {
            let _ = self.act::<C>(number, partition, |shard, moment| shard.core.metadata_changed(moment));
        }
    }
}

impl World {
    pub(super) fn metadata_changed(&mut self, number: u64) {
        self.to_tell.insert(number);
    }

    /// Leadership of a coordinator's partition came or went.
    pub(super) fn follow_leader(&mut self, number: u64, group: RaftGroup) {
        let Some(running) = self.nodes.get_mut(&number).and_then(|node| node.running.as_mut()) else {
            return;
        };
        let Some(topic) = running.image.topic_by_id(group.topic) else { return };
        let (name, partition) = (topic.name.to_string(), group.partition.0);
        if name != TRANSACTION_STATE_TOPIC && name != CONSUMER_OFFSETS_TOPIC {
            return;
        }
        if running.slots.get(&group).is_some_and(|slot| slot.leads().is_some()) {
            self.to_load.entry(number).or_default().push((name, partition));
        } else if name == TRANSACTION_STATE_TOPIC {
            running.transactions.remove(&partition);
        } else {
            running.groups.remove(&partition);
        }
    }

    fn with_moment<T>(&self, number: u64, act: impl FnOnce(&Moment<'_>) -> T) -> Option<T> {
        let running = self.nodes.get(&number)?.running.as_ref()?;
        let (now, image) = (TimestampMs(self.now_ms as i64 + running.steady_ms), Arc::clone(&running.image));
        Some(act(&Moment { now, image: &image }))
    }

    /// Appends what a step wants appended.
    fn carry_out_effects<C: Kind>(
        &mut self,
        number: u64,
        group: RaftGroup,
        shard: &mut Shard<C>,
        effects: Effects<C>,
    ) -> Result<Release<C>, Elsewhere> {
        for append in &effects.appends {
            let appended = self.append_records(number, group, append, shard.epoch).ok_or(Elsewhere)?;
            shard.appended_to = shard.appended_to.max((&appended).into());
        }
        let waiting = &mut shard.waiting;
        let addressed = |(token, reply)| Some((waiting.remove(&token)?, reply));
        let replies = effects.replies.into_iter().filter_map(addressed).collect();
        Ok(Release { group, at: shard.appended_to, replies, work: effects.work })
    }

    fn append_records(
        &mut self,
        number: u64,
        group: RaftGroup,
        append: &Append,
        epoch: LeaderEpoch,
    ) -> Option<Appended> {
        let now_ms = self.now_ms;
        let node = self.nodes.get_mut(&number)?;
        let now = node.wall(now_ms);
        let mut options = BatchOptions::default();
        if let Some(producer) = append.producer {
            (options.producer_id, options.producer_epoch) = (producer.id, producer.epoch);
            options.transactional = true;
        }
        let mut builder = BatchBuilder::new(options);
        for record in &append.records {
            builder.push(now, Some(&record.key), record.value.as_deref(), &[]).ok()?;
        }
        let (header, bytes) = builder.build_with_header();
        let core = node.slot(group)?.core.as_mut()?;
        if core.leads()? != epoch {
            return None;
        }
        let appended = core.append(&header, &bytes, None, now).ok();
        self.stepped(number, group);
        appended
    }

    /// Appends a marker where this node leads. `None` where it does not.
    pub(super) fn append_marker(
        &mut self,
        number: u64,
        group: RaftGroup,
        marker: &TransactionMarker,
        only_in: Option<LeaderEpoch>,
    ) -> Option<Result<Appended, ProposeError>> {
        let now_ms = self.now_ms;
        let node = self.nodes.get_mut(&number)?;
        let now = node.wall(now_ms);
        let core = node.slot(group)?.core.as_mut()?;
        let epoch = core.leads()?;
        if only_in.is_some_and(|only| only != epoch) {
            return None;
        }
        let appended = core.append_marker(marker, now);
        self.stepped(number, group);
        Some(appended)
    }
}

/// Hands everything that the partition holds to a coordinator, in order.
fn replay<C: Coordinator>(core: &mut C, reader: &PartitionReader<SimDisk>) -> Result<(), String> {
    let (mut at, end) = (reader.log_start(), reader.log_end().offset());
    while at < end {
        let slice = reader.log().read(at, end, 1 << 20, true).map_err(|error| error.to_string())?;
        let Some(slice) = slice else { break };
        let bytes = slice.read().map_err(|error| error.to_string())?;
        for batch in split_batches(&bytes) {
            let (header, batch) = batch.map_err(|error| error.to_string())?;
            if !tailrace_records::verify_crc(batch) {
                return Err("a batch with a wrong checksum".to_owned());
            }
            let decoded = DecodedBatch::new(batch, usize::MAX).map_err(|error| error.to_string())?;
            let producer = TransactionalProducer { id: header.producer_id, epoch: header.producer_epoch };
            let producer = header.attributes.is_transactional().then_some(producer);
            for record in decoded.records() {
                let record = record.map_err(|error| error.to_string())?;
                let key = record.key.unwrap_or_default();
                let entry = match producer.filter(|_| header.attributes.is_control()) {
                    Some(producer) => {
                        let marker = EndTransactionMarker::from_record(key, record.value.unwrap_or_default());
                        let Ok(Some(EndTransactionMarker { committed, coordinator_epoch })) = marker else {
                            continue;
                        };
                        Replayed::Marker { producer, coordinator_epoch, committed }
                    }
                    None => {
                        let (value, timestamp, offset) = (record.value, record.timestamp, record.offset);
                        Replayed::Record { key, value, timestamp, offset, producer }
                    }
                };
                // A record that is not understood is as if it were not there.
                let _ = core.replay(entry);
            }
        }
        at = slice.next_offset;
    }
    Ok(())
}
