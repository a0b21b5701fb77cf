//! What a number of messages can tell about a percentile: order statistics.
//!
//! How many of n messages exceed the true percentile follows a binomial distribution, whatever the
//! distribution of latencies is. So two ranks among the n enclose the true percentile with a probability that
//! depends on n and the percentile alone (H. A. David and H. N. Nagaraja, *Order Statistics*, 2003, section
//! 7.1; J.-Y. Le Boudec, *Performance Evaluation of Computer and Communication Systems*, 2010, section 2.2).
//! If no message is far enough out to be the upper rank, the percentile cannot be told.
//!
//! Messages are treated as independent. Messages that meet the same stall are not, so the intervals are the
//! narrowest that the number allows. Only repeated runs show how much runs differ. This module knows nothing
//! of latencies.

/// Probability on each side of an interval: 5 % for both together.
const TAIL: f64 = 0.025;

/// The distance from the mean, in standard deviations, beyond which a normal distribution has [`TAIL`].
const NORMAL: f64 = 1.959_963_984_540_054;

/// Up to about this many messages beyond the percentile, the binomial distribution is summed up. With more of
/// them the normal approximation gives the same ranks, give or take one.
const SUMMED_MAX: f64 = 600.0;

/// The fewest messages that can tell a percentile (a share of 0.5 to below 1): with fewer, the longest
/// latency is below the percentile with a probability of more than 2.5 %.
pub(crate) fn messages_needed(quantile: f64) -> u64 {
    (TAIL.ln() / quantile.ln()).ceil() as u64
}

/// Reports whether `count` messages tell a percentile (a share of 0.5 to 1). The maximum, a share of 1, is
/// what was seen: one message tells it.
pub(crate) fn is_told(count: u64, quantile: f64) -> bool {
    count >= if quantile < 1.0 { messages_needed(quantile) } else { 1 }
}

/// The ranks, from 1, of the two latencies that enclose the true percentile (a share of 0.5 to below 1) with
/// 95 % confidence, among `count` sorted ones. `None` if there are too few.
pub(crate) fn ranks(count: u64, quantile: f64) -> Option<(u64, u64)> {
    if count < messages_needed(quantile) {
        return None;
    }
    let (fewest, most) = beyond(count, 1.0 - quantile);
    Some(((count + 1).saturating_sub(most).max(1), count - fewest))
}

/// The largest number such that at most that many messages are beyond the percentile, and the smallest such
/// that at least that many are, each with a probability of at most [`TAIL`].
fn beyond(count: u64, share: f64) -> (u64, u64) {
    let n = count as f64;
    if -n * (-share).ln_1p() > SUMMED_MAX {
        let (mean, deviation) = (n * share, (n * share * (1.0 - share)).sqrt());
        let (fewest, most) = (mean - NORMAL * deviation - 0.5, mean + NORMAL * deviation + 0.5);
        return (fewest.floor() as u64, most.ceil() as u64);
    }
    let odds = share / (1.0 - share);
    let (mut fewest, mut number) = (0, 0);
    let mut mass = (n * (-share).ln_1p()).exp();
    let mut so_many_or_fewer = mass;
    while number < count && so_many_or_fewer < 1.0 - TAIL {
        if so_many_or_fewer <= TAIL {
            fewest = number;
        }
        mass *= (count - number) as f64 / (number + 1) as f64 * odds;
        number += 1;
        so_many_or_fewer += mass;
    }
    (fewest, number + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Random;

    #[test]
    fn how_many_messages_a_percentile_needs() {
        let needed = [0.5, 0.75, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999_999].map(messages_needed);
        assert_eq!(needed, [6, 13, 36, 368, 3_688, 36_887, 368_887, 3_688_878]);
        assert_eq!((ranks(5, 0.5), ranks(5_000, 0.9999)), (None, None));
        assert_eq!(
            [(0, 1.0), (1, 1.0), (367, 0.99), (368, 0.99)].map(|(n, q)| is_told(n, q)),
            [false, true, false, true]
        );
    }

    /// Le Boudec's table of the median, and sums of the binomial distribution that were computed with
    /// integers.
    #[test]
    fn ranks_are_those_of_the_books() {
        for (count, quantile, expected) in [
            (6, 0.5, (1, 6)),
            (10, 0.5, (2, 9)),
            (70, 0.5, (27, 44)),
            (100, 0.5, (40, 61)),
            (100, 0.9, (84, 96)),
            (368, 0.99, (360, 368)),
            (1_000, 0.99, (983, 997)),
            (5_000, 0.999, (4_990, 5_000)),
        ] {
            assert_eq!(ranks(count, quantile), Some(expected), "{count} {quantile}");
        }
    }

    #[test]
    fn the_normal_distribution_takes_over_where_it_is_good() {
        for (quantile, count) in [(0.5, 865), (0.75, 2_085), (0.9, 5_694), (0.99, 59_000), (0.999, 599_000)] {
            let (summed, normal) =
                (ranks(count, quantile).unwrap(), ranks(count * 101 / 100, quantile).unwrap());
            let width = |(low, high): (u64, u64)| (high - low) as f64;
            let grown = width(normal) / width(summed) / 1.01_f64.sqrt();
            assert!((grown - 1.0).abs() < 0.04, "{quantile}: {summed:?} {normal:?}");
        }
        let (low, high) = ranks(1_000_000_000, 0.99).unwrap();
        assert!(low < 990_000_000 && 990_000_000 < high && high - low < 13_000, "{low} {high}");
    }

    /// Of many runs with a known distribution, at least 95 % must have the true percentile between the two
    /// ranks.
    #[test]
    fn the_truth_is_mostly_between_them() {
        let mut random = Random::new(22, 0);
        for (count, quantile) in [(40, 0.5), (400, 0.9), (500, 0.99)] {
            let (low, high) = ranks(count, quantile).unwrap();
            let held = (0..2_000).filter(|_| {
                let below =
                    (0..count).filter(|_| (random.below(1 << 30) as f64) < quantile * (1_u64 << 30) as f64);
                let below = below.count() as u64;
                low <= below && below < high
            });
            let held = held.count();
            assert!((1_890..=2_000).contains(&held), "{count} {quantile}: {held} of 2,000");
        }
    }
}
