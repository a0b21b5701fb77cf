//! Fills one batch per partition at a time, and hands complete ones to the sender.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tailrace_cli::failure::Failure;
use tailrace_cli::text::units;
use tailrace_records::{BatchBuilder, BatchOptions, Compression};
use tailrace_types::{ProducerEpoch, ProducerId, TimestampMs};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::partitioner::Partitioner;

/// Upper bounds for the framing of a record and of each of its headers: lengths, deltas, counts.
const RECORD_OVERHEAD_BYTES: usize = 32;
const HEADER_OVERHEAD_BYTES: usize = 10;
/// While the input never pauses, partial batches are sent only after this many times the linger.
const LINGERS_WHILE_BUSY: u32 = 20;

/// Limits on sizes and times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Size of a batch before compression, unless a single record is larger.
    pub(super) batch_bytes: u64,
    /// Size of a batch on the wire.
    pub(super) message_bytes_max: u64,
    /// Total size of the batches that are being filled.
    pub(super) open_bytes_max: u64,
    pub(super) linger: Duration,
    pub(super) compression: Compression,
}

/// The producer's identity, if the server should recognize repeated batches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Producer {
    pub(super) id: ProducerId,
    pub(super) epoch: ProducerEpoch,
}

/// One reading of the clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    /// The timestamp for records.
    pub(super) timestamp: TimestampMs,
    /// Monotonic time, for waits.
    pub(super) now: Instant,
}

/// A batch ready to send.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) partition: i32,
    /// Its index among the batches of its partition, from 0.
    pub(super) number: u64,
    pub(super) bytes: Bytes,
    pub(super) records: u64,
    /// Bytes of keys and values.
    pub(super) content_bytes: u64,
    /// Number of its first record in the input, from 1.
    pub(super) first_record: u64,
    pub(super) last_record: u64,
    pub(super) has_sequence: bool,
    pub(super) first_sent: Option<Instant>,
    /// Its share of the memory, which is returned on drop.
    _memory: OwnedSemaphorePermit,
}

/// The queue to the sender. Its memory is limited.
#[derive(Debug)]
pub(super) struct Outlet {
    batches: mpsc::Sender<Batch>,
    memory: Arc<Semaphore>,
    memory_bytes: u32,
    runtime: Handle,
}

impl Outlet {
    /// Creates an outlet. Call it within the runtime that the sender runs on.
    pub(super) fn new(batches: mpsc::Sender<Batch>, memory_bytes: u64) -> Self {
        let memory_bytes = u32::try_from(memory_bytes).unwrap_or(u32::MAX >> 4).clamp(1, u32::MAX >> 4);
        let memory = Arc::new(Semaphore::new(memory_bytes as usize));
        Self { batches, memory, memory_bytes, runtime: Handle::current() }
    }

    /// Waits until there is room. A batch larger than the whole limit takes all of it.
    fn room(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Failure> {
        let share = u32::try_from(bytes).unwrap_or(u32::MAX).min(self.memory_bytes);
        let gone = |_| Failure::from("sending has ended");
        let memory = Arc::clone(&self.memory);
        match memory.try_acquire_many_owned(share) {
            Ok(permit) => Ok(permit),
            Err(_) => self.runtime.block_on(self.wait_for_room(share)).map_err(gone),
        }
    }

    /// Waits for memory. Fails if the sender is gone, since then no memory is returned any more.
    async fn wait_for_room(&self, share: u32) -> Result<OwnedSemaphorePermit, ()> {
        tokio::select! {
            permit = Arc::clone(&self.memory).acquire_many_owned(share) => permit.map_err(drop),
            () = self.batches.closed() => Err(()),
        }
    }
}

/// The batch of one partition that is being filled.
#[derive(Debug)]
struct Open {
    builder: BatchBuilder,
    since: Instant,
    first_record: u64,
    last_record: u64,
    content_bytes: u64,
}

/// The state of a partition.
#[derive(Debug, Default)]
struct PartitionState {
    open: Option<Open>,
    next_sequence: i32,
    next_number: u64,
}

/// Fills batches; see the module.
#[derive(Debug)]
pub(super) struct Accumulator {
    limits: Limits,
    producer: Option<Producer>,
    partitioner: Partitioner,
    partitions: Vec<PartitionState>,
    /// Partitions with an open batch, in no order, and the total size of those batches.
    open: Vec<usize>,
    open_bytes: usize,
    records: u64,
    outlet: Option<Outlet>,
}

impl Accumulator {
    pub(super) fn new(limits: Limits, producer: Option<Producer>, partitioner: Partitioner) -> Self {
        let (partitions, open) = (Vec::new(), Vec::new());
        Self { limits, producer, partitioner, partitions, open, open_bytes: 0, records: 0, outlet: None }
    }

    pub(super) fn with_outlet(self, outlet: Outlet) -> Self {
        Self { outlet: Some(outlet), ..self }
    }

    pub(super) fn batch_bytes(&self) -> u64 {
        self.limits.batch_bytes
    }

    /// Longest value that is worth reading.
    pub(super) fn record_bytes_max(&self) -> usize {
        match self.limits.compression {
            Compression::None => self.limits.message_bytes_max as usize,
            // Compression may shrink it, but two copies must fit in memory.
            _ => (self.limits.message_bytes_max as usize).max(128 << 20),
        }
    }

    /// Adds a record to the batch of its partition. `clocks` were read a short while ago.
    pub(super) fn push(
        &mut self,
        clocks: Clocks,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&[u8], Option<&[u8]>)],
    ) -> Result<(), Failure> {
        self.records += 1;
        let content = key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len);
        let header =
            |&(k, v): &(&[u8], Option<&[u8]>)| k.len() + v.map_or(0, <[u8]>::len) + HEADER_OVERHEAD_BYTES;
        let bytes = content + headers.iter().map(header).sum::<usize>() + RECORD_OVERHEAD_BYTES;
        let partition = self.place(key, bytes)?;
        self.make_room(bytes)?;
        self.open_at(partition, clocks.now);
        let state = &mut self.partitions[partition];
        let Some(open) = &mut state.open else { unreachable!("it was just opened") };
        let before = open.builder.bytes_estimate();
        let number = self.records;
        open.builder
            .push(clocks.timestamp, key, value, headers)
            .map_err(|error| format!("record {number}: {error}"))?;
        self.open_bytes += open.builder.bytes_estimate() - before;
        open.content_bytes += content as u64;
        open.last_record = number;
        Ok(())
    }

    /// Chooses the record's partition. If the record no longer fits into the partition's batch, that batch is
    /// sent first, and a record without a key goes to the next partition.
    fn place(&mut self, key: Option<&[u8]>, bytes: usize) -> Result<usize, Failure> {
        loop {
            let partition = self.partitioner.choose(key);
            if self.partitions.len() <= partition {
                self.partitions.resize_with(partition + 1, PartitionState::default);
            }
            let full = self.partitions[partition]
                .open
                .as_ref()
                .is_some_and(|open| open.builder.bytes_estimate() + bytes > self.limits.batch_bytes as usize);
            if !full {
                return Ok(partition);
            }
            self.flush(partition)?;
        }
    }

    /// Sends the largest open batches until the new record fits into memory.
    fn make_room(&mut self, bytes: usize) -> Result<(), Failure> {
        while self.open.len() > 1 && self.open_bytes + bytes > self.limits.open_bytes_max as usize {
            let size =
                |&&p: &&usize| self.partitions[p].open.as_ref().map_or(0, |o| o.builder.bytes_estimate());
            let largest = self.open.iter().max_by_key(size).copied();
            largest.map_or(Ok(()), |partition| self.flush(partition))?;
        }
        Ok(())
    }

    fn open_at(&mut self, partition: usize, now: Instant) {
        let state = &mut self.partitions[partition];
        if state.open.is_some() {
            return;
        }
        let options = match self.producer {
            None => BatchOptions::default(),
            Some(producer) => BatchOptions {
                producer_id: producer.id,
                producer_epoch: producer.epoch,
                base_sequence: state.next_sequence,
                ..BatchOptions::default()
            },
        };
        let builder = BatchBuilder::new(BatchOptions { compression: self.limits.compression, ..options });
        self.open_bytes += builder.bytes_estimate();
        state.open = Some(Open {
            builder,
            since: now,
            first_record: self.records,
            last_record: self.records,
            content_bytes: 0,
        });
        self.open.push(partition);
    }

    /// Time until the next batch is due. `None` if no batch is open.
    pub(super) fn next_due(&self, now: Instant) -> Option<Duration> {
        let since =
            self.open.iter().filter_map(|&p| self.partitions[p].open.as_ref().map(|o| o.since)).min()?;
        Some((since + self.limits.linger).saturating_duration_since(now))
    }

    /// Sends batches that have lingered long enough. `busy` means that the input goes on, so that batches
    /// fill soon.
    pub(super) fn flush_due(&mut self, now: Instant, busy: bool) -> Result<(), Failure> {
        let linger = if busy { self.limits.linger * LINGERS_WHILE_BUSY } else { self.limits.linger };
        let is_due = |&&p: &&usize| {
            self.partitions[p].open.as_ref().is_some_and(|open| now.duration_since(open.since) >= linger)
        };
        let due: Vec<usize> = self.open.iter().filter(is_due).copied().collect();
        due.into_iter().try_for_each(|partition| self.flush(partition))
    }

    /// Sends all open batches.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        std::mem::take(&mut self.open).into_iter().try_for_each(|partition| self.flush(partition))
    }

    fn flush(&mut self, partition: usize) -> Result<(), Failure> {
        self.open.retain(|&p| p != partition);
        let state = &mut self.partitions[partition];
        let Some(open) = state.open.take() else { return Ok(()) };
        let size = open.builder.bytes_estimate();
        self.open_bytes -= size;
        let (records, number) = (open.builder.len() as u64, state.next_number);
        state.next_number += 1;
        if self.producer.is_some() {
            // Sequence numbers wrap as the server expects: from the largest one to 0.
            state.next_sequence = state.next_sequence.wrapping_add(records as i32) & i32::MAX;
        }
        let bytes = open.builder.build();
        self.check_size(open.first_record, records, bytes.len())?;
        self.partitioner.batch_done(partition);
        let Some(outlet) = &self.outlet else { return Ok(()) };
        let batch = Batch {
            partition: partition as i32,
            number,
            records,
            content_bytes: open.content_bytes,
            first_record: open.first_record,
            last_record: open.last_record,
            has_sequence: self.producer.is_some(),
            first_sent: None,
            _memory: outlet.room(bytes.len())?,
            bytes,
        };
        outlet.batches.blocking_send(batch).map_err(|_| Failure::from("sending has ended"))
    }

    fn check_size(&self, first: u64, records: u64, bytes: usize) -> Result<(), Failure> {
        let max = self.limits.message_bytes_max;
        if bytes as u64 <= max {
            return Ok(());
        }
        let which = if records == 1 {
            format!("record {first}")
        } else {
            format!("the batch that starts at record {first}")
        };
        Err(format!(
            "{which} takes {}, but the topic accepts batches of at most {max} bytes: compress it, split it, or raise the \
             topic's max.message.bytes with `tailrace topic alter`",
            units::bytes(bytes as f64),
        )
        .into())
    }
}

impl Batch {
    /// Reports whether the batch's records are consecutive in the input.
    pub(super) fn is_run(&self) -> bool {
        self.last_record - self.first_record + 1 == self.records
    }
}

#[cfg(test)]
impl Batch {
    /// A batch of one byte.
    pub(super) fn for_test(number: u64) -> Self {
        let memory = Arc::new(Semaphore::new(1)).try_acquire_owned().expect("it is free");
        Self {
            partition: 0,
            number,
            bytes: Bytes::from_static(b"x"),
            records: 1,
            content_bytes: 1,
            first_record: number + 1,
            last_record: number + 1,
            has_sequence: true,
            first_sent: None,
            _memory: memory,
        }
    }
}
