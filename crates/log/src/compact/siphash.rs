//! SipHash-2-4 with 128 bits of output (Aumasson and Bernstein). The output width is that of their reference
//! code.
//!
//! Two different record keys must not count as one. Kafka keeps the 128 bits of an MD5. The key map here
//! keeps 96 bits, and documents how improbable that makes an accidental collision. The secret is drawn for
//! each map, so no one can prepare colliding keys. With MD5 anyone can.

/// The secret of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashSecret(pub [u64; 2]);

struct SipState([u64; 4]);

impl SipState {
    #[inline]
    fn round(&mut self) {
        let [a, b, c, d] = &mut self.0;
        *a = a.wrapping_add(*b);
        *b = b.rotate_left(13) ^ *a;
        *a = a.rotate_left(32);
        *c = c.wrapping_add(*d);
        *d = d.rotate_left(16) ^ *c;
        *a = a.wrapping_add(*d);
        *d = d.rotate_left(21) ^ *a;
        *c = c.wrapping_add(*b);
        *b = b.rotate_left(17) ^ *c;
        *c = c.rotate_left(32);
    }

    #[inline]
    fn take(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.round();
        self.0[0] ^= word;
    }

    #[inline]
    fn finish(&mut self) -> u64 {
        for _ in 0..4 {
            self.round();
        }
        self.0[0] ^ self.0[1] ^ self.0[2] ^ self.0[3]
    }
}

/// Returns the hash of `bytes`, low half first.
#[inline]
pub(crate) fn hash(secret: HashSecret, bytes: &[u8]) -> [u64; 2] {
    let [k0, k1] = secret.0;
    let mut state = SipState([
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ]);
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let mut raw = [0; 8];
        raw.copy_from_slice(word);
        state.take(u64::from_le_bytes(raw));
    }
    let rest = words.remainder();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = bytes.len() as u8;
    state.take(u64::from_le_bytes(last));
    state.0[2] ^= 0xee;
    let low = state.finish();
    state.0[1] ^= 0xdd;
    [low, state.finish()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The authors' `vectors_sip128`: key 00 01 .. 0f, input 00 01 .. of each length.
    #[test]
    fn the_authors_vectors_come_out() {
        let key = |from: u8| u64::from_le_bytes(std::array::from_fn(|i| from + i as u8));
        let secret = HashSecret([key(0), key(8)]);
        let expected = [
            "a3817f04ba25a8e66df67214c7550293",
            "da87c1d86b99af44347659119b22fc45",
            "8177228da4a45dc7fca38bdef60affe4",
        ];
        for (length, expected) in expected.iter().enumerate() {
            let input: Vec<u8> = (0..length as u8).collect();
            let found: String = hash(secret, &input)
                .iter()
                .flat_map(|half| half.to_le_bytes())
                .map(|byte| format!("{byte:02x}"))
                .collect();
            assert_eq!(found, *expected, "{length} bytes");
        }
    }
}
