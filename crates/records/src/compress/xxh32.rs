//! xxHash32 with seed 0, the checksum of LZ4 frames. Implemented here from the published algorithm.

const P1: u32 = 0x9E37_79B1;
const P2: u32 = 0x85EB_CA77;
const P3: u32 = 0xC2B2_AE3D;
const P4: u32 = 0x27D4_EB2F;
const P5: u32 = 0x1656_67B1;

pub(super) fn xxh32(bytes: &[u8]) -> u32 {
    let (stripes, rest) = bytes.as_chunks::<16>();
    let mut hash = if stripes.is_empty() { P5 } else { lanes(stripes) };
    hash = hash.wrapping_add(bytes.len() as u32);
    let (words, tail) = rest.as_chunks::<4>();
    for word in words {
        let value = u32::from_le_bytes(*word).wrapping_mul(P3);
        hash = hash.wrapping_add(value).rotate_left(17).wrapping_mul(P4);
    }
    for &byte in tail {
        hash = hash.wrapping_add(u32::from(byte).wrapping_mul(P5)).rotate_left(11).wrapping_mul(P1);
    }
    hash = (hash ^ (hash >> 15)).wrapping_mul(P2);
    hash = (hash ^ (hash >> 13)).wrapping_mul(P3);
    hash ^ (hash >> 16)
}

fn lanes(stripes: &[[u8; 16]]) -> u32 {
    let mut lanes = [P1.wrapping_add(P2), P2, 0, P1.wrapping_neg()];
    for stripe in stripes {
        for (lane, word) in lanes.iter_mut().zip(stripe.as_chunks::<4>().0) {
            let value = u32::from_le_bytes(*word).wrapping_mul(P2);
            *lane = lane.wrapping_add(value).rotate_left(13).wrapping_mul(P1);
        }
    }
    let [a, b, c, d] = lanes;
    let ab = a.rotate_left(1).wrapping_add(b.rotate_left(7));
    ab.wrapping_add(c.rotate_left(12)).wrapping_add(d.rotate_left(18))
}

#[cfg(test)]
mod tests {
    use super::xxh32;

    /// The test vectors of the algorithm's specification and of its reference program.
    #[test]
    fn published_vectors() {
        assert_eq!(xxh32(b""), 0x02CC_5D05);
        assert_eq!(xxh32(b"a"), 0x550D_7456);
        assert_eq!(xxh32(b"abc"), 0x32D1_53FF);
        assert_eq!(xxh32(b"Nobody inspects the spammish repetition"), 0xE229_3B2F);
    }
}
