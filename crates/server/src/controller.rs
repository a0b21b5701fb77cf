//! The controller as the shell runs it: one command at a time, durable before it counts, carried out before it is
//! answered. A client that creates a topic may produce to it at once.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use tailrace_broker::{Command, ControlError, Controller, MetadataImage, MetadataRecord, TopicImage};
use tailrace_log::delete_partition;
use tailrace_types::{ProducerId, TimestampMs, TopicName};
use tokio::sync::{Mutex, OwnedMutexGuard, watch};

use crate::metadata_log::{LogPosition, MetadataError, MetadataLog};
use crate::nats::NatsFront;
use crate::partitions::{Opener, PartitionHandle, PartitionSlot, Topic, TopicTable, log_config, policy};

/// Why a command was not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// The controller refused it. Nothing changed.
    #[error(transparent)]
    Refused(#[from] ControlError),
    /// The metadata log could not be written. Nothing changed.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// The server is stopping.
    #[error("the server is stopping")]
    Stopping,
}

/// The controller with its log and what it publishes.
pub(crate) struct ControllerShell {
    state: Arc<Mutex<Option<State>>>,
    image: ArcSwap<MetadataImage>,
    topics: ArcSwap<TopicTable>,
    opener: Opener,
    /// Captures what the topics bind.
    nats: Arc<NatsFront>,
    /// Why the metadata log takes no writes any more.
    halted: OnceLock<String>,
    /// Counts the changes of topics and settings.
    changes: watch::Sender<u64>,
}

struct State {
    controller: Controller,
    log: MetadataLog,
}

/// Producer ids that were reserved in the metadata log and are handed out one by one.
#[derive(Debug, Default)]
pub(crate) struct ProducerIdBlock {
    next: i64,
    end: i64,
}

impl ControllerShell {
    /// Opens every partition that the metadata knows. Blocks on the disk.
    pub(crate) fn start(
        controller: Controller,
        log: MetadataLog,
        (opener, nats): (Opener, Arc<NatsFront>),
        now: TimestampMs,
    ) -> Self {
        let image = controller.image();
        let table = open_all(&image, &opener, now);
        nats.follow(&table);
        Self {
            state: Arc::new(Mutex::new(Some(State { controller, log }))),
            image: ArcSwap::from(image),
            topics: ArcSwap::from_pointee(table),
            opener,
            nats,
            halted: OnceLock::new(),
            changes: watch::Sender::new(0),
        }
    }

    /// Tells of every change of topics and settings, after it was carried out.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Why no command can be carried out until the next start, if that is so.
    pub(crate) fn halted(&self) -> Option<&str> {
        self.halted.get().map(String::as_str)
    }

    pub(crate) fn image(&self) -> Arc<MetadataImage> {
        self.image.load_full()
    }

    pub(crate) fn topics(&self) -> arc_swap::Guard<Arc<TopicTable>> {
        self.topics.load()
    }

    /// Where the metadata log stands; `None` while the server stops.
    pub(crate) async fn log_position(&self) -> Option<LogPosition> {
        self.state.lock().await.as_ref().map(|state| state.log.position())
    }

    /// Decides about a command without carrying it out (`validate_only`). Returns the image that would hold then.
    pub(crate) async fn rehearse(&self, command: Command) -> Result<Arc<MetadataImage>, CommandError> {
        let mut imagined = match self.state.lock().await.as_ref() {
            Some(state) => state.controller.clone(),
            None => return Err(CommandError::Stopping),
        };
        // On a worker: with many topics, copying the image takes milliseconds.
        let rehearsal = tokio::task::spawn_blocking(move || {
            let records = imagined.plan(&command)?;
            apply_all(&mut imagined, &records);
            Ok(imagined.image())
        });
        rehearsal.await.map_err(|_| CommandError::Stopping)?
    }

    /// Carries out a command: plans it, makes it durable, publishes the new image, opens or deletes partitions.
    pub(crate) async fn execute(
        &self,
        command: Command,
        now: TimestampMs,
    ) -> Result<Arc<MetadataImage>, CommandError> {
        let guard = Arc::clone(&self.state).lock_owned().await;
        let (guard, outcome) = tokio::task::spawn_blocking(move || plan_and_log(guard, &command, now))
            .await
            .map_err(|_| CommandError::Stopping)?;
        if let Some(reason) = guard.as_ref().and_then(|state| state.log.halted()) {
            self.halted.get_or_init(|| reason.to_owned());
        }
        let records = outcome?;
        let image = guard.as_ref().ok_or(CommandError::Stopping)?.controller.image();
        self.image.store(Arc::clone(&image));
        // Still under the controller's lock: effects happen in the order of their commands.
        for record in &records {
            self.carry_out(record, &image, now).await;
        }
        if records.iter().any(|record| !matches!(record, MetadataRecord::ProducerIds { .. })) {
            self.changes.send_modify(|changes| *changes += 1);
        }
        drop(guard);
        Ok(image)
    }

    /// Hands out a producer id that no other producer has, now or later.
    pub(crate) async fn next_producer_id(
        &self,
        block: &Mutex<ProducerIdBlock>,
        now: TimestampMs,
    ) -> Result<ProducerId, CommandError> {
        let mut block = block.lock().await;
        if block.next == block.end {
            let before = self.image().next_producer_id();
            let image = self.execute(Command::AllocateProducerIds, now).await?;
            // Only this method allocates, and it holds the block's lock.
            *block = ProducerIdBlock { next: before.get(), end: image.next_producer_id().get() };
        }
        let id = block.next;
        block.next += 1;
        Ok(ProducerId(id))
    }

    async fn carry_out(&self, record: &MetadataRecord, image: &Arc<MetadataImage>, now: TimestampMs) {
        match record {
            MetadataRecord::TopicCreated { name, .. } => self.add_partitions(name, image, now).await,
            MetadataRecord::TopicDeleted { id } => self.delete_topic(id.0).await,
            MetadataRecord::PartitionsAdded { id, .. } => {
                if let Some(topic) = image.topic_by_id(*id) {
                    self.add_partitions(&topic.name, image, now).await;
                }
            }
            MetadataRecord::TopicConfigs { id, .. } => {
                self.reconfigure(image.topic_by_id(*id), image).await;
            }
            MetadataRecord::BrokerConfigs { .. } => self.reconfigure(image.topics(), image).await,
            MetadataRecord::GroupConfigs { .. }
            | MetadataRecord::Features { .. }
            | MetadataRecord::ProducerIds { .. }
            | MetadataRecord::ClusterFounded { .. }
            | MetadataRecord::NodeRegistered(_)
            | MetadataRecord::NodeFenced { .. }
            | MetadataRecord::NodeRemoved { .. }
            | MetadataRecord::PartitionReplicas { .. } => {}
        }
    }

    /// Opens the partitions that the topic has in `image` and not yet in the table.
    async fn add_partitions(&self, name: &TopicName, image: &Arc<MetadataImage>, now: TimestampMs) {
        let Some(topic) = image.topic(name.as_str()).cloned() else { return };
        let mut slots =
            self.topics.load().by_name(name.as_str()).map_or_else(Vec::new, |old| old.partitions.clone());
        let (opener, broker) = (self.opener.clone(), Arc::clone(image.broker()));
        let (from, opened_topic) = (slots.len(), Arc::clone(&topic));
        let opened = tokio::task::spawn_blocking(move || {
            let missing = opened_topic.topic_partitions().skip(from);
            missing.map(|id| opener.open(&opened_topic, &id, &broker, now)).collect::<Vec<_>>()
        });
        match opened.await {
            Ok(opened) => slots.extend(opened),
            Err(error) => tracing::error!(topic = %name, %error, "opening partitions panicked"),
        }
        self.change_table(|table| table.insert(Topic::new(&topic, slots)));
    }

    async fn delete_topic(&self, id: [u8; 16]) {
        let Some(topic) = self.topics.load().by_id(id) else { return };
        self.change_table(|table| drop(table.remove(topic.name.as_str())));
        for slot in &topic.partitions {
            // Not on a worker thread: an append may hold the lock while it waits for such a thread.
            if let PartitionSlot::Online(handle) = slot {
                drop(handle.core.lock().await.take());
                handle.stop_waiters();
            }
        }
        let opener = self.opener.clone();
        let deleted = tokio::task::spawn_blocking(move || {
            for id in topic.image.topic_partitions() {
                let dir = opener.data_dir.join(id.to_string());
                if let Err(error) = delete_partition(opener.store.disk(), &dir, &topic.id.to_string()) {
                    tracing::error!(partition = %id, %error, "deleting the partition's folder failed");
                }
            }
        });
        if let Err(error) = deleted.await {
            tracing::error!(%error, "deleting a topic panicked");
        }
    }

    /// The table changes once for all topics: it is copied each time.
    async fn reconfigure(&self, topics: impl IntoIterator<Item = &Arc<TopicImage>>, image: &MetadataImage) {
        let mut changed = Vec::new();
        for topic in topics {
            let Some(old) = self.topics.load().by_name(topic.name.as_str()) else { continue };
            for slot in &old.partitions {
                if let PartitionSlot::Online(handle) = slot {
                    let handle: &PartitionHandle = handle;
                    let config = log_config(&topic.config, image.broker(), &handle.id);
                    handle.configure(config, policy(&topic.config, image.broker())).await;
                }
            }
            changed.push(Topic::new(topic, old.partitions.clone()));
            // With many topics, others get their turn in between.
            tokio::task::yield_now().await;
        }
        self.change_table(|table| changed.into_iter().for_each(|topic| table.insert(topic)));
    }

    fn change_table(&self, change: impl FnOnce(&mut TopicTable)) {
        let mut table = TopicTable::clone(&self.topics.load());
        change(&mut table);
        self.nats.follow(&table);
        self.topics.store(Arc::new(table));
    }

    /// Closes the metadata log; commands are refused from now on.
    pub(crate) async fn close(&self) {
        let Some(state) = self.state.lock().await.take() else { return };
        match tokio::task::spawn_blocking(move || state.log.close()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "the metadata log was not closed cleanly"),
            Err(error) => tracing::error!(%error, "closing the metadata log panicked"),
        }
    }
}

type Guard = OwnedMutexGuard<Option<State>>;

fn plan_and_log(
    mut guard: Guard,
    command: &Command,
    now: TimestampMs,
) -> (Guard, Result<Vec<MetadataRecord>, CommandError>) {
    let outcome = match guard.as_mut() {
        None => Err(CommandError::Stopping),
        Some(state) => state.plan_and_log(command, now),
    };
    (guard, outcome)
}

impl State {
    fn plan_and_log(
        &mut self,
        command: &Command,
        now: TimestampMs,
    ) -> Result<Vec<MetadataRecord>, CommandError> {
        let records = self.controller.plan(command)?;
        self.log.append(&records, now)?;
        apply_all(&mut self.controller, &records);
        Ok(records)
    }
}

fn apply_all(controller: &mut Controller, records: &[MetadataRecord]) {
    for record in records {
        controller.apply(record).expect("records that were just planned apply");
    }
}

/// Opens all partitions of all topics, on as many threads as there are processors: at start nothing else runs.
fn open_all(image: &MetadataImage, opener: &Opener, now: TimestampMs) -> TopicTable {
    let all: Vec<_> =
        image.topics().flat_map(|topic| topic.topic_partitions().map(move |id| (topic, id))).collect();
    let threads =
        std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get).min(all.len().max(1));
    let next = std::sync::atomic::AtomicUsize::new(0);
    let mut slots: Vec<(usize, PartitionSlot)> = std::thread::scope(|scope| {
        let open_some = || {
            let mut opened = Vec::new();
            loop {
                let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let Some((topic, id)) = all.get(number) else { return opened };
                opened.push((number, opener.open(topic, id, image.broker(), now)));
            }
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(open_some)).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("opening partitions does not panic"))
            .collect()
    });
    slots.sort_by_key(|(number, _)| *number);
    let mut slots = slots.into_iter().map(|(_, slot)| slot);
    let mut table = TopicTable::default();
    for topic in image.topics() {
        let count = usize::try_from(topic.partitions).unwrap_or(0);
        table.insert(Topic::new(topic, slots.by_ref().take(count).collect()));
    }
    table
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use tempfile::TempDir;

    use super::*;
    use crate::broker::Broker;
    use crate::{Server, ServerDisk, Startup, start};

    const ALL_GONE: &str = "All producer ids have been handed out.";

    async fn server(folder: &TempDir) -> Server {
        let setting = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let settings = BTreeMap::from([
            setting("data.dir", &folder.path().join("data").to_string_lossy()),
            setting("kafka", "127.0.0.1:0"),
            setting("nats", "off"),
            setting("http", "127.0.0.1:0"),
        ]);
        start(Startup { settings, disk: ServerDisk::real() }).await.unwrap()
    }

    /// Reserves all ids below `next`, as if they had been handed out over the ages.
    async fn reserve(broker: &Broker, next: i64) {
        let mut state = broker.controller.state.lock().await;
        let state = state.as_mut().unwrap();
        let first = state.controller.image().next_producer_id();
        let records = [MetadataRecord::ProducerIds { first, next: ProducerId(next) }];
        state.log.append(&records, broker.now()).unwrap();
        apply_all(&mut state.controller, &records);
        broker.controller.image.store(state.controller.image());
    }

    async fn fresh_id(server: &Server) -> Result<ProducerId, String> {
        let broker = server.broker();
        let id = broker.controller.next_producer_id(&broker.producer_ids, broker.now()).await;
        id.map_err(|error| error.to_string())
    }

    /// Two blocks are left, and the server is started anew after half of the first: what was reserved is gone, and no id
    /// comes twice, or after the last.
    #[tokio::test(flavor = "multi_thread")]
    async fn producer_ids_end_and_never_come_again() {
        let folder = TempDir::new().unwrap();
        let mut ids = BTreeSet::new();
        let first = server(&folder).await;
        reserve(first.broker(), i64::MAX - 2000).await;
        for _ in 0..500 {
            assert!(ids.insert(fresh_id(&first).await.unwrap()));
        }
        assert_eq!(first.stop().await, 0);

        let second = server(&folder).await;
        for _ in 0..1000 {
            assert!(ids.insert(fresh_id(&second).await.unwrap()), "an id came twice");
        }
        assert_eq!(ids.first(), Some(&ProducerId(i64::MAX - 2000)));
        assert_eq!(ids.last(), Some(&ProducerId(i64::MAX - 1)));
        for _ in 0..3 {
            assert_eq!(fresh_id(&second).await.unwrap_err(), ALL_GONE);
        }
        assert_eq!(second.stop().await, 0);
        let third = server(&folder).await;
        assert_eq!(fresh_id(&third).await.unwrap_err(), ALL_GONE);
        assert_eq!(third.broker().image().next_producer_id(), ProducerId(i64::MAX));
    }
}
