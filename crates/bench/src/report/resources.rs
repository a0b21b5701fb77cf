//! What server and generator used while a run went on: the rows of `resources.csv`, and charts of them.
//!
//! Rows hold counters; charts show what was added from one row to the next, per second. Who takes the samples is not known here.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::chart::{Chart, Horizontal, Line, Stroke};
use super::html::Section;
use crate::error::BenchError;

/// Counters of a process since its beginning, and its memory now. What could not be read is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceSample {
    /// When, in seconds since the beginning of the run.
    pub second: f64,
    /// Processor time, in user and kernel mode, in seconds.
    pub cpu_seconds: f64,
    /// Memory that is in RAM, in bytes; what processes share counts for each of them.
    pub resident_bytes: u64,
    /// Times that a thread waited.
    pub voluntary_switches: u64,
    /// Times that a thread was displaced.
    pub involuntary_switches: u64,
    /// Bytes read with read(2) and its kind: from the page cache, and from sockets where they are read so.
    pub read_bytes: u64,
    /// Bytes written likewise.
    pub written_bytes: u64,
    /// Bytes fetched from storage because they were not in the page cache.
    pub disk_read_bytes: u64,
    /// Bytes of the page cache made dirty, which storage must take.
    pub disk_written_bytes: u64,
}

/// The samples of a run, in order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resources {
    /// The server under test, with its children. Empty if nobody knew its process.
    pub server: Vec<ResourceSample>,
    /// The generator; with agents the coordinator, which drives no connections.
    pub generator: Vec<ResourceSample>,
    /// Agents by their addresses, if the load came from some.
    pub agents: Vec<(String, Vec<ResourceSample>)>,
}

/// What an agent's rows have before its address.
const AGENT: &str = "agent ";

const HEADER: &str = "second,process,cpu_seconds,resident_bytes,voluntary_switches,involuntary_switches,read_bytes,written_bytes,\
                      disk_read_bytes,disk_written_bytes\n";

impl Resources {
    /// As CSV, in order of time.
    pub fn csv(&self) -> String {
        let mut rows: Vec<(String, &ResourceSample)> = Vec::new();
        rows.extend(self.generator.iter().map(|sample| ("generator".to_owned(), sample)));
        rows.extend(self.server.iter().map(|sample| ("server".to_owned(), sample)));
        for (address, samples) in &self.agents {
            // A comma would be a column.
            let process = format!("{AGENT}{}", address.replace(',', " "));
            rows.extend(samples.iter().map(|sample| (process.clone(), sample)));
        }
        rows.sort_by(|a, b| a.1.second.total_cmp(&b.1.second));
        let mut text = HEADER.to_owned();
        for (process, sample) in rows {
            let _ = writeln!(
                text,
                "{:.3},{process},{:.2},{},{},{},{},{},{},{}",
                sample.second,
                sample.cpu_seconds,
                sample.resident_bytes,
                sample.voluntary_switches,
                sample.involuntary_switches,
                sample.read_bytes,
                sample.written_bytes,
                sample.disk_read_bytes,
                sample.disk_written_bytes,
            );
        }
        text
    }

    /// Reads what [`Resources::csv`] wrote. `path` is for error messages.
    ///
    /// # Errors
    /// A line is not in the format; which one is named.
    pub fn read(path: &str, text: &str) -> Result<Self, BenchError> {
        let wrong = |reason: String| BenchError::Format { path: path.to_owned(), reason };
        let mut lines = text.lines();
        if lines.next() != Some(HEADER.trim_end()) {
            return Err(wrong("the first line does not name the columns of resources".to_owned()));
        }
        let mut resources = Self::default();
        for (number, line) in (2..).zip(lines) {
            let parsed = parse(line).ok_or_else(|| wrong(format!("line {number} is no sample: '{line}'")))?;
            match parsed {
                ("generator", sample) => resources.generator.push(sample),
                ("server", sample) => resources.server.push(sample),
                (process, sample) => match process.strip_prefix(AGENT) {
                    Some(address) => resources.add_of_agent(address, sample),
                    None => {
                        let expected = "generator, server or agent HOST:PORT";
                        return Err(wrong(format!("line {number} is of '{process}': expected {expected}")));
                    }
                },
            }
        }
        Ok(resources)
    }

    fn add_of_agent(&mut self, address: &str, sample: ResourceSample) {
        match self.agents.iter_mut().find(|(known, _)| known == address) {
            Some((_, samples)) => samples.push(sample),
            None => self.agents.push((address.to_owned(), vec![sample])),
        }
    }
}

fn parse(line: &str) -> Option<(&str, ResourceSample)> {
    let cells: Vec<&str> = line.split(',').collect();
    let &[second, process, cpu, resident, voluntary, involuntary, read, written, disk_read, disk_written] =
        cells.as_slice()
    else {
        return None;
    };
    let sample = ResourceSample {
        second: second.parse().ok()?,
        cpu_seconds: cpu.parse().ok()?,
        resident_bytes: resident.parse().ok()?,
        voluntary_switches: voluntary.parse().ok()?,
        involuntary_switches: involuntary.parse().ok()?,
        read_bytes: read.parse().ok()?,
        written_bytes: written.parse().ok()?,
        disk_read_bytes: disk_read.parse().ok()?,
        disk_written_bytes: disk_written.parse().ok()?,
    };
    (sample.second.is_finite() && sample.cpu_seconds.is_finite()).then_some((process, sample))
}

/// Makes the points of a line from samples.
type Points = dyn Fn(&[ResourceSample]) -> Vec<(f64, f64)>;

const MEBIBYTE: f64 = 1_048_576.0;

/// The charts of a section's resources, of the first round of each series; none if no round has any.
///
/// The server is drawn as a full line, the generator as a broken one of the same colour.
pub(super) fn charts(section: &Section) -> Vec<Chart> {
    if section.series.iter().all(|series| series.resources.iter().all(Option::is_none)) {
        return Vec::new();
    }
    let chart = |what: &str, vertical: &str, points: &Points| Chart {
        title: format!("{}: {what}", section.title),
        vertical: vertical.to_owned(),
        logarithmic: false,
        horizontal: Horizontal::Seconds,
        lines: lines(section, points),
    };
    let rate = |value: fn(&ResourceSample) -> f64| move |samples: &[ResourceSample]| rates(samples, value);
    let switches = |sample: &ResourceSample| (sample.voluntary_switches + sample.involuntary_switches) as f64;
    let (mebibytes, cores) = ("MiB per second", "processor seconds per second");
    vec![
        chart("processor time", cores, &rate(|sample| sample.cpu_seconds)),
        chart("memory in RAM", "MiB", &|samples| {
            samples.iter().map(|sample| (sample.second, sample.resident_bytes as f64 / MEBIBYTE)).collect()
        }),
        chart("context switches", "per second", &rate(switches)),
        chart("read by calls", mebibytes, &rate(|sample| sample.read_bytes as f64 / MEBIBYTE)),
        chart("written by calls", mebibytes, &rate(|sample| sample.written_bytes as f64 / MEBIBYTE)),
        chart("page cache: read in", mebibytes, &rate(|sample| sample.disk_read_bytes as f64 / MEBIBYTE)),
        chart(
            "page cache: made dirty",
            mebibytes,
            &rate(|sample| sample.disk_written_bytes as f64 / MEBIBYTE),
        ),
    ]
}

fn lines(section: &Section, points: &Points) -> Vec<Line> {
    let mut lines = Vec::new();
    for (colour, series) in section.series.iter().enumerate() {
        let Some(Some(first)) = series.resources.first() else { continue };
        for (what, samples, stroke) in
            [("server", &first.server, Stroke::Solid), ("generator", &first.generator, Stroke::Dashed)]
        {
            if !samples.is_empty() {
                let label = format!("{}, {what}", series.label);
                lines.push(Line { label, points: points(samples), colour, stroke });
            }
        }
        for (address, samples) in &first.agents {
            let label = format!("{}, agent {address}", series.label);
            lines.push(Line { label, points: points(samples), colour, stroke: Stroke::Dashed });
        }
    }
    lines
}

/// What a counter grew by from each sample to the next, per second.
fn rates(samples: &[ResourceSample], value: impl Fn(&ResourceSample) -> f64) -> Vec<(f64, f64)> {
    samples
        .windows(2)
        .filter(|pair| pair[1].second > pair[0].second)
        .map(|pair| {
            let grown = (value(&pair[1]) - value(&pair[0])).max(0.0);
            (pair[1].second, grown / (pair[1].second - pair[0].second))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Series;

    fn resources() -> Resources {
        let sample = |second: f64| ResourceSample {
            second,
            cpu_seconds: second * 0.5,
            resident_bytes: 3 << 20,
            voluntary_switches: (second * 100.0) as u64,
            involuntary_switches: (second * 20.0) as u64,
            read_bytes: (second * 4e6) as u64,
            ..ResourceSample::default()
        };
        Resources {
            server: vec![sample(0.0), sample(1.0), sample(3.0)],
            generator: vec![sample(0.0), sample(1.0)],
            agents: vec![
                ("h:1".to_owned(), vec![sample(0.0), sample(1.0)]),
                ("h:2".to_owned(), vec![sample(0.5)]),
            ],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let text = resources().csv();
        assert_eq!(text.lines().count(), 9);
        assert_eq!(Resources::read("x", &text).unwrap(), resources());
    }

    #[test]
    fn rubbish_is_named() {
        let good = resources().csv();
        for (text, words) in [
            (good.replace("second,process", "time,process"), "first line"),
            (format!("{good}1,server,1\n"), "line 10 is no sample"),
            (good.replace("0.000,server,0.00", "0.000,server,NaN"), "line 3 is no sample"),
            (good.replace("0.000,server", "0.000,client"), "line 3 is of 'client'"),
        ] {
            let error = Resources::read("x.csv", &text).unwrap_err().to_string();
            assert!(error.starts_with("x.csv: ") && error.contains(words), "{error}");
        }
    }

    #[test]
    fn counters_become_rates() {
        let series =
            Series { label: "js".to_owned(), resources: vec![Some(resources()), None], ..Series::default() };
        let charts = charts(&Section { title: "w".to_owned(), series: vec![series], plan: None });
        let labels: Vec<&str> = charts[0].lines.iter().map(|line| line.label.as_str()).collect();
        assert_eq!(labels, ["js, server", "js, generator", "js, agent h:1", "js, agent h:2"]);
        assert_eq!(charts[0].lines[0].points, [(1.0, 0.5), (3.0, 0.5)]);
        assert_eq!(charts[1].lines[1].points, [(0.0, 3.0), (1.0, 3.0)]);
        assert_eq!(charts[2].lines[0].points, [(1.0, 120.0), (3.0, 120.0)]);
        assert!(charts.iter().all(|chart| !chart.vertical.is_empty() && chart.lines.len() == 4));
    }

    #[test]
    fn without_samples_there_are_no_charts() {
        let series = Series { resources: vec![None], ..Series::default() };
        assert!(charts(&Section { title: String::new(), series: vec![series], plan: None }).is_empty());
    }
}
