//! Brings the partitions of this node in line with the metadata.

use std::sync::Arc;
use tailrace_env::task;

use tailrace_metadata::{MetadataImage, TopicImage};
use tailrace_replication::Partition;
use tailrace_types::{NodeId, PartitionId, RaftGroup, TimestampMs, TopicPartition};

use super::ControllerShell;
use super::log;
use super::opening::{open_many, verify_reads};
use super::stop_reason::StopReason;
use crate::cluster::Throttled;
use crate::partitions::{
    Core, Ending, PartitionHandle, PartitionSlot, Topic, TopicTable, log_config, policy,
};

impl ControllerShell {
    /// Opens, changes and deletes whatever differs between `image` and the table.
    pub(super) async fn carry_out(&self, image: &Arc<MetadataImage>, now: TimestampMs) {
        let table = self.topics.load_full();
        let gone: Vec<_> =
            table.iter().filter(|topic| image.topic_by_id(topic.id).is_none()).cloned().collect();
        if !gone.is_empty() {
            self.change_table(|table| gone.iter().for_each(|topic| drop(table.remove(topic.name.as_str()))));
        }
        for topic in gone {
            self.delete_topic(&topic).await;
        }
        self.opener.context.links.configure(image.broker());
        self.opener.store.set_verify_reads(verify_reads(image.broker()));
        let settings_changed =
            !Arc::ptr_eq(image.broker(), &self.broker_config.swap(Arc::clone(image.broker())));
        let mut changed = Vec::new();
        for topic in image.topics() {
            let known = table.by_id(topic.id.0);
            match known {
                Some(known) if Arc::ptr_eq(&known.image, topic) && !settings_changed => {}
                known => {
                    changed.push(self.renew(topic, known.as_deref(), image, now).await);
                    // With many topics, other tasks get their turn in between.
                    task::yield_now().await;
                }
            }
        }
        if !changed.is_empty() {
            // The table changes once for all topics, because each change copies it.
            self.change_table(|table| changed.into_iter().for_each(|topic| table.insert(topic)));
        }
    }

    /// Brings a topic up to date: opens the partitions it did not have, and applies its settings to the
    /// others.
    async fn renew(
        &self,
        topic: &Arc<TopicImage>,
        known: Option<&Topic>,
        image: &Arc<MetadataImage>,
        now: TimestampMs,
    ) -> Topic {
        let mut slots = known.map_or_else(Vec::new, |known| known.partitions.clone());
        let node = image.broker().node();
        let mut outdated = Vec::new();
        for (number, slot) in (0..).map(PartitionId).zip(&slots) {
            if self.opener.is_outdated(topic, slot, number, node) {
                outdated.push(number);
            } else if let Some(handle) = slot.handle() {
                let config = log_config(&topic.config, image.broker(), &handle.id);
                handle.set_throttled(Throttled::of(&topic.config, number));
                handle.configure(config, policy(&topic.config, image.broker()), now).await;
            }
        }
        for number in &outdated {
            self.close_partition(&slots[number.0 as usize], topic, *number, node).await;
        }
        let (from, opened_topic) = (slots.len(), Arc::clone(topic));
        let crowd = topic.partition_count().saturating_sub(from);
        let (opener, broker) = (self.opener.of_many(crowd), Arc::clone(image.broker()));
        let opened = task::spawn_blocking(move || {
            let all = opened_topic.topic_partitions();
            let is_due =
                |id: &TopicPartition| id.partition.0 as usize >= from || outdated.contains(&id.partition);
            let due: Vec<_> = all.filter(is_due).collect();
            let slots = open_many(&due, |id| opener.open(&opened_topic, id, &broker, now));
            due.into_iter().map(|id| id.partition.0 as usize).zip(slots).collect::<Vec<_>>()
        });
        match opened.await {
            // In the order of their numbers: new partitions follow the existing ones.
            Ok(opened) => {
                for (number, slot) in opened {
                    match slots.get_mut(number) {
                        Some(place) => *place = slot,
                        None => slots.push(slot),
                    }
                }
            }
            Err(error) => tracing::error!(topic = %topic.name, %error, "opening partitions panicked"),
        }
        Topic::new(topic, slots)
    }

    /// Closes a partition that this node will open in another form, or no longer has. Removes its folder if
    /// this node is to keep nothing of it.
    async fn close_partition(
        &self,
        slot: &PartitionSlot,
        topic: &Arc<TopicImage>,
        number: PartitionId,
        node: NodeId,
    ) {
        if let Some(handle) = slot.handle()
            && let Err(error) = handle.close(Ending::Elsewhere).await
        {
            tracing::error!(partition = %handle.id, %error, "the partition was not closed cleanly");
        }
        let stays = topic.partition(number).is_some_and(|partition| partition.present_on(node).is_some());
        if stays || matches!(slot, PartitionSlot::Elsewhere) {
            return;
        }
        let id = TopicPartition::new(topic.name.clone(), number);
        tracing::info!(partition = %id, "this node no longer has a replica of the partition: removing its folder");
        let (opener, topic, gone) = (self.opener.clone(), topic.id, id.clone());
        let deleted = task::spawn_blocking(move || opener.delete(&gone, topic));
        if let Ok(Err(error)) = deleted.await {
            tracing::error!(partition = %id, %error, "could not delete the partition's folder");
        }
    }

    /// Opens a stopped replica again: because there is room again, or because a fresh start repairs what
    /// stopped it. The partition continues under another handle.
    pub(crate) async fn reopen(&self, handle: &Arc<PartitionHandle>, now: TimestampMs) {
        // The lock keeps others from opening or closing partitions meanwhile.
        let _guard = self.state.lock().await;
        let Some(topic) = self.topics.load().by_id(handle.group.topic.0) else { return };
        let number = handle.group.partition.0 as usize;
        let is_same = |slot: &PartitionSlot| slot.handle().is_some_and(|open| Arc::ptr_eq(open, handle));
        if !topic.partitions.get(number).is_some_and(is_same) {
            return;
        }
        handle.abandon(Ending::Elsewhere).await;
        self.open_again(&topic, &handle.id, now).await;
    }

    /// Opens the metadata log again if it stopped for this reason. What was executed stays as it is, because
    /// committed records do not change. False if it did not stop for this reason.
    pub(crate) async fn reopen_log(&self, reason: StopReason, now: TimestampMs) -> bool {
        // The lock keeps commands from being executed meanwhile, and the log from being closed.
        let mut state = self.state.lock().await;
        let (Some(state), Some(options)) = (state.as_mut(), self.replica.clone()) else { return false };
        let before = self.handle();
        let not_opened = state.log_not_opened;
        let has_stopped = |core: Option<&Core>| match core {
            Some(core) => core.as_replica().is_some_and(|replica| reason.is_of(replica)),
            None => not_opened == Some(reason),
        };
        if !before.abandon_if(has_stopped).await {
            return false;
        }
        let opener = self.opener.clone();
        let opened = task::spawn_blocking(move || log::open_replica(&opener, &options, now));
        let opened = match opened.await {
            Ok(opened) => opened,
            Err(error) => {
                tracing::error!(%error, "opening the metadata log again panicked");
                return true;
            }
        };
        state.log_not_opened = opened.as_ref().err().map(StopReason::of_opening);
        match opened {
            Ok(replica) => {
                let core = Partition::Replica(Box::new(replica));
                let handle =
                    PartitionHandle::new(before.id.clone(), before.group, core, self.opener.context.clone());
                self.handle.store(Arc::new(handle));
                before.retire();
                tracing::info!("the metadata log was opened again");
            }
            Err(error) => tracing::error!(%error, "could not open the metadata log again"),
        }
        true
    }

    /// Opens a partition again that waited for room or for newer metadata. False if it is still offline.
    pub(crate) async fn open_waiting(&self, group: RaftGroup, now: TimestampMs) -> bool {
        // The lock keeps others from opening or closing partitions meanwhile.
        let _guard = self.state.lock().await;
        let Some(topic) = self.topics.load().by_id(group.topic.0) else { return true };
        match topic.partitions.get(group.partition.0 as usize) {
            Some(PartitionSlot::Offline(offline)) if offline.waits_for_room || offline.waits_for_metadata => {
                let id = TopicPartition::new(topic.name.clone(), group.partition);
                self.open_again(&topic, &id, now).await
            }
            _ => true,
        }
    }

    /// Returns false if the partition is offline afterwards.
    async fn open_again(&self, topic: &Arc<Topic>, id: &TopicPartition, now: TimestampMs) -> bool {
        let (opener, image, opened) = (self.opener.clone(), Arc::clone(&topic.image), id.clone());
        let broker = Arc::clone(self.image.load().broker());
        let opened = task::spawn_blocking(move || opener.open(&image, &opened, &broker, now));
        let slot = match opened.await {
            Ok(slot) => slot,
            Err(error) => {
                tracing::error!(partition = %id, %error, "opening the partition again panicked");
                return false;
            }
        };
        let is_online = slot.handle().is_some();
        if is_online {
            tracing::info!(partition = %id, "the partition was opened again");
        }
        let mut slots = topic.partitions.clone();
        slots[id.partition.0 as usize] = slot;
        self.change_table(|table| table.insert(Topic::new(&topic.image, slots)));
        is_online
    }

    async fn delete_topic(&self, topic: &Arc<Topic>) {
        for slot in &topic.partitions {
            if let PartitionSlot::Online(handle) = slot {
                handle.abandon(Ending::Deleted).await;
            }
        }
        let (opener, topic) = (self.opener.clone(), Arc::clone(topic));
        let deleted = task::spawn_blocking(move || {
            for (id, slot) in topic.image.topic_partitions().zip(&topic.partitions) {
                if matches!(slot, PartitionSlot::Elsewhere) {
                    continue;
                }
                if let Err(error) = opener.delete(&id, topic.id) {
                    tracing::error!(partition = %id, %error, "could not delete the partition's folder");
                }
            }
        });
        if let Err(error) = deleted.await {
            tracing::error!(%error, "deleting a topic panicked");
        }
    }

    fn change_table(&self, change: impl FnOnce(&mut TopicTable)) {
        let mut table = TopicTable::clone(&self.topics.load());
        change(&mut table);
        self.followers.iter().for_each(|follower| follower.follow(&table));
        self.topics.store(Arc::new(table));
    }
}
