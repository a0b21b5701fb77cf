//! What fronts, and the program around a node, see of the node as a whole. Rooms that offer more have
//! functions of their own, which take the node (`partitions`, `share`, `relay`, `cluster`, `ask`).
//!
//! The fields of a node are private: a front cannot reach a room that it has no business with.

use std::path::Path;
use std::sync::Arc;

use tailrace_env::sync::watch;
use tailrace_env::workers::Workers;
use tailrace_metadata::{Command, MetadataImage};
use tailrace_peers::PeerError;
use tailrace_types::{NodeId, ProducerId};

use crate::access::{ClientCheck, end_change};
use crate::ask::{Question, ask};
use crate::caller::Caller;
use crate::controller::{CommandError, Executed};
use crate::coordinators::{CoordinatorFailure, Groups, Transactions};
use crate::node::Node;
use crate::partitions::{Lookups, Topic};
use crate::share::ShareGroups;
use crate::taps::WantedBy;

impl Node {
    /// Returns the id of the cluster that this node belongs to.
    pub fn cluster_id(&self) -> &str {
        &self.cluster_id
    }

    /// Returns the data folder, as DescribeLogDirs reports it.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Returns the threads for CPU-bound work, which fronts share.
    pub fn workers(&self) -> &Arc<Workers> {
        &self.workers
    }

    /// Returns the lookups of offsets by time.
    pub fn lookups(&self) -> &Lookups {
        &self.lookups
    }

    /// Reports whether this node is standalone: it leads and coordinates everything itself.
    pub fn is_alone(&self) -> bool {
        self.links.peers().is_none()
    }

    /// Returns a receiver that changes after each change of the metadata.
    pub fn metadata_changes(&self) -> watch::Receiver<u64> {
        self.controller.changes()
    }

    /// Returns a receiver that becomes true when the server is stopping: connections finish what they have
    /// and close.
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }

    /// Returns the coordinators of groups and their offsets.
    pub fn groups(&self) -> &Groups {
        &self.coordinators.groups
    }

    /// Returns the coordinators of transactions.
    pub fn transactions(&self) -> &Transactions {
        &self.coordinators.transactions
    }

    /// Returns the records in flight of share groups, and the sessions of their clients.
    pub fn share_groups(&self) -> &ShareGroups {
        &self.share
    }

    /// Returns the partition of `__share_group_state` whose leader coordinates this share-partition, named by
    /// its key as text.
    ///
    /// # Errors
    /// The topic does not exist and cannot be created.
    pub async fn share_coordinator_partition(
        self: &Arc<Self>,
        caller: &Caller,
        key: &str,
    ) -> Result<i32, CoordinatorFailure> {
        self.coordinators.shares.partition_of(self, caller, key).await
    }

    /// Returns the sinks that want to hear of batches appended to the topic.
    pub fn wanted(&self, topic: &Topic) -> WantedBy {
        self.taps.wanted(topic, None)
    }

    /// Has the controller execute a command, whichever node that is. If there is no controller at the moment,
    /// waits until the caller's deadline. A command that was started completes even if the caller goes away.
    ///
    /// # Errors
    /// [`CommandError`]
    pub async fn execute(&self, caller: &Caller, command: Command) -> Result<Executed, CommandError> {
        let change = self.begin_change(caller, &command);
        let check = ClientCheck { node: self, client: caller };
        let outcome = self.controller.executed_if(caller, command, self.now(), &check).await;
        end_change(change, &outcome).await;
        outcome
    }

    /// Validates a command without executing it (`validate_only`). Returns the image that would result.
    ///
    /// # Errors
    /// The error that the command would fail with.
    pub async fn rehearse(
        &self,
        caller: &Caller,
        command: Command,
    ) -> Result<Arc<MetadataImage>, CommandError> {
        self.controller.rehearse(caller, command).await
    }

    /// Returns a producer id that no other producer has, now or later.
    ///
    /// # Errors
    /// A new block of ids has to be reserved, and the command for it failed.
    pub async fn reserve_producer_id(&self, caller: &Caller) -> Result<ProducerId, CommandError> {
        self.controller.next_producer_id(caller, &self.producer_ids, self.now()).await
    }

    /// Sends a question to another node.
    ///
    /// # Errors
    /// [`PeerError`]: the node is down or did not answer in time, so it is unknown whether it did anything,
    /// or its answer cannot be decoded.
    pub async fn ask<Q: Question>(
        &self,
        caller: &Caller,
        node: NodeId,
        question: Q,
    ) -> Result<Q::Answer, PeerError> {
        ask(&self.links, caller, node, question).await
    }
}
