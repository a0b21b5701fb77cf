//! Percentiles and the course of a run as CSV, in microseconds. A value that was not measured, or cannot be
//! told, is an empty cell, not a 0.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Described, Told, Untold};
use crate::engine::{Interval, QUANTILES};
use crate::error::BenchError;
use crate::recorder::{Distribution, confidence};

/// One row per distribution and percentile, with the interval that contains the true percentile with 95 %
/// confidence.
///
/// A percentile that is not told has an empty value, and its last cell says why.
pub(crate) fn percentiles_csv(latency: &BTreeMap<String, Described>) -> String {
    let mut text = String::from("distribution,quantile,microseconds,count,low_us,high_us,untold\n");
    for (name, described) in latency {
        for quantile in QUANTILES {
            let value = match described.told(quantile) {
                Told::Is(ns) => microseconds(ns),
                Told::LessThan(_) | Told::Nothing => String::new(),
            };
            let (low, high) = described
                .interval_ns(quantile)
                .map_or_else(Default::default, |(low, high)| (microseconds(low), microseconds(high)));
            let why = described.untold(quantile).map_or_else(String::new, why);
            let _ = writeln!(text, "{name},{quantile},{value},{},{low},{high},{why}", described.count);
        }
    }
    text
}

fn why(untold: Untold) -> String {
    match untold {
        Untold::TooFew { needed } => format!("too few: takes {needed}"),
        Untold::BelowClocks { less_than_ns } => {
            format!("the clocks tell only that it is below {}", microseconds(less_than_ns))
        }
        Untold::UnknownClocks => "the clocks could not be compared".to_owned(),
    }
}

/// The header line of the course of a run.
pub(crate) fn timeline_header() -> &'static str {
    "second,sent,acknowledged,received,errors,timeouts,in_flight,distribution,p50_us,p99_us,p999_us,max_us,lateness_p99_us,\
     oldest_waiting_us\n"
}

/// The column with the age of the oldest outstanding message.
const WAITING_COLUMN: usize = 13;

/// The row of one interval of the course of a run.
///
/// If no message ended there are no latencies, and their cells are empty: 0 would be the best value of all.
/// Percentiles that the messages of the interval do not tell are empty, too.
pub(crate) fn timeline_row(interval: &Interval<'_>) -> String {
    let recorder = interval.recorder;
    let counts = &recorder.counts;
    // The distribution stays the same in an interval in which nothing came.
    let (name, felt) = if interval.total.receipt.count() > 0 {
        ("receipt", &recorder.receipt)
    } else if interval.total.acknowledgement.count() > 0 {
        ("acknowledgement", &recorder.acknowledgement)
    } else {
        ("", &recorder.receipt)
    };
    let all = felt.together();
    let at = |distribution: &Distribution, quantile| {
        if confidence::is_told(distribution.count(), quantile) {
            microseconds(distribution.at_quantile_ns(quantile))
        } else {
            String::new()
        }
    };
    format!(
        "{:.3},{},{},{},{},{},{},{name},{},{},{},{},{},{}\n",
        interval.begin_ns as f64 / 1e9,
        counts.sent,
        counts.acknowledged,
        counts.received,
        felt.error.count(),
        felt.timeout.count(),
        interval.in_flight,
        at(&all, 0.5),
        at(&all, 0.99),
        at(&all, 0.999),
        at(&all, 1.0),
        at(&recorder.lateness, 0.99),
        microseconds(recorder.oldest_waiting_ns),
    )
}

/// The data of an interval that a report needs in addition to its histograms, which are in `intervals.hlog`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TimelineRow {
    /// Its start, in seconds since the first message was due.
    pub second: f64,
    /// How long the oldest message outstanding at its end had waited then. `None` in files of versions that
    /// did not write it.
    pub oldest_waiting_ns: Option<u64>,
}

/// Reads lines written by [`timeline_row`]. `path` is for error messages.
///
/// # Errors
/// A line is not in the format; the error names it.
pub(crate) fn read_timeline(path: &str, text: &str) -> Result<Vec<TimelineRow>, BenchError> {
    let wrong = |reason: String| BenchError::Format { path: path.to_owned(), reason };
    let mut lines = text.lines();
    if lines.next().is_none_or(|head| !head.starts_with("second,")) {
        return Err(wrong("the first line does not name the columns of a timeline".to_owned()));
    }
    let mut rows = Vec::new();
    for (number, line) in (2..).zip(lines) {
        let row = parse(line).ok_or_else(|| wrong(format!("line {number} is not an interval: '{line}'")))?;
        rows.push(row);
    }
    Ok(rows)
}

fn parse(line: &str) -> Option<TimelineRow> {
    let cells: Vec<&str> = line.split(',').collect();
    let second: f64 = cells.first()?.parse().ok()?;
    let waiting = cells.get(WAITING_COLUMN).map(|cell| cell.parse::<f64>()).transpose().ok()?;
    let plausible = second.is_finite() && waiting.is_none_or(|waiting| waiting.is_finite() && waiting >= 0.0);
    let oldest_waiting_ns = waiting.map(|microseconds| (microseconds * 1000.0).round() as u64);
    plausible.then_some(TimelineRow { second, oldest_waiting_ns })
}

fn microseconds(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Recorder;
    use crate::report::Clocks;

    fn row(recorder: &Recorder, total: &Recorder) -> String {
        let (begin_ns, length_ns) = (2_000_000_000, 1_000_000_000);
        timeline_row(&Interval { begin_ns, length_ns, recorder, total, in_flight: 3 })
    }

    #[test]
    fn a_second_without_an_end_has_no_latencies() {
        let mut total = Recorder::default();
        total.receipt.success.record(5_000_000);
        let stalled = Recorder { oldest_waiting_ns: 1_500_000_000, ..Recorder::default() };
        assert_eq!(row(&stalled, &total), "2.000,0,0,0,0,0,3,receipt,,,,,,1500000.000\n");
        assert_eq!(
            row(&total, &total),
            "2.000,0,0,0,0,0,3,receipt,,,,5000.000,,0.000\n",
            "one message tells the longest, and no percentile"
        );
        let mut busy = total.clone();
        busy.receipt.success.record_n(5_000_000, 399);
        assert_eq!(row(&busy, &total), "2.000,0,0,0,0,0,3,receipt,5000.000,5000.000,,5000.000,,0.000\n");
        assert_eq!(row(&stalled, &stalled), "2.000,0,0,0,0,0,3,,,,,,,1500000.000\n");
        let columns = timeline_header().trim_end().split(',').count();
        assert_eq!(row(&stalled, &total).split(',').count(), columns);
        assert_eq!(timeline_header().trim_end().split(',').nth(WAITING_COLUMN), Some("oldest_waiting_us"));
    }

    #[test]
    fn percentiles_that_are_not_told_have_no_value_and_say_why() {
        let mut distribution = Distribution::default();
        (1..=1000).for_each(|n| distribution.record(n * 1000));
        let text = |clocks| {
            let mut described = Described::new(&distribution);
            described.limit(clocks);
            percentiles_csv(&BTreeMap::from([("receipt".to_owned(), described)]))
        };
        let (one, apart) = (text(Clocks::One), text(Clocks::Within(600_000)));
        let row = |text: &str, quantile: &str| {
            let rows = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
            rows.into_iter().find(|row| row[1] == quantile).unwrap().join("|")
        };
        assert_eq!(row(&one, "quantile"), "distribution|quantile|microseconds|count|low_us|high_us|untold");
        assert_eq!(one.lines().count(), 1 + QUANTILES.len());
        assert_eq!(row(&one, "0.99"), "receipt|0.99|990.207|1000|982.528|997.375|");
        assert_eq!(row(&one, "0.999"), "receipt|0.999||1000|||too few: takes 3688");
        assert_eq!(row(&one, "1"), "receipt|1|1000.000|1000|||");
        assert!(
            row(&apart, "0.5").starts_with("receipt|0.5||1000|||the clocks tell only that it is below 11")
        );
        assert!(row(&text(Clocks::Unknown), "1").ends_with("||1000|||the clocks could not be compared"));
    }

    #[test]
    fn what_is_written_is_read() {
        let stalled = Recorder { oldest_waiting_ns: 1_500_000_250, ..Recorder::default() };
        let text = format!("{}{}", timeline_header(), row(&stalled, &stalled));
        let expected = TimelineRow { second: 2.0, oldest_waiting_ns: Some(1_500_000_250) };
        assert_eq!(read_timeline("x", &text).unwrap(), [expected]);
        // Files of older versions end with the lateness.
        let old = "second,sent\n1.000,1,2,3,4,5,6,receipt,1.0,1.0,1.0,1.0,1.0\n";
        let expected = TimelineRow { second: 1.0, oldest_waiting_ns: None };
        assert_eq!(read_timeline("x", old).unwrap(), [expected]);
        for (text, words) in [
            ("hello\n", "first line"),
            ("second,sent\nsoon,1\n", "line 2 is not an interval: 'soon,1'"),
            ("second,sent\n1,,,,,,,,,,,,,-1\n", "line 2 is not an interval"),
        ] {
            let error = read_timeline("x.csv", text).unwrap_err().to_string();
            assert!(error.starts_with("x.csv: ") && error.contains(words), "{error}");
        }
    }
}
