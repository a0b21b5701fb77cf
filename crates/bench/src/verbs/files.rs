//! The folder with a run's results.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tailrace_cli::failure::{Failure, plain};

use crate::engine::Interval;
use crate::recorder::Recorder;
use crate::recorder::interval_log::IntervalLogWriter;
use crate::report::{Resources, Summary, percentiles_csv, timeline_header, timeline_row, write_hgrm};

/// Files that grow during the run. What was written stays, however the run ends.
pub(super) struct Files {
    folder: PathBuf,
    log: IntervalLogWriter<BufWriter<File>>,
    timeline: BufWriter<File>,
    failed: Option<io::Error>,
}

impl Files {
    /// Creates the folder. It must not contain results already.
    pub(super) fn create(folder: &Path, comment: &str) -> Result<Self, Failure> {
        let result = folder.join("result.json");
        let log = folder.join("intervals.hlog");
        if result.exists() || log.exists() {
            return Err(format!("{} holds results already: choose another folder", folder.display()).into());
        }
        fs::create_dir_all(folder).map_err(|error| wrong(folder, &error))?;
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let open = |path: &Path| File::create(path).map(BufWriter::new).map_err(|error| wrong(path, &error));
        let log_file = open(&log)?;
        let mut timeline = open(&folder.join("timeline.csv"))?;
        let log = IntervalLogWriter::new(log_file, started, comment).map_err(|error| wrong(&log, &error))?;
        timeline.write_all(timeline_header().as_bytes()).map_err(|error| wrong(folder, &error))?;
        Ok(Self { folder: folder.to_owned(), log, timeline, failed: None })
    }

    /// Writes an interval. A full disk ends the writing, not the run; [`Files::finish`] reports it.
    pub(super) fn interval(&mut self, interval: &Interval<'_>) {
        if self.failed.is_some() {
            return;
        }
        let (begin, length) =
            (Duration::from_nanos(interval.begin_ns), Duration::from_nanos(interval.length_ns));
        let row = timeline_row(interval);
        let written = self
            .log
            .write(begin, length, interval.recorder)
            .and_then(|()| self.timeline.write_all(row.as_bytes()))
            .and_then(|()| self.timeline.flush());
        self.failed = written.err();
    }

    /// Writes the result.
    pub(super) fn finish(
        self,
        summary: &Summary,
        total: &Recorder,
        resources: &Resources,
    ) -> Result<(), Failure> {
        if let Some(error) = self.failed {
            return Err(wrong(&self.folder, &error));
        }
        self.log.finish().map_err(|error| wrong(&self.folder, &error))?;
        for (name, distribution) in total.named() {
            let path = self.folder.join(format!("{name}.hgrm"));
            let mut text = Vec::new();
            write_hgrm(distribution, summary.clocks(name), &mut text)?;
            fs::write(&path, text).map_err(|error| wrong(&path, &error))?;
        }
        let path = self.folder.join("resources.csv");
        fs::write(&path, resources.csv()).map_err(|error| wrong(&path, &error))?;
        let path = self.folder.join("percentiles.csv");
        fs::write(&path, percentiles_csv(&summary.latency)).map_err(|error| wrong(&path, &error))?;
        let path = self.folder.join("result.json");
        let mut json = serde_json::to_vec_pretty(summary).map_err(|error| error.to_string())?;
        json.push(b'\n');
        write_whole(&path, &json)
    }
}

/// Writes a file atomically: a file that exists is complete.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let partial = path.with_extension("part");
    let written = File::create(&partial)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&partial, path));
    written.map_err(|error| {
        // It may not even have been created.
        let _ = fs::remove_file(&partial);
        wrong(path, &error)
    })?;
    // Syncs the name to disk, too. Not every file system supports this.
    let _ = path.parent().map(|folder| File::open(folder).and_then(|folder| folder.sync_all()));
    Ok(())
}

fn wrong(path: &Path, error: &io::Error) -> Failure {
    format!("cannot write {}: {}", path.display(), plain(error)).into()
}
