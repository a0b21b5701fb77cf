//! Random numbers as a function of seed and position, the same on every machine.

/// A stream of 64-bit numbers: SplitMix64 (Steele, Lea and Flood, 2014) over a counter.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

    /// Creates a stream. Streams with different `stream` are independent of each other.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self { state: Self::mix(seed ^ Self::mix(stream.wrapping_add(Self::STEP))) }
    }

    /// Returns the next number, with all 64 bits equally random.
    pub(crate) fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(Self::STEP);
        Self::mix(self.state)
    }

    /// Returns a number, uniformly from `0..bound` (0 if `bound` is 0), with an error below 2^-64 times
    /// `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Draws from the exponential distribution with mean 1, in units of 2^-32.
    ///
    /// Von Neumann's method of 1951. It only compares uniformly distributed numbers, so it needs no
    /// logarithm, whose last bit differs between machines. A run of falling numbers that starts with u has
    /// odd length with probability e^-u; each rejected run adds 1.
    pub(crate) fn exponential(&mut self) -> u64 {
        let mut whole = 0;
        loop {
            let first = self.next_u64();
            let (mut previous, mut length) = (first, 1_u32);
            loop {
                let number = self.next_u64();
                if number >= previous {
                    break;
                }
                previous = number;
                length += 1;
            }
            if length % 2 == 1 {
                return (whole << 32) + (first >> 32);
            }
            whole += 1;
        }
    }

    fn mix(mut z: u64) -> u64 {
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_has_the_right_shape() {
        let mut random = Random::new(7, 0);
        let draws: Vec<f64> =
            (0..200_000).map(|_| random.exponential() as f64 / f64::from(2.0_f32.powi(32))).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        assert!((mean - 1.0).abs() < 0.01, "mean {mean}");
        for x in [0.1_f64, 0.5, 1.0, 2.0, 4.0] {
            let share = draws.iter().filter(|draw| **draw > x).count() as f64 / draws.len() as f64;
            assert!((share - (-x).exp()).abs() < 0.005, "P(X > {x}) = {share}");
        }
    }

    #[test]
    fn streams_differ_and_repeat() {
        let numbers = |seed, stream| {
            let mut random = Random::new(seed, stream);
            [random.next_u64(), random.next_u64(), random.below(10)]
        };
        assert_eq!(numbers(1, 2), numbers(1, 2));
        assert_ne!(numbers(1, 2), numbers(2, 1));
        assert_ne!(numbers(1, 2), numbers(1, 3));
    }
}
