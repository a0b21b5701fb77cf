//! Percentiles and the course of a run as CSV, in microseconds.

use std::fmt::Write as _;

use crate::engine::{Interval, QUANTILES};
use crate::recorder::{Distribution, Recorder};

/// One row per distribution and percentile.
pub fn percentiles_csv(total: &Recorder) -> String {
    let mut text = String::from("distribution,quantile,microseconds,count\n");
    for (name, distribution) in total.named() {
        for quantile in QUANTILES {
            let value = microseconds(distribution.at_quantile_ns(quantile));
            let _ = writeln!(text, "{name},{quantile},{value},{}", distribution.count());
        }
    }
    text
}

/// The first line of the course of a run.
pub fn timeline_header() -> &'static str {
    "second,sent,acknowledged,received,errors,timeouts,in_flight,distribution,p50_us,p99_us,p999_us,max_us,lateness_p99_us\n"
}

/// One interval of the course of a run.
pub fn timeline_row(interval: &Interval<'_>) -> String {
    let recorder = interval.recorder;
    let counts = &recorder.counts;
    let received = recorder.receipt.count() > 0;
    let (name, felt) = if received {
        ("receipt", &recorder.receipt)
    } else {
        ("acknowledgement", &recorder.acknowledgement)
    };
    let all = felt.together();
    let at = |distribution: &Distribution, quantile| microseconds(distribution.at_quantile_ns(quantile));
    format!(
        "{:.3},{},{},{},{},{},{},{name},{},{},{},{},{}\n",
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
        microseconds(all.max_ns()),
        at(&recorder.lateness, 0.99),
    )
}

fn microseconds(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}
