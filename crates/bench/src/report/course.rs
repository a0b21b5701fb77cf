//! The course of a run, interval by interval, including those in which no message ended.
//!
//! An interval log omits intervals in which nothing was counted. A line across them would suggest that all
//! went on as before. So they are restored here as what they are: zero messages, and a user who waits.

use std::collections::BTreeMap;

use super::section::{Kind, Round, Series};

/// An interval of a run, or the same interval of several rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Step {
    /// Seconds since the first message was due.
    pub(super) begin: f64,
    pub(super) length: f64,
    /// Messages that ended in it.
    pub(super) ended: u64,
    /// The longest latency of those messages.
    pub(super) longest_ns: u64,
    /// How long the oldest message outstanding at its end had waited, if known.
    pub(super) oldest_waiting_ns: Option<u64>,
}

impl Step {
    /// The longest wait at the end of the interval. `None` if no message ended and nothing is known.
    pub(super) fn longest_wait_ns(&self) -> Option<u64> {
        let ended = (self.ended > 0).then_some(self.longest_ns);
        ended.into_iter().chain(self.oldest_waiting_ns).max()
    }
}

/// The steps of a run, by latencies of `kind`, without gaps and without the warm-up.
pub(super) fn of_round(round: &Round, kind: Kind) -> Vec<Step> {
    let Some(length) = interval_seconds(round) else { return Vec::new() };
    let number = |second: f64| (second / length).round() as u64;
    let mut steps: BTreeMap<u64, Step> = BTreeMap::new();
    for ended in &round.ends {
        let step = steps.entry(number(ended.begin)).or_default();
        // Errors and timeouts are ends, too.
        let way = ended.tag.strip_prefix(kind.name());
        if way.is_some_and(|way| way.is_empty() || way.starts_with('-')) {
            step.ended += ended.count;
            step.longest_ns = step.longest_ns.max(ended.longest_ns);
        }
    }
    for row in &round.timeline {
        steps.entry(number(row.second)).or_default().oldest_waiting_ns = row.oldest_waiting_ns;
    }
    let warm_up = round.result["warm_up_seconds"].as_f64().unwrap_or(0.0);
    let first = (warm_up / length + 1e-9).floor() as u64;
    let Some(last) = last_step(&steps, round, length) else { return Vec::new() };
    (first..=last)
        .map(|number| {
            let found = steps.get(&number).copied().unwrap_or_default();
            Step { begin: number as f64 * length, length, ..found }
        })
        .collect()
}

/// The last step. After the measured time there are steps only as long as messages end or wait.
fn last_step(steps: &BTreeMap<u64, Step>, round: &Round, length: f64) -> Option<u64> {
    let result = &round.result;
    let seconds = |key: &str| result[key].as_f64().unwrap_or(0.0);
    let end = seconds("warm_up_seconds") + seconds("measured_seconds");
    let within = |number: u64| (number as f64 + 1e-9) * length < end;
    let busy = |step: &Step| step.ended > 0 || step.oldest_waiting_ns.is_some_and(|waiting| waiting > 0);
    steps.iter().rfind(|(number, step)| within(**number) || busy(step)).map(|(number, _)| *number)
}

/// The length of a run's intervals.
fn interval_seconds(round: &Round) -> Option<f64> {
    let logged = round.ends.iter().map(|ended| ended.length);
    let rows = round.timeline.windows(2).map(|pair| pair[1].second - pair[0].second);
    logged.chain(rows).find(|length| *length > 0.0)
}

/// The share of a step during which measured messages were due.
pub(super) fn measured_share(step: &Step, round: &Round) -> f64 {
    let seconds = |key: &str| round.result[key].as_f64();
    let begin = seconds("warm_up_seconds").unwrap_or(0.0);
    let Some(length) = seconds("measured_seconds") else { return 1.0 };
    let within = (step.begin + step.length).min(begin + length) - step.begin.max(begin);
    (within / step.length).clamp(0.0, 1.0)
}

/// The longest wait of each step, in milliseconds, over all rounds, as lines that stay level for the length
/// of a step.
pub(super) fn longest(series: &Series, kind: Kind) -> Vec<(f64, f64)> {
    let mut all: BTreeMap<u64, (Step, Option<u64>)> = BTreeMap::new();
    for round in &series.rounds {
        for step in of_round(round, kind) {
            let place = all.entry((step.begin * 1e3).round() as u64).or_insert((step, None));
            place.1 = place.1.max(step.longest_wait_ns());
        }
    }
    let value = |wait: Option<u64>| wait.map_or(f64::NAN, |wait| wait as f64 / 1e6);
    level(all.into_values().map(|(step, wait)| (step, value(wait))))
}

/// Time, minimum, and maximum.
type Extremes = (f64, f64, f64);

/// Messages that ended per second in each step, averaged over the rounds, with the lowest and highest of
/// them.
pub(super) fn throughput(series: &Series, kind: Kind) -> (Vec<(f64, f64)>, Vec<Extremes>) {
    let mut all: BTreeMap<u64, (Step, Vec<f64>)> = BTreeMap::new();
    for round in &series.rounds {
        for step in of_round(round, kind) {
            let share = measured_share(&step, round);
            // Messages that end in the last hundredths of a step, or after the end, do not make a rate.
            if share < 0.1 {
                continue;
            }
            let place = all.entry((step.begin * 1e3).round() as u64).or_insert((step, Vec::new()));
            place.1.push(step.ended as f64 / (step.length * share));
        }
    }
    let points =
        level(all.values().map(|(step, rates)| (*step, rates.iter().sum::<f64>() / rates.len() as f64)));
    let extremes = all.values().filter(|_| series.rounds.len() > 1).flat_map(|(step, rates)| {
        let (least, greatest) =
            (rates.iter().copied().fold(f64::INFINITY, f64::min), rates.iter().copied().fold(0.0, f64::max));
        [(step.begin, least, greatest), (step.begin + step.length, least, greatest)]
    });
    (points, extremes.collect())
}

fn level(steps: impl Iterator<Item = (Step, f64)>) -> Vec<(f64, f64)> {
    steps.flat_map(|(step, value)| [(step.begin, value), (step.begin + step.length, value)]).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::report::TimelineRow;
    use crate::report::section_tests::{interval, round};

    const MS: u64 = 1_000_000;

    /// A run in which no message ends from second 2 to 4, and then all at once.
    fn stalled(ages: bool) -> Round {
        let intervals = vec![
            interval(0, "lateness", 5, 100),
            interval(1, "receipt", 3 * MS, 100),
            interval(4, "receipt", 2000 * MS, 290),
            interval(4, "receipt-timeout", 2100 * MS, 10),
            interval(5, "receipt", 3 * MS, 100),
            interval(6, "receipt", 3 * MS, 1),
        ];
        let result = json!({"valid": true, "warm_up_seconds": 1.0, "measured_seconds": 5.0});
        let age = |second: u64| match second {
            2 => 1000 * MS,
            3 => 2000 * MS,
            _ => 0,
        };
        let rows = (0..9).map(|second| TimelineRow {
            second: second as f64,
            oldest_waiting_ns: ages.then(|| age(second)),
        });
        Round { timeline: rows.collect(), ..round(&result, intervals) }
    }

    #[test]
    fn seconds_without_an_end_are_there() {
        let steps = of_round(&stalled(true), Kind::Receipt);
        let ended: Vec<(f64, u64)> = steps.iter().map(|step| (step.begin, step.ended)).collect();
        assert_eq!(ended, [(1.0, 100), (2.0, 0), (3.0, 0), (4.0, 300), (5.0, 100), (6.0, 1)]);
        let waits: Vec<Option<u64>> =
            steps.iter().map(|step| step.longest_wait_ns().map(|ns| ns / MS)).collect();
        // To three digits, as in a histogram.
        assert_eq!(waits[..3], [Some(3), Some(1000), Some(2000)]);
        assert!(waits[3].is_some_and(|wait| (2098..=2102).contains(&wait)), "{waits:?}");
        assert!(of_round(&Round::default(), Kind::Receipt).is_empty());
    }

    #[test]
    fn a_stall_is_a_plateau_and_zero_messages() {
        let series = Series { label: "x".to_owned(), rounds: vec![stalled(true)] };
        let high: Vec<f64> = longest(&series, Kind::Receipt)
            .into_iter()
            .filter(|(_, ms)| *ms >= 1000.0)
            .map(|(second, _)| second)
            .collect();
        assert_eq!(high, [2.0, 3.0, 3.0, 4.0, 4.0, 5.0]);
        let (points, band) = throughput(&series, Kind::Receipt);
        assert_eq!(points[..4], [(1.0, 100.0), (2.0, 100.0), (2.0, 0.0), (3.0, 0.0)]);
        // Messages that ended after the measured time do not count as its throughput.
        assert_eq!(points.last(), Some(&(6.0, 100.0)));
        assert!(band.is_empty(), "one round has no extremes");
    }

    #[test]
    fn without_ages_the_line_breaks() {
        let series = Series { label: "x".to_owned(), rounds: vec![stalled(false)] };
        let points = longest(&series, Kind::Receipt);
        assert!(points.iter().filter(|(_, ms)| ms.is_nan()).count() == 4, "{points:?}");
        // A version that wrote no timeline at all has its zeros, too.
        let bare = Round { timeline: Vec::new(), ..stalled(false) };
        assert_eq!(of_round(&bare, Kind::Receipt)[1].ended, 0);
    }

    #[test]
    fn rounds_are_put_together() {
        let quiet = vec![1, 2, 3, 4, 5].into_iter().map(|second| interval(second, "receipt", 2 * MS, 100));
        let quiet = round(&stalled(true).result, quiet.collect());
        let series = Series { label: "x".to_owned(), rounds: vec![quiet, stalled(true)] };
        let waits = longest(&series, Kind::Receipt);
        assert!(waits[2] == (2.0, 1000.0) && waits[4] == (3.0, 2000.0), "{waits:?}");
        let (points, band) = throughput(&series, Kind::Receipt);
        assert_eq!((points[2], band[2]), ((2.0, 50.0), (2.0, 0.0, 100.0)));
    }

    #[test]
    fn a_part_of_a_second_counts_as_such() {
        let result = json!({"warm_up_seconds": 0.5, "measured_seconds": 1.0});
        let round = round(&result, vec![interval(0, "receipt", MS, 50), interval(1, "receipt", MS, 50)]);
        let series = Series { label: "x".to_owned(), rounds: vec![round] };
        assert_eq!(
            throughput(&series, Kind::Receipt).0.iter().map(|(_, rate)| *rate).collect::<Vec<_>>(),
            [100.0; 4]
        );
    }
}
