//! All coordinators of one kind: which partition a name belongs to, and their topic.

use std::collections::BTreeSet;
use std::sync::Arc;
use tailrace_env::{join, select, task};

use tailrace_coordination::coordinator::{Token, partition_of_name};
use tailrace_env::task::JoinSet;
use tailrace_metadata::{Command, ControlErrorKind, CreateTopic, Requester};
use tailrace_replication::TransactionMarker;
use tailrace_types::{LeaderEpoch, NodeId, TopicId};

use super::cores::{Runtime, Shard};
use super::perform::Perform;
use super::shard::{MarkerFailure, Pending};
use super::{CoordinatorFailure, Coordinators};
use crate::caller::Caller;
use crate::cluster::leaders::leader_of;
use crate::controller::CommandError;
use crate::node::Node;
use crate::partitions::{Awaited, NotHere};
use tailrace_env::task::stopped;

impl Coordinators {
    /// Loads all of them and keeps them running until the server stops.
    pub(crate) async fn run(&self, node: &Arc<Node>) {
        join!(
            self.groups.run(node),
            self.shares.run(node),
            self.transactions.run(node),
            self.consumers.run(node)
        );
    }
}

impl<C: Perform> Runtime<C> {
    /// Submits an event to the coordinator of `name`. Returns once the event is decided and written, so that
    /// events keep their order. The pending answer arrives when the decision is committed.
    ///
    /// # Errors
    /// The coordinator is unavailable, or the caller's deadline has passed when the event's turn comes. Then
    /// nothing happened, or its effect is discarded.
    pub async fn submit(
        &self,
        node: &Arc<Node>,
        caller: &Caller,
        name: &str,
        event: impl FnOnce(Token) -> C::Event + Send + 'static,
    ) -> Result<Pending<C::Reply>, CoordinatorFailure> {
        let partition = partition_of_name(name, self.partitions(node, caller).await?);
        self.shard(node, partition).submit(node, caller, event).await
    }

    /// Submits an event to the coordinator of a partition.
    ///
    /// # Errors
    /// As [`Runtime::submit`].
    pub(crate) async fn submit_to(
        &self,
        node: &Arc<Node>,
        caller: &Caller,
        partition: i32,
        event: impl FnOnce(Token) -> C::Event + Send + 'static,
    ) -> Result<Pending<C::Reply>, CoordinatorFailure> {
        self.shard(node, partition).submit(node, caller, event).await
    }

    /// Submits an event to the coordinator of a partition if `holds` is true of the core and of the epoch in
    /// which it was loaded. `None` if it is not: nothing happened.
    ///
    /// # Errors
    /// As [`Runtime::submit`].
    pub async fn submit_if(
        &self,
        node: &Arc<Node>,
        caller: &Caller,
        partition: i32,
        holds: impl FnOnce(&C, LeaderEpoch) -> bool + Send + 'static,
        event: impl FnOnce(Token) -> C::Event + Send + 'static,
    ) -> Result<Option<Pending<C::Reply>>, CoordinatorFailure> {
        self.shard(node, partition).submit_if(node, caller, holds, event).await
    }

    /// Looks at the core of a partition and the epoch in which it was loaded. What it sees may not be
    /// committed. `None` if the core is not loaded, or the caller's deadline passes before it gets a turn.
    pub async fn peek<T>(
        &self,
        node: &Arc<Node>,
        caller: &Caller,
        partition: i32,
        look: impl FnOnce(&C, LeaderEpoch) -> T,
    ) -> Option<T> {
        caller.wait(self.shard(node, partition).peek(look)).await.ok().flatten()
    }

    /// Submits an event to every coordinator that this node leads, and waits for all answers. Returns none if
    /// the topic does not exist yet. An unavailable coordinator contributes its failure.
    pub async fn submit_all(
        &self,
        node: &Arc<Node>,
        caller: &Caller,
        event: impl Fn(Token) -> C::Event + Clone + Send + 'static,
    ) -> Vec<Result<C::Reply, CoordinatorFailure>> {
        let mut pending = Vec::new();
        for partition in self.led(node) {
            pending.push(self.shard(node, partition).submit(node, caller, event.clone()).await);
        }
        let mut replies = Vec::with_capacity(pending.len());
        for pending in pending {
            replies.push(match pending {
                Ok(pending) => pending.reply().await,
                Err(failure) => Err(failure),
            });
        }
        replies
    }

    /// Appends the marker that ends a transaction to a partition of these coordinators' topic, and passes it
    /// to the core. Returns the point at which the marker is committed.
    ///
    /// # Errors
    /// As [`Runtime::submit`], or the partition refuses the marker.
    pub async fn append_marker(
        &self,
        node: &Arc<Node>,
        caller: &Caller,
        partition: i32,
        marker: TransactionMarker,
    ) -> Result<Awaited, MarkerFailure> {
        self.shard(node, partition).append_marker(node, caller, marker).await
    }

    /// Returns the partition of the internal topic that `name` belongs to. Creates the topic if it does not
    /// exist.
    ///
    /// # Errors
    /// The topic cannot be created.
    pub async fn partition_of(
        &self,
        node: &Arc<Node>,
        caller: &Caller,
        name: &str,
    ) -> Result<i32, CoordinatorFailure> {
        Ok(partition_of_name(name, self.partitions(node, caller).await?))
    }

    /// Returns the node that coordinates `name`, if it is known and not this one.
    ///
    /// # Errors
    /// As [`Runtime::partition_of`].
    pub(crate) async fn elsewhere(
        &self,
        here: &Arc<Node>,
        caller: &Caller,
        name: &str,
    ) -> Result<Option<NodeId>, CoordinatorFailure> {
        if here.links.peers().is_none() {
            return Ok(None);
        }
        let partition = self.partition_of(here, caller, name).await?;
        let topic = here.topics().by_name(self.kind.topic);
        let leader = topic.and_then(|topic| leader_of(here, &topic, partition));
        Ok(leader.map(|(node, _)| node).filter(|node| *node != here.id()))
    }

    /// Looks at every core that is loaded and not busy, for metrics.
    pub(crate) fn look(&self, mut look: impl FnMut(&C)) {
        let shards: Vec<_> = self.shards.lock().values().cloned().collect();
        for shard in shards {
            shard.look(&mut look);
        }
    }

    /// Loads every core, then notifies the loaded ones whenever topics or settings change, until the server
    /// stops.
    pub(crate) async fn run(&self, node: &Arc<Node>) {
        let mut changes = node.controller.changes();
        let mut stopping = node.stopping.subscribe();
        let mut leadership = node.links.own_leadership();
        self.follow(node, self.led(node)).await;
        loop {
            select! {
                () = stopped(&mut stopping) => break,
                changed = leadership.changed() => {
                    if changed.is_err() {
                        break;
                    }
                    self.follow_leaders(node).await;
                    continue;
                }
                changed = changes.changed() => if changed.is_err() { break },
            }
            let shards: Vec<_> = self.shards.lock().values().cloned().collect();
            for shard in shards {
                if shard.is_loaded().await {
                    let _ = shard.nudge(node, C::metadata_changed).await;
                }
            }
        }
        let shards: Vec<_> = self.shards.lock().values().cloned().collect();
        for shard in shards {
            shard.close().await;
        }
    }

    /// Loads what this node coordinates now, and unloads what it no longer coordinates.
    async fn follow_leaders(&self, node: &Arc<Node>) {
        let mut partitions: BTreeSet<i32> = self.shards.lock().keys().copied().collect();
        partitions.extend(self.led(node));
        self.follow(node, partitions).await;
    }

    /// Does all at once, because most of the time is spent waiting for others.
    async fn follow(&self, node: &Arc<Node>, partitions: impl IntoIterator<Item = i32>) {
        let mut following = JoinSet::new();
        for partition in partitions {
            let (shard, node) = (self.shard(node, partition), Arc::clone(node));
            following.spawn(async move { shard.follow_leader(&node).await });
        }
        while following.join_next().await.is_some() {}
    }

    /// Returns the partitions that this node leads.
    fn led(&self, node: &Node) -> Vec<i32> {
        let Some(topic) = node.topics().by_name(self.kind.topic) else { return Vec::new() };
        // Includes offline partitions: asking them yields the reason.
        let leads = |number: &i32| !matches!(topic.led(*number), Err(NotHere::Elsewhere));
        (0..topic.partition_count()).filter(leads).collect()
    }

    fn shard(&self, node: &Arc<Node>, partition: i32) -> Arc<Shard<C>> {
        let mut shards = self.shards.lock();
        let shard = shards.entry(partition).or_insert_with(|| {
            let shard = Arc::new(Shard::new(partition, self.kind, self.clock));
            task::spawn(Arc::clone(&shard).run_timer(Arc::clone(node)));
            shard
        });
        Arc::clone(shard)
    }

    /// Returns the number of partitions of the topic. `None` if it does not exist yet. The metadata name a
    /// topic before its partitions are open.
    fn existing(&self, node: &Node) -> Option<i32> {
        let topics = node.topics();
        let topic = topics.by_name(self.kind.topic)?;
        Some(topic.partition_count())
    }

    async fn partitions(&self, node: &Arc<Node>, caller: &Caller) -> Result<i32, CoordinatorFailure> {
        if let Some(partitions) = self.existing(node) {
            return Ok(partitions);
        }
        let _alone = self.creating.lock().await;
        if self.existing(node).is_none() {
            self.create_topic(node, caller).await?;
        }
        let missing = || CoordinatorFailure::Unavailable(format!("{} was not created", self.kind.topic));
        self.existing(node).ok_or_else(missing)
    }

    async fn create_topic(&self, node: &Arc<Node>, caller: &Caller) -> Result<(), CoordinatorFailure> {
        if caller.is_late() {
            return Err(CoordinatorFailure::Late);
        }
        let config = node.config();
        let settings = (self.kind.settings)(&config);
        let create = CreateTopic {
            name: self.kind.topic.to_owned(),
            id: TopicId::from_random(tailrace_env::random::bytes16()),
            partitions: (self.kind.partitions)(&config),
            replication_factor: node.image().internal_replication_factor(self.kind.topic),
            assignment: None,
            configs: settings.into_iter().map(|(key, value)| (key.to_owned(), Some(value))).collect(),
            now: node.now(),
            by: Requester::Broker,
        };
        let (node, caller) = (Arc::clone(node), caller.clone());
        // Spawned, because a command must not be left half-way when a client goes away.
        let work = async move {
            let now = node.now();
            node.controller.execute(&caller, Command::CreateTopic(create), now).await
        };
        let topic = self.kind.topic;
        match task::spawn(work).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(CommandError::Refused(error))) if error.kind() == ControlErrorKind::TopicExists => Ok(()),
            Ok(Err(CommandError::Stopping)) => Err(CoordinatorFailure::Stopping),
            Ok(Err(error)) => {
                tracing::error!(topic, %error, "cannot create the internal topic");
                Err(CoordinatorFailure::Unavailable(format!("{topic} cannot be created: {error}")))
            }
            Err(error) => Err(CoordinatorFailure::Unavailable(error.to_string())),
        }
    }
}
