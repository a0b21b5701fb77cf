//! Decides whether two sets of runs differ, or only vary.
//!
//! It compares runs, not messages: a million latencies of one run share that run's luck. The test is a
//! permutation test of the difference of mean logarithms: how often would runs that are dealt to two sets at
//! random differ as much? It assumes nothing about how latencies are distributed. Percentiles are never
//! averaged over runs. What is averaged is the logarithm of each run's percentile, as one observation per
//! run.

use serde::Serialize;

use crate::schedule::Random;

/// Most deals to try. If there are more, deals are drawn at random.
const DEALS_MAX: u64 = 200_000;

/// Two sets of one number per run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Comparison {
    /// Median of the first set.
    pub median_a: f64,
    /// Median of the second set.
    pub median_b: f64,
    /// Largest over smallest value within the first set: its noise.
    pub spread_a: f64,
    /// The noise of the second set.
    pub spread_b: f64,
    /// Geometric mean of the second set over that of the first.
    pub ratio: f64,
    /// Share of random deals that differ at least as much. 1 if there are too few runs to tell.
    pub p_value: f64,
    /// An interval that contains the true ratio with about 95 % confidence: a bootstrap over runs (B. Efron
    /// and R. J. Tibshirani, *An Introduction to the Bootstrap*, 1993, chapter 13). `None` if a set has fewer
    /// than four runs, too few for a bootstrap.
    pub ratio_interval: Option<(f64, f64)>,
}

/// Fewest runs for a bootstrap: with fewer of them, resamples are too much alike.
const BOOTSTRAP_RUNS_MIN: usize = 4;

/// Number of resamples.
const BOOTSTRAP_DRAWS: usize = 4_000;

impl Comparison {
    /// The smallest p value that this many runs can give.
    pub(crate) fn p_value_least(a: usize, b: usize) -> f64 {
        // The deal itself and, if both sets have the same size, its mirror image.
        let deals = deals(a, b) as f64;
        if a == b { 2.0 / deals } else { 1.0 / deals }
    }
}

/// Compares two sets of positive numbers. `None` if a set is empty or a number is not positive.
pub(crate) fn compare(a: &[f64], b: &[f64]) -> Option<Comparison> {
    if a.is_empty() || b.is_empty() || a.iter().chain(b).any(|value| !value.is_finite() || *value <= 0.0) {
        return None;
    }
    let logarithms: Vec<f64> = a.iter().chain(b).map(|value| value.ln()).collect();
    let difference = mean(&logarithms[a.len()..]) - mean(&logarithms[..a.len()]);
    Some(Comparison {
        median_a: median(a),
        median_b: median(b),
        spread_a: spread(a),
        spread_b: spread(b),
        ratio: difference.exp(),
        p_value: p_value(&logarithms, a.len(), difference.abs()),
        ratio_interval: ratio_interval(&logarithms, a.len()),
    })
}

/// The middle 95 % of the ratios over resamples of both sets.
fn ratio_interval(logarithms: &[f64], a: usize) -> Option<(f64, f64)> {
    let (a, b) = logarithms.split_at(a);
    if a.len().min(b.len()) < BOOTSTRAP_RUNS_MIN {
        return None;
    }
    let mut random = Random::new(1, 1);
    let mut drawn = |from: &[f64]| {
        let sum: f64 = (0..from.len()).map(|_| from[random.below(from.len() as u64) as usize]).sum();
        sum / from.len() as f64
    };
    let mut differences: Vec<f64> = (0..BOOTSTRAP_DRAWS).map(|_| drawn(b) - drawn(a)).collect();
    differences.sort_by(f64::total_cmp);
    let outside = BOOTSTRAP_DRAWS / 40;
    Some((differences[outside].exp(), differences[BOOTSTRAP_DRAWS - 1 - outside].exp()))
}

fn p_value(logarithms: &[f64], a: usize, observed: f64) -> f64 {
    let (all, total) = (logarithms.len(), logarithms.iter().sum::<f64>());
    let b = (all - a) as f64;
    // Slightly less, so that rounding does not separate equal deals.
    let limit = observed * (1.0 - 1e-9);
    let reaches = |sum_a: f64| ((total - sum_a) / b - sum_a / a as f64).abs() >= limit;
    let (mut tried, mut reached) = (0_u64, 0_u64);
    if deals(a, all - a) <= DEALS_MAX {
        let mut chosen: Vec<usize> = (0..a).collect();
        loop {
            tried += 1;
            reached += u64::from(reaches(chosen.iter().map(|index| logarithms[*index]).sum()));
            if !next_choice(&mut chosen, all) {
                return reached as f64 / tried as f64;
            }
        }
    }
    let mut random = Random::new(1, 0);
    let mut order: Vec<usize> = (0..all).collect();
    while tried < DEALS_MAX {
        for place in 0..a {
            let other = place + random.below((all - place) as u64) as usize;
            order.swap(place, other);
        }
        tried += 1;
        reached += u64::from(reaches(order[..a].iter().map(|index| logarithms[*index]).sum()));
    }
    (reached + 1) as f64 / (tried + 1) as f64
}

/// Advances `chosen` to the next choice of as many out of `all`, in order. Returns false after the last one.
fn next_choice(chosen: &mut [usize], all: usize) -> bool {
    let count = chosen.len();
    let Some(place) = (0..count).rev().find(|place| chosen[*place] < all - count + place) else {
        return false;
    };
    chosen[place] += 1;
    for later in place + 1..count {
        chosen[later] = chosen[later - 1] + 1;
    }
    true
}

fn deals(a: usize, b: usize) -> u64 {
    let mut deals = 1_u64;
    for step in 0..a.min(b) as u64 {
        deals = deals.saturating_mul((a + b) as u64 - step) / (step + 1);
        if deals > DEALS_MAX * 1000 {
            return u64::MAX;
        }
    }
    deals
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The median: the middle value, or the mean of the two middle ones. The values are observations of runs, not
/// messages.
///
/// # Panics
/// There are no values.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

fn spread(values: &[f64]) -> f64 {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    values.iter().copied().fold(0.0, f64::max) / least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_that_do_not_overlap_differ() {
        let found = compare(&[1.0, 1.1, 0.9, 1.05, 0.95], &[2.0, 2.1, 1.9, 2.2, 1.8]).unwrap();
        assert_eq!((found.median_a, found.median_b), (1.0, 2.0));
        assert!((found.ratio - 2.0).abs() < 0.02);
        // 252 deals; this one and its mirror image are the most extreme.
        assert!((found.p_value - 2.0 / 252.0).abs() < 1e-12, "{}", found.p_value);
        assert!((Comparison::p_value_least(5, 5) - found.p_value).abs() < 1e-12);
        let (low, high) = found.ratio_interval.unwrap();
        assert!(1.75 < low && low < found.ratio && found.ratio < high && high < 2.3, "{low} {high}");
    }

    #[test]
    fn noise_is_not_a_difference() {
        let found = compare(&[1.0, 2.0, 3.0, 4.0], &[1.1, 1.9, 3.2, 3.9]).unwrap();
        assert!(found.p_value > 0.5, "{}", found.p_value);
        assert!((found.spread_a - 4.0).abs() < 1e-9);
        let (low, high) = found.ratio_interval.unwrap();
        assert!(low < 0.9 && high > 1.1, "{low} {high}");
    }

    #[test]
    fn single_runs_tell_nothing() {
        let found = compare(&[1.0], &[100.0]).unwrap();
        assert_eq!((found.p_value, found.ratio_interval), (1.0, None));
        assert!(compare(&[], &[1.0]).is_none() && compare(&[0.0], &[1.0]).is_none());
    }

    #[test]
    fn many_runs_are_sampled() {
        let a: Vec<f64> = (0..30).map(|n| 1.0 + f64::from(n) / 100.0).collect();
        let b: Vec<f64> = a.iter().map(|value| value * 1.5).collect();
        assert!(compare(&a, &b).unwrap().p_value < 0.001);
        assert!(compare(&a, &a).unwrap().p_value > 0.9);
    }
}
