//! The partition that a key belongs to. Kafka's Java client defines the rule, and all others follow it:
//! producers of the same key must agree, or its records lose their order.

/// Returns the partition of `key` in a topic of `partitions` partitions, as Kafka's Java client chooses it. 0
/// if there are no partitions.
pub fn partition_of_key(key: &[u8], partitions: u32) -> u32 {
    match partitions {
        0 | 1 => 0,
        _ => (murmur2(key) & 0x7fff_ffff) % partitions,
    }
}

/// 32-bit MurmurHash 2, little-endian, with the seed of Kafka's Java client. Public domain, by Austin
/// Appleby.
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

    /// The test vectors of Kafka's own test.
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
    fn partitions_are_kafkas() {
        // The hash without its sign bit, modulo the number of partitions.
        assert_eq!(partition_of_key(b"foobar", 12), ((-790_332_482_i32) & i32::MAX).unsigned_abs() % 12);
        assert_eq!(partition_of_key(b"foobar", 1), 0);
        assert_eq!(partition_of_key(b"foobar", 0), 0);
    }
}
