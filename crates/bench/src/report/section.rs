//! The contents of a report: runs as they were read, rounds of one system under one workload together, and
//! what is derived from them.

use serde_json::Value;

use super::{Clocks, Described, Resources, TimelineRow};
use crate::engine::{Mode, doubtful_quantiles};
use crate::error::BenchError;
use crate::recorder::interval_log::LoggedInterval;
use crate::recorder::{Distribution, Outcomes, Recorder};
use crate::verdict::{Verdict, VerdictKind};

/// Messages that ended in an interval, in one way.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ended {
    /// The way in which they ended, as in files: `receipt-timeout`.
    pub(super) tag: String,
    /// Seconds since the first message was due.
    pub(super) begin: f64,
    pub(super) length: f64,
    pub(super) count: u64,
    pub(super) longest_ns: u64,
}

/// A run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Round {
    /// Its name among the rounds.
    pub name: String,
    /// The text of its `result.json`.
    pub text: String,
    /// The parsed result.
    pub result: Value,
    /// The sum of its log.
    pub(super) total: Recorder,
    /// What ended when, without the histograms: for an hour they would fill gigabytes.
    pub(super) ends: Vec<Ended>,
    /// What was outstanding, second by second. Empty if that was not written.
    pub timeline: Vec<TimelineRow>,
    /// Resources of server and generator, if they were sampled.
    pub resources: Option<Resources>,
}

impl Round {
    /// Creates a run from a result, without its log.
    ///
    /// # Errors
    /// The result is not JSON.
    pub(crate) fn new(name: &str, text: String) -> Result<Self, BenchError> {
        let result = serde_json::from_str(&text)
            .map_err(|error| BenchError::Format { path: name.to_owned(), reason: error.to_string() })?;
        Ok(Self { name: name.to_owned(), text, result, ..Self::default() })
    }

    /// Adds an interval of its log.
    pub(crate) fn add(&mut self, interval: &LoggedInterval) {
        self.total.add_logged(interval);
        self.ends.push(Ended {
            tag: interval.tag.clone(),
            begin: interval.begin.as_secs_f64(),
            length: interval.length.as_secs_f64(),
            count: interval.distribution.count(),
            longest_ns: interval.distribution.max_ns(),
        });
    }

    /// The run's verdict.
    pub(super) fn verdict(&self) -> Verdict {
        Verdict::of_result(&self.result)
    }

    /// A number of messages, by its name in the result.
    pub(super) fn count(&self, name: &str) -> u64 {
        self.result["counts"][name].as_u64().unwrap_or(0)
    }
}

/// A system under one workload, in one or several rounds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    /// Its name in legends.
    pub label: String,
    /// Its rounds.
    pub rounds: Vec<Round>,
}

/// Series that are shown together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Section {
    /// Its heading: the workload.
    pub title: String,
    /// The series, one line each.
    pub series: Vec<Series>,
    /// The text of the plan that the runs belong to.
    pub plan: Option<String>,
    /// Whether its two series are compared: before and after.
    pub compared: bool,
}

/// The event at which a latency ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Receipt,
    Acknowledgement,
}

impl Kind {
    /// Its name in files.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Receipt => "receipt",
            Self::Acknowledgement => "acknowledgement",
        }
    }

    pub(super) fn outcomes(self, recorder: &Recorder) -> &Outcomes {
        match self {
            Self::Receipt => &recorder.receipt,
            Self::Acknowledgement => &recorder.acknowledgement,
        }
    }
}

impl Series {
    /// The sum of all rounds: histograms are added, never averaged.
    pub(super) fn added(&self) -> Recorder {
        let mut all = Recorder::default();
        self.rounds.iter().for_each(|round| all.add(&round.total));
        all
    }

    /// The latency that users experience: the receipt, or the acknowledgement if nothing is received. `None`
    /// if no message ended.
    pub(super) fn felt(&self) -> Option<Kind> {
        let all = self.added();
        [Kind::Receipt, Kind::Acknowledgement].into_iter().find(|kind| kind.outcomes(&all).count() > 0)
    }

    /// The word for it: if the system answers requests, a payload that comes back is a reply.
    pub(super) fn word(&self, kind: Kind) -> &'static str {
        let replies = self.rounds.iter().any(|round| round.result["receipt_is_reply"] == true);
        if kind == Kind::Receipt && replies { "reply" } else { kind.name() }
    }

    /// A distribution in numbers, as far as messages and clocks can tell. `name` is its name in files.
    pub(super) fn described(&self, name: &str, distribution: &Distribution) -> Described {
        let mut described = Described::new(distribution);
        described.limit(self.clocks(name));
        described
    }

    /// The clocks that the latencies of this name are between, in the round where they are known worst.
    pub(super) fn clocks(&self, name: &str) -> Clocks {
        let remotes = self.rounds.iter().map(|round| &round.result["remote"]);
        let between: Vec<&Value> = remotes.filter(|remote| remote["offsets_in_latencies"] == true).collect();
        if between.is_empty() || !name.starts_with(Kind::Receipt.name()) {
            return Clocks::One;
        }
        let bounds: Option<Vec<u64>> =
            between.iter().map(|remote| remote["receipt_bound_ns"].as_u64()).collect();
        bounds.and_then(|bounds| bounds.into_iter().max()).map_or(Clocks::Unknown, Clocks::Within)
    }

    /// Percentiles at which the generator's own lateness may be half of the latency or more, in all rounds
    /// together, as they are shown, or in any single one.
    pub(super) fn doubtful(&self, kind: Kind) -> Vec<f64> {
        let all = self.added();
        let mut found: Vec<f64> =
            self.rounds.iter().flat_map(|round| round.verdict().doubtful_quantiles).collect();
        // All rounds together tell percentiles that no single round can.
        if self.mode() == Mode::OpenLoop {
            found.extend(doubtful_quantiles(&all.lateness, &kind.outcomes(&all).together()));
        }
        found.sort_by(f64::total_cmp);
        found.dedup();
        found
    }

    /// How messages were triggered. An open loop, if the result does not say.
    pub(super) fn mode(&self) -> Mode {
        let mode =
            self.rounds.first().and_then(|round| serde_json::from_value(round.result["mode"].clone()).ok());
        mode.unwrap_or(Mode::OpenLoop)
    }

    /// The worst verdict of its rounds.
    pub(super) fn kind(&self) -> VerdictKind {
        self.rounds.iter().map(|round| round.verdict().kind()).max().unwrap_or_default()
    }

    /// The verdict in a few words. If rounds differ, it says how many it applies to.
    pub(super) fn verdict(&self) -> String {
        let verdicts: Vec<Verdict> = self.rounds.iter().map(Round::verdict).collect();
        let worst = self.kind();
        let such = verdicts.iter().filter(|verdict| verdict.kind() == worst).count();
        match verdicts.as_slice() {
            [only] => only.headline(),
            all if all.iter().all(|verdict| verdict.headline() == all[0].headline()) => all[0].headline(),
            all => format!("{}: {such} of {} rounds", worst.word(), all.len()),
        }
    }

    /// The word along its curves, if it needs one: that it is not to be trusted, or that it waited for
    /// answers.
    pub(super) fn word_along(&self) -> Option<String> {
        let kind = self.kind();
        let verdict = (kind > VerdictKind::Valid).then(|| kind.word());
        let mode = match self.mode() {
            Mode::OpenLoop => None,
            Mode::ClosedLoop => Some("CLOSED LOOP"),
            Mode::FullThrottle => Some("FULL THROTTLE"),
        };
        let words: Vec<&str> = verdict.into_iter().chain(mode).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }

    /// Its label in a legend, followed by what the line is, and by its verdict unless that is simply valid.
    pub(super) fn legend(&self, what: &str) -> String {
        let words = self.word_along().map_or_else(String::new, |words| format!(" ({words})"));
        if what.is_empty() {
            format!("{}{words}", self.label)
        } else {
            format!("{}: {what}{words}", self.label)
        }
    }

    /// The distribution with HdrHistogram's correction for requests that a waiting load omits. `None` for an
    /// open loop.
    pub(super) fn corrected(&self, kind: Kind) -> Option<Distribution> {
        let mut all: Option<Distribution> = None;
        for round in &self.rounds {
            let interval_ns = interval_expected_ns(&round.result)?;
            let one = kind.outcomes(&round.total).success.corrected(interval_ns);
            all.get_or_insert_with(Distribution::default).add(&one);
        }
        all.filter(|all| all.count() > 0)
    }
}

/// The time between two messages of one connection that a load would have kept if it had not waited for
/// answers.
fn interval_expected_ns(result: &Value) -> Option<u64> {
    let connections = result["connections"].as_f64()?;
    let per_second = match serde_json::from_value(result["mode"].clone()).ok()? {
        Mode::OpenLoop => return None,
        Mode::ClosedLoop => result["rate_per_second"].as_f64()?,
        Mode::FullThrottle => result["sent_per_second"].as_f64()?,
    };
    (per_second > 0.0).then(|| (connections * 1e9 / per_second).max(1.0) as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::report::Told;
    use crate::report::section_tests::{interval, round};

    fn series(results: &[Value]) -> Series {
        let rounds = results.iter().map(|result| round(result, Vec::new())).collect();
        Series { label: "x".to_owned(), rounds }
    }

    #[test]
    fn the_worst_round_is_named() {
        let (good, late) =
            (json!({"valid": true}), json!({"valid": false, "verdict": {"invalid": ["late"]}}));
        assert_eq!(series(&[good.clone(), good.clone()]).verdict(), "valid");
        assert_eq!(series(std::slice::from_ref(&late)).verdict(), "INVALID: late");
        assert_eq!(series(&[late.clone(), late.clone()]).verdict(), "INVALID: late");
        assert_eq!(series(&[good.clone(), late.clone(), good.clone()]).verdict(), "INVALID: 1 of 3 rounds");
        let stopped = json!({"valid": true, "interrupted": true});
        assert_eq!(series(&[good.clone(), stopped]).verdict(), "INTERRUPTED: 1 of 2 rounds");
        assert_eq!(
            (series(&[good]).word_along(), series(&[late]).word_along()),
            (None, Some("INVALID".to_owned()))
        );
    }

    #[test]
    fn loads_that_wait_are_labelled_and_corrected() {
        let closed =
            json!({"valid": true, "mode": "closed-loop", "connections": 2, "rate_per_second": 200.0});
        let stall = vec![interval(0, "receipt", 1_000_000, 100), interval(1, "receipt", 1_000_000_000, 1)];
        let mut series = Series { label: "x".to_owned(), rounds: vec![round(&closed, stall.clone())] };
        assert_eq!(series.legend("reply"), "x: reply (CLOSED LOOP)");
        // A second at one per 10 ms and connection: 99 more.
        let corrected = series.corrected(Kind::Receipt).unwrap();
        assert!(corrected.count().abs_diff(200) <= 1, "{}", corrected.count());
        series.rounds.push(series.rounds[0].clone());
        assert_eq!(series.corrected(Kind::Receipt).unwrap().count(), 2 * corrected.count());
        let open = Series {
            label: "x".to_owned(),
            rounds: vec![round(&json!({"mode": "open-loop", "connections": 1}), stall)],
        };
        assert!(open.corrected(Kind::Receipt).is_none() && series.corrected(Kind::Acknowledgement).is_none());
    }

    #[test]
    fn rounds_together_tell_more_doubts_than_each() {
        let intervals = vec![
            interval(0, "receipt", 1_000_000, 2_990),
            interval(0, "receipt", 90_000_000, 10),
            interval(0, "lateness", 1_000, 2_990),
            interval(0, "lateness", 80_000_000, 10),
        ];
        let open = json!({"valid": true, "mode": "open-loop", "verdict": {"doubtful_quantiles": [1.0]}});
        let mut series = Series { label: "x".to_owned(), rounds: vec![round(&open, intervals)] };
        assert_eq!(series.doubtful(Kind::Receipt), [1.0]);
        series.rounds.push(series.rounds[0].clone());
        // 3,000 messages do not tell p99.9, 6,000 do.
        assert_eq!(series.doubtful(Kind::Receipt), [0.999, 1.0]);
        let closed = round(&json!({"mode": "closed-loop"}), Vec::new());
        assert!(Series { label: "x".to_owned(), rounds: vec![closed] }.doubtful(Kind::Receipt).is_empty());
    }

    #[test]
    fn the_worst_clocks_count() {
        let apart =
            |bound: Value| json!({"remote": {"offsets_in_latencies": true, "receipt_bound_ns": bound}});
        let together = json!({"remote": {"offsets_in_latencies": false}});
        assert_eq!(series(std::slice::from_ref(&together)).clocks("receipt"), Clocks::One);
        let two = series(&[apart(json!(100)), together.clone(), apart(json!(300))]);
        assert_eq!(
            (two.clocks("receipt"), two.clocks("acknowledgement")),
            (Clocks::Within(300), Clocks::One)
        );
        let lost = series(&[apart(json!(100)), apart(Value::Null)]);
        assert_eq!(lost.clocks("receipt"), Clocks::Unknown);
        let mut latencies = Distribution::default();
        latencies.record_n(200, 1000);
        assert_eq!(two.described("receipt", &latencies).told(0.5), Told::LessThan(500));
        assert_eq!(lost.described("receipt", &latencies).told(0.5), Told::Nothing);
    }

    #[test]
    fn a_result_must_be_one() {
        let error = Round::new("round-1", "{".to_owned()).unwrap_err().to_string();
        assert!(error.starts_with("round-1: "), "{error}");
    }
}
