//! The charts of a section. Each picture contains what must be known of its runs.

use super::chart::{Chart, Horizontal, Note, latency_points};
use super::course;
use super::difference::Difference;
use super::figures::last_known;
use super::lines::{Line, Stroke};
use super::section::{Kind, Section, Series};
use super::{Clocks, resource_charts};
use crate::engine::Mode;
use crate::recorder::{Distribution, confidence};
use crate::verdict::VerdictKind;

const MILLISECONDS: &str = "milliseconds";

/// The charts of a section: by percentile, over time, and resources over time if they were sampled. Empty
/// charts are left out.
pub(crate) fn charts(section: &Section) -> Vec<Chart> {
    let mut charts = of_messages(section);
    charts.extend(of_resources(section).0);
    charts
}

/// Charts of resources, and the names of charts left out because all their values are 0.
pub(super) fn of_resources(section: &Section) -> (Vec<Chart>, Vec<String>) {
    let (zero, shown): (Vec<Chart>, Vec<Chart>) = resource_charts::charts(section)
        .into_iter()
        .filter(|chart| !chart.is_empty())
        .partition(Chart::is_zero);
    let prefix = prefix(section);
    let zero = zero.into_iter().map(|chart| chart.title.trim_start_matches(&prefix).to_owned()).collect();
    let notes = verdicts(section);
    (shown.into_iter().map(|chart| Chart { notes: notes.clone(), ..chart }).collect(), zero)
}

/// Charts of what happened to messages.
pub(super) fn of_messages(section: &Section) -> Vec<Chart> {
    let both = section.series.iter().filter(|series| {
        let all = series.added();
        all.receipt.count() > 0 && all.acknowledgement.count() > 0
    });
    let mut charts = vec![by_percentile(section)];
    charts.extend(acknowledgements(section, &both.collect::<Vec<_>>()));
    charts.extend([longest(section), throughput(section), lateness(section)]);
    charts.retain(|chart| !chart.is_empty());
    charts
}

/// The start of a section's chart titles.
fn prefix(section: &Section) -> String {
    if section.title.is_empty() { String::new() } else { format!("{}: ", section.title) }
}

fn chart(section: &Section, what: &str, notes: Vec<Note>, lines: Vec<Line>) -> Chart {
    let notes = verdicts(section).into_iter().chain(notes).collect();
    Chart { title: format!("{}{what}", prefix(section)), notes, lines, ..Chart::default() }
}

/// A sentence for each series that is not simply valid.
pub(super) fn verdicts(section: &Section) -> Vec<Note> {
    let sentences = section.series.iter().filter_map(|series| {
        let text = series.verdict();
        match series.kind() {
            VerdictKind::Valid if text == VerdictKind::Valid.word() => None,
            // Valid up to some percentile: a remark, not an alarm.
            VerdictKind::Valid => Some(Note::plain(format!("{}: {text}", series.label))),
            _ => Some(Note::alarm(format!("{}: {text}", series.label))),
        }
    });
    let waiting = section.series.iter().filter_map(|series| {
        let text = match series.mode() {
            Mode::OpenLoop => return None,
            Mode::ClosedLoop => "CLOSED LOOP, waits for answers: hides stalls",
            Mode::FullThrottle => "FULL THROTTLE, for throughput: latency is the length of the queue",
        };
        Some(Note::alarm(format!("{}: {text}", series.label)))
    });
    sentences.chain(waiting).collect()
}

fn by_percentile(section: &Section) -> Chart {
    let mut lines = Vec::new();
    for (colour, series) in section.series.iter().enumerate() {
        let Some(kind) = series.felt() else { continue };
        lines.push(percentiles(series, kind, colour));
        lines.extend(series.corrected(kind).map(|corrected| Line {
            label: series.legend(&format!("{}, corrected by a guess", series.word(kind))),
            points: latency_points(&corrected),
            colour,
            stroke: Stroke::Dashed,
            ..Line::default()
        }));
    }
    let mut notes: Vec<Note> = Difference::of(section).iter().flat_map(Difference::notes).collect();
    notes.extend(how_to_read(section));
    let chart = chart(section, "latency by percentile", notes, lines);
    Chart { vertical: MILLISECONDS.to_owned(), logarithmic: true, ..chart }
}

/// From which moment latencies count, and what else is drawn.
fn how_to_read(section: &Section) -> Vec<Note> {
    let open = |series: &Series| series.mode() == Mode::OpenLoop;
    let from = if section.series.iter().all(open) {
        "From the moment a message was due."
    } else if section.series.iter().any(open) {
        "Open loops count from the moment a message was due, others from its sending."
    } else {
        "From the sending of a message."
    };
    let rounds = section.series.iter().any(|series| series.rounds.len() > 1);
    let band = if rounds {
        "Rounds are added; bands reach from the lowest to the highest round."
    } else {
        "Bands contain the true percentile with 95 % confidence if messages are independent."
    };
    vec![Note::plain(format!("{from} {band} Dotted: too few messages to tell."))]
}

fn acknowledgements(section: &Section, both: &[&Series]) -> Option<Chart> {
    if both.is_empty() {
        return None;
    }
    let lines = section
        .series
        .iter()
        .enumerate()
        .filter(|(_, series)| both.iter().any(|one| std::ptr::eq(*one, *series)));
    let lines = lines.map(|(colour, series)| percentiles(series, Kind::Acknowledgement, colour)).collect();
    let chart = chart(section, "acknowledgement by percentile", how_to_read(section), lines);
    Some(Chart { vertical: MILLISECONDS.to_owned(), logarithmic: true, ..chart })
}

/// One latency of a series, all rounds together, with its band.
fn percentiles(series: &Series, kind: Kind, colour: usize) -> Line {
    let all = kind.outcomes(&series.added()).together();
    let mut points = latency_points(&all);
    let mut band = band(series, kind, &all);
    match series.clocks(kind.name()) {
        Clocks::One => {}
        Clocks::Within(bound_ns) => {
            // Values below the clocks' bound are not known at all.
            let bound = bound_ns as f64 / 1e6;
            points.iter_mut().filter(|(_, ms)| *ms < bound).for_each(|(_, ms)| *ms = f64::NAN);
            band = points.iter().map(|(x, ms)| (*x, (ms - bound).max(1e-6), ms + bound)).collect();
        }
        Clocks::Unknown => points.clear(),
    }
    Line {
        label: series.legend(series.word(kind)),
        points,
        colour,
        stroke: Stroke::Solid,
        band,
        known_to: Some(last_known(all.count())),
        word: series.word_along(),
    }
}

/// The band: with several rounds their lowest and highest values, with one the confidence interval.
fn band(series: &Series, kind: Kind, all: &Distribution) -> Vec<(f64, f64, f64)> {
    let shares: Vec<f64> = latency_points(all).into_iter().map(|(share, _)| share).collect();
    if series.rounds.len() == 1 {
        let intervals = shares.iter().filter(|share| **share >= 0.5).filter_map(|share| {
            let (low, high) = confidence::ranks(all.count(), *share)?;
            let (least, most) = all.between_ranks_ns(low, high);
            Some((*share, least as f64 / 1e6, most as f64 / 1e6))
        });
        return intervals.collect();
    }
    let rounds: Vec<Distribution> =
        series.rounds.iter().map(|round| kind.outcomes(&round.total).together()).collect();
    let extremes = shares.into_iter().map(|share| {
        let values = rounds
            .iter()
            .filter(|round| round.count() > 0)
            .map(|round| round.at_quantile_ns(share) as f64 / 1e6);
        (share, values.clone().fold(f64::INFINITY, f64::min), values.fold(0.0, f64::max))
    });
    extremes.collect()
}

/// A line for each series, of the latency that users experience.
fn felt_lines(section: &Section, line: impl Fn(&Series, Kind) -> Line) -> Vec<Line> {
    let lines = section.series.iter().enumerate().filter_map(|(colour, series)| {
        let kind = series.felt()?;
        let label = series.legend(series.word(kind));
        Some(Line { label, colour, word: series.word_along(), ..line(series, kind) })
    });
    lines.collect()
}

fn longest(section: &Section) -> Chart {
    let lines =
        felt_lines(section, |series, kind| Line { points: course::longest(series, kind), ..Line::default() });
    let note = Note::plain(
        "The longest latency of those that ended in an interval, or the age of the oldest that still waited at its end. Of all rounds.",
    );
    let chart = chart(section, "the longest wait over time", vec![note], lines);
    Chart { vertical: MILLISECONDS.to_owned(), logarithmic: true, horizontal: Horizontal::Seconds, ..chart }
}

fn throughput(section: &Section) -> Chart {
    let lines = felt_lines(section, |series, kind| {
        let (points, band) = course::throughput(series, kind);
        Line { points, band, ..Line::default() }
    });
    let several = section.series.iter().any(|series| series.rounds.len() > 1);
    let notes =
        several.then(|| Note::plain("The mean of the rounds; bands reach from the lowest to the highest."));
    let chart = chart(section, "messages that ended, over time", notes.into_iter().collect(), lines);
    Chart { vertical: "messages per second".to_owned(), horizontal: Horizontal::Seconds, ..chart }
}

fn lateness(section: &Section) -> Chart {
    let lines = section.series.iter().enumerate().map(|(colour, series)| {
        let late = series.added().lateness;
        let label = series.legend("lateness");
        let (points, known_to) = (latency_points(&late), Some(last_known(late.count())));
        Line { label, points, colour, known_to, word: series.word_along(), ..Line::default() }
    });
    let open = section.series.iter().any(|series| series.mode() == Mode::OpenLoop);
    let part = if open {
        " In an open loop it is a part of the latencies: where it is half of them, they are doubtful."
    } else {
        ""
    };
    let note = Note::plain(format!("How late the generator itself sent: the error of the ruler.{part}"));
    let chart = chart(section, "lateness of the generator by percentile", vec![note], lines.collect());
    let across = "share of messages that were sent no later".to_owned();
    Chart { vertical: MILLISECONDS.to_owned(), logarithmic: true, across, ..chart }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::recorder::interval_log::LoggedInterval;
    use crate::report::section_tests::{self, interval, round};

    const MS: u64 = 1_000_000;

    fn intervals() -> Vec<LoggedInterval> {
        vec![
            interval(0, "receipt", MS, 990),
            interval(0, "acknowledgement", MS / 2, 1000),
            interval(1, "receipt", 9 * MS, 10),
            interval(0, "lateness", 5000, 1000),
        ]
    }

    fn section(results: &[Value]) -> Section {
        Section { title: "w".to_owned(), ..section_tests::section(results, &intervals()) }
    }

    fn titled<'a>(charts: &'a [Chart], title: &str) -> &'a Chart {
        charts.iter().find(|chart| chart.title == title).unwrap_or_else(|| panic!("no chart '{title}'"))
    }

    #[test]
    fn a_verdict_is_in_every_picture() {
        let late = json!({"valid": false, "mode": "open-loop", "verdict": {"invalid": ["it was late"]}});
        let charts = charts(&section(&[json!({"valid": true, "mode": "open-loop"}), late]));
        assert_eq!(charts.len(), 5);
        for chart in &charts {
            let svg = chart.svg();
            assert!(svg.contains("s1: INVALID: it was late"), "{}", chart.title);
            assert!(svg.matches(">INVALID</text>").count() >= 1, "{}", chart.title);
            assert!(
                chart.lines[1].label.ends_with(" (INVALID)") && !chart.lines[0].label.contains("INVALID")
            );
        }
    }

    #[test]
    fn legends_say_what_was_timed() {
        let results = [json!({"valid": true, "receipt_is_reply": true}), json!({"valid": true})];
        let charts = charts(&section(&results));
        let labels =
            |title| titled(&charts, title).lines.iter().map(|line| line.label.clone()).collect::<Vec<_>>();
        assert_eq!(labels("w: latency by percentile"), ["s0: reply", "s1: receipt"]);
        assert_eq!(
            labels("w: acknowledgement by percentile"),
            ["s0: acknowledgement", "s1: acknowledgement"]
        );
        assert_eq!(labels("w: lateness of the generator by percentile"), ["s0: lateness", "s1: lateness"]);
        assert!(charts.iter().all(|chart| !chart.vertical.is_empty()
            && chart.svg().contains(">milliseconds<") != (chart.vertical == "messages per second")));
    }

    #[test]
    fn loads_that_wait_have_label_and_correction() {
        let closed =
            json!({"valid": true, "mode": "closed-loop", "connections": 1, "rate_per_second": 500.0});
        let chart = by_percentile(&section(&[closed]));
        let labels: Vec<&str> = chart.lines.iter().map(|line| line.label.as_str()).collect();
        assert_eq!(labels, ["s0: receipt (CLOSED LOOP)", "s0: receipt, corrected by a guess (CLOSED LOOP)"]);
        assert!(
            chart.notes.iter().any(|note| note.alarm && note.text.contains("hides stalls")),
            "{:?}",
            chart.notes
        );
        assert!(
            chart.notes.iter().all(|note| !note.text.starts_with("From the moment")),
            "{:?}",
            chart.notes
        );
        assert_eq!(chart.lines[0].word.as_deref(), Some("CLOSED LOOP"));
    }

    #[test]
    fn nothing_is_drawn_beyond_what_is_known() {
        let apart =
            json!({"valid": true, "remote": {"offsets_in_latencies": true, "receipt_bound_ns": 2 * MS}});
        let chart = by_percentile(&section(&[apart]));
        let line = &chart.lines[0];
        assert!(line.points.iter().all(|(_, ms)| ms.is_nan() || *ms > 8.9), "{:?}", line.points);
        // 1,000 messages tell p99, but not p99.9.
        assert!(line.known_to.is_some_and(|known| known > 0.99 && known < 0.999));
        let unknown =
            json!({"valid": true, "remote": {"offsets_in_latencies": true, "receipt_bound_ns": null}});
        assert!(by_percentile(&section(&[unknown])).is_empty());
    }

    #[test]
    fn empty_charts_are_left_out() {
        let bare = Series {
            label: "x".to_owned(),
            rounds: vec![round(&json!({}), vec![interval(0, "receipt", MS, 9)])],
        };
        let section = Section { series: vec![bare], ..Section::default() };
        let titles: Vec<String> = charts(&section).into_iter().map(|chart| chart.title).collect();
        assert_eq!(
            titles,
            ["latency by percentile", "the longest wait over time", "messages that ended, over time"]
        );
    }

    #[test]
    fn rounds_have_a_band() {
        let mut section = section(&[json!({"valid": true})]);
        let slower = vec![interval(0, "receipt", 4 * MS, 1000)];
        section.series[0].rounds.push(round(&json!({"valid": true}), slower));
        let line = &by_percentile(&section).lines[0];
        let (_, low, high) = line.band.iter().find(|(share, ..)| *share >= 0.5).unwrap();
        assert!((0.9..1.1).contains(low) && (3.9..4.1).contains(high), "{low} {high}");
    }
}
