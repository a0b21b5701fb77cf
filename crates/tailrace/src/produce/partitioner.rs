//! Which partition a record goes to.

/// Chooses partitions as Kafka's Java client does: by the key's murmur2 hash, or one after the other, batch by batch.
#[derive(Debug)]
pub(super) struct Partitioner {
    partitions: u32,
    fixed: Option<i32>,
    sticky: u32,
}

impl Partitioner {
    /// For a topic of `partitions` partitions, at least one.
    pub(super) fn new(partitions: usize, fixed: Option<i32>) -> Self {
        let partitions = u32::try_from(partitions).unwrap_or(u32::MAX).max(1);
        // Many short runs shall not all begin with the same partition.
        Self { partitions, fixed, sticky: std::process::id() % partitions }
    }

    /// The partition of a record with this key.
    pub(super) fn choose(&self, key: Option<&[u8]>) -> usize {
        match (self.fixed, key) {
            (Some(partition), _) => partition.unsigned_abs() as usize,
            (None, Some(_)) if self.partitions == 1 => 0,
            (None, Some(key)) => ((murmur2(key) & 0x7fff_ffff) % self.partitions) as usize,
            (None, None) => self.sticky as usize,
        }
    }

    /// To be told when a batch is complete: records without a key go to the next partition then.
    pub(super) fn batch_done(&mut self, partition: usize) {
        if partition == self.sticky as usize {
            self.sticky = (self.sticky + 1) % self.partitions;
        }
    }
}

/// MurmurHash 2, 32 bits, little-endian, with the seed that Kafka's Java client uses. Public domain, by Austin Appleby.
fn murmur2(bytes: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ bytes.len() as u32;
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        let k = u32::from_le_bytes(*word).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ (k ^ (k >> 24)).wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (at, &byte) in rest.iter().enumerate() {
            hash ^= u32::from(byte) << (8 * at);
        }
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors that Kafka's own test of its hash uses.
    #[test]
    fn hashes_are_kafkas() {
        for (text, expected) in [
            ("21", -973_932_308_i32),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(text.as_bytes()).cast_signed(), expected, "{text}");
        }
    }

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
