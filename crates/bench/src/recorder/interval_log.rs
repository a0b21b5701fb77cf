//! Interval logs in HdrHistogram's format: a compressed V2 histogram per interval and kind, one per line.
//!
//! Any HdrHistogram log tool reads them. The kind is the tag. Values are nanoseconds; the column "max" is in
//! milliseconds. The histograms are lossless. Values beyond their range, and the exact maximum, are only in
//! the JSON results.

use std::io::{self, Write};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};

use super::{Distribution, Recorder};
use crate::error::BenchError;

/// Writes an interval log.
pub struct IntervalLogWriter<W> {
    out: W,
    serializer: V2DeflateSerializer,
    scratch: Vec<u8>,
}

impl<W: Write> IntervalLogWriter<W> {
    /// Starts a log. `started` is the time since 1970 at which the run started; `comment` is free text.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn new(mut out: W, started: Duration, comment: &str) -> io::Result<Self> {
        for line in comment.lines() {
            writeln!(out, "#{line}")?;
        }
        writeln!(out, "#[Histogram log format version 1.3]")?;
        writeln!(out, "#[StartTime: {:.3} (seconds since epoch)]", started.as_secs_f64())?;
        writeln!(out, "#[BaseTime: {:.3} (seconds since epoch)]", started.as_secs_f64())?;
        writeln!(
            out,
            "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\""
        )?;
        Ok(Self { out, serializer: V2DeflateSerializer::new(), scratch: Vec::new() })
    }

    /// Adds one line per distribution that is not empty. `begin` counts from the start of the run.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, begin: Duration, length: Duration, recorder: &Recorder) -> io::Result<()> {
        for (name, distribution) in recorder.named() {
            let Some(histogram) = distribution.histogram() else { continue };
            self.scratch.clear();
            self.serializer
                .serialize(histogram, &mut self.scratch)
                .map_err(|error| io::Error::other(error.to_string()))?;
            writeln!(
                self.out,
                "Tag={name},{:.3},{:.3},{:.6},{}",
                begin.as_secs_f64(),
                length.as_secs_f64(),
                histogram.max() as f64 / 1e6,
                STANDARD.encode(&self.scratch),
            )?;
        }
        self.out.flush()
    }

    /// Flushes the buffer, and returns the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

/// One line of a log: a distribution of one interval.
#[derive(Clone, Debug)]
pub struct LoggedInterval {
    /// Its kind; empty in logs that have no tags.
    pub tag: String,
    /// Its start, in seconds since the log's base time.
    pub begin: Duration,
    /// Its length.
    pub length: Duration,
    /// What was counted, in the log's own unit.
    pub distribution: Distribution,
}

/// Reads a log that this module or another HdrHistogram tool wrote. `path` is for error messages. Each
/// interval takes 230 KiB; for logs of hours see `each`.
///
/// # Errors
/// A line is not in the format.
pub fn read(path: &str, text: &[u8]) -> Result<Vec<LoggedInterval>, BenchError> {
    let mut intervals = Vec::new();
    each(path, text, |interval| intervals.push(interval))?;
    Ok(intervals)
}

/// Reads a log, and passes each interval to `visit` without keeping it.
///
/// # Errors
/// A line is not in the format.
pub(crate) fn each(path: &str, text: &[u8], mut visit: impl FnMut(LoggedInterval)) -> Result<(), BenchError> {
    let wrong = |reason: String| BenchError::Format { path: path.to_owned(), reason };
    let mut deserializer = Deserializer::new();
    for entry in IntervalLogIterator::new(text) {
        let entry =
            entry.map_err(|error| wrong(format!("not an interval log of HdrHistogram: {error:?}")))?;
        let LogEntry::Interval(interval) = entry else { continue };
        let bytes = STANDARD
            .decode(interval.encoded_histogram())
            .map_err(|error| wrong(format!("a histogram is not in Base64: {error}")))?;
        let histogram = deserializer
            .deserialize(&mut bytes.as_slice())
            .map_err(|error| wrong(format!("a histogram cannot be read: {error:?}")))?;
        visit(LoggedInterval {
            tag: interval.tag().map(|tag| tag.as_str().to_owned()).unwrap_or_default(),
            begin: interval.start_timestamp(),
            length: interval.duration(),
            distribution: Distribution::from_histogram(&histogram),
        });
    }
    Ok(())
}

/// Adds up the intervals of a log that this module wrote. Intervals with unknown tags are left out.
pub fn total(intervals: &[LoggedInterval]) -> Recorder {
    let mut recorder = Recorder::default();
    intervals.iter().for_each(|interval| recorder.add_logged(interval));
    recorder
}

impl Recorder {
    /// Adds an interval of a log that this module wrote. One with an unknown tag is left out.
    pub(crate) fn add_logged(&mut self, interval: &LoggedInterval) {
        if let Some(distribution) = self.by_name_mut(&interval.tag) {
            distribution.add(&interval.distribution);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut all = Recorder::default();
        let mut log = IntervalLogWriter::new(Vec::new(), Duration::from_secs(1_700_000_000), "a\nb").unwrap();
        for second in 0..3_u64 {
            let mut interval = Recorder::default();
            for n in 1..500 {
                interval.receipt.success.record(n * n * 1000 + second);
                interval.lateness.record(n);
            }
            interval.receipt.timeout.record(30_000_000_000);
            log.write(Duration::from_secs(second), Duration::from_secs(1), &interval).unwrap();
            all.add(&interval);
        }
        let bytes = log.finish().unwrap();
        let intervals = read("log", &bytes).unwrap();
        assert_eq!(intervals.len(), 9);
        assert_eq!(
            (intervals[3].begin, intervals[3].length),
            (Duration::from_secs(1), Duration::from_secs(1))
        );
        let read = total(&intervals);
        assert_eq!(read.receipt.success.histogram(), all.receipt.success.histogram());
        assert_eq!(read.lateness.histogram(), all.lateness.histogram());
        assert_eq!(read.receipt.timeout.count(), 3);
    }

    #[test]
    fn rubbish_is_named() {
        assert!(read("x", b"Tag=a,0.0,1.0,1.0,!!!\n").is_err());
        assert!(read("x", b"hello\n").is_err());
    }
}
