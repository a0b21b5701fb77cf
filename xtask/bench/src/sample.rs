//! Samples, and the raw file that contains all of them.
//!
//! The file only grows. If a part was measured again, its newest run counts. An interrupted run keeps its
//! samples.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub(super) type Figures = BTreeMap<String, f64>;

/// The result of one run of one system under one load.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub(super) struct Sample {
    pub(super) part: String,
    pub(super) load: String,
    pub(super) system: String,
    /// The round, from 1 on.
    pub(super) round: u32,
    pub(super) figures: Figures,
    /// The reason why the figures do not count. `None` if they do.
    pub(super) failed: Option<String>,
    /// The last line that the measuring program printed.
    pub(super) line: String,
}

/// The date, the machine and the software of a run.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub(super) struct Setting {
    pub(super) date: String,
    pub(super) commit: String,
    pub(super) machine: String,
    pub(super) kernel: String,
    pub(super) peer: String,
    pub(super) rounds: u32,
    pub(super) quick: bool,
}

#[derive(Serialize, Deserialize)]
struct Line {
    /// The run's number: nanoseconds since 1970 at its start.
    run: u64,
    #[serde(flatten)]
    entry: Entry,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Entry {
    Setting(Setting),
    Sample(Sample),
}

/// The newest run of one part.
#[derive(Clone, Debug)]
pub(super) struct PartRun {
    pub(super) setting: Setting,
    pub(super) samples: Vec<Sample>,
}

/// The raw file and its contents.
pub(super) struct Record {
    path: PathBuf,
    run: u64,
    settings: BTreeMap<u64, Setting>,
    samples: Vec<(u64, Sample)>,
}

impl Record {
    /// Reads the samples of earlier runs from the file `name` in `folder`, and starts a run.
    pub(super) fn open(folder: &Path, name: &str, run: u64, setting: &Setting) -> Result<Self, String> {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut record = Self::read(folder, name);
        record.run = run;
        record.write(Entry::Setting(setting.clone()))?;
        Ok(record)
    }

    /// Reads the samples of earlier runs, without starting one.
    pub(super) fn read(folder: &Path, name: &str) -> Self {
        let mut record =
            Self { path: folder.join(name), run: 0, settings: BTreeMap::new(), samples: Vec::new() };
        let earlier = fs::read_to_string(&record.path).unwrap_or_default();
        // Skip a line that an interruption cut off.
        for line in earlier.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok()) {
            record.take(line);
        }
        record
    }

    pub(super) fn add(&mut self, sample: Sample) -> Result<(), String> {
        self.write(Entry::Sample(sample))
    }

    /// The newest run of each part that has samples.
    pub(super) fn newest(&self) -> BTreeMap<String, PartRun> {
        let mut newest = BTreeMap::<&str, u64>::new();
        for (run, sample) in &self.samples {
            let found = newest.entry(&sample.part).or_default();
            *found = (*found).max(*run);
        }
        let part = |(part, run): (&str, u64)| {
            let mine = |(r, s): &&(u64, Sample)| *r == run && s.part == part;
            let samples = self.samples.iter().filter(mine).map(|(_, sample)| sample.clone()).collect();
            Some((part.to_owned(), PartRun { setting: self.settings.get(&run)?.clone(), samples }))
        };
        newest.into_iter().filter_map(part).collect()
    }

    fn write(&mut self, entry: Entry) -> Result<(), String> {
        let line = Line { run: self.run, entry };
        let failure = |error: &dyn std::fmt::Display| format!("{}: {error}", self.path.display());
        let mut text = serde_json::to_string(&line).map_err(|error| failure(&error))?;
        text.push('\n');
        let file = OpenOptions::new().create(true).append(true).open(&self.path);
        file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| failure(&error))?;
        self.take(line);
        Ok(())
    }

    fn take(&mut self, line: Line) {
        match line.entry {
            Entry::Setting(setting) => {
                self.settings.insert(line.run, setting);
            }
            Entry::Sample(sample) => self.samples.push((line.run, sample)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAW_FILE: &str = "raw.jsonl";

    fn sample(part: &str, round: u32) -> Sample {
        Sample {
            part: part.into(),
            load: "acks1".into(),
            system: "kafka".into(),
            round,
            figures: Figures::from([("sent_per_s".into(), 1.0)]),
            failed: None,
            line: "blast".into(),
        }
    }

    fn setting(commit: &str) -> Setting {
        let text = String::new;
        Setting {
            date: text(),
            commit: commit.into(),
            machine: text(),
            kernel: text(),
            peer: text(),
            rounds: 5,
            quick: false,
        }
    }

    #[test]
    fn a_part_measured_again_replaces_only_itself() {
        let folder = std::env::temp_dir().join(format!("tailrace-xtask-{}", std::process::id()));
        let mut first = Record::open(&folder, RAW_FILE, 1, &setting("old")).unwrap();
        first.add(sample("produce", 1)).unwrap();
        first.add(sample("consume", 1)).unwrap();
        let mut file = OpenOptions::new().append(true).open(folder.join(RAW_FILE)).unwrap();
        file.write_all(b"{\"run\":1,\"sam\n").unwrap();
        let mut second = Record::open(&folder, RAW_FILE, 2, &setting("new")).unwrap();
        second.add(sample("produce", 1)).unwrap();
        second.add(sample("produce", 2)).unwrap();
        let newest = Record::open(&folder, RAW_FILE, 3, &setting("none")).unwrap().newest();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(newest["produce"].setting.commit, "new");
        assert_eq!(newest["produce"].samples.len(), 2);
        assert_eq!(newest["consume"].setting.commit, "old");
        assert_eq!(newest["consume"].samples, [sample("consume", 1)]);
    }
}
