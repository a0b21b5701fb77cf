//! Records of Kafka clients to live NATS subscribers, once they are committed, in the order of their partition.
//!
//! The front is a sink of the taps: a produce request for whose topic somebody might listen leaves its range there, and what
//! comes back from the log is decoded and published here. What NATS clients published never comes this way: that is how
//! everything is delivered live exactly once, and why no mark is needed on disk (docs/adr/0006).
//!
//! If subscribers or the disk cannot keep up, the oldest ranges are skipped and counted.

mod metrics;
mod subjects;

use std::sync::Arc;

use bytes::Bytes;
use tailrace_config::BrokerConfig;
use tailrace_records::{BatchHeader, Compression, HEADER_BYTES, Record, RecordIter, Strictness, decompress};
use tailrace_types::{Offset, TopicId};
use tokio::sync::Semaphore;

pub(crate) use self::metrics::LiveMetrics;
use self::subjects::Subjects;
use crate::NatsFront;
use crate::burst::Burst;
use crate::mapping::{MessageScratch, TopicSubjects, Undeliverable};
use tailrace_node::partitions::Topic;
use tailrace_node::taps::{Committed, Intake, NotTaken, Sink, Taken, TapBudget};

/// What the front is called among the sinks.
pub const NAME: &str = "NATS subscribers";

/// Pieces that are decompressed at the same time. Each may take `tailrace.decompressed.bytes.max`.
const DECOMPRESSIONS_MAX: usize = 2;

/// Bytes published before subscribers get their turn to take them, and others theirs on the event loop.
const ROUND_BYTES: usize = 64 * 1024;

/// What all partitions share.
#[derive(Debug)]
pub(crate) struct Live {
    budget: TapBudget,
    pub(super) subjects: Subjects,
    decompressions: Semaphore,
    decompressed_bytes_max: usize,
}

impl Live {
    pub(crate) fn new(config: &BrokerConfig) -> Self {
        Self {
            budget: TapBudget::new(config.tailrace_nats_live_lag_max_bytes),
            subjects: Subjects::default(),
            decompressions: Semaphore::new(DECOMPRESSIONS_MAX),
            decompressed_bytes_max: usize::try_from(config.tailrace_decompressed_bytes_max)
                .unwrap_or(usize::MAX),
        }
    }

    /// Decompresses on a worker thread.
    async fn decompressed(&self, compression: Compression, packed: Bytes) -> Result<Bytes, NotTaken> {
        let bytes_max = self.decompressed_bytes_max;
        // It is closed by nobody.
        let _permit = self.decompressions.acquire().await.map_err(|_| NotTaken::Failed)?;
        let unpacked = tokio::task::spawn_blocking(move || {
            let mut out = Vec::new();
            decompress(compression, &packed, bytes_max, &mut out).map(|()| Bytes::from(out))
        });
        Ok(unpacked.await.map_err(|_| NotTaken::Failed)??)
    }
}

impl Sink for NatsFront {
    fn name(&self) -> &'static str {
        NAME
    }

    fn wants(&self, topic: &Topic) -> bool {
        self.listens_to(topic)
    }

    fn budget(&self) -> &TapBudget {
        &self.live.budget
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
    /// Bytes since subscribers last had their turn.
    bytes: usize,
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
            uncounted: (0, 0),
        }
    }

    async fn publish_batches(&mut self, topic: &Topic, piece: &Committed) -> Result<(), NotTaken> {
        // A topic that is gone has no subjects any more.
        let Some(subjects) = self.front.live.subjects.of(topic.id) else { return Ok(()) };
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
        let mut body = batch.slice(HEADER_BYTES..);
        if compression != Compression::None {
            // Before anything is waited for: other publishers to the same connections count on this one to send.
            self.give_way().await;
            body = self.front.live.decompressed(compression, body).await?;
        }
        for record in RecordIter::new(header, &body, Strictness::Lenient) {
            let record = record?;
            if record.offset >= from {
                self.publish(topic, subjects, &record);
            }
            if self.bytes >= ROUND_BYTES || self.burst.is_due() {
                self.give_way().await;
            }
        }
        Ok(())
    }

    fn publish(&mut self, topic: TopicId, subjects: &TopicSubjects, record: &Record<'_>) {
        let (front, metrics) = (&self.front, &self.front.metrics().live);
        match subjects.message(record, &front.message_limits(), &mut self.scratch) {
            // The topic does not bind it, and nobody else's subjects are its own to speak under.
            Ok(message) if front.router().is_bound_elsewhere(message.subject, topic) => {
                metrics.bound_elsewhere.inc();
            }
            Ok(message) => {
                let deliveries = front.publish(&mut self.burst, &message);
                let headers = message.headers.map_or(0, <[u8]>::len);
                self.bytes += message.subject.len() + headers + message.payload.len();
                self.uncounted.0 += 1;
                self.uncounted.1 += deliveries as u64;
            }
            Err(Undeliverable::TooLarge) => drop(metrics.too_large.inc()),
            Err(Undeliverable::Reserved) => drop(metrics.reserved.inc()),
        }
    }

    /// Sends what was published, and lets subscribers that are behind catch up a little.
    async fn give_way(&mut self) {
        let metrics = self.front.metrics();
        let (records, deliveries) = std::mem::take(&mut self.uncounted);
        metrics.live.records.inc_by(records);
        metrics.live.deliveries.inc_by(deliveries);
        self.bytes = 0;
        self.burst.finish(metrics);
        match self.burst.take_crowded() {
            Some(crowded) => crowded.wait(metrics).await,
            None => tokio::task::yield_now().await,
        }
        self.burst.begin(std::time::Instant::now());
    }
}
