//! Random numbers that are the same, bit for bit, in the Go program.

/// SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014, section 4).
#[derive(Clone, Debug)]
pub(crate) struct SplitMix {
    state: u64,
}

impl SplitMix {
    /// Creates a generator. Equal seeds give equal numbers.
    #[must_use]
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub(crate) fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is at most 2^32.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (((self.next_u64() >> 32) * bound as u64) >> 32) as usize
    }
}

/// FNV-1a over all texts, each ended by a line feed. Both programs print it to show that they work on the
/// same texts.
#[must_use]
pub(crate) fn checksum<'a>(texts: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut take = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    for text in texts {
        text.iter().copied().for_each(&mut take);
        take(b'\n');
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_reference() {
        let mut random = SplitMix::new(0);
        assert_eq!([random.next_u64(), random.next_u64()], [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
        assert!((0..1000).all(|_| random.below(7) < 7));
    }

    #[test]
    fn the_checksum_tells_where_a_text_ends() {
        let sum = |texts: &[&str]| checksum(texts.iter().map(|text| text.as_bytes()));
        assert_eq!(sum(&[]), 0xcbf2_9ce4_8422_2325);
        assert_ne!(sum(&["ab", "c"]), sum(&["a", "bc"]));
    }
}
