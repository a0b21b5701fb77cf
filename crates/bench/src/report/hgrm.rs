//! HdrHistogram's text format for plots (`.hgrm`): value, percentile, count so far, 1/(1-percentile).
//!
//! The format cannot express a percentile that cannot be told. Such rows are left out, and lines that start
//! with `#`, which its readers skip, say so. The last row is the longest latency, which is what was seen.
//! Nothing is lost: the interval log has every message.

use std::io::{self, Write};

use super::Clocks;
use crate::error::BenchError;
use crate::recorder::{Distribution, confidence};

/// Rows per halving of the distance to 100 %.
const TICKS: u32 = 5;

/// Writes what a distribution can tell, in milliseconds.
///
/// # Errors
/// `out` cannot be written.
pub(crate) fn write_hgrm(distribution: &Distribution, clocks: Clocks, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{:>12} {:>14} {:>10} {:>14}\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)")?;
    let Some(histogram) = distribution.histogram() else {
        return writeln!(out, "#[Max     = {:12.3}, Total count    = {:12}]", 0.0, 0);
    };
    let (mut count, mut left_out) = (0, LeftOut::default());
    for row in histogram.iter_quantiles(TICKS) {
        count += row.count_since_last_iteration();
        let (value, quantile) = (row.value_iterated_to() as f64 / 1e6, row.quantile_iterated_to());
        if !left_out.tells(distribution.count(), clocks, quantile, row.value_iterated_to()) {
            continue;
        }
        if quantile < 1.0 {
            writeln!(out, "{value:12.6} {quantile:2.12} {count:10} {:14.2}", 1.0 / (1.0 - quantile))?;
        } else {
            writeln!(out, "{value:12.6} {quantile:2.12} {count:10}")?;
        }
    }
    left_out.explain(distribution.count(), clocks, out)?;
    let (mean, deviation) = (histogram.mean() / 1e6, histogram.stdev() / 1e6);
    writeln!(out, "#[Mean    = {mean:12.6}, StdDeviation   = {deviation:12.6}]")?;
    writeln!(
        out,
        "#[Max     = {:12.6}, Total count    = {:12}]",
        distribution.max_ns() as f64 / 1e6,
        distribution.count()
    )?;
    if distribution.above_range() > 0 {
        writeln!(out, "#[Above 300 s: {}, counted in the last row]", distribution.above_range())?;
    }
    writeln!(out, "#[Buckets = {:12}, SubBuckets     = {:12}]", histogram.buckets(), 2048)
}

/// Rows that are left out, by reason.
#[derive(Debug, Default)]
struct LeftOut {
    too_few: u64,
    clocks: u64,
}

impl LeftOut {
    /// Reports whether a row can be told. Counts the others.
    fn tells(&mut self, messages: u64, clocks: Clocks, quantile: f64, value_ns: u64) -> bool {
        let below_clocks = match clocks {
            Clocks::One => false,
            Clocks::Within(bound_ns) => value_ns < bound_ns,
            Clocks::Unknown => true,
        };
        // Up to the median, a percentile takes as many messages as the median.
        let too_few = !confidence::is_told(messages, quantile.max(0.5));
        self.clocks += u64::from(below_clocks);
        self.too_few += u64::from(too_few && !below_clocks);
        !below_clocks && !too_few
    }

    fn explain(&self, messages: u64, clocks: Clocks, out: &mut dyn Write) -> io::Result<()> {
        if self.too_few > 0 {
            writeln!(
                out,
                "#[Left out: {} rows of percentiles that {messages} messages do not tell; the last row is the longest]",
                self.too_few
            )?;
        }
        if self.clocks > 0 {
            let why = match clocks {
                Clocks::Within(bound_ns) => {
                    format!("below {:.6}, the bound of the two clocks", bound_ns as f64 / 1e6)
                }
                Clocks::One | Clocks::Unknown => "between two clocks that could not be compared".to_owned(),
            };
            writeln!(out, "#[Left out: {} rows {why}]", self.clocks)?;
        }
        Ok(())
    }
}

/// A row of a file in this format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HgrmRow {
    /// The latency, in the unit of the file.
    pub value: f64,
    /// The share of all latencies that did not exceed it.
    pub quantile: f64,
    /// The number of latencies that did not exceed it.
    pub count: u64,
}

/// Reads a file in this format, written by any tool. `path` is for error messages.
///
/// # Errors
/// It has no rows, or a row is not in the format.
pub fn read_hgrm(path: &str, text: &str) -> Result<Vec<HgrmRow>, BenchError> {
    let wrong = |reason: String| BenchError::Format { path: path.to_owned(), reason };
    let mut rows = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || line.starts_with("Value") {
            continue;
        }
        let mut words = line.split_whitespace();
        let row = (|| {
            Some(HgrmRow {
                value: words.next()?.parse().ok()?,
                quantile: words.next()?.parse().ok()?,
                count: words.next()?.parse().ok()?,
            })
        })();
        rows.push(
            row.ok_or_else(|| wrong(format!("line {} is not a row of a .hgrm file: '{line}'", number + 1)))?,
        );
    }
    if rows.is_empty() {
        return Err(wrong("no rows: expected a .hgrm file as HdrHistogram writes it".to_owned()));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(distribution: &Distribution, clocks: Clocks) -> String {
        let mut out = Vec::new();
        write_hgrm(distribution, clocks, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn rows_that_the_messages_do_not_tell_are_left_out_and_counted() {
        let mut distribution = Distribution::default();
        (1..=1_000).for_each(|n| distribution.record(n * 1000));
        let text = written(&distribution, Clocks::One);
        let rows = read_hgrm("x", &text).unwrap();
        let (last, told) = rows.split_last().unwrap();
        assert_eq!((last.quantile, last.count), (1.0, 1_000));
        assert!(told.iter().all(|row| confidence::messages_needed(row.quantile.max(0.5)) <= 1_000), "{text}");
        assert!(told.iter().any(|row| row.quantile > 0.99), "{text}");
        let note = text.lines().find(|line| line.starts_with("#[Left out: ")).unwrap();
        assert!(
            note.ends_with(
                " rows of percentiles that 1000 messages do not tell; the last row is the longest]"
            )
        );
        let mut three = Distribution::default();
        three.record_n(1_000_000, 3);
        let rows = read_hgrm("x", &written(&three, Clocks::One)).unwrap();
        assert_eq!(rows.len(), 1, "three messages tell no median");
    }

    #[test]
    fn rows_that_the_clocks_do_not_tell_are_left_out() {
        let mut distribution = Distribution::default();
        (1..=1_000).for_each(|n| distribution.record(n * 1000));
        let text = written(&distribution, Clocks::Within(600_000));
        assert!(read_hgrm("x", &text).unwrap().iter().all(|row| row.value >= 0.6), "{text}");
        assert!(text.contains(" rows below 0.600000, the bound of the two clocks]"), "{text}");
        let unknown = written(&distribution, Clocks::Unknown);
        assert!(read_hgrm("x", &unknown).is_err() && unknown.contains("could not be compared"), "{unknown}");
    }

    #[test]
    fn what_is_written_is_read() {
        let mut distribution = Distribution::default();
        (1..=10_000).for_each(|n| distribution.record(n * 1000));
        let text = written(&distribution, Clocks::One);
        assert!(
            text.contains("Percentile")
                && text.contains("#[Max     =    10.000000, Total count    =        10000]")
        );
        let rows = read_hgrm("x", &text).unwrap();
        assert!(rows.iter().map(|row| row.quantile).is_sorted());
        let median = rows.iter().find(|row| row.quantile >= 0.5).unwrap();
        assert!((median.value - 5.0).abs() < 0.01, "{median:?}");
        assert_eq!(rows.last().map(|row| (row.quantile, row.count)), Some((1.0, 10_000)));
    }

    #[test]
    fn rubbish_is_named() {
        assert!(read_hgrm("x", "").is_err());
        let error = read_hgrm("x", "  Value Percentile\n\n 1.0 abc 3\n").unwrap_err();
        assert_eq!(error.to_string(), "x: line 3 is not a row of a .hgrm file: '1.0 abc 3'");
    }
}
