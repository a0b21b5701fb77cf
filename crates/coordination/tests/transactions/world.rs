//! A coordinator with a log in memory: a small version of the server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use tailrace_coordination::coordinator::{
    Coordinator, CoordinatorRecord, Effects, Generations, Moment, Replayed, Token,
};
use tailrace_coordination::transactions::{
    TransactionCoordinator, TransactionEvent, TransactionReply, TransactionWork, WriteMarkers,
};
use tailrace_metadata::{Controller, MetadataImage};
use tailrace_types::{LeaderEpoch, Offset, PartitionId, TimestampMs, TopicName, TopicPartition};

/// These tests draw no generations.
static DRAWN: AtomicU32 = AtomicU32::new(0);

fn moment(now: TimestampMs, image: &Arc<MetadataImage>) -> Moment<'_> {
    Moment { now, image, generations: Generations::new(LeaderEpoch(0), &DRAWN) }
}

pub(crate) struct World {
    pub(crate) coordinator: TransactionCoordinator,
    pub(crate) log: Vec<CoordinatorRecord>,
    pub(crate) now: i64,
    pub(crate) work: Vec<WriteMarkers>,
    pub(crate) replies: Vec<(Token, TransactionReply)>,
    image: Arc<MetadataImage>,
    tokens: u64,
}

impl World {
    pub(crate) fn new(settings: &[(&str, &str)]) -> Self {
        let fixed: BTreeMap<_, _> =
            settings.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        Self {
            coordinator: TransactionCoordinator::new(),
            log: Vec::new(),
            now: 1_000_000,
            work: Vec::new(),
            replies: Vec::new(),
            image: Controller::new(fixed).unwrap().image(),
            tokens: 0,
        }
    }

    pub(crate) fn token(&mut self) -> Token {
        self.tokens += 1;
        Token(self.tokens)
    }

    /// Runs a step whose effects all happen.
    pub(crate) fn step(&mut self, event: TransactionEvent) {
        let image = Arc::clone(&self.image);
        let effects = self.coordinator.step(event, &moment(TimestampMs(self.now), &image));
        self.take(effects);
    }

    /// Runs a step whose append fails: its effects are lost, and the coordinator is reloaded.
    pub(crate) fn failing_step(&mut self, event: TransactionEvent) {
        let image = Arc::clone(&self.image);
        let _ = self.coordinator.step(event, &moment(TimestampMs(self.now), &image));
        self.restart();
    }

    /// Advances the time, with every tick that is due.
    pub(crate) fn pass(&mut self, ms: i64) {
        let end = self.now + ms;
        while let Some(deadline) = self.coordinator.deadline().filter(|deadline| deadline.0 <= end) {
            self.now = self.now.max(deadline.0);
            let image = Arc::clone(&self.image);
            let effects = self.coordinator.tick(&moment(TimestampMs(self.now), &image));
            self.take(effects);
            assert_ne!(self.coordinator.deadline(), Some(deadline), "a tick must move the deadline");
        }
        self.now = end;
    }

    /// Restarts the process. Pending requests get no reply, and work is forgotten.
    pub(crate) fn restart(&mut self) {
        self.coordinator = TransactionCoordinator::new();
        self.work.clear();
        for (offset, record) in self.log.iter().enumerate() {
            let entry = Replayed::Record {
                key: &record.key,
                value: record.value.as_deref(),
                timestamp: TimestampMs(self.now),
                offset: Offset(offset as i64),
                producer: None,
            };
            self.coordinator.replay(entry).unwrap();
        }
        let image = Arc::clone(&self.image);
        let effects = self.coordinator.loaded(&moment(TimestampMs(self.now), &image));
        self.take(effects);
    }

    fn take(&mut self, effects: Effects<TransactionCoordinator>) {
        for append in effects.appends {
            assert!(!append.records.is_empty() && append.producer.is_none());
            self.log.extend(append.records);
        }
        self.replies.extend(effects.replies);
        self.work.extend(effects.work.into_iter().map(|TransactionWork::WriteMarkers(markers)| markers));
    }
}

pub(crate) fn partition(topic: &str, number: i32) -> TopicPartition {
    TopicPartition::new(TopicName::new(topic).unwrap(), PartitionId(number))
}
