//! The front as a sink of the taps: decodes the ranges that come back from the log, and publishes their records.

use std::sync::Arc;
use tailrace_env::aside::TURN;
use tailrace_env::{task, time};

use bytes::Bytes;
use tailrace_records::{BatchHeader, Compression, HEADER_BYTES, Record, RecordIter, Strictness};
use tailrace_types::{Offset, TopicId};

use super::NAME;
use crate::burst::Burst;
use crate::front::NatsFront;
use crate::mapping::{MessageScratch, TopicSubjects, Undeliverable};
use tailrace_node::partitions::Topic;
use tailrace_node::taps::{Committed, Intake, NotTaken, Sink, Taken, TapBudget};

/// Bytes published before subscribers get their turn to take them, and others theirs on the event loop.
const ROUND_BYTES: usize = 64 * 1024;

/// Records after which the clock is looked at, whatever became of them.
const ROUND_RECORDS: usize = 256;

impl Sink for NatsFront {
    fn name(&self) -> &'static str {
        NAME
    }

    fn wants(&self, topic: &Topic) -> bool {
        self.listens_to(topic)
    }

    fn budget(&self) -> &TapBudget {
        &self.live().budget
    }

    fn begin(self: Arc<Self>) -> Box<dyn Intake> {
        Box::new(Publisher::new(self))
    }

    fn skipped(&self, records: u64) {
        self.metrics().live.skipped.inc_by(records);
    }
}

/// Takes a range of a partition: publishes the records of its batches.
struct Publisher {
    front: Arc<NatsFront>,
    /// Memory that is used again from record to record.
    scratch: MessageScratch,
    burst: Burst,
    /// Bytes, of records or of what became of them, since subscribers last had their turn; and records.
    bytes: usize,
    records: usize,
    /// Records and deliveries that are not counted yet.
    uncounted: (u64, u64),
}

impl Intake for Publisher {
    fn take<'a>(&'a mut self, topic: &'a Topic, piece: &'a Committed) -> Taken<'a> {
        Box::pin(self.publish_batches(topic, piece))
    }
}

impl Publisher {
    fn new(front: Arc<NatsFront>) -> Self {
        Self {
            front,
            scratch: MessageScratch::default(),
            burst: Burst::default(),
            bytes: 0,
            records: 0,
            uncounted: (0, 0),
        }
    }

    async fn publish_batches(&mut self, topic: &Topic, piece: &Committed) -> Result<(), NotTaken> {
        // A topic that is gone has no subjects any more.
        let Some(subjects) = self.front.live().subjects.of(topic.id) else { return Ok(()) };
        let mut published = Ok(());
        for batch in piece.batches() {
            published = match batch {
                Ok((header, batch)) => {
                    self.publish_batch(topic.id, &subjects, &header, batch, piece.from).await
                }
                Err(error) => Err(error.into()),
            };
            if published.is_err() {
                break;
            }
        }
        self.give_way().await;
        published
    }

    async fn publish_batch(
        &mut self,
        topic: TopicId,
        subjects: &TopicSubjects,
        header: &BatchHeader,
        batch: Bytes,
        from: Offset,
    ) -> Result<(), NotTaken> {
        let compression = header.attributes.compression()?;
        let body = batch.slice(HEADER_BYTES..);
        if compression == Compression::None {
            return self.publish_records(topic, subjects, header, &body, from).await;
        }
        // Before anything is waited for: other publishers to the same connections count on this one to send.
        self.give_way().await;
        // Its room is kept until all of it is published.
        let unpacked = self.front.live().decompressed(compression, body).await?;
        self.publish_records(topic, subjects, header, &unpacked.body, from).await
    }

    async fn publish_records(
        &mut self,
        topic: TopicId,
        subjects: &TopicSubjects,
        header: &BatchHeader,
        body: &[u8],
        from: Offset,
    ) -> Result<(), NotTaken> {
        let record_bytes_max = self.front.message_limits().record_bytes_max();
        let mut records = RecordIter::new(header, body, Strictness::Lenient);
        loop {
            let began = records.position();
            let mut published = 0;
            if let Some(offset) = records.skip_longer(record_bytes_max) {
                if offset >= from {
                    self.front.metrics().live.too_large.inc();
                }
            } else {
                let Some(record) = records.next() else { return Ok(()) };
                let record = record?;
                if record.offset >= from {
                    published = self.publish(topic, subjects, &record);
                }
            }
            self.bytes += published.max(records.position() - began);
            self.records += 1;
            if self.is_round() {
                self.give_way().await;
            }
        }
    }

    /// True if others are to have their turn.
    fn is_round(&mut self) -> bool {
        self.bytes >= ROUND_BYTES
            || self.burst.is_due()
            || (self.records.is_multiple_of(ROUND_RECORDS) && self.burst.read_at.elapsed() >= TURN)
    }

    /// The bytes of the message that it has become; 0 if it has not.
    fn publish(&mut self, topic: TopicId, subjects: &TopicSubjects, record: &Record<'_>) -> usize {
        let (front, metrics) = (&self.front, &self.front.metrics().live);
        match subjects.message(record, &front.message_limits(), &mut self.scratch) {
            // The topic does not bind it, and nobody else's subjects are its own to speak under.
            Ok(message) if front.router().is_bound_elsewhere(message.subject, topic) => {
                metrics.bound_elsewhere.inc();
            }
            Ok(message) => {
                let deliveries = front.publish(&mut self.burst, &message);
                self.uncounted.0 += 1;
                self.uncounted.1 += deliveries as u64;
                let headers = message.headers.map_or(0, <[u8]>::len);
                return message.subject.len() + headers + message.payload.len();
            }
            Err(Undeliverable::TooLarge) => drop(metrics.too_large.inc()),
            Err(Undeliverable::Reserved) => drop(metrics.reserved.inc()),
        }
        0
    }

    /// Sends what was published, and lets subscribers that are behind catch up a little.
    async fn give_way(&mut self) {
        let metrics = self.front.metrics();
        let (records, deliveries) = std::mem::take(&mut self.uncounted);
        metrics.live.records.inc_by(records);
        metrics.live.deliveries.inc_by(deliveries);
        (self.bytes, self.records) = (0, 0);
        self.burst.finish(metrics);
        match self.burst.take_crowded() {
            Some(crowded) => crowded.wait(metrics).await,
            None => task::yield_now().await,
        }
        self.burst.begin(time::Instant::now());
    }
}
