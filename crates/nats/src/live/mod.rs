//! Live delivery of Kafka clients' records to NATS subscribers: once committed, in the order of their
//! partition.
//!
//! The front is a sink of the taps. A produce request to a topic that may have subscribers registers its
//! range there. The range is read back from the log, decoded and published (`publisher`). Messages that NATS
//! clients published never take this path. That is why everything is delivered live exactly once, and why no
//! mark on disk is needed (docs/adr/0006).
//!
//! If subscribers or the disk cannot keep up, the oldest ranges are skipped and counted. A decompressed batch
//! takes room that others need, so it waits for subscribers for a limited time. Those that are far behind
//! then miss the rest of it.

mod metrics;
mod publisher;
mod subjects;

use std::sync::Arc;

use bytes::Bytes;
use tailrace_config::BrokerConfig;
use tailrace_env::sync::{OwnedSemaphorePermit, Semaphore};
use tailrace_env::workers::Workers;
use tailrace_records::{Compression, decompress};

pub(crate) use self::metrics::LiveMetrics;
use self::subjects::Subjects;
use tailrace_node::taps::{NotTaken, TapBudget};
use tailrace_types::usize_of;

/// Name of the front among the sinks.
pub const NAME: &str = "NATS subscribers";

/// Limit on the memory of all decompressed batches until they are published, as a multiple of
/// `tailrace.decompressed.bytes.max`.
const DECOMPRESSIONS_MAX: usize = 2;

/// Unit of that memory, in bytes.
const ROOM_UNIT: usize = 1024;

/// State shared by all partitions.
#[derive(Debug)]
pub(crate) struct Live {
    budget: TapBudget,
    pub(crate) subjects: Subjects,
    /// Permits for decompressed batches, in [`ROOM_UNIT`]s.
    room: Arc<Semaphore>,
    decompressed_bytes_max: usize,
    workers: Arc<Workers>,
}

/// A decompressed batch, and the room that it takes.
pub(super) struct Unpacked {
    pub(super) body: Bytes,
    _room: OwnedSemaphorePermit,
}

impl Live {
    pub(crate) fn new(config: &BrokerConfig, workers: Arc<Workers>) -> Self {
        let decompressed_bytes_max = usize_of(config.tailrace_decompressed_bytes_max);
        Self {
            budget: TapBudget::new(config.tailrace_nats_live_lag_max_bytes),
            subjects: Subjects::default(),
            room: Arc::new(Semaphore::new(DECOMPRESSIONS_MAX * units(decompressed_bytes_max))),
            decompressed_bytes_max,
            workers,
        }
    }

    /// Reports whether there is no room for another batch.
    fn is_scarce(&self) -> bool {
        self.room.available_permits() < units(self.decompressed_bytes_max)
    }

    /// Waits for room for the largest decompressed batch.
    async fn wait_for_room(&self) -> Result<OwnedSemaphorePermit, NotTaken> {
        // The semaphore is never closed.
        Arc::clone(&self.room).acquire_many_owned(self.most()).await.map_err(|_| NotTaken::Failed)
    }

    /// Takes the same room if it is free and no task waits for it.
    fn take_room(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.room).try_acquire_many_owned(self.most()).ok()
    }

    fn most(&self) -> u32 {
        u32::try_from(units(self.decompressed_bytes_max)).unwrap_or(u32::MAX)
    }

    /// Decompresses on a worker. Releases the room that is not needed.
    async fn decompressed(
        &self,
        compression: Compression,
        packed: Bytes,
        mut room: OwnedSemaphorePermit,
    ) -> Result<Unpacked, NotTaken> {
        let bytes_max = self.decompressed_bytes_max;
        let unpacked = self.workers.work(move || {
            let mut out = Vec::new();
            decompress(compression, &packed, bytes_max, &mut out)?;
            drop(room.split(units(bytes_max).saturating_sub(units(out.capacity()))));
            Ok(Unpacked { body: out.into(), _room: room })
        });
        let unpacked = unpacked.await.map_err(|error| {
            tracing::error!(%error, "a bug in the server: decompressing a batch panicked");
            NotTaken::Failed
        });
        unpacked?
    }
}

fn units(bytes: usize) -> usize {
    bytes.div_ceil(ROOM_UNIT)
}
