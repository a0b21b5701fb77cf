//! Chooses the partition of a record.

use tailrace_records::partition_of_key;

/// Chooses partitions as Kafka's Java client does: by the key's murmur2 hash, or round-robin, batch by batch.
#[derive(Debug)]
pub(super) struct Partitioner {
    partitions: u32,
    fixed: Option<i32>,
    sticky: u32,
}

impl Partitioner {
    /// Creates a partitioner for `partitions` partitions, at least one.
    pub(super) fn new(partitions: usize, fixed: Option<i32>) -> Self {
        let partitions = u32::try_from(partitions).unwrap_or(u32::MAX).max(1);
        // Otherwise many short runs would all start with the same partition.
        Self { partitions, fixed, sticky: std::process::id() % partitions }
    }

    /// The partition of a record with this key.
    pub(super) fn choose(&self, key: Option<&[u8]>) -> usize {
        match (self.fixed, key) {
            (Some(partition), _) => partition.unsigned_abs() as usize,
            (None, Some(key)) => partition_of_key(key, self.partitions) as usize,
            (None, None) => self.sticky as usize,
        }
    }

    /// Moves records without a key on to the next partition. Call it when a batch is complete.
    pub(super) fn batch_done(&mut self, partition: usize) {
        if partition == self.sticky as usize {
            self.sticky = (self.sticky + 1) % self.partitions;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_without_a_key_stay_until_the_batch_is_done() {
        let mut partitioner = Partitioner::new(3, None);
        let first = partitioner.choose(None);
        assert_eq!(partitioner.choose(None), first);
        partitioner.batch_done((first + 1) % 3);
        assert_eq!(partitioner.choose(None), first);
        partitioner.batch_done(first);
        assert_eq!(partitioner.choose(None), (first + 1) % 3);
        assert_eq!(Partitioner::new(3, Some(2)).choose(Some(b"key")), 2);
    }
}
