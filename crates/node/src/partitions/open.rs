//! Opens partitions: from a topic's settings to an online handle, or to the reason why there is none.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tailrace_config::BrokerConfig;
use tailrace_log::{
    Disk as _, LogConfig, LogError, LogStore, PartitionIdentity, Recovery, aside_of, checkpoint_owner,
    delete_partition, holds_data, read_identity, set_aside,
};
use tailrace_metadata::{METADATA_TOPIC, MetadataImage, TopicImage};
use tailrace_replication::raft::{Replica, ReplicaOptions, owner};
use tailrace_replication::{Partition, Policy, Solo};
use tailrace_types::{NodeId, PartitionId, RaftGroup, ReplicaId, TimestampMs, TopicId, TopicPartition};

use crate::cluster::Throttled;
use crate::disk::NodeDisk;
use crate::partitions::handle::{PartitionContext, PartitionHandle};
use crate::partitions::journal::Journal;
use crate::partitions::settings::{log_config, policy, replica_options};
use crate::partitions::table::{Offline, PartitionSlot};

/// About how many elections per tick are started by partitions that are opened together.
const ELECTIONS_PER_TICK: usize = 100;

/// Opens the partitions of one data folder.
#[derive(Clone)]
pub(crate) struct Opener {
    pub(crate) store: LogStore<NodeDisk>,
    pub(crate) data_dir: PathBuf,
    pub(crate) context: PartitionContext,
    pub(crate) journal: Arc<Journal>,
    /// True once this node's metadata are newer than everything it acted on before it started.
    pub(crate) is_up_to_date: Arc<AtomicBool>,
    /// How many partitions are opened together. The elections of that many groups are spread.
    pub(crate) crowd: usize,
}

/// Why a partition cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error(transparent)]
    Log(#[from] LogError),
    /// Its folder is gone, most likely removed by hand.
    #[error("{} of replica {replica} is gone", .dir.display())]
    Gone { dir: PathBuf, replica: ReplicaId },
    /// Its folder is gone, but this node's metadata may be old: the node may have deleted the partition, and
    /// its folder with it.
    #[error("{} of replica {replica} is missing: newer metadata will show whether it is still wanted", .dir.display())]
    NotThere { dir: PathBuf, replica: ReplicaId },
    /// Its folder is another replica's, most likely copied from another node.
    #[error(
        "{} belongs to replica {found} of node {}, expected {expected}: remove the folder, and start again, if the \
         replica should start from scratch",
        .dir.display(), .found.node()
    )]
    Foreign { dir: PathBuf, found: ReplicaId, expected: ReplicaId },
    /// The metadata are old: this node has just started, and has not heard from the controller.
    #[error(
        "{} belongs to replica {known}, which is newer than {expected}: it is opened once newer metadata arrives",
        .dir.display()
    )]
    Later { dir: PathBuf, known: ReplicaId, expected: ReplicaId },
    /// A topic was deleted and another one created under its name, and this node's metadata may be too old to
    /// tell which of the two is current.
    #[error("{} belongs to another topic of this name ({found}): it is opened once newer metadata arrives", .dir.display())]
    OtherTopic { dir: PathBuf, found: TopicId },
}

impl OpenError {
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self, Self::Gone { .. } | Self::Log(LogError::Damaged { .. }))
    }

    fn waits_for_room(&self) -> bool {
        matches!(self, Self::Log(error) if error.is_no_space())
    }

    fn waits_for_metadata(&self) -> bool {
        matches!(self, Self::OtherTopic { .. } | Self::NotThere { .. })
    }
}

fn offline(error: &OpenError, replica: Option<ReplicaId>) -> Offline {
    Offline {
        reason: error.to_string().into(),
        replica,
        is_lost: replica.is_some() && error.is_lost(),
        waits_for_room: error.waits_for_room(),
        waits_for_metadata: error.waits_for_metadata(),
    }
}

/// What this node should have of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
enum WantedReplica {
    Nothing,
    /// The only replica.
    Solo,
    /// One of several.
    Replica {
        id: ReplicaId,
        founders: Vec<ReplicaId>,
    },
}

fn wanted(topic: &TopicImage, id: &TopicPartition, node: NodeId) -> WantedReplica {
    let Some(partition) = topic.partition(id.partition) else { return WantedReplica::Nothing };
    let Some(own) = partition.present_on(node) else { return WantedReplica::Nothing };
    if partition.founders == [own] && partition.replicas == [own] && !partition.is_reassigned() {
        return WantedReplica::Solo;
    }
    WantedReplica::Replica { id: own, founders: partition.founders.clone() }
}

impl Opener {
    /// Opens one partition, and creates it if it is missing. Blocks on the disk. A failure is logged and
    /// makes this partition offline. Other partitions are not affected.
    pub(crate) fn open(
        &self,
        topic: &TopicImage,
        id: &TopicPartition,
        broker: &BrokerConfig,
        now: TimestampMs,
    ) -> PartitionSlot {
        let wanted = wanted(topic, id, broker.node());
        let own = match &wanted {
            WantedReplica::Nothing => return PartitionSlot::Elsewhere,
            WantedReplica::Solo => None,
            WantedReplica::Replica { id, .. } => Some(*id),
        };
        let replica = match &wanted {
            WantedReplica::Replica { id, founders } => Some(replica_options(broker, *id, founders.clone())),
            WantedReplica::Nothing | WantedReplica::Solo => None,
        };
        match self.open_core(topic, id, broker, replica, now) {
            Ok(mut core) => {
                if let Some(replica) = core.replica() {
                    replica.spread_election(self.crowd / ELECTIONS_PER_TICK);
                }
                let group = RaftGroup { topic: topic.id, partition: id.partition };
                let handle = PartitionHandle::new(id.clone(), group, core, self.context.clone());
                handle.set_throttled(Throttled::of(&topic.config, id.partition));
                // The first founder should lead, unless another replica already does.
                let is_first = matches!(&wanted, WantedReplica::Replica { id, founders } if founders.first() == Some(id));
                handle.inbox.set_eager(is_first);
                if let (Some(epoch), Some(own)) = (handle.leads(), topic.partition(id.partition)) {
                    let own = own.present_on(broker.node()).unwrap_or(own.founders[0]);
                    self.context.links.leadership_changed(group, own, Some(epoch));
                }
                PartitionSlot::Online(Arc::new(handle))
            }
            Err(error) => {
                match &error {
                    OpenError::Later { .. } | OpenError::OtherTopic { .. } | OpenError::NotThere { .. } => {
                        tracing::info!(partition = %id, reason = %error, "the partition is waiting")
                    }
                    error => tracing::error!(partition = %id, %error, "the partition is offline"),
                }
                PartitionSlot::Offline(offline(&error, own))
            }
        }
    }

    /// Returns an opener for this many partitions at the same time.
    pub(crate) fn of_many(&self, crowd: usize) -> Self {
        Self { crowd, ..self.clone() }
    }

    /// Reports whether what is open of a partition differs from what the metadata want of this node.
    pub(crate) fn is_outdated(
        &self,
        topic: &TopicImage,
        slot: &PartitionSlot,
        number: PartitionId,
        node: NodeId,
    ) -> bool {
        let id = TopicPartition::new(topic.name.clone(), number);
        match (wanted(topic, &id, node), slot) {
            (WantedReplica::Nothing, PartitionSlot::Elsewhere) => false,
            (WantedReplica::Nothing, _) | (_, PartitionSlot::Elsewhere) => true,
            // A replica stays one, even when it is the last.
            (WantedReplica::Solo, _) => false,
            (WantedReplica::Replica { id, .. }, PartitionSlot::Offline(offline)) => {
                offline.replica.is_some_and(|tried| tried != id)
            }
            (WantedReplica::Replica { id, .. }, PartitionSlot::Online(handle)) => {
                handle.replica() != Some(id)
            }
        }
    }

    /// Returns the partition's folder.
    pub(crate) fn dir(&self, id: &TopicPartition) -> PathBuf {
        self.data_dir.join(id.to_string())
    }

    fn open_core(
        &self,
        topic: &TopicImage,
        id: &TopicPartition,
        broker: &BrokerConfig,
        replica: Option<ReplicaOptions>,
        now: TimestampMs,
    ) -> Result<Partition<NodeDisk>, OpenError> {
        let identity = PartitionIdentity { topic_id: topic.id, topic_partition: id.clone() };
        let dir = self.dir(id);
        self.make_way_for_topic(&identity, now)?;
        let (config, policy) = (log_config(&topic.config, broker, id), policy(&topic.config, broker));
        let group = RaftGroup { topic: topic.id, partition: id.partition };
        let before = self.owner_before(group, &dir, replica.as_ref()).map_err(|error| match error {
            OpenError::Gone { dir, replica } if !self.is_up_to_date.load(Ordering::Acquire) => {
                OpenError::NotThere { dir, replica }
            }
            error => error,
        })?;
        // A partition that once had several replicas keeps its votes, even when this is the last one.
        let replica = replica.or_else(|| before.map(|before| replica_options(broker, before, vec![before])));
        let (core, recovery) = match replica {
            None => {
                let (core, recovery) = Solo::open(&self.store, &dir, &identity, config, policy, now)?;
                (Partition::Solo(Box::new(core)), recovery)
            }
            Some(options) => {
                let was_let_go = |before: &ReplicaId| {
                    let partition = topic.partition(id.partition);
                    partition.is_some_and(|partition| !partition.lost.contains(before))
                };
                let was_let_go = before.as_ref().is_some_and(was_let_go);
                self.make_way(&identity, before, &options, was_let_go, now)?;
                let replica = options.id;
                let (core, recovery) = self.open_replica(&identity, config, policy, options, now)?;
                match self.journal.note(group, replica) {
                    // The replica existed before and takes part as it did.
                    Err(error) if before == Some(replica) => {
                        tracing::warn!(partition = %id, %error, "cannot write the journal of replicas");
                    }
                    noted => noted?,
                }
                (Partition::Replica(Box::new(core)), recovery)
            }
        };
        note_recovery(id, &recovery);
        Ok(core)
    }

    /// Makes room for a topic whose folder may belong to another topic of the same name. If the other topic
    /// is deleted according to metadata newer than everything done here, its deletion was cut short, and its
    /// folder goes. While the metadata may be old, the folder may equally belong to the later topic.
    fn make_way_for_topic(&self, identity: &PartitionIdentity, now: TimestampMs) -> Result<(), OpenError> {
        let (disk, dir, id) =
            (self.store.disk(), self.dir(&identity.topic_partition), &identity.topic_partition);
        let Some(found) = self.other_topic(&dir, id, identity.topic_id)? else { return Ok(()) };
        if !self.is_up_to_date.load(Ordering::Acquire) {
            return Err(OpenError::OtherTopic { dir, found });
        }
        if !holds_data(disk, &dir)? {
            return Ok(delete_partition(disk, &dir, &found.to_string())?);
        }
        let aside = set_aside(disk, &dir, now)?;
        tracing::warn!(
            partition = %id, topic_id = %found, kept = %aside.display(),
            "the folder of a deleted topic of the same name is set aside: remove it when it is no longer needed"
        );
        Ok(())
    }

    /// Returns the topic that a partition's folder belongs to, if that is not `topic`, because a name may be
    /// reused. `None` if nothing tells.
    fn other_topic(
        &self,
        dir: &Path,
        id: &TopicPartition,
        topic: TopicId,
    ) -> Result<Option<TopicId>, LogError> {
        let found = match read_identity(self.store.disk(), dir) {
            Ok(found) => found.filter(|found| found.topic_partition == *id).map(|found| found.topic_id),
            // The checkpoint also names the owner of the log.
            Err(LogError::Damaged { .. }) => checkpoint_owner(self.store.disk(), dir)?,
            Err(LogError::NewerFormat { .. }) => None,
            Err(error) => return Err(error),
        };
        Ok(found.filter(|found| *found != topic))
    }

    /// Empties the folder for a replica that replaces another one. The folder of a lost replica may be partly
    /// intact, and is set aside. If the group no longer needs the earlier replica, its folder is removed.
    pub(crate) fn make_way(
        &self,
        identity: &PartitionIdentity,
        before: Option<ReplicaId>,
        options: &ReplicaOptions,
        was_let_go: bool,
        now: TimestampMs,
    ) -> Result<(), LogError> {
        let id = &identity.topic_partition;
        let (disk, dir) = (self.store.disk(), &self.dir(id));
        let group = RaftGroup { topic: identity.topic_id, partition: id.partition };
        let has_come_later = match before {
            Some(before) => is_earlier(before, options.id),
            // A founder takes over what its node had of the partition as a standalone server.
            None => self.journal.known(group).is_some() || !options.members.voters.contains(&options.id),
        };
        let is_there = || disk.exists(dir).map_err(|error| LogError::io("look for", dir, error));
        if !has_come_later || !is_there()? {
            return Ok(());
        }
        if was_let_go || !holds_data(disk, dir)? {
            tracing::warn!(partition = %id, ?before, "removing the folder of an earlier replica");
            return delete_partition(disk, dir, &identity.topic_id.to_string());
        }
        let aside = set_aside(disk, dir, now)?;
        tracing::warn!(
            partition = %id, ?before, kept = %aside.display(),
            "the folder of an abandoned replica is set aside: remove it when it is no longer needed"
        );
        Ok(())
    }

    /// Removes a partition's folder, and what was set aside of it. Keeps what belongs to another topic of the
    /// same name: a later one that this node knew before it started with older metadata. Blocks.
    ///
    /// # Errors
    /// The disk's error.
    pub(crate) fn delete(&self, id: &TopicPartition, topic: TopicId) -> Result<(), LogError> {
        let (disk, dir) = (self.store.disk(), self.dir(id));
        for aside in aside_of(disk, &dir)? {
            if self.other_topic(&aside, id, topic)?.is_none() {
                disk.remove_dir(&aside).map_err(|error| LogError::io("remove", &aside, error))?;
            }
        }
        if !disk.exists(&dir).map_err(|error| LogError::io("look for", &dir, error))? {
            return Ok(());
        }
        if let Some(found) = self.other_topic(&dir, id, topic)? {
            tracing::info!(partition = %id, %topic, %found, "the folder stays: it belongs to another topic of this name");
            return Ok(());
        }
        delete_partition(disk, &dir, &topic.to_string())
    }

    /// Removes the folders of partitions that this node should no longer have: of deleted topics, and of
    /// replicas that moved elsewhere, while its metadata log was not available. `image` is newer than
    /// everything the node has done. Blocks.
    pub(crate) fn remove_strays(&self, image: &MetadataImage) {
        let disk = self.store.disk();
        let Ok(entries) = disk.read_dir(&self.data_dir) else { return };
        for entry in entries.into_iter().filter(|entry| entry.is_dir) {
            // A folder that cannot be identified stays.
            let Ok(Some(found)) = read_identity(disk, &self.data_dir.join(&entry.name)) else { continue };
            let id = &found.topic_partition;
            let is_its_own = id.to_string() == entry.name && id.topic.as_str() != METADATA_TOPIC;
            let topic = image.topic_by_id(found.topic_id);
            let partition = topic.and_then(|topic| topic.partition(id.partition));
            let is_wanted = partition.is_some_and(|p| p.present_on(image.broker().node()).is_some());
            if !is_its_own || is_wanted {
                continue;
            }
            tracing::info!(partition = %id, topic_id = %found.topic_id, "this node no longer has a replica of it: removing its folder");
            if let Err(error) = self.delete(id, found.topic_id) {
                tracing::error!(partition = %id, %error, "could not delete the partition's folder");
            }
        }
    }

    fn open_replica(
        &self,
        identity: &PartitionIdentity,
        config: LogConfig,
        policy: Policy,
        options: ReplicaOptions,
        now: TimestampMs,
    ) -> Result<(Replica<NodeDisk>, Recovery), LogError> {
        let dir = self.dir(&identity.topic_partition);
        let open = || {
            let (config, options) = (config.clone(), options.clone());
            Replica::open(&self.store, &dir, identity, config, policy, options, now)
        };
        with_index_built_again(self.store.disk(), &identity.topic_partition, open)
    }

    /// Returns the replica whose folder exists, if any.
    pub(crate) fn owner_before(
        &self,
        group: RaftGroup,
        dir: &Path,
        wanted: Option<&ReplicaOptions>,
    ) -> Result<Option<ReplicaId>, OpenError> {
        let known = self.journal.known(group);
        let Some(wanted) = wanted.map(|options| options.id) else {
            return Ok(owner(self.store.disk(), dir)?);
        };
        let found = match owner(self.store.disk(), dir) {
            Ok(found) => found,
            // The journal still names the owner.
            Err(_) if known.is_some_and(|known| is_earlier(known, wanted)) => known,
            Err(error) => {
                if !known.is_some_and(|known| is_earlier(wanted, known)) {
                    self.journal.note(group, wanted)?;
                }
                return Err(error.into());
            }
        };
        check_owner(dir, found, known, wanted)?;
        Ok(found)
    }
}

/// Opens a replica. Rebuilds a damaged index from its log.
pub(crate) fn with_index_built_again<T>(
    disk: &NodeDisk,
    id: &TopicPartition,
    open: impl Fn() -> Result<T, LogError>,
) -> Result<T, LogError> {
    let (index, error) = match open() {
        Err(LogError::Damaged { file, position, reason })
            if file.extension().is_some_and(|extension| extension == "index") =>
        {
            (file.clone(), LogError::Damaged { file, position, reason })
        }
        opened => return opened,
    };
    tracing::warn!(partition = %id, %error, "rebuilding the index");
    disk.remove_file(&index).map_err(|error| LogError::io("remove", &index, error))?;
    open()
}

/// Checks whether `wanted` may be opened or started, given that the folder belongs to `found` and the journal
/// names `known`.
fn check_owner(
    dir: &Path,
    found: Option<ReplicaId>,
    known: Option<ReplicaId>,
    wanted: ReplicaId,
) -> Result<(), OpenError> {
    let (dir, expected) = (dir.to_owned(), wanted);
    match (found, known) {
        (None, Some(known)) if known == wanted => Err(OpenError::Gone { dir, replica: wanted }),
        // A replica restarted under its old id would have forgotten what it voted and acknowledged.
        (Some(known), _) | (None, Some(known)) if is_earlier(wanted, known) => {
            Err(OpenError::Later { dir, known, expected })
        }
        (Some(found), _) if found != wanted && !is_earlier(found, wanted) => {
            Err(OpenError::Foreign { dir, found, expected })
        }
        _ => Ok(()),
    }
}

/// Reports whether `later` replaced this replica.
fn is_earlier(before: ReplicaId, later: ReplicaId) -> bool {
    before.node() == later.node() && before.incarnation() < later.incarnation()
}

fn note_recovery(id: &TopicPartition, recovery: &Recovery) {
    for note in &recovery.notes {
        tracing::warn!(partition = %id, "{note}");
    }
    for range in &recovery.damaged {
        tracing::error!(partition = %id, "damaged, and not served: {range}");
    }
    if let Some(tail) = &recovery.truncated {
        tracing::warn!(
            partition = %id, file = %tail.file.display(), position = tail.position, bytes = tail.bytes,
            reason = %tail.reason, "a torn tail was cut off"
        );
    }
    if !recovery.clean && !recovery.created {
        tracing::info!(
            partition = %id, bytes_read = recovery.bytes_read, batches = recovery.batches_recovered, "recovered"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(node: i32, incarnation: u32) -> ReplicaId {
        ReplicaId::new(NodeId(node), incarnation)
    }

    /// Old metadata name replicas that are gone. None of them may start again under an id that has voted.
    #[test]
    fn a_replica_is_opened_or_begun_only_where_none_came_after_it() {
        let check = |found, known| check_owner(Path::new("orders-0"), found, known, replica(3, 2));
        let earlier = Some(replica(3, 1));
        for (found, known) in [(None, None), (None, earlier), (earlier, earlier), (Some(replica(3, 2)), None)]
        {
            assert!(check(found, known).is_ok(), "{found:?} {known:?}");
        }
        assert!(matches!(check(None, Some(replica(3, 2))), Err(OpenError::Gone { .. })));
        let later = Some(replica(3, 3));
        for (found, known) in [(later, later), (later, None), (None, later)] {
            let error = check(found, known).unwrap_err();
            assert!(matches!(error, OpenError::Later { .. }) && !error.is_lost(), "{error}");
        }
        assert!(matches!(check(Some(replica(4, 2)), None), Err(OpenError::Foreign { .. })));
    }
}
