//! The verdict on a run: its kind, its reasons, and one line with both.
//!
//! This is the only place that words a verdict. Terminal, JSON, tables of plans, comparisons and pages take
//! kind, headline and reasons from here, and so agree. The judging is done in [`crate::engine`] and
//! [`crate::remote`]; nothing here looks at latencies.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Percentiles of a report, as shares; the last is the maximum.
pub(crate) const QUANTILES: [f64; 9] = [0.5, 0.75, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999_999, 1.0];

/// Percentiles (as shares) that a run must be able to tell. Otherwise the whole run is doubtful.
pub(crate) const DECISIVE: [f64; 3] = [0.5, 0.9, 0.99];

/// The verdict in one word, from best to worst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VerdictKind {
    /// There is no objection, at least up to p99.
    #[default]
    Valid,
    /// Its values may mean something other than they seem to: the reasons say what.
    Doubtful,
    /// It was stopped before its end. What was measured until then is valid or doubtful.
    Interrupted,
    /// Its latencies are not the ones that were asked for.
    Invalid,
    /// There is nothing to judge.
    NothingMeasured,
}

impl VerdictKind {
    /// The word as shown. Words that the reader must not miss are in capitals.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Doubtful => "doubtful",
            Self::Interrupted => "INTERRUPTED",
            Self::Invalid => "INVALID",
            Self::NothingMeasured => "NOTHING MEASURED",
        }
    }
}

/// The verdict on a run. In JSON it also has its `kind`, `word`, `headline` and `reasons`, which are derived
/// from the rest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "Form", from = "Form")]
pub struct Verdict {
    /// Why the run is invalid; empty if it is not.
    pub invalid: Vec<String>,
    /// Why nothing was measured, if nothing was. That is not a failure.
    pub nothing_measured: Option<String>,
    /// How far it came, if it was stopped.
    pub interrupted: Option<String>,
    /// Why to doubt the run as a whole, in addition to [`Verdict::doubtful_quantiles`].
    pub doubts: Vec<String>,
    /// Percentiles (as shares) at which half of the latency or more may be the generator's own lateness,
    /// ascending. Only percentiles that the number of messages tells.
    pub doubtful_quantiles: Vec<f64>,
    /// Other facts that the reader must know.
    pub remarks: Vec<String>,
}

impl Verdict {
    /// The verdict in a `result.json`, of this version or an older one.
    ///
    /// A result that does not say that it is valid is invalid.
    pub(crate) fn of_result(result: &Value) -> Self {
        let mut verdict: Self = serde_json::from_value(result["verdict"].clone()).unwrap_or_default();
        if result["interrupted"] == true && verdict.interrupted.is_none() {
            verdict.interrupted = Some("it was stopped before its end".to_owned());
        }
        // Before format 2, a run without the requested trouble was called valid.
        let told = result["trouble"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let not_made =
            told.filter(|_| result["format"].as_u64() < Some(2)).filter(|told| told.contains(" NOT DONE: "));
        verdict.invalid.extend(not_made.map(trouble_not_made));
        if result["valid"] != true && verdict.is_valid() {
            verdict.invalid.push("its result does not say that it is valid".to_owned());
        }
        verdict
    }

    /// The verdict in one word.
    pub fn kind(&self) -> VerdictKind {
        if self.nothing_measured.is_some() {
            VerdictKind::NothingMeasured
        } else if !self.invalid.is_empty() {
            VerdictKind::Invalid
        } else if self.interrupted.is_some() {
            VerdictKind::Interrupted
        } else if !self.doubts.is_empty() || self.doubts_what_decides() {
            VerdictKind::Doubtful
        } else {
            VerdictKind::Valid
        }
    }

    /// Reports whether the run can be trusted, doubts aside. An interrupted run can be, as far as it came.
    pub fn is_valid(&self) -> bool {
        self.invalid.is_empty() && self.nothing_measured.is_none()
    }

    /// The reasons for the verdict, as sentences without a full stop, the most important one first. Empty if
    /// the run is valid at every percentile.
    pub(crate) fn reasons(&self) -> Vec<String> {
        let all =
            self.nothing_measured.iter().chain(&self.invalid).chain(&self.interrupted).chain(&self.doubts);
        let mut reasons: Vec<String> = all.cloned().collect();
        if !self.doubtful_quantiles.is_empty() {
            let names: Vec<String> =
                self.doubtful_quantiles.iter().map(|quantile| percentile(*quantile)).collect();
            reasons.push(format!(
                "at {} half of the latency or more may be the generator's own lateness",
                names.join(", ")
            ));
        }
        reasons
    }

    /// Word and reasons in one line, for the top of a page, a legend or a log. If there are many reasons,
    /// only the first one is included.
    pub fn headline(&self) -> String {
        match self.lines().as_slice() {
            [only] => only.clone(),
            [first, others @ ..] => format!("{first} (and {} more)", others.len()),
            [] => String::new(),
        }
    }

    /// The word with the first reason, and each further reason on a line of its own.
    pub fn lines(&self) -> Vec<String> {
        let word = self.kind().word();
        let word = match self.valid_up_to() {
            Some(quantile) if quantile < 1.0 => format!("{word} up to {}", percentile(quantile)),
            Some(longest) => format!("{word} but for {}", percentile(longest)),
            None => word.to_owned(),
        };
        let mut lines = self.reasons();
        match lines.first_mut() {
            Some(first) => *first = format!("{word}: {first}"),
            None => lines.push(word),
        }
        lines
    }

    /// The last percentile before the first doubtful one, if the run is valid but not at every percentile. 1
    /// if only the maximum is doubtful, since which percentiles are told before it depends on the number of
    /// messages.
    fn valid_up_to(&self) -> Option<f64> {
        let first = *self.doubtful_quantiles.first().filter(|_| self.kind() == VerdictKind::Valid)?;
        if first >= 1.0 {
            return Some(first);
        }
        QUANTILES.into_iter().rfind(|quantile| *quantile < first)
    }

    fn doubts_what_decides(&self) -> bool {
        self.doubtful_quantiles.iter().any(|quantile| DECISIVE.contains(quantile))
    }
}

/// The reason for a verdict about trouble that was not made.
pub(crate) fn trouble_not_made(what: &str) -> String {
    format!("trouble that was asked for was not made: {what}")
}

/// The name of a percentile: `p99.9`; `max` for a share of 1.
pub(crate) fn percentile(quantile: f64) -> String {
    if quantile >= 1.0 {
        return "max".to_owned();
    }
    // Six decimals of a share are four of a percentage; trailing zeros are cut.
    let text = format!("{:.4}", quantile * 100.0);
    format!("p{}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A verdict in JSON. The derived fields are written, but not read.
#[derive(Serialize, Deserialize)]
struct Form {
    #[serde(skip_deserializing)]
    kind: VerdictKind,
    #[serde(skip_deserializing)]
    word: String,
    #[serde(skip_deserializing)]
    headline: String,
    #[serde(skip_deserializing)]
    reasons: Vec<String>,
    #[serde(default)]
    invalid: Vec<String>,
    #[serde(default)]
    nothing_measured: Option<String>,
    #[serde(default)]
    interrupted: Option<String>,
    #[serde(default)]
    doubts: Vec<String>,
    #[serde(default)]
    doubtful_quantiles: Vec<f64>,
    #[serde(default)]
    remarks: Vec<String>,
}

impl From<Verdict> for Form {
    fn from(verdict: Verdict) -> Self {
        Self {
            kind: verdict.kind(),
            word: verdict.kind().word().to_owned(),
            headline: verdict.headline(),
            reasons: verdict.reasons(),
            invalid: verdict.invalid,
            nothing_measured: verdict.nothing_measured,
            interrupted: verdict.interrupted,
            doubts: verdict.doubts,
            doubtful_quantiles: verdict.doubtful_quantiles,
            remarks: verdict.remarks,
        }
    }
}

impl From<Form> for Verdict {
    fn from(form: Form) -> Self {
        Self {
            invalid: form.invalid,
            nothing_measured: form.nothing_measured,
            interrupted: form.interrupted,
            doubts: form.doubts,
            doubtful_quantiles: form.doubtful_quantiles,
            remarks: form.remarks,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn doubtful_at(quantiles: &[f64]) -> Verdict {
        Verdict { doubtful_quantiles: quantiles.to_vec(), ..Verdict::default() }
    }

    #[test]
    fn there_is_one_verdict_with_its_reason() {
        assert_eq!(
            (Verdict::default().headline().as_str(), Verdict::default().reasons().len()),
            ("valid", 0)
        );
        let tail = doubtful_at(&[0.999, 0.9999, 1.0]);
        assert_eq!(tail.kind(), VerdictKind::Valid);
        assert_eq!(
            tail.headline(),
            "valid up to p99: at p99.9, p99.99, max half of the latency or more may be the generator's own lateness"
        );
        let longest = doubtful_at(&[1.0]);
        assert!(longest.headline().starts_with("valid but for max: at max half"), "{}", longest.headline());
        let whole = doubtful_at(&[0.5, 0.75, 1.0]);
        assert_eq!(whole.kind(), VerdictKind::Doubtful);
        assert!(whole.headline().starts_with("doubtful: at p50, p75, max half of"), "{}", whole.headline());
        let stopped = Verdict { interrupted: Some("it was stopped after 2 s".to_owned()), ..whole };
        assert_eq!(stopped.kind(), VerdictKind::Interrupted);
        assert_eq!(stopped.headline(), "INTERRUPTED: it was stopped after 2 s (and 1 more)");
        let late = Verdict { invalid: vec!["it was late".to_owned()], ..stopped };
        assert_eq!((late.kind(), late.is_valid(), late.reasons().len()), (VerdictKind::Invalid, false, 3));
        let nothing = Verdict { nothing_measured: Some("nothing was due".to_owned()), ..Verdict::default() };
        assert_eq!(nothing.headline(), "NOTHING MEASURED: nothing was due");
    }

    #[test]
    fn what_was_written_is_read() {
        let verdict = Verdict { doubts: vec!["a clock jumped".to_owned()], ..doubtful_at(&[0.99]) };
        let written = serde_json::to_value(&verdict).unwrap();
        assert_eq!((&written["kind"], &written["word"]), (&json!("doubtful"), &json!("doubtful")));
        assert_eq!(written["headline"], json!("doubtful: a clock jumped (and 1 more)"));
        assert_eq!(written["reasons"].as_array().map(Vec::len), Some(2));
        assert_eq!(Verdict::of_result(&json!({"valid": true, "verdict": written})), verdict);
    }

    #[test]
    fn results_of_older_versions_are_judged_too() {
        let kind = |result: Value| Verdict::of_result(&result).kind();
        assert_eq!(kind(json!({"valid": true, "interrupted": false})), VerdictKind::Valid);
        assert_eq!(kind(json!({"valid": true, "interrupted": true})), VerdictKind::Interrupted);
        assert_eq!(kind(json!({"valid": false, "verdict": {"invalid": ["late"]}})), VerdictKind::Invalid);
        assert_eq!(kind(json!({"system": "x"})), VerdictKind::Invalid);
        let without =
            json!({"valid": true, "format": 1, "trouble": ["to server: tc netem NOT DONE: no module"]});
        assert!(Verdict::of_result(&without).headline().starts_with("INVALID: trouble that was asked for"));
    }

    #[test]
    fn names_of_percentiles() {
        let names = crate::engine::QUANTILES.map(percentile).join(" ");
        assert_eq!(names, "p50 p75 p90 p99 p99.9 p99.99 p99.999 p99.9999 max");
    }
}
