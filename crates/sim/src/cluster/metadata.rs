//! Group 0 as every node follows it, and the partitions of a node brought in line with it: what the server's controller shell does.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tailrace_log::{Disk, LogError, LogStore, PartitionIdentity};
use tailrace_metadata::{Command, Controller, METADATA_TOPIC, MetadataImage, MetadataRecord, TopicImage};
use tailrace_records::{BatchBuilder, BatchOptions, DecodedBatch, split_batches};
use tailrace_replication::raft::{Replica, ReplicaId, owner};
use tailrace_replication::{Appended, Durability, Partition, PartitionReader, Policy, Solo};
use tailrace_types::{
    NodeId, Offset, PartitionId, RaftGroup, TimestampMs, TopicId, TopicName, TopicPartition,
};

use super::node::{DATA, Membership, Running, Slot, folder, replica_options, small_segments};
use super::options::{Bug, CONTROLLER};
use super::sim::Sim;
use super::upkeep::Upkeep;
use super::world::{Halt, World};
use crate::SimDisk;

const STRICT: Policy = Policy {
    durability: Durability::Strict,
    producer_expiration_ms: i64::MAX,
    timestamp_type: tailrace_records::TimestampType::CreateTime,
};
/// How long a command waits for other nodes, in milliseconds.
const PATIENCE_MS: u64 = 5_000;

/// What a node is to have of a partition.
enum WantedReplica {
    Nothing,
    Solo,
    Replica { id: ReplicaId, founders: Vec<ReplicaId> },
}

fn wanted(topic: &TopicImage, number: PartitionId, node: NodeId) -> WantedReplica {
    let Some(partition) = topic.partition(number) else { return WantedReplica::Nothing };
    let Some(own) = partition.present_on(node) else { return WantedReplica::Nothing };
    if partition.founders == [own] && partition.replicas == [own] && !partition.is_reassigned() {
        return WantedReplica::Solo;
    }
    WantedReplica::Replica { id: own, founders: partition.founders.clone() }
}

pub(super) fn metadata_partition() -> Result<TopicPartition, String> {
    let topic = TopicName::new(METADATA_TOPIC).map_err(|error| error.to_string())?;
    Ok(TopicPartition::new(topic, PartitionId(0)))
}

fn fixed(node: NodeId) -> BTreeMap<String, String> {
    let settings = [
        ("node.id", node.to_string()),
        ("broker.session.timeout.ms", "1000".to_owned()),
        ("tailrace.controller.voters", "3".to_owned()),
        ("transaction.max.timeout.ms", "60000".to_owned()),
    ];
    settings.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Records of committed batches from `from` on, and where they end.
fn committed_from(
    reader: &PartitionReader<SimDisk>,
    from: Offset,
) -> Result<(Vec<MetadataRecord>, Offset), LogError> {
    let (mut records, mut at) = (Vec::new(), from);
    let damaged = |error: String| LogError::damaged(std::path::Path::new(METADATA_TOPIC), 0, error);
    while let Some(piece) = reader.log().read(at, reader.high_watermark().offset(), 1 << 20, true)? {
        let bytes = piece.read().map_err(|error| damaged(error.to_string()))?;
        for batch in split_batches(&bytes) {
            let (_, batch) = batch.map_err(|error| damaged(error.to_string()))?;
            if !tailrace_records::verify_crc(batch) {
                return Err(damaged("a batch with a wrong checksum".to_owned()));
            }
            let decoded = DecodedBatch::new(batch, usize::MAX).map_err(|error| damaged(error.to_string()))?;
            for record in decoded.records() {
                let record = record.map_err(|error| damaged(error.to_string()))?;
                let change = MetadataRecord::decode(record.value.unwrap_or_default());
                records.push(change.map_err(|error| damaged(error.to_string()))?);
            }
        }
        at = piece.next_offset;
    }
    Ok((records, at))
}

impl World {
    /// Starts a node's process: its replica of the metadata log first, then everything that the log knows of.
    pub(super) fn start(&mut self, number: u64) -> Result<(), String> {
        let (now_ms, seed) = (self.now_ms, self.rng.next_u64());
        let Some(node) = self.nodes.get_mut(&number) else { return Ok(()) };
        let Some(Membership { replica, founders }) = node.place.clone() else { return Ok(()) };
        let (now, own) = (node.wall(now_ms), node.id());
        let store = LogStore::new(node.disk.clone(), 16);
        let controller = Controller::new(fixed(own)).map_err(|error| error.to_string())?;
        let id = metadata_partition()?;
        let identity = PartitionIdentity { topic_id: CONTROLLER.topic, topic_partition: id.clone() };
        let options = replica_options(replica, founders.clone(), seed);
        let config = small_segments(1 << 16);
        // As a node does before it reads anything.
        let synced = node.disk.sync_fs(Path::new(DATA));
        let opened = synced
            .map_err(|error| LogError::io("sync", Path::new(DATA), error))
            .and_then(|()| Replica::open(&store, &folder(&id), &identity, config, STRICT, options, now));
        let (core, recovery) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.metadata_is_offline(number, &error),
        };
        let slot = Slot {
            id,
            core: Some(Partition::Replica(Box::new(core))),
            replica,
            is_eager: recovery.created && founders.first() == Some(&replica),
            sync: None,
            led: None,
            upkeep: Upkeep::default(),
            wants_room: false,
        };
        let running = Running {
            image: controller.image(),
            controller,
            applied: Offset(0),
            store,
            slots: BTreeMap::from([(CONTROLLER, slot)]),
            topics: BTreeMap::new(),
            leaders: tailrace_metadata::cluster::Leaders::new(1 << 10),
            heard: BTreeMap::new(),
            transactions: BTreeMap::new(),
            groups: BTreeMap::new(),
            marker_writers: BTreeMap::new(),
            producer_ids: (0, 0),
            steady_ms: now.0 - now_ms as i64,
            leads_controller_since: None,
            is_planning: false,
        };
        node.running = Some(running);
        self.count("a process was started");
        self.misbehave(number, CONTROLLER);
        self.follow_metadata(number);
        Ok(())
    }

    fn metadata_is_offline(&mut self, number: u64, error: &LogError) -> Result<(), String> {
        let later = self.now_ms + 100;
        let Some(node) = self.nodes.get_mut(&number) else { return Ok(()) };
        node.up_again_ms = later;
        if error.is_no_space() {
            self.count("no room to open");
            return Ok(());
        }
        if node.is_failing {
            self.crash(number, crate::CrashMode::Random, 100);
            return Ok(());
        }
        if !node.is_damaged {
            return Err(format!("the metadata log of node {number} does not open: {error}"));
        }
        self.count("damage found at start");
        self.replace_disk(number);
        Ok(())
    }

    /// Takes over what is committed and not in the image yet.
    pub(super) fn follow_metadata(&mut self, number: u64) {
        let now_ms = self.now_ms;
        let Some(node) = self.nodes.get_mut(&number).filter(|node| node.runs(now_ms)) else { return };
        let (is_damaged, is_failing) = (node.is_damaged, node.is_failing);
        let Some(running) = &mut node.running else { return };
        let Some(core) = running.slots.get(&CONTROLLER).and_then(|slot| slot.core.as_ref()) else { return };
        let reader = core.reader();
        if reader.high_watermark().offset() <= running.applied {
            return;
        }
        let (records, end) = match committed_from(&reader, running.applied.max(reader.log_start())) {
            Ok(read) => read,
            Err(_) if is_damaged => return self.damage_was_found(number),
            Err(_) if is_failing => return,
            Err(error) => {
                self.failure
                    .get_or_insert(format!("the metadata log of node {number} cannot be followed: {error}"));
                return;
            }
        };
        for record in &records {
            if let Err(error) = running.controller.apply(record) {
                self.failure.get_or_insert(format!("metadata on node {number}: {error}: {record:?}"));
                return;
            }
        }
        running.applied = end;
        running.image = running.controller.image();
        self.carry_out(number);
    }

    /// Opens, changes and deletes what the image has otherwise than the node.
    fn carry_out(&mut self, number: u64) {
        let Some(running) = self.nodes.get_mut(&number).and_then(|node| node.running.as_mut()) else {
            return;
        };
        let image = Arc::clone(&running.image);
        let own = image.broker().node();
        running.leaders.forget_unknown(&image, CONTROLLER.topic);
        let gone: Vec<Arc<TopicImage>> =
            running.topics.values().filter(|topic| image.topic_by_id(topic.id).is_none()).cloned().collect();
        let changed: Vec<Arc<TopicImage>> = image
            .topics()
            .filter(|topic| running.topics.get(&topic.id).is_none_or(|known| !Arc::ptr_eq(known, topic)))
            .cloned()
            .collect();
        running.topics = image.topics().map(|topic| (topic.id, Arc::clone(topic))).collect();
        for topic in gone {
            for id in topic.topic_partitions() {
                self.close_partition(number, &topic, &id, true);
            }
        }
        for topic in changed {
            for id in topic.topic_partitions() {
                self.renew(number, &topic, &id, own);
            }
        }
        self.metadata_changed(number);
    }

    /// A partition as it is to be now.
    fn renew(&mut self, number: u64, topic: &Arc<TopicImage>, id: &TopicPartition, own: NodeId) {
        let group = RaftGroup { topic: topic.id, partition: id.partition };
        let Some(node) = self.nodes.get_mut(&number) else { return };
        let open = node.slot(group).map(|slot| (slot.replica, slot.core.is_some()));
        match (wanted(topic, id.partition, own), open) {
            (WantedReplica::Nothing, None) | (WantedReplica::Solo, Some(_)) => {}
            (WantedReplica::Nothing, Some(_)) => self.close_partition(number, topic, id, true),
            (WantedReplica::Replica { id: replica, .. }, Some((open, is_open)))
                if open == replica && is_open => {}
            (_, Some(_)) => {
                self.close_partition(number, topic, id, false);
                self.open_partition(number, id);
            }
            (_, None) => self.open_partition(number, id),
        }
    }

    fn close_partition(&mut self, number: u64, topic: &TopicImage, id: &TopicPartition, removes: bool) {
        let group = RaftGroup { topic: topic.id, partition: id.partition };
        let Some(running) = self.nodes.get_mut(&number).and_then(|node| node.running.as_mut()) else {
            return;
        };
        let Some(slot) = running.slots.remove(&group) else { return };
        let disk = running.store.disk().clone();
        if let Some(core) = slot.core {
            // A failure leaves what a crash leaves.
            let _ = core.close();
        }
        self.follow_leader(number, group);
        if removes {
            self.count("a replica was removed");
            let _ = tailrace_log::delete_partition(&disk, &folder(id), &topic.id.to_string());
        }
    }

    /// True if a node that has taken over so much knows all metadata that are committed. Nobody can tell without a controller: after a
    /// crash of all each node knows to be committed what it knew at some time before.
    pub(super) fn has_newest_metadata(&self, applied: Offset) -> bool {
        let known = self.nodes.values().filter_map(|node| {
            let core = node.running.as_ref()?.slots.get(&CONTROLLER)?.core.as_ref()?;
            core.leads()?;
            Some(core.reader().high_watermark().offset())
        });
        known.max().is_some_and(|newest| applied >= newest)
    }

    /// Opens, and creates where missing, one partition.
    pub(super) fn open_partition(&mut self, number: u64, id: &TopicPartition) {
        let (now_ms, seed) = (self.now_ms, self.rng.next_u64());
        let applied = self.nodes.get(&number).and_then(|node| Some(node.running.as_ref()?.applied));
        let is_current = applied.is_some_and(|applied| self.has_newest_metadata(applied));
        let reuses = self.bug == Some(Bug::ReuseReplicaId);
        let Some(node) = self.nodes.get_mut(&number) else { return };
        let (now, own, is_damaged) = (node.wall(now_ms), node.id(), node.is_damaged);
        let is_failing = node.is_failing;
        let Some(running) = &mut node.running else { return };
        let Some(topic) = running.image.topic(id.topic.as_str()).cloned() else { return };
        let group = RaftGroup { topic: topic.id, partition: id.partition };
        let replica = match wanted(&topic, id.partition, own) {
            WantedReplica::Nothing => return,
            WantedReplica::Solo => None,
            WantedReplica::Replica { id, founders } => Some((id, founders)),
        };
        let replica_id = replica.as_ref().map_or(ReplicaId::new(own, 1), |(id, _)| *id);
        let is_first = replica.as_ref().is_some_and(|(id, founders)| founders.first() == Some(id));
        // Old metadata may want a replica that is gone, and has voted and acknowledged, or one in whose place a later one has come. By
        // the newest ones the first is one whose folder a crash took before it was durable.
        let found = owner(running.store.disk(), &folder(id));
        let is_later = matches!(found, Ok(Some(found)) if found.incarnation() > replica_id.incarnation());
        let begun = node.begun.get(&group).map(|begun| begun.incarnation());
        let is_gone = matches!(found, Ok(None)) && begun >= Some(replica_id.incarnation());
        let is_outdated = !reuses && replica.is_some() && !is_current && (is_gone || is_later);
        let opened = if is_outdated {
            Ok(None)
        } else {
            open_core(&running.store, &topic, id, replica, reuses, seed, now).map(Some)
        };
        let mut slot = Slot {
            id: id.clone(),
            core: None,
            replica: replica_id,
            is_eager: false,
            sync: None,
            led: None,
            upkeep: Upkeep::default(),
            wants_room: false,
        };
        let mut trouble = None;
        match opened {
            // Tried again, as after a full disk.
            Ok(None) => slot.wants_room = true,
            Ok(Some((core, created, id))) => {
                node.begun.insert(group, id);
                (slot.core, slot.is_eager, slot.replica) = (Some(core), created && is_first, id);
            }
            Err(error) if error.is_no_space() => slot.wants_room = true,
            Err(error) => trouble = Some(error),
        }
        running.slots.insert(group, slot);
        if is_outdated {
            return self.count("old metadata want a replica that is no more");
        }
        match trouble {
            Some(_) if is_failing => {
                let halt = Halt { at_ms: now_ms + 100, mode: crate::CrashMode::Random };
                self.restarts.insert(number, halt);
            }
            Some(_) if is_damaged => self.damage_was_found(number),
            Some(error) => {
                self.failure.get_or_insert(format!("{id} does not open on node {number}: {error}"));
            }
            None => {
                self.misbehave(number, group);
                self.stepped(number, group);
            }
        }
    }

    fn misbehave(&mut self, number: u64, group: RaftGroup) {
        let bug = self.bug;
        let slot = self.nodes.get_mut(&number).and_then(|node| node.slot(group));
        if let (Some(Bug::Replicas(bug)), Some(replica)) = (bug, slot.and_then(Slot::replica)) {
            replica.misbehave(bug);
        }
    }

    /// Appends records as one batch to the metadata log.
    fn append_metadata(&mut self, number: u64, records: &[MetadataRecord]) -> Option<Appended> {
        let now_ms = self.now_ms;
        let node = self.nodes.get_mut(&number)?;
        let now = node.wall(now_ms);
        let mut builder = BatchBuilder::new(BatchOptions::default());
        for record in records {
            builder.push(now, None, Some(&record.encode()), &[]).ok()?;
        }
        let (header, bytes) = builder.build_with_header();
        let core = node.slot(CONTROLLER)?.core.as_mut()?;
        core.leads()?;
        let appended = core.append(&header, &bytes, None, now).ok();
        self.stepped(number, CONTROLLER);
        appended
    }
}

type Opened = (Partition<SimDisk>, bool, ReplicaId);

fn open_core(
    store: &LogStore<SimDisk>,
    topic: &TopicImage,
    id: &TopicPartition,
    replica: Option<(ReplicaId, Vec<ReplicaId>)>,
    reuses: bool,
    seed: u64,
    now: TimestampMs,
) -> Result<Opened, LogError> {
    let identity = PartitionIdentity { topic_id: topic.id, topic_partition: id.clone() };
    let (dir, config) = (folder(id), small_segments(topic.config.segment_bytes));
    let before = owner(store.disk(), &dir)?;
    let replica = replica.or_else(|| before.map(|before| (before, vec![before])));
    let Some((mut own, founders)) = replica else {
        let (mut core, recovery) = Solo::open(store, &dir, &identity, config, STRICT, now)?;
        let own = ReplicaId::new(topic_node(topic, id), 1);
        if core.needs_epoch() {
            core.begin_epoch().map_err(|error| LogError::damaged(&dir, 0, error.to_string()))?;
        }
        return Ok((Partition::Solo(Box::new(core)), recovery.created, own));
    };
    if reuses {
        own = ReplicaId::new(own.node(), 1);
    }
    if before.is_some_and(|before| before.incarnation() < own.incarnation()) {
        tailrace_log::delete_partition(store.disk(), &dir, &topic.id.to_string())?;
    }
    let options = replica_options(own, founders, seed);
    let (core, recovery) = Replica::open(store, &dir, &identity, config, STRICT, options, now)?;
    Ok((Partition::Replica(Box::new(core)), recovery.created, own))
}

fn topic_node(topic: &TopicImage, id: &TopicPartition) -> NodeId {
    let replicas = topic.partition(id.partition).map(|partition| partition.replicas.clone());
    replicas.and_then(|replicas| replicas.first().map(|replica| replica.node())).unwrap_or(NodeId(0))
}

/// What became of a command.
pub(super) enum Executed {
    Done(Vec<MetadataRecord>),
    Refused(String),
    /// It may have been carried out.
    Unknown,
}

impl Sim {
    /// Carries out a command on the node that leads the metadata log.
    pub(super) async fn execute_here(&self, number: u64, command: Command) -> Executed {
        let free = |world: &mut World| {
            let running = world.nodes.get_mut(&number)?.running.as_mut()?;
            (!std::mem::replace(&mut running.is_planning, true)).then_some(())
        };
        if self.wait(PATIENCE_MS, free).await.is_none() {
            return Executed::Unknown;
        }
        let executed = self.plan(number, command).await;
        if let Some(running) = self.world().nodes.get_mut(&number).and_then(|node| node.running.as_mut()) {
            running.is_planning = false;
        }
        executed
    }

    async fn plan(&self, number: u64, command: Command) -> Executed {
        // Commands are planned against all that is in the log: also what nobody waited for to the end.
        let settled = |world: &mut World| {
            let slot = world.nodes.get_mut(&number)?.slot(CONTROLLER)?;
            if slot.leads().is_none() {
                return Some(false);
            }
            let reader = slot.core.as_ref()?.reader();
            (reader.high_watermark().offset() >= reader.log_end().offset()).then_some(true)
        };
        if self.wait(PATIENCE_MS, settled).await != Some(true) {
            return Executed::Unknown;
        }
        let appended = {
            let mut world = self.world();
            world.follow_metadata(number);
            let Some(running) = world.nodes.get(&number).and_then(|node| node.running.as_ref()) else {
                return Executed::Unknown;
            };
            let records = match running.controller.plan(&command) {
                Ok(records) => records,
                Err(error) => return Executed::Refused(error.to_string()),
            };
            if records.is_empty() {
                return Executed::Done(records);
            }
            let Some(appended) = world.append_metadata(number, &records) else { return Executed::Unknown };
            (records, appended)
        };
        let (records, appended) = appended;
        if !self.committed(number, CONTROLLER, (&appended).into(), PATIENCE_MS).await {
            return Executed::Unknown;
        }
        self.world().follow_metadata(number);
        Executed::Done(records)
    }
}

/// The image of the metadata that the node has now.
pub(super) fn image(world: &World, number: u64) -> Option<Arc<MetadataImage>> {
    Some(Arc::clone(&world.nodes.get(&number)?.running.as_ref()?.image))
}

pub(super) fn group_of(image: &MetadataImage, id: &TopicPartition) -> Option<RaftGroup> {
    let topic: TopicId = image.topic(id.topic.as_str())?.id;
    Some(RaftGroup { topic, partition: id.partition })
}
