//! Records of Kafka clients to live NATS subscribers, once they are committed, in the order of their partition.
//!
//! The front is a sink of the taps: a produce request for whose topic somebody might listen leaves its range there, and
//! what comes back from the log is decoded and published (`publisher`). What NATS clients published never comes this way:
//! that is how everything is delivered live exactly once, and why no mark is needed on disk (docs/adr/0006).
//!
//! If subscribers or the disk cannot keep up, the oldest ranges are skipped and counted.

mod metrics;
mod publisher;
mod subjects;

use bytes::Bytes;
use tailrace_config::BrokerConfig;
use tailrace_env::sync::Semaphore;
use tailrace_env::task;
use tailrace_records::{Compression, decompress};

pub(crate) use self::metrics::LiveMetrics;
use self::subjects::Subjects;
use tailrace_node::taps::{NotTaken, TapBudget};
use tailrace_types::usize_of;

/// What the front is called among the sinks.
pub const NAME: &str = "NATS subscribers";

/// Pieces that are decompressed at the same time. Each may take `tailrace.decompressed.bytes.max`.
const DECOMPRESSIONS_MAX: usize = 2;

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
            decompressed_bytes_max: usize_of(config.tailrace_decompressed_bytes_max),
        }
    }

    /// Decompresses on a worker thread.
    async fn decompressed(&self, compression: Compression, packed: Bytes) -> Result<Bytes, NotTaken> {
        let bytes_max = self.decompressed_bytes_max;
        // It is closed by nobody.
        let _permit = self.decompressions.acquire().await.map_err(|_| NotTaken::Failed)?;
        let unpacked = task::spawn_blocking(move || {
            let mut out = Vec::new();
            decompress(compression, &packed, bytes_max, &mut out).map(|()| Bytes::from(out))
        });
        let unpacked = unpacked.await.map_err(|error| {
            tracing::error!(%error, "a bug of the server: expanding a batch panicked");
            NotTaken::Failed
        });
        Ok(unpacked??)
    }
}
