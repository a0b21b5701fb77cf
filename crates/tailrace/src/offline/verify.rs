//! `tailrace log verify`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};
use tailrace_log::RealDisk;
use tailrace_log::inspect::{Problem, Report, SegmentReport, verify_dir};
use tailrace_replication::inspect::check_aborted;

use super::VerifyArguments;
use super::folders::{is_in_use, partitions};
use crate::args::Output;
use crate::failure::{Failure, complain};
use crate::output::{print, print_json};
use crate::text::units;

/// A partition and what was found.
struct Verified {
    dir: PathBuf,
    report: Report,
}

pub(super) fn run(arguments: &VerifyArguments) -> Result<ExitCode, Failure> {
    let folders = partitions(&arguments.dir)?;
    let in_use = is_in_use(&arguments.dir);
    if in_use {
        complain(&format!(
            "a server is using {}; what it is writing at the moment may show as an unfinished tail",
            arguments.dir.display()
        ));
    }
    let mut verified = Vec::with_capacity(folders.len());
    for dir in folders {
        let mut report = verify_dir(&RealDisk, &dir).map_err(|error| error.to_string())?;
        report.problems.extend(check_aborted(&RealDisk, &dir).map_err(|error| error.to_string())?);
        let partition = Verified { dir, report };
        if arguments.output == Output::Text {
            print(&partition.text())?;
        }
        verified.push(partition);
    }
    let damaged = verified.iter().filter(|partition| partition.is_damaged()).count();
    match arguments.output {
        Output::Text => print(&summary(&verified, damaged))?,
        Output::Json => print_json(&json!({
            "dir": arguments.dir.display().to_string(),
            "in_use": in_use,
            "sound": damaged == 0,
            "partitions": verified.iter().map(Verified::json).collect::<Vec<_>>(),
        }))?,
    }
    Ok(if damaged == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn summary(verified: &[Verified], damaged: usize) -> String {
    let records: u64 = verified.iter().map(|v| v.sum(|segment| segment.records)).sum();
    let count = verified.len();
    match damaged {
        0 => format!("sound: {count} partitions, {records} records\n"),
        _ => format!("DAMAGED: {damaged} of {count} partitions\n"),
    }
}

impl Verified {
    /// Without a checkpoint nothing says where the durable part ends, so a bad batch counts as damage.
    fn counts(&self, problem: &Problem) -> bool {
        let in_log = problem.file.extension().is_some_and(|extension| extension == "log");
        !problem.is_recoverable || (in_log && self.report.recovery_point.is_none())
    }

    /// In a folder that Kafka wrote, the indexes are Kafka's.
    fn matters(&self, problem: &Problem) -> bool {
        self.report.identity.is_some()
            || problem.file.extension().is_none_or(|extension| extension != "index")
    }

    fn is_damaged(&self) -> bool {
        self.report.all_problems().any(|problem| self.matters(problem) && self.counts(problem))
    }

    fn sum(&self, what: impl Fn(&SegmentReport) -> u64) -> u64 {
        self.report.segments.iter().map(what).sum()
    }

    fn text(&self) -> String {
        let segments = &self.report.segments;
        let name = file_name(&self.dir);
        let mut text = match (segments.first(), segments.last()) {
            (Some(first), Some(last)) => format!(
                "{name}: offsets {} to {}, {} records in {} batches and {} segments, {}\n",
                first.base_offset,
                last.next_offset,
                self.sum(|s| s.records),
                self.sum(|s| s.batches),
                segments.len(),
                units::bytes(self.sum(|s| s.bytes) as f64),
            ),
            _ => format!("{name}: empty\n"),
        };
        for problem in self.report.all_problems().filter(|problem| self.matters(problem)) {
            let kind = if self.counts(problem) { "DAMAGED" } else { "note: the next start repairs" };
            let (file, position) = (problem.file.display(), problem.position);
            text.push_str(&format!("  {kind} {file} at byte {position}: {}\n", problem.reason));
        }
        text
    }

    fn json(&self) -> Value {
        let problem = |problem: &Problem| {
            json!({
                "file": problem.file.display().to_string(),
                "position": problem.position,
                "reason": problem.reason,
                "damage": self.counts(problem),
            })
        };
        let segment = |segment: &SegmentReport| {
            json!({
                "file": segment.file.display().to_string(),
                "base_offset": segment.base_offset.0,
                "next_offset": segment.next_offset.0,
                "batches": segment.batches,
                "records": segment.records,
                "bytes": segment.bytes,
                "good_bytes": segment.good_bytes,
            })
        };
        let problems = self.report.all_problems().filter(|problem| self.matters(problem));
        json!({
            "dir": self.dir.display().to_string(),
            "topic": self.report.identity.as_ref().map(|i| i.topic_partition.to_string()),
            "log_start": self.report.log_start.map(|offset| offset.0),
            "recovery_point": self.report.recovery_point.map(|offset| offset.0),
            "sound": !self.is_damaged(),
            "segments": self.report.segments.iter().map(segment).collect::<Vec<_>>(),
            "problems": problems.map(problem).collect::<Vec<_>>(),
        })
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
