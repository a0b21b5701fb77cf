//! Records of Kafka clients to live NATS subscribers, once they are committed, in the order of their partition.
//!
//! The front is a sink of the taps: a produce request for whose topic somebody might listen leaves its range there, and
//! what comes back from the log is decoded and published (`publisher`). What NATS clients published never comes this way:
//! that is how everything is delivered live exactly once, and why no mark is needed on disk (docs/adr/0006).
//!
//! If subscribers or the disk cannot keep up, the oldest ranges are skipped and counted. What a compressed batch has become takes
//! room that others need, so it waits for subscribers for a bounded time: those who are far behind then miss what is left of it.

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

/// What the front is called among the sinks.
pub const NAME: &str = "NATS subscribers";

/// What is decompressed at the same time may take so many times `tailrace.decompressed.bytes.max`, until it is published.
const DECOMPRESSIONS_MAX: usize = 2;

/// The unit in which that is counted, in bytes.
const ROOM_UNIT: usize = 1024;

/// What all partitions share.
#[derive(Debug)]
pub(crate) struct Live {
    budget: TapBudget,
    pub(super) subjects: Subjects,
    /// For what is decompressed, in [`ROOM_UNIT`]s.
    room: Arc<Semaphore>,
    decompressed_bytes_max: usize,
    workers: Arc<Workers>,
}

/// What a batch has become, and the room that it takes.
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

    /// True if nobody else could begin with a batch now.
    fn is_scarce(&self) -> bool {
        self.room.available_permits() < units(self.decompressed_bytes_max)
    }

    /// Waits for room for the largest that a batch may become.
    async fn wait_for_room(&self) -> Result<OwnedSemaphorePermit, NotTaken> {
        // It is closed by nobody.
        Arc::clone(&self.room).acquire_many_owned(self.most()).await.map_err(|_| NotTaken::Failed)
    }

    /// The same, if there is any at once, and nobody waits for it.
    fn take_room(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.room).try_acquire_many_owned(self.most()).ok()
    }

    fn most(&self) -> u32 {
        u32::try_from(units(self.decompressed_bytes_max)).unwrap_or(u32::MAX)
    }

    /// Decompresses on a worker. Room that is not needed is given back.
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
            tracing::error!(%error, "a bug of the server: expanding a batch panicked");
            NotTaken::Failed
        });
        unpacked?
    }
}

fn units(bytes: usize) -> usize {
    bytes.div_ceil(ROOM_UNIT)
}
