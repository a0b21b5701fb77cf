//! Records of Kafka clients to live NATS subscribers, once they are committed, in the order of their partition.
//!
//! A produce request for whose topic somebody might listen leaves the range of its offsets in the partition's queue
//! ([`LiveQueue`]), under the partition's lock, so that the ranges have the order of the log. One task for each partition with
//! waiting ranges waits for their commit, reads them back from the log, decodes them, and publishes. What NATS clients
//! published is never put into a queue: that is how everything is delivered live exactly once, and why no mark is needed on
//! disk (docs/adr/0006).
//!
//! If subscribers or the disk cannot keep up, the oldest ranges are skipped and counted. Nothing here holds up a produce request.

mod metrics;
mod queue;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tailrace_broker::config::BrokerConfig;
use tailrace_log::{DamagedRange, LogError};
use tailrace_records::{
    BatchError, BatchHeader, Compression, HEADER_BYTES, Record, RecordIter, Strictness, decompress,
    split_batches,
};
use tailrace_replication::AbortedTransaction;
use tailrace_types::Offset;
use tokio::sync::Semaphore;

pub(crate) use self::metrics::LiveMetrics;
pub(crate) use self::queue::{LiveBudget, LiveQueue, LiveRange};
use crate::broker::Broker;
use crate::damaged;
use crate::nats::burst::Burst;
use crate::nats::mapping::{MessageScratch, Undeliverable};
use crate::partitions::{PartitionHandle, Topic};
use crate::residency::is_resident;

/// Bytes read from a log at a time; at least one batch.
const PIECE_BYTES: u64 = 256 * 1024;

/// Pieces that are in memory at the same time, of all partitions: 16 MiB, more where batches are larger.
const PIECES_MAX: usize = 64;

/// Pieces that are decompressed at the same time. Each may take `tailrace.decompressed.bytes.max`.
const DECOMPRESSIONS_MAX: usize = 2;

/// Pieces up to this size are read on the event loop if they are in memory.
const READ_INLINE_BYTES: u64 = 64 * 1024;

/// Bytes published before subscribers get their turn to take them, and others theirs on the event loop.
const ROUND_BYTES: usize = 64 * 1024;

/// While the log is being exchanged for another replica's, it is looked at so often, and for so long.
const EXCHANGE_PAUSE: Duration = Duration::from_millis(10);
const EXCHANGE_MAX: Duration = Duration::from_secs(10);

/// What all partitions share.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) budget: LiveBudget,
    pieces: Semaphore,
    decompressions: Semaphore,
}

impl Live {
    pub(crate) fn new(config: &BrokerConfig) -> Self {
        Self {
            budget: LiveBudget::new(config.tailrace_nats_live_lag_max_bytes),
            pieces: Semaphore::new(PIECES_MAX),
            decompressions: Semaphore::new(DECOMPRESSIONS_MAX),
        }
    }
}

/// Sees to it that the partition's ranges are delivered.
pub(crate) fn wake(broker: &Arc<Broker>, partition: &Arc<PartitionHandle>) {
    if partition.live.begin() {
        tokio::spawn(run(Arc::clone(broker), Arc::clone(partition)));
    }
}

/// Delivers one range after the other, until there is none.
async fn run(broker: Arc<Broker>, partition: Arc<PartitionHandle>) {
    let (front, mut stopping) = (&broker.nats, broker.stopping.subscribe());
    while let Some(range) = partition.live.next() {
        let delivered = tokio::select! {
            delivered = deliver(&broker, &partition, range) => delivered,
            () = Broker::stopped(&mut stopping) => Err(Skipped::Gone),
        };
        front.live().budget.release(range.bytes);
        match delivered {
            Ok(()) => {}
            Err(skipped) => {
                tracing::debug!(partition = %partition.id, ?range, ?skipped, "not delivered to NATS subscribers");
                front.metrics().live.skipped.inc_by(range.records());
            }
        }
    }
}

/// Why a range was not delivered to its end.
#[derive(Debug)]
#[expect(dead_code, reason = "shown in the log")]
enum Skipped {
    /// The partition was deleted, or takes no writes any more, or the server is stopping.
    Gone,
    Log(LogError),
    Disk(std::io::Error),
    Batch(BatchError),
}

async fn deliver(
    broker: &Arc<Broker>,
    partition: &Arc<PartitionHandle>,
    range: LiveRange,
) -> Result<(), Skipped> {
    let mut publisher = Publisher::default();
    let mut at = range.from;
    let exchanged_until = Instant::now() + EXCHANGE_MAX;
    while at < range.to {
        if let Some(stable) = partition.wait_stable(at.plus(1)) {
            let outcome = stable.await.map_err(|_| Skipped::Gone)?;
            if outcome != crate::partitions::WaitOutcome::Committed {
                return Err(Skipped::Gone);
            }
        }
        let topic = broker.topics().by_name(partition.id.topic.as_str()).ok_or(Skipped::Gone)?;
        // Whoever listened may have gone meanwhile: then nothing is read or decoded.
        if !broker.nats.listens_to(&topic) {
            return Ok(());
        }
        // It is closed by nobody.
        let _permit = broker.nats.live().pieces.acquire().await.map_err(|_| Skipped::Gone)?;
        let upto = partition.reader.last_stable_offset().min(range.to);
        // What retention has deleted meanwhile is gone.
        at = at.max(partition.reader.log_start());
        let read = match read(partition, at, upto).await {
            Err(Skipped::Log(LogError::BeingExchanged)) if exchanged_until > Instant::now() => {
                tokio::time::sleep(EXCHANGE_PAUSE).await;
                continue;
            }
            Err(Skipped::Log(error)) => match damaged::met(partition, at, &error) {
                // Nothing is held up until it is mended: what comes late is not live.
                Some(range) => {
                    let next = range.end_offset.min(upto).max(at.plus(1));
                    skip_damaged(broker, partition, (at, next), &range);
                    at = next;
                    continue;
                }
                None => return Err(Skipped::Log(error)),
            },
            read => read?,
        };
        match read {
            Some((bytes, next, aborted)) => {
                publisher.publish_batches(broker, &topic, &bytes, (at, &aborted)).await?;
                at = next;
            }
            // The stable part ends within a batch: the log start does.
            None => at = at.max(upto),
        }
    }
    Ok(())
}

fn skip_damaged(
    broker: &Broker,
    partition: &PartitionHandle,
    skipped: (Offset, Offset),
    range: &DamagedRange,
) {
    let records = u64::try_from(skipped.1.get() - skipped.0.get()).unwrap_or(0);
    broker.nats.metrics().live.skipped.inc_by(records);
    tracing::warn!(partition = %partition.id, "not delivered to NATS subscribers, because it is damaged: {range}");
}

/// Whole batches from `at` on, where the next ones begin, and which transactions in them were aborted. `None` if there are none left.
async fn read(
    partition: &Arc<PartitionHandle>,
    at: Offset,
    to: Offset,
) -> Result<Option<(Bytes, Offset, Vec<AbortedTransaction>)>, Skipped> {
    let slice = partition.reader.read_committed(at, to, PIECE_BYTES, true).map_err(Skipped::Log)?;
    let Some((slice, aborted)) = slice else { return Ok(None) };
    let next = slice.next_offset;
    let quick = slice.extent.bytes() <= READ_INLINE_BYTES && is_resident(&slice.extent);
    let bytes = if quick {
        slice.read()
    } else {
        let read = tokio::task::spawn_blocking(move || slice.read()).await;
        read.map_err(|_| Skipped::Gone)?
    };
    Ok(Some((bytes.map_err(Skipped::Disk)?, next, aborted)))
}

/// Memory that is used again from record to record.
#[derive(Default)]
struct Publisher {
    scratch: MessageScratch,
    burst: Burst,
    /// Bytes since subscribers last had their turn.
    bytes: usize,
    /// Records and deliveries that are not counted yet.
    uncounted: (u64, u64),
}

impl Publisher {
    /// Publishes the records of whole batches, from the offset `from` on, without those of aborted transactions.
    async fn publish_batches(
        &mut self,
        broker: &Broker,
        topic: &Topic,
        bytes: &Bytes,
        (from, aborted): (Offset, &[AbortedTransaction]),
    ) -> Result<(), Skipped> {
        let mut published = Ok(());
        for batch in split_batches(bytes) {
            published = match batch {
                Ok((header, _)) if header.attributes.is_control() || is_aborted(&header, aborted) => Ok(()),
                Ok((header, batch)) => {
                    self.publish_batch(broker, topic, (&header, bytes.slice_ref(batch)), from).await
                }
                Err(error) => Err(Skipped::Batch(error)),
            };
            if published.is_err() {
                break;
            }
        }
        self.give_way(broker).await;
        published
    }

    async fn publish_batch(
        &mut self,
        broker: &Broker,
        topic: &Topic,
        (header, batch): (&BatchHeader, Bytes),
        from: Offset,
    ) -> Result<(), Skipped> {
        let compression = header.attributes.compression().map_err(Skipped::Batch)?;
        let mut body = batch.slice(HEADER_BYTES..);
        if compression != Compression::None {
            // Before anything is waited for: other publishers to the same connections count on this one to send.
            self.give_way(broker).await;
            body = decompressed(broker, compression, body).await?;
        }
        for record in RecordIter::new(header, &body, Strictness::Lenient) {
            let record = record.map_err(Skipped::Batch)?;
            if record.offset >= from {
                self.publish(broker, topic, &record);
            }
            if self.bytes >= ROUND_BYTES || self.burst.is_due() {
                self.give_way(broker).await;
            }
        }
        Ok(())
    }

    fn publish(&mut self, broker: &Broker, topic: &Topic, record: &Record<'_>) {
        let (front, metrics) = (&broker.nats, &broker.nats.metrics().live);
        match topic.nats.message(record, &front.message_limits(), &mut self.scratch) {
            // The topic does not bind it, and nobody else's subjects are its own to speak under.
            Ok(message) if front.router().is_bound_elsewhere(message.subject, topic.id) => {
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
    async fn give_way(&mut self, broker: &Broker) {
        let (records, deliveries) = std::mem::take(&mut self.uncounted);
        broker.nats.metrics().live.records.inc_by(records);
        broker.nats.metrics().live.deliveries.inc_by(deliveries);
        self.bytes = 0;
        self.burst.finish(broker.nats.metrics());
        match self.burst.take_crowded() {
            Some(crowded) => crowded.wait(broker.nats.metrics()).await,
            None => tokio::task::yield_now().await,
        }
        self.burst.begin(std::time::Instant::now());
    }
}

/// True if the batch is part of one of these transactions.
fn is_aborted(batch: &BatchHeader, aborted: &[AbortedTransaction]) -> bool {
    batch.attributes.is_transactional()
        && aborted.iter().any(|transaction| {
            transaction.producer_id == batch.producer_id
                && (transaction.first_offset..=transaction.last_offset).contains(&batch.base_offset)
        })
}

/// Decompresses on a worker thread.
async fn decompressed(broker: &Broker, compression: Compression, packed: Bytes) -> Result<Bytes, Skipped> {
    // It is closed by nobody.
    let _permit = broker.nats.live().decompressions.acquire().await.map_err(|_| Skipped::Gone)?;
    let bytes_max = broker.limits.decompressed_bytes_max;
    let unpacked = tokio::task::spawn_blocking(move || {
        let mut out = Vec::new();
        decompress(compression, &packed, bytes_max, &mut out).map(|()| Bytes::from(out))
    });
    unpacked.await.map_err(|_| Skipped::Gone)?.map_err(Skipped::Batch)
}
