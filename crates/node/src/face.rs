//! What fronts, and the program around the node, get of it as a whole. Rooms that have more to offer have functions of
//! their own, which take the node (`partitions`, `share`, `relay`, `cluster`, `ask`).
//!
//! The fields of a node are not public: a front gets at no room that it has no business with.

use std::path::Path;
use std::sync::Arc;

use tailrace_env::sync::watch;
use tailrace_env::workers::Workers;
use tailrace_metadata::{Command, MetadataImage};
use tailrace_peers::PeerError;
use tailrace_types::{NodeId, ProducerId};

use crate::ask::{Question, ask};
use crate::caller::Caller;
use crate::controller::{CommandError, Executed};
use crate::coordinators::{CoordinatorFailure, Groups, Transactions};
use crate::node::Node;
use crate::partitions::{Lookups, Topic};
use crate::share::ShareGroups;
use crate::taps::WantedBy;

impl Node {
    /// The cluster that it belongs to.
    pub fn cluster_id(&self) -> &str {
        &self.cluster_id
    }

    /// The data folder, as DescribeLogDirs shows it.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Threads for what keeps a processor busy. Fronts use the same ones.
    pub fn workers(&self) -> &Arc<Workers> {
        &self.workers
    }

    /// Finds offsets by time.
    pub fn lookups(&self) -> &Lookups {
        &self.lookups
    }

    /// True while it has nothing to do with other nodes: it leads and coordinates everything itself.
    pub fn is_alone(&self) -> bool {
        self.links.peers().is_none()
    }

    /// Becomes true when the server is stopping: connections finish what they have and close.
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }

    /// Coordinators of groups, and of their offsets.
    pub fn groups(&self) -> &Groups {
        &self.coordinators.groups
    }

    /// Coordinators of transactions.
    pub fn transactions(&self) -> &Transactions {
        &self.coordinators.transactions
    }

    /// Share groups' records in flight, and their clients' sessions.
    pub fn share_groups(&self) -> &ShareGroups {
        &self.share
    }

    /// The partition of `__share_group_state` whose leader coordinates this share-partition, by its key as text.
    ///
    /// # Errors
    /// The topic is not there, and cannot be made.
    pub async fn share_coordinator_partition(
        self: &Arc<Self>,
        caller: &Caller,
        key: &str,
    ) -> Result<i32, CoordinatorFailure> {
        self.coordinators.shares.partition_of(self, caller, key).await
    }

    /// Who wants to hear of what is appended to the topic.
    pub fn wanted(&self, topic: &Topic) -> WantedBy {
        self.taps.wanted(topic, None)
    }

    /// Has the controller carry out a command, whichever node that is. Where none is for the moment, this waits, and no
    /// longer than the caller. What was begun is finished all the same.
    ///
    /// # Errors
    /// [`CommandError`]
    pub async fn execute(&self, caller: &Caller, command: Command) -> Result<Executed, CommandError> {
        self.controller.executed(caller, command, self.now()).await
    }

    /// Decides about a command without carrying it out (`validate_only`). Returns the image that would hold then.
    ///
    /// # Errors
    /// What the command would fail with.
    pub async fn rehearse(
        &self,
        caller: &Caller,
        command: Command,
    ) -> Result<Arc<MetadataImage>, CommandError> {
        self.controller.rehearse(caller, command).await
    }

    /// A producer id that no other producer has, now or later.
    ///
    /// # Errors
    /// A block of them has to be reserved, and the command for that failed.
    pub async fn reserve_producer_id(&self, caller: &Caller) -> Result<ProducerId, CommandError> {
        self.controller.next_producer_id(caller, &self.producer_ids, self.now()).await
    }

    /// Puts a question to another node.
    ///
    /// # Errors
    /// [`PeerError`]: the node is not there or did not answer in time, so that nobody knows whether anything was done;
    /// or its answer cannot be understood.
    pub async fn ask<Q: Question>(
        &self,
        caller: &Caller,
        node: NodeId,
        question: Q,
    ) -> Result<Q::Answer, PeerError> {
        ask(&self.links, caller, node, question).await
    }
}
