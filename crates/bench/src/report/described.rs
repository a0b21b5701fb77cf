//! A distribution in numbers, limited to what they can tell.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::engine::QUANTILES;
use crate::recorder::{Distribution, confidence};

/// A distribution in numbers. All times are nanoseconds. Percentiles are keyed by their share of all,
/// `"0.999"`; `"1"` is the maximum.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Described {
    /// The number of latencies.
    pub count: u64,
    /// The mean, for completeness.
    pub mean_ns: f64,
    /// The longest one, exact.
    pub max_ns: u64,
    /// The number of latencies beyond 300 s.
    pub above_range: u64,
    /// Latency by the share of all that did not exceed it. `None` if it cannot be told: see
    /// `Described::untold`.
    pub quantiles_ns: BTreeMap<String, Option<u64>>,
    /// Lower and upper bound of the true percentile with 95 % confidence: see [`confidence`]. None for the
    /// maximum, which is no estimate.
    pub intervals_ns: BTreeMap<String, (u64, u64)>,
    /// Why a percentile is not told.
    pub untold: BTreeMap<String, Untold>,
}

/// Why a percentile is not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "reason")]
pub enum Untold {
    /// There are too few messages to tell it.
    TooFew {
        /// The number of messages that it takes.
        needed: u64,
    },
    /// It is below the error bound of a receipt's two clocks.
    BelowClocks {
        /// The bound that it is certainly below, in nanoseconds.
        less_than_ns: u64,
    },
    /// It is between two clocks that could not be compared.
    UnknownClocks,
}

/// The clocks that latencies are measured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clocks {
    /// One clock, or two whose offset does not enter.
    One,
    /// Two clocks whose offset is known to within this many nanoseconds.
    Within(u64),
    /// Two clocks that could not be compared.
    Unknown,
}

/// What is known of a percentile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// The latency, in nanoseconds.
    Is(u64),
    /// It is below this, in nanoseconds.
    LessThan(u64),
    /// Nothing: too few messages, or clocks that could not be compared.
    Nothing,
}

impl Told {
    /// Formats it as `0.089`, `<0.300`, or `-`; `show` formats nanoseconds.
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

    /// Describes a distribution that is partly made up, like one with HdrHistogram's correction: it has no
    /// confidence intervals.
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

    /// What is known of a percentile of [`QUANTILES`].
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

    /// Why a percentile of [`QUANTILES`] is not told. `None` if it is.
    pub(crate) fn untold(&self, quantile: f64) -> Option<Untold> {
        self.untold.get(&quantile.to_string()).copied()
    }

    /// Limits what is told to what the clocks of the latencies allow.
    pub(super) fn limit(&mut self, clocks: Clocks) {
        match clocks {
            Clocks::One => {}
            Clocks::Within(bound_ns) => self.widen(bound_ns),
            Clocks::Unknown => self.silence(),
        }
    }

    /// Removes all values: the error of each latency is unknown.
    fn silence(&mut self) {
        self.intervals_ns.clear();
        self.quantiles_ns.values_mut().for_each(|told| *told = None);
        self.untold = self.quantiles_ns.keys().map(|name| (name.clone(), Untold::UnknownClocks)).collect();
    }

    /// Applies an error of up to `bound_ns` to each latency, in the same direction for all. Intervals grow by
    /// the bound, and values below it are not told.
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
        // Every printed percentile has its interval; the maximum is what was seen.
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
        // 0.500 ms to three digits, and 0.600 ms.
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
