//! `tailrace log verify`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};
use tailrace_cli::failure::{Failure, note};
use tailrace_cli::output::{Output, print, print_json};
use tailrace_cli::text::units;
use tailrace_log::inspect::{Problem, Report, SegmentReport, verify_dir_paced};
use tailrace_log::{LogError, RealDisk};
use tailrace_replication::inspect::check_aborted;
use tailrace_replication::raft::owner;

use super::arguments::VerifyArguments;
use super::folders::{file_name, is_in_use, log_bytes, partitions};
use super::progress::Progress;

/// A partition, with the report about it.
struct Verified {
    dir: PathBuf,
    report: Report,
}

pub(super) fn run(arguments: &VerifyArguments) -> Result<ExitCode, Failure> {
    let folders = partitions(&arguments.dir)?;
    let in_use = is_in_use(&arguments.dir);
    if in_use {
        note(&format!(
            "a server is using {}; what it is writing at the moment may show as an unfinished tail",
            arguments.dir.display()
        ));
    }
    let mut verified = Vec::with_capacity(folders.len());
    let mut progress =
        Progress::new(folders.iter().map(|dir| log_bytes(dir)).sum(), arguments.rate.map(|rate| rate as f64));
    for dir in folders {
        let mut report =
            verify_dir_paced(&RealDisk, &dir, &mut progress).map_err(|error| error.to_string())?;
        report.problems.extend(ballot_problem(&dir)?);
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

/// Checks the ballot of a replica.
fn ballot_problem(dir: &Path) -> Result<Option<Problem>, Failure> {
    match owner(&RealDisk, dir) {
        Ok(_) => Ok(None),
        Err(LogError::Damaged { file, position, reason }) => {
            Ok(Some(Problem { file, position, reason, is_recoverable: false }))
        }
        Err(error) => Err(error.to_string().into()),
    }
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
    /// Reports whether the problem is in a file of ours. In a folder that Kafka wrote, the indexes are
    /// Kafka's.
    fn matters(&self, problem: &Problem) -> bool {
        self.report.identity.is_some()
            || problem.file.extension().is_none_or(|extension| extension != "index")
    }

    fn is_damaged(&self) -> bool {
        self.report.all_problems().any(|problem| self.matters(problem) && !problem.is_recoverable)
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
            let kind = if problem.is_recoverable { "note: the next start repairs" } else { "DAMAGED" };
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
                "damage": !problem.is_recoverable,
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
