//! Lookups by time. Each works in three places: a thread for the disk finds the batch and reads it. If that
//! takes long, a worker decompresses the batch and scans its records. Before either, the lookup waits,
//! occupying neither, until there is memory for what they need.

use std::sync::Arc;

use prometheus_client::metrics::gauge::Gauge;
use tailrace_env::budget::{RequestBudget, Reservation};
use tailrace_env::task;
use tailrace_env::workers::Workers;
use tailrace_log::{TimeLookup, TimeStep};
use tailrace_types::{DECOMPRESSED_BYTES_MAX, LeaderEpoch, Offset, TimestampMs};

use super::failure::LookupFailure;
use super::handle::PartitionHandle;
use crate::disk::NodeDisk;

/// All lookups together may reserve this many times `tailrace.decompressed.bytes.max`. A single one may
/// always reserve what it needs.
const EXPANSIONS_MAX: usize = 2;

/// A record found by its time.
type TimedOffset = (Offset, TimestampMs, LeaderEpoch);

/// Finds offsets by time.
#[derive(Debug)]
pub struct Lookups {
    /// Memory for batches and their decompressed form.
    room: Arc<RequestBudget>,
    workers: Arc<Workers>,
    decompressed_bytes_max: usize,
}

/// Memory reserved for a batch.
struct Room {
    _reservation: Reservation,
    /// Size of the batch as stored.
    batch_bytes: usize,
}

impl Lookups {
    /// `memory` shows how much is reserved.
    pub(crate) fn new(decompressed_bytes_max: usize, workers: Arc<Workers>, memory: Gauge) -> Self {
        let room = RequestBudget::new(EXPANSIONS_MAX * decompressed_bytes_max, memory);
        Self { room, workers, decompressed_bytes_max }
    }

    /// Runs [`TimeLookup::at_or_after`]. Waits while there is no memory. Dropping the future ends the lookup.
    ///
    /// # Errors
    /// [`LookupFailure`]
    pub async fn offset_for_time(
        &self,
        handle: &Arc<PartitionHandle>,
        timestamp: TimestampMs,
        upto: Offset,
    ) -> Result<Option<TimedOffset>, LookupFailure> {
        self.look_up(handle, TimeLookup::at_or_after(timestamp, upto)).await
    }

    /// Runs [`TimeLookup::largest`].
    ///
    /// # Errors
    /// [`LookupFailure`]
    pub async fn max_timestamp(
        &self,
        handle: &Arc<PartitionHandle>,
        upto: Offset,
    ) -> Result<Option<TimedOffset>, LookupFailure> {
        self.look_up(handle, TimeLookup::largest(upto)).await
    }

    async fn look_up(
        &self,
        handle: &Arc<PartitionHandle>,
        lookup: TimeLookup<NodeDisk>,
    ) -> Result<Option<TimedOffset>, LookupFailure> {
        let found = self.found(handle, lookup).await;
        found.inspect_err(|error| {
            tracing::error!(partition = %handle.id, %error, "could not look up an offset by time");
        })
    }

    async fn found(
        &self,
        handle: &Arc<PartitionHandle>,
        mut lookup: TimeLookup<NodeDisk>,
    ) -> Result<Option<TimedOffset>, LookupFailure> {
        let mut room = None;
        let mut bytes_max = self.decompressed_bytes_max;
        loop {
            let step;
            (lookup, room, step) = go_on(handle, lookup, room).await?;
            match step {
                TimeStep::Found(found) => return Ok(found),
                TimeStep::Large { bytes, is_compressed } => {
                    // The current reservation is too small, and others may wait for it.
                    drop(room.take());
                    let expanded = if is_compressed { bytes_max } else { 0 };
                    let reservation = self.room.reserve(bytes + expanded).await;
                    room = Some(Room { _reservation: reservation, batch_bytes: bytes });
                }
                TimeStep::Within(candidate) => {
                    let held = room.take();
                    // The reservation lasts until the work ends, even if the caller is gone.
                    let search = move || (candidate.search(bytes_max), held).0;
                    let looked = self.workers.work(search).await.map_err(|_| LookupFailure::Panicked)?;
                    if looked.is_cut() {
                        // The batch was accepted when the limit was higher.
                        bytes_max = DECOMPRESSED_BYTES_MAX;
                        continue;
                    }
                    bytes_max = self.decompressed_bytes_max;
                    if let Some(found) = lookup.note(looked) {
                        return Ok(Some(found));
                    }
                }
            }
        }
    }
}

/// Runs one step on a thread that may block.
async fn go_on(
    handle: &Arc<PartitionHandle>,
    mut lookup: TimeLookup<NodeDisk>,
    room: Option<Room>,
) -> Result<(TimeLookup<NodeDisk>, Option<Room>, TimeStep<NodeDisk>), LookupFailure> {
    let handle = Arc::clone(handle);
    let step = task::spawn_blocking(move || {
        let step = handle.reader.log().go_on(&mut lookup, room.as_ref().map(|room| room.batch_bytes));
        step.map(|step| (lookup, room, step))
    });
    Ok(step.await.map_err(|_| LookupFailure::Panicked)??)
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::mpsc;
    use std::task::Poll;

    use tailrace_log::LogConfig;
    use tailrace_records::{BatchBuilder, BatchOptions, Compression, TimestampType};
    use tailrace_replication::{Durability, Policy, Solo};
    use tempfile::TempDir;

    use super::*;
    use crate::partitions::Core;
    use crate::testing::{alone, identity, log_store};

    const RECORDS: i64 = 1000;
    /// More than there may be workers.
    const MANY: usize = 1024;
    /// More steps than a lookup has.
    const ROUNDS: usize = 10;
    const EXPANDED_BYTES_MAX: usize = 64 << 20;

    type Pinned<'a> = Pin<Box<dyn Future<Output = Result<Option<TimedOffset>, LookupFailure>> + 'a>>;

    /// Makes records of 1 KiB, a millisecond apart, which compress to a few bytes.
    fn batch(compression: Compression, first: i64) -> BatchBuilder {
        let mut builder = BatchBuilder::new(BatchOptions { compression, ..BatchOptions::default() });
        for number in 0..RECORDS {
            builder.push(TimestampMs(first + number), None, Some(&[b'v'; 1000]), &[]).unwrap();
        }
        builder
    }

    /// Makes a partition with a record at 100 and many from 1000 on.
    async fn partition(folder: &TempDir, compression: Compression) -> Arc<PartitionHandle> {
        let (durability, timestamp_type) = (Durability::Strict, TimestampType::CreateTime);
        let policy = Policy { durability, producer_expiration_ms: i64::MAX, timestamp_type };
        let (store, dir, config) = (log_store(), folder.path().join("t-0"), LogConfig::default());
        let (mut solo, _) = Solo::open(&store, &dir, &identity(), config, policy, TimestampMs(1)).unwrap();
        solo.begin_epoch().unwrap();
        let handle = alone(Core::Solo(Box::new(solo)));
        let mut small = BatchBuilder::new(BatchOptions::default());
        small.push(TimestampMs(100), None, None, &[]).unwrap();
        for builder in [small, batch(compression, 1000)] {
            let (header, bytes) = builder.build_with_header();
            let appended = handle.with(|core| core.append(&header, &bytes, None, TimestampMs(1)));
            appended.await.unwrap().unwrap();
        }
        handle
    }

    /// Runs `test` on a runtime with one blocking thread.
    fn run(test: impl Future<Output = ()>) {
        tailrace_runtime::install();
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).max_blocking_threads(1).enable_all().build().unwrap();
        runtime.block_on(test);
    }

    fn lookups(workers: &Arc<Workers>, decompressed_bytes_max: usize) -> (Lookups, Gauge) {
        let memory = Gauge::default();
        (Lookups::new(decompressed_bytes_max, Arc::clone(workers), memory.clone()), memory)
    }

    fn look<'a>(lookups: &'a Lookups, handle: &'a Arc<PartitionHandle>, timestamp: i64) -> Pinned<'a> {
        let end = handle.bounds().log_end;
        Box::pin(lookups.offset_for_time(handle, TimestampMs(timestamp), end))
    }

    async fn is_pending<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> bool {
        std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
    }

    /// Lets a lookup run as far as it can, beside reads that complete.
    async fn assert_waits(lookup: &mut Pinned<'_>) {
        for _ in 0..ROUNDS {
            assert!(is_pending(lookup).await);
            task::spawn_blocking(|| ()).await.unwrap();
        }
    }

    fn offset_and_time(found: Result<Option<TimedOffset>, LookupFailure>) -> Option<(i64, i64)> {
        found.unwrap().map(|(offset, timestamp, _)| (offset.0, timestamp.0))
    }

    #[test]
    fn looking_into_a_large_batch_takes_no_thread_of_the_disk() {
        for compression in [Compression::None, Compression::Zstd] {
            run(async {
                let folder = TempDir::new().unwrap();
                let handle = partition(&folder, compression).await;
                let workers = Arc::new(Workers::start().unwrap());
                let (lookups, memory) = lookups(&workers, EXPANDED_BYTES_MAX);
                let (mut ends, mut busy) = (Vec::new(), Vec::new());
                for _ in 0..MANY {
                    let (end, is_ended) = mpsc::channel::<()>();
                    let mut work = Box::pin(workers.work(move || is_ended.recv().is_err()));
                    assert!(is_pending(&mut work).await);
                    ends.push(end);
                    busy.push(work);
                }
                let mut lookup = look(&lookups, &handle, 1500);
                assert_waits(&mut lookup).await;
                assert!(memory.get() > 0, "it has read the batch, and waits for a worker");
                assert_eq!(offset_and_time(look(&lookups, &handle, 50).await), Some((0, 100)));
                drop((ends, busy));
                assert_eq!(offset_and_time(lookup.await), Some((501, 1500)));
                assert_eq!(memory.get(), 0);
            });
        }
    }

    #[test]
    fn who_finds_no_room_waits_until_there_is_some() {
        run(async {
            let folder = TempDir::new().unwrap();
            let handle = partition(&folder, Compression::Zstd).await;
            let workers = Arc::new(Workers::start().unwrap());
            let (lookups, memory) = lookups(&workers, EXPANDED_BYTES_MAX);
            let others = lookups.room.reserve(EXPANSIONS_MAX * EXPANDED_BYTES_MAX).await;
            let held = memory.get();
            let (mut first, mut second) = (look(&lookups, &handle, 1500), look(&lookups, &handle, 1600));
            assert_waits(&mut first).await;
            assert_waits(&mut second).await;
            assert_eq!(memory.get(), held, "nothing is read before there is room");
            assert_eq!(offset_and_time(look(&lookups, &handle, 50).await), Some((0, 100)));
            drop(first);
            drop(others);
            assert_eq!(offset_and_time(second.await), Some((601, 1600)));
            assert_eq!(memory.get(), 0);
            let largest = lookups.max_timestamp(&handle, handle.bounds().log_end).await;
            assert_eq!(offset_and_time(largest), Some((1000, 1999)));
        });
    }

    #[test]
    fn what_was_accepted_when_more_was_allowed_is_looked_into_alone() {
        run(async {
            let folder = TempDir::new().unwrap();
            let handle = partition(&folder, Compression::Zstd).await;
            let workers = Arc::new(Workers::start().unwrap());
            let (lookups, memory) = lookups(&workers, 512 << 10);
            let other = lookups.room.reserve(1).await;
            let mut lookup = look(&lookups, &handle, 1500);
            // The worker is another thread. It has done what it can once the lookup is waiting in line.
            while !lookups.room.has_line() {
                assert!(is_pending(&mut lookup).await);
                task::spawn_blocking(|| ()).await.unwrap();
            }
            assert_waits(&mut lookup).await;
            drop(other);
            assert_eq!(offset_and_time(lookup.await), Some((501, 1500)));
            assert_eq!(memory.get(), 0);
        });
    }

    #[test]
    fn a_time_in_a_large_batch_that_is_damaged_leads_to_its_first_offset() {
        run(async {
            let folder = TempDir::new().unwrap();
            let handle = partition(&folder, Compression::None).await;
            let files = std::fs::read_dir(folder.path().join("t-0")).unwrap();
            let paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
            let log = paths.iter().find(|path| path.extension().is_some_and(|e| e == "log")).unwrap();
            let mut bytes = std::fs::read(log).unwrap();
            bytes[100_000] ^= 1;
            std::fs::write(log, bytes).unwrap();
            let workers = Arc::new(Workers::start().unwrap());
            let (lookups, _) = lookups(&workers, EXPANDED_BYTES_MAX);
            // With the batch's largest timestamp.
            assert_eq!(offset_and_time(look(&lookups, &handle, 1500).await), Some((1, 1999)));
            let damaged = handle.reader.log().damaged();
            assert_eq!(damaged.len(), 1, "{damaged:?}");
            assert_eq!((damaged[0].base_offset, damaged[0].end_offset), (Offset(1), Offset(1001)));
            assert_eq!(offset_and_time(look(&lookups, &handle, 50).await), Some((0, 100)));
        });
    }
}
