//! HdrHistogram's text format for plots (`.hgrm`): value, percentile, count so far, 1/(1-percentile).

use std::io::{self, Write};

use crate::error::BenchError;
use crate::recorder::Distribution;

/// Rows per halving of the distance to 100 %.
const TICKS: u32 = 5;

/// Writes a distribution in milliseconds.
///
/// # Errors
/// `out` cannot be written.
pub fn write_hgrm(distribution: &Distribution, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{:>12} {:>14} {:>10} {:>14}\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)")?;
    let Some(histogram) = distribution.histogram() else {
        return writeln!(out, "#[Max     = {:12.3}, Total count    = {:12}]", 0.0, 0);
    };
    let mut count = 0;
    for row in histogram.iter_quantiles(TICKS) {
        count += row.count_since_last_iteration();
        let (value, quantile) = (row.value_iterated_to() as f64 / 1e6, row.quantile_iterated_to());
        if quantile < 1.0 {
            writeln!(out, "{value:12.6} {quantile:2.12} {count:10} {:14.2}", 1.0 / (1.0 - quantile))?;
        } else {
            writeln!(out, "{value:12.6} {quantile:2.12} {count:10}")?;
        }
    }
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

/// A row of a file in this format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HgrmRow {
    /// The latency, in the unit of the file.
    pub value: f64,
    /// The share of all that did not exceed it.
    pub quantile: f64,
    /// How many that are.
    pub count: u64,
}

/// Reads a file in this format, whoever wrote it. `path` is for error messages.
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
            row.ok_or_else(|| wrong(format!("line {} is no row of a .hgrm file: '{line}'", number + 1)))?,
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

    #[test]
    fn what_is_written_is_read() {
        let mut distribution = Distribution::default();
        (1..=10_000).for_each(|n| distribution.record(n * 1000));
        let mut out = Vec::new();
        write_hgrm(&distribution, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
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
        assert_eq!(error.to_string(), "x: line 3 is no row of a .hgrm file: '1.0 abc 3'");
    }
}
