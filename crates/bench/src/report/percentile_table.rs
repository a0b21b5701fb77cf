//! Percentiles of each series. Each row says what it means, and each figure has its range.

use std::fmt::Write as _;

use super::axis::grouped;
use super::figures::milliseconds;
use super::page::scrolled;
use super::section::{Kind, Round, Section, Series};
use super::{Clocks, Described, Told, escape};
use crate::engine::{Mode, QUANTILES};
use crate::recorder::Distribution;
use crate::verdict::percentile;

/// The table of percentiles of each series, rounds added, each with its range.
pub(super) fn percentiles(section: &Section) -> String {
    let mut text = String::from("<table class=\"numbers\"><thead><tr><th scope=\"col\">milliseconds</th>");
    for quantile in QUANTILES {
        let _ = write!(text, "<th scope=\"col\">{}</th>", percentile(quantile));
    }
    text.push_str("<th scope=\"col\">messages</th></tr></thead>\n<tbody>\n");
    for series in &section.series {
        let all = series.added();
        for (name, distribution) in all.named() {
            let shown = series.described(name, distribution);
            let rounds = rounds_of(series, name);
            let what = if name == Kind::Receipt.name() {
                series.word(Kind::Receipt).to_owned()
            } else {
                words(series, name)
            };
            text.push_str(&row(
                &series.legend(&what),
                explanation(series, name),
                &shown,
                &rounds,
                &doubtful(series, name),
            ));
        }
        for kind in [Kind::Acknowledgement, Kind::Receipt] {
            let Some(corrected) = series.corrected(kind) else { continue };
            let what = format!("{}, corrected", series.word(kind));
            let meaning = "a guess, as HdrHistogram makes it: with what would have been asked while answers were awaited";
            text.push_str(&row(&series.legend(&what), meaning, &Described::of_guess(&corrected), &[], &[]));
        }
    }
    text.push_str("</tbody></table>\n");
    scrolled(&text) + &remarks(section)
}

fn words(series: &Series, name: &str) -> String {
    // `receipt-timeout` is `reply, timeout` if the system replies.
    match name.split_once('-') {
        Some(("receipt", end)) => format!("{}, {end}", series.word(Kind::Receipt)),
        Some((kind, end)) => format!("{kind}, {end}"),
        None => name.to_owned(),
    }
}

/// What a row means.
fn explanation(series: &Series, name: &str) -> &'static str {
    let open = series.mode() == Mode::OpenLoop;
    match name {
        "receipt" if series.word(Kind::Receipt) == "reply" && open => {
            "from when a request was due until its answer had come"
        }
        "receipt" if series.word(Kind::Receipt) == "reply" => {
            "from the sending of a request until its answer had come"
        }
        "receipt" if open => "from when a message was due until a subscriber had read it",
        "receipt" => "from the sending of a message until a subscriber had read it",
        "acknowledgement" if open => "from when a message was due until the system acknowledged it",
        "acknowledgement" => "from the sending of a message until the system acknowledged it",
        "lateness" => "how late the generator itself sent: the error of the ruler",
        "held" => {
            "how long messages waited that found no room: too many were in flight, or the client took no more"
        }
        _ if name.ends_with("-error") => "how long messages had waited that ended with an error",
        _ if name.ends_with("-timeout") => "how long messages had waited that timed out",
        _ => "",
    }
}

/// A distribution for each round, if there are several.
fn rounds_of(series: &Series, name: &str) -> Vec<Distribution> {
    if series.rounds.len() < 2 {
        return Vec::new();
    }
    let of_round = |round: &Round| {
        round.total.named().find(|(found, _)| *found == name).map(|(_, distribution)| distribution.clone())
    };
    series.rounds.iter().filter_map(of_round).collect()
}

/// Percentiles of which half or more may be the generator's lateness. Empty if `name` is not a latency.
fn doubtful(series: &Series, name: &str) -> Vec<f64> {
    let kind = [Kind::Receipt, Kind::Acknowledgement].into_iter().find(|kind| kind.name() == name);
    kind.map_or_else(Vec::new, |kind| series.doubtful(kind))
}

fn row(label: &str, meaning: &str, shown: &Described, rounds: &[Distribution], doubtful: &[f64]) -> String {
    let mut text = format!("<tr><th scope=\"row\">{}<small>{meaning}</small></th>", escape(label));
    for quantile in QUANTILES {
        let told = shown.told(quantile);
        let mark = if doubtful.contains(&quantile) && told != Told::Nothing { "?" } else { "" };
        let around = match told {
            Told::Is(_) => around(shown, rounds, quantile),
            Told::LessThan(_) | Told::Nothing => String::new(),
        };
        let _ = write!(text, "<td>{}{mark}{around}</td>", escape(&told.text(milliseconds)));
    }
    let _ = writeln!(text, "<td>{}</td></tr>", grouped(shown.count));
    text
}

/// The range of a value: with several rounds the lowest and the highest, with one the 95 % interval.
fn around(shown: &Described, rounds: &[Distribution], quantile: f64) -> String {
    let extremes = if rounds.is_empty() {
        shown.interval_ns(quantile)
    } else {
        let values = rounds.iter().map(|round| round.at_quantile_ns(quantile));
        values.clone().min().zip(values.max())
    };
    extremes.map_or_else(String::new, |(low, high)| {
        format!("<small>{}..{}</small>", milliseconds(low), milliseconds(high))
    })
}

/// Explanations of the signs that appear in the table.
fn remarks(section: &Section) -> String {
    let several = section.series.iter().any(|series| series.rounds.len() > 1);
    let mut text = String::from(if several {
        "Rounds are added; below each percentile are the lowest and the highest round. "
    } else {
        "Below each percentile is the interval that contains the true one with 95 % confidence if messages are independent. "
    });
    text.push_str("A dash: too few messages to tell it. ");
    let is_doubtful = |series: &Series| {
        [Kind::Receipt, Kind::Acknowledgement].iter().any(|kind| !series.doubtful(*kind).is_empty())
    };
    if section.series.iter().any(is_doubtful) {
        text.push_str("A question mark: half of the latency or more may be the generator's own lateness. ");
    }
    let clocks = || section.series.iter().map(|series| series.clocks(Kind::Receipt.name()));
    if clocks().any(|clocks| matches!(clocks, Clocks::Within(_))) {
        text.push_str(
            "A sign &lt;: smaller than the possible error of the two clocks; it is known only that the value is below this. ",
        );
    }
    if clocks().any(|clocks| clocks == Clocks::Unknown) {
        text.push_str(
            "Receipts between two clocks that could not be compared tell nothing: they have a dash too. ",
        );
    }
    if section.series.iter().any(|series| series.mode() != Mode::OpenLoop) {
        text.push_str("Loads that wait for answers count from the sending: what they do not ask while they wait is in no row but the corrected ones. ");
    }
    format!("<p class=\"remark\">{}</p>\n", text.trim_end())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::report::section_tests::{every_end, interval, round, section};

    const MS: u64 = 1_000_000;

    #[test]
    fn rows_say_what_they_mean() {
        let text = percentiles(&section(&[json!({"valid": true, "mode": "open-loop"})], &every_end()));
        for words in [
            "<th scope=\"row\">s0: receipt<small>from when a message was due until a subscriber had read it</small></th>",
            "<th scope=\"row\">s0: lateness<small>how late the generator itself sent: the error of the ruler</small></th>",
            "<th scope=\"row\">s0: held<small>how long messages waited that found no room",
            "<th scope=\"row\">s0: receipt, timeout<small>",
            "<th scope=\"col\">p99.9999</th><th scope=\"col\">max</th>",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        // 990 messages tell p99 with its interval, but not p99.9.
        assert!(text.contains("<td>1.000<small>0.999..1.000</small></td><td>-</td>"), "{text}");
        assert!(!text.contains("corrected") && !text.contains("question mark"), "{text}");
    }

    #[test]
    fn loads_that_wait_have_other_words() {
        let closed = json!({"valid": true, "mode": "closed-loop", "connections": 1, "rate_per_second": 100.0, "receipt_is_reply": true});
        let text = percentiles(&section(&[closed], &every_end()));
        assert!(
            text.contains(
                "s0: reply (CLOSED LOOP)<small>from the sending of a request until its answer had come"
            ),
            "{text}"
        );
        assert!(text.contains("s0: reply, corrected (CLOSED LOOP)<small>a guess"), "{text}");
        assert!(!text.contains("was due"), "{text}");
    }

    #[test]
    fn what_the_clocks_do_not_tell_has_its_sign_explained() {
        let apart = |bound| json!({"valid": true, "remote": {"offsets_in_latencies": true, "receipt_bound_ns": bound}});
        let text = percentiles(&section(&[apart(json!(2 * MS))], &every_end()));
        assert!(text.contains("<td>&lt;") && text.contains("A sign &lt;: smaller than"), "{text}");
        let text = percentiles(&section(&[apart(json!(null))], &every_end()));
        assert!(!text.contains("&lt;") && text.contains("could not be compared"), "{text}");
        let text = percentiles(&section(&[json!({"valid": true})], &every_end()));
        assert!(!text.contains("&lt;") && !text.contains("compared"), "{text}");
    }

    #[test]
    fn doubtful_percentiles_are_marked() {
        let doubtful = json!({"valid": true, "verdict": {"doubtful_quantiles": [0.9, 1.0]}});
        let text = percentiles(&section(&[doubtful], &every_end()));
        assert!(text.contains("<td>1.000?<small>") && text.contains("A question mark"), "{text}");
    }

    #[test]
    fn rounds_show_their_extremes() {
        let mut section = section(&[json!({"valid": true})], &every_end());
        section.series[0]
            .rounds
            .push(round(&json!({"valid": true}), vec![interval(0, "receipt", 4 * MS, 1000)]));
        let text = percentiles(&section);
        assert!(text.contains("<small>1.000..4.0") && text.contains("Rounds are added"), "{text}");
    }
}
