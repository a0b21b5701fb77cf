//! Queues what was appended, and reads it back from the log for the sinks that want it, once it is committed.

use std::sync::Arc;
use tailrace_env::time::{Duration, Instant};
use tailrace_env::{select, task};

use bytes::Bytes;
use tailrace_log::DamagedRange;
use tailrace_types::{LeaderEpoch, Offset};

use super::queue::TapQueue;
use super::{Committed, NotTaken, Sink, TapRange, Taps, Took, WantedBy};
use crate::caller::Caller;
use crate::deadlines::EXCHANGE_TIMEOUT;
use crate::node::Node;
use crate::partitions::{Isolation, PartitionHandle, ReadFailure, ReadOutcome, ReadTerms, WaitOutcome};
use crate::retry::Pauses;
use tailrace_env::task::stopped;

/// Bytes read from a log at a time, but at least one batch.
const PIECE_BYTES: u64 = 256 * 1024;

/// Pieces up to this size are read on the event loop if they are in memory.
const READ_INLINE_BYTES: u64 = 64 * 1024;

/// Pause between two checks of a log that is being replaced by another replica's.
const EXCHANGED: Pauses = Pauses::steady(Duration::from_millis(10));

/// Why a range did not reach its sink, or only in part.
#[derive(Debug)]
#[expect(dead_code, reason = "shown in the log")]
enum Skipped {
    /// The partition was deleted, takes no more writes, or the server is stopping.
    Gone,
    Unread(ReadFailure),
    Disk(std::io::Error),
    NotTaken(NotTaken),
    /// A bug in the server: reading it back panicked.
    Panicked,
}

impl Taps {
    /// Queues an appended range, and has it read. Call this under the partition's lock.
    pub(crate) fn appended(
        &self,
        node: &Arc<Node>,
        partition: &Arc<PartitionHandle>,
        wanted: WantedBy,
        range: TapRange,
    ) {
        for number in wanted.numbers() {
            let (sink, queue) = (&self.0[number].sink, self.queue(partition, number));
            let bounds = partition.bounds();
            let held = bounds.last_stable_offset < bounds.high_watermark;
            let skipped = queue.push(range, sink.budget(), held);
            if skipped > 0 {
                sink.skipped(skipped);
            }
            if queue.begin() {
                task::spawn(run(Arc::clone(node), Arc::clone(partition), number));
            }
        }
    }
}

/// The range that is being delivered. If a panic drops this first, the range is skipped: others wait for its
/// room, and the next append starts a reader.
struct UnderWay<'a> {
    sink: &'a dyn Sink,
    queue: &'a TapQueue,
    range: Option<TapRange>,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(range) = self.range.take() {
            self.sink.budget().release(range.bytes);
            self.sink.skipped(range.records());
            self.queue.end();
        }
    }
}

/// Reads one range after the other for the sink of this number, until there is none.
async fn run(node: Arc<Node>, partition: Arc<PartitionHandle>, number: usize) {
    let taps = &node.taps;
    let (sink, queue) = (&taps.0[number].sink, taps.queue(&partition, number));
    let mut stopping = node.stopping.subscribe();
    while let Some(range) = queue.next() {
        let mut under_way = UnderWay { sink: &**sink, queue, range: Some(range) };
        let delivered = select! {
            delivered = deliver(&node, &partition, number, range) => delivered,
            () = stopped(&mut stopping) => Err(Skipped::Gone),
        };
        under_way.range = None;
        sink.budget().release(range.bytes);
        if let Err(skipped) = delivered {
            let (id, name) = (&partition.id, sink.name());
            tracing::debug!(partition = %id, ?range, ?skipped, "appended records have not reached {name}");
            sink.skipped(range.records());
        }
    }
}

async fn deliver(
    node: &Arc<Node>,
    partition: &Arc<PartitionHandle>,
    number: usize,
    range: TapRange,
) -> Result<(), Skipped> {
    let tap = &node.taps.0[number];
    let mut intake = Arc::clone(&tap.sink).begin();
    let mut at = range.from;
    let mut exchanged = EXCHANGED.until(Instant::now() + EXCHANGE_TIMEOUT);
    while at < range.to {
        if let Some(stable) = partition.wait_stable(at.plus(1)) {
            let outcome = stable.await.map_err(|_| Skipped::Gone)?;
            if outcome != WaitOutcome::Committed {
                return Err(Skipped::Gone);
            }
        }
        let topic = node.topics().by_name(partition.id.topic.as_str()).ok_or(Skipped::Gone)?;
        // If the sink no longer wants the topic, nothing is read.
        if !tap.sink.wants(&topic) {
            return Ok(());
        }
        // The semaphore is never closed.
        let place = tap.pieces.acquire().await.map_err(|_| Skipped::Gone)?;
        let bounds = partition.bounds();
        let upto = bounds.end(Isolation::TxnCommitted).min(range.to);
        // Retention may have deleted some of it meanwhile.
        at = at.max(bounds.log_start);
        let read = match read(partition, range.epoch, at, upto).await {
            Err(skipped @ Skipped::Unread(ReadFailure::BeingExchanged)) => {
                if !exchanged.pause().await {
                    return Err(skipped);
                }
                continue;
            }
            // Does not wait for the repair: late records are no longer live.
            Err(Skipped::Unread(ReadFailure::Damaged(range))) => {
                let next = range.end_offset.min(upto).max(at.plus(1));
                skip_damaged(&*tap.sink, partition, (at, next), &range);
                at = next;
                continue;
            }
            read => read?,
        };
        match read {
            Some((piece, next)) => match intake.take(&topic, &piece).await.map_err(Skipped::NotTaken)? {
                Took::All => at = next,
                Took::Before(offset) => {
                    at = at.max(offset);
                    // Other partitions may hold what is missing for long. Meanwhile the place is free for
                    // those that do not need it.
                    drop((piece, place));
                    intake.wait().await.map_err(Skipped::NotTaken)?;
                }
            },
            // Less than a whole batch remains: the log start is within a batch.
            None => at = at.max(upto),
        }
    }
    Ok(())
}

fn skip_damaged(
    sink: &dyn Sink,
    partition: &PartitionHandle,
    skipped: (Offset, Offset),
    range: &DamagedRange,
) {
    sink.skipped(skipped.1.get().abs_diff(skipped.0.get()));
    let name = sink.name();
    tracing::warn!(partition = %partition.id, "not passed to {name}, because it is damaged: {range}");
}

/// Reads whole batches from `at` on, and returns the start of the next ones. `None` if there are none left.
async fn read(
    partition: &Arc<PartitionHandle>,
    epoch: LeaderEpoch,
    at: Offset,
    to: Offset,
) -> Result<Option<(Committed, Offset)>, Skipped> {
    let terms = ReadTerms { upto: Some(to), ..ReadTerms::new(at, Isolation::TxnCommitted, PIECE_BYTES) };
    let ReadOutcome { slice: Some(slice), aborted, .. } =
        partition.read_on_loop(Caller::internal(), &terms).await.map_err(Skipped::Unread)?
    else {
        return Ok(None);
    };
    let next = slice.next_offset;
    let quick = slice.extent.bytes() <= READ_INLINE_BYTES && slice.extent.is_resident();
    let bytes: std::io::Result<Bytes> = if quick {
        slice.read()
    } else {
        let read = task::spawn_blocking(move || slice.read()).await;
        read.map_err(|error| {
            tracing::error!(partition = %partition.id, %error, "a bug in the server: reading back what was appended panicked");
            Skipped::Panicked
        })?
    };
    let bytes = bytes.map_err(Skipped::Disk)?;
    Ok(Some((Committed { bytes, epoch, from: at, aborted }, next)))
}

#[cfg(test)]
mod tests {
    use super::super::{Intake, TapBudget};
    use super::*;
    use crate::partitions::Topic;
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Unlucky {
        budget: TapBudget,
        skipped: AtomicU64,
    }

    impl Sink for Unlucky {
        fn name(&self) -> &'static str {
            "unlucky"
        }

        fn wants(&self, _: &Topic) -> bool {
            true
        }

        fn budget(&self) -> &TapBudget {
            &self.budget
        }

        fn begin(self: Arc<Self>) -> Box<dyn Intake> {
            panic!("nothing is begun")
        }

        fn skipped(&self, records: u64) {
            self.skipped.fetch_add(records, Ordering::Relaxed);
        }
    }

    #[test]
    fn what_panics_is_skipped_and_others_go_on() {
        let sink = Unlucky { budget: TapBudget::new(1 << 20), skipped: AtomicU64::new(0) };
        let queue = TapQueue::default();
        queue.push(TapRange::new(LeaderEpoch(1), Offset(0), Offset(3), 1000), &sink.budget, false);
        assert!(queue.begin());
        let delivery = std::panic::AssertUnwindSafe(|| {
            let _under_way = UnderWay { sink: &sink, queue: &queue, range: queue.next() };
            panic!("on purpose");
        });
        assert!(std::panic::catch_unwind(delivery).is_err());
        assert_eq!((sink.budget.waiting(), sink.skipped.load(Ordering::Relaxed)), (0, 3));
        queue.push(TapRange::new(LeaderEpoch(1), Offset(3), Offset(4), 1000), &sink.budget, false);
        assert!(queue.begin(), "the next append starts a reader");
    }
}
