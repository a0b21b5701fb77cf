//! Resources that server and generator used during a run: the rows of `resources.csv`.
//!
//! Rows contain counters. This module does not take the samples.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::error::BenchError;

/// Counters of a process since its start, and its current memory. Values that could not be read are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceSample {
    /// The time of the sample, in seconds since the start of the run.
    pub second: f64,
    /// Processor time, in user and kernel mode, in seconds.
    pub cpu_seconds: f64,
    /// Resident memory, in bytes. Shared memory counts for each process.
    pub resident_bytes: u64,
    /// Voluntary context switches: a thread waited.
    pub voluntary_switches: u64,
    /// Involuntary context switches: a thread was preempted.
    pub involuntary_switches: u64,
    /// Bytes read with read(2) and the like: from the page cache, and from sockets that are read in this way.
    pub read_bytes: u64,
    /// Bytes written with write(2) and the like.
    pub written_bytes: u64,
    /// Bytes fetched from storage because they were not in the page cache.
    pub disk_read_bytes: u64,
    /// Bytes made dirty in the page cache, to be written to storage.
    pub disk_written_bytes: u64,
}

/// The samples of a run, in order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Resources {
    /// The server under test, with its children. Empty if its process is unknown.
    pub server: Vec<ResourceSample>,
    /// The generator; with agents, the coordinator, which drives no connections.
    pub generator: Vec<ResourceSample>,
    /// Agents by address, if the load came from agents.
    pub agents: Vec<(String, Vec<ResourceSample>)>,
}

/// Prefix of an agent's address in its rows.
const AGENT: &str = "agent ";

const HEADER: &str = "second,process,cpu_seconds,resident_bytes,voluntary_switches,involuntary_switches,read_bytes,written_bytes,\
                      disk_read_bytes,disk_written_bytes\n";

impl Resources {
    /// Formats the samples as CSV, in order of time.
    pub(crate) fn csv(&self) -> String {
        let mut rows: Vec<(String, &ResourceSample)> = Vec::new();
        rows.extend(self.generator.iter().map(|sample| ("generator".to_owned(), sample)));
        rows.extend(self.server.iter().map(|sample| ("server".to_owned(), sample)));
        for (address, samples) in &self.agents {
            // A comma would start a new column.
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

    /// Reads lines written by [`Resources::csv`]. `path` is for error messages.
    ///
    /// # Errors
    /// A line is not in the format; the error names it.
    pub(crate) fn read(path: &str, text: &str) -> Result<Self, BenchError> {
        let wrong = |reason: String| BenchError::Format { path: path.to_owned(), reason };
        let mut lines = text.lines();
        if lines.next() != Some(HEADER.trim_end()) {
            return Err(wrong("the first line does not name the columns of resources".to_owned()));
        }
        let mut resources = Self::default();
        for (number, line) in (2..).zip(lines) {
            let parsed =
                parse(line).ok_or_else(|| wrong(format!("line {number} is not a sample: '{line}'")))?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::section_tests::resources;

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
            (format!("{good}1,server,1\n"), "line 10 is not a sample"),
            (good.replace("0.000,server,0.00", "0.000,server,NaN"), "line 3 is not a sample"),
            (good.replace("0.000,server", "0.000,client"), "line 3 is of 'client'"),
        ] {
            let error = Resources::read("x.csv", &text).unwrap_err().to_string();
            assert!(error.starts_with("x.csv: ") && error.contains(words), "{error}");
        }
    }
}
