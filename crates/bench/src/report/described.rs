//! A distribution in numbers, and how far they carry.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::engine::QUANTILES;
use crate::recorder::{Distribution, confidence};

/// A distribution in numbers. All times are nanoseconds; percentiles are named by their share of all, `"0.999"`; `"1"` is the maximum.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Described {
    /// How many latencies.
    pub count: u64,
    /// The mean, for completeness.
    pub mean_ns: f64,
    /// The longest one, exact.
    pub max_ns: u64,
    /// How many were beyond 300 s.
    pub above_range: u64,
    /// Latency by share of all that did not exceed it; null where nothing can be said: see `Described::untold`.
    pub quantiles_ns: BTreeMap<String, Option<u64>>,
    /// What holds the true percentile with 95 %, from least to most: see [`confidence`]. Not of the maximum, which is no estimate.
    pub intervals_ns: BTreeMap<String, (u64, u64)>,
    /// Why nothing is said of a percentile.
    pub untold: BTreeMap<String, Untold>,
}

/// Why nothing is said of a percentile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "reason")]
pub enum Untold {
    /// There are fewer messages than it takes to tell it.
    TooFew {
        /// How many it takes.
        needed: u64,
    },
    /// It is smaller than what the two clocks of a receipt may be wrong by.
    BelowClocks {
        /// What it certainly is below, in nanoseconds.
        less_than_ns: u64,
    },
    /// It is between two clocks that could not be compared.
    UnknownClocks,
}

/// What a latency is measured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clocks {
    /// One clock, or two whose offset does not enter.
    One,
    /// Two, whose offset is known within so many nanoseconds.
    Within(u64),
    /// Two that nobody could compare.
    Unknown,
}

/// What is said of a percentile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// The latency, in nanoseconds.
    Is(u64),
    /// It is below that, in nanoseconds.
    LessThan(u64),
    /// Nothing: too few messages, or clocks that nobody knows.
    Nothing,
}

impl Told {
    /// `0.089`, `<0.300`, or `-`; `show` writes nanoseconds.
    pub(crate) fn text(self, show: impl Fn(u64) -> String) -> String {
        match self {
            Self::Is(ns) => show(ns),
            Self::LessThan(ns) => format!("<{}", show(ns)),
            Self::Nothing => "-".to_owned(),
        }
    }
}

impl Described {
    /// Describes a distribution of latencies.
    pub fn new(distribution: &Distribution) -> Self {
        let mut described = Self::of_guess(distribution);
        for quantile in QUANTILES.into_iter().filter(|quantile| *quantile < 1.0) {
            if let Some((low, high)) = confidence::ranks(distribution.count(), quantile) {
                let interval = distribution.between_ranks_ns(low, high);
                described.intervals_ns.insert(quantile.to_string(), interval);
            }
        }
        described
    }

    /// Describes a distribution that was made up in part, as HdrHistogram's correction does: no interval holds for it.
    pub(crate) fn of_guess(distribution: &Distribution) -> Self {
        let (mut quantiles_ns, mut untold) = (BTreeMap::new(), BTreeMap::new());
        for quantile in QUANTILES {
            let is_told = confidence::is_told(distribution.count(), quantile);
            quantiles_ns.insert(quantile.to_string(), is_told.then(|| distribution.at_quantile_ns(quantile)));
            if !is_told {
                let needed = if quantile < 1.0 { confidence::messages_needed(quantile) } else { 1 };
                untold.insert(quantile.to_string(), Untold::TooFew { needed });
            }
        }
        Self {
            count: distribution.count(),
            mean_ns: distribution.mean_ns(),
            max_ns: distribution.max_ns(),
            above_range: distribution.above_range(),
            quantiles_ns,
            intervals_ns: BTreeMap::new(),
            untold,
        }
    }

    /// What is said of a percentile of [`QUANTILES`].
    pub(crate) fn told(&self, quantile: f64) -> Told {
        let name = quantile.to_string();
        match (self.quantiles_ns.get(&name).copied().flatten(), self.untold.get(&name)) {
            (Some(ns), _) => Told::Is(ns),
            (None, Some(Untold::BelowClocks { less_than_ns })) => Told::LessThan(*less_than_ns),
            (None, _) => Told::Nothing,
        }
    }

    /// The interval of a percentile of `QUANTILES`, if it has one.
    pub fn interval_ns(&self, quantile: f64) -> Option<(u64, u64)> {
        self.intervals_ns.get(&quantile.to_string()).copied()
    }

    /// Why nothing is said of a percentile of [`QUANTILES`], if nothing is.
    pub(crate) fn untold(&self, quantile: f64) -> Option<Untold> {
        self.untold.get(&quantile.to_string()).copied()
    }

    /// Tells no more than the clocks allow that the latencies are between.
    pub(super) fn limit(&mut self, clocks: Clocks) {
        match clocks {
            Clocks::One => {}
            Clocks::Within(bound_ns) => self.widen(bound_ns),
            Clocks::Unknown => self.silence(),
        }
    }

    /// Nobody knows how wrong each latency is: nothing is told.
    fn silence(&mut self) {
        self.intervals_ns.clear();
        self.quantiles_ns.values_mut().for_each(|told| *told = None);
        self.untold = self.quantiles_ns.keys().map(|name| (name.clone(), Untold::UnknownClocks)).collect();
    }

    /// Each latency may be wrong by `bound_ns`, all of them in the same direction: intervals grow by that, and what is smaller is not told.
    fn widen(&mut self, bound_ns: u64) {
        for (name, told) in &mut self.quantiles_ns {
            let Some(ns) = told.filter(|ns| *ns < bound_ns) else { continue };
            *told = None;
            self.intervals_ns.remove(name);
            self.untold
                .insert(name.clone(), Untold::BelowClocks { less_than_ns: ns.saturating_add(bound_ns) });
        }
        for interval in self.intervals_ns.values_mut() {
            *interval = (interval.0.saturating_sub(bound_ns), interval.1.saturating_add(bound_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(count: u64) -> Described {
        let mut distribution = Distribution::default();
        (1..=count).for_each(|n| distribution.record(n * 1000));
        Described::new(&distribution)
    }

    #[test]
    fn what_five_thousand_messages_cannot_tell_is_not_told() {
        let described = of(5_000);
        let told: Vec<String> =
            QUANTILES.map(|quantile| described.told(quantile).text(|ns| (ns / 1000).to_string())).into();
        assert_eq!(told[3..], ["4952", "4997", "-", "-", "-", "5000"], "{told:?}");
        let json = serde_json::to_value(&described).unwrap();
        assert!(json["quantiles_ns"]["0.9999"].is_null() && json["quantiles_ns"]["1"] == 5_000_000, "{json}");
        assert_eq!(json["untold"]["0.9999"], json!({"reason": "too-few", "needed": 36_887}));
        // Whatever is printed has its interval; the maximum is what was seen.
        let printed: Vec<&String> = described
            .quantiles_ns
            .iter()
            .filter(|(name, told)| told.is_some() && *name != "1")
            .map(|(name, _)| name)
            .collect();
        assert_eq!(described.intervals_ns.keys().collect::<Vec<_>>(), printed);
        let (low, high) = described.interval_ns(0.999).unwrap();
        assert!((4_980_000..=4_990_000).contains(&low) && high == 5_000_000, "{low} {high}");
    }

    #[test]
    fn nothing_below_the_clocks_bound_is_told() {
        let mut described = of(1_000);
        described.widen(600_000);
        // 0.500 ms to three digits and 0.600 ms.
        assert!(matches!(described.told(0.5), Told::LessThan(1_100_000..=1_101_000)), "{described:?}");
        assert_eq!(described.told(0.5).text(|ns| (ns / 1000).to_string()), "<1100");
        assert!(matches!(described.told(0.75), Told::Is(750_000..=751_000)), "{described:?}");
        assert_eq!(described.interval_ns(0.5), None);
        let (low, high) = described.interval_ns(0.99).unwrap();
        assert!(
            (375_000..=395_000).contains(&low) && (1_590_000..=1_600_000).contains(&high),
            "{low} {high}"
        );
        let json = serde_json::to_value(&described).unwrap();
        assert_eq!(json["untold"]["0.5"]["reason"], "below-clocks");
        assert_eq!(described.told(0.9999), Told::Nothing);
        described.silence();
        assert_eq!((described.told(0.99), described.intervals_ns.len()), (Told::Nothing, 0));
    }

    #[test]
    fn a_guess_has_no_interval() {
        let mut raw = Distribution::default();
        raw.record_n(1_000_000, 1_000);
        raw.record(1_000_000_000);
        let described = Described::of_guess(&raw.corrected(1_000_000));
        assert!(described.intervals_ns.is_empty() && described.told(0.99) != Told::Nothing, "{described:?}");
    }
}
