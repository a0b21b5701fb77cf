//! `tailrace log repair`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};
use tailrace_cli::failure::{Failure, complain, note};
use tailrace_cli::output::{Output, print, print_json};
use tailrace_cli::text::units::plural;
use tailrace_log::{DamagedRange, LogError, Overlay, RealDisk, RepairOptions, RepairStep, repair_dir};

use super::arguments::RepairArguments;
use super::folders::{file_name, is_in_use, partitions};

/// Most bytes that a plan keeps in memory.
const PLAN_BYTES_MAX: u64 = 1 << 30;

/// The result for one partition, planned or done.
struct Repaired {
    dir: PathBuf,
    result: Result<Vec<RepairStep>, LogError>,
}

pub(super) fn run(arguments: &RepairArguments) -> Result<ExitCode, Failure> {
    let folders = partitions(&arguments.dir)?;
    if is_in_use(&arguments.dir) {
        return Err(format!(
            "a server is using {}: stop it first. While it runs, it repairs what other replicas have, and serves again what is put \
             back",
            arguments.dir.display()
        )
        .into());
    }
    if let Some(source) = arguments.from.iter().find(|source| !source.is_dir()) {
        return Err(format!("{} is not a folder to restore from", source.display()).into());
    }
    let mut repaired = Vec::with_capacity(folders.len());
    for dir in folders {
        let options = RepairOptions { sources: arguments.sources(&dir), give_up: arguments.give_up };
        let result = if arguments.execute {
            repair_dir(&RealDisk, &dir, &options)
        } else {
            repair_dir(&Overlay::new(RealDisk, PLAN_BYTES_MAX), &dir, &options)
        };
        let partition = Repaired { dir, result };
        if arguments.output == Output::Text {
            print(&partition.text(arguments.execute))?;
        }
        if partition.is_unfinished() && partition.dir.join("ballot").exists() {
            note(&format!(
                "{} is one of several replicas: if other nodes have it, start this one, and it repairs itself",
                file_name(&partition.dir)
            ));
        }
        repaired.push(partition);
    }
    let unfinished = repaired.iter().filter(|partition| partition.is_unfinished()).count();
    let steps =
        repaired.iter().filter_map(|partition| partition.result.as_ref().ok()).map(Vec::len).sum::<usize>();
    match arguments.output {
        Output::Text => print(&summary(arguments.execute, repaired.len(), steps, unfinished))?,
        Output::Json => print_json(&json!({
            "dir": arguments.dir.display().to_string(),
            "executed": arguments.execute,
            "whole": unfinished == 0,
            "partitions": repaired.iter().map(Repaired::json).collect::<Vec<_>>(),
        }))?,
    }
    for partition in &repaired {
        if let Err(error) = &partition.result {
            complain(&format!("{}: {error}", file_name(&partition.dir)));
        }
    }
    Ok(if unfinished == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn summary(executed: bool, partitions: usize, steps: usize, unfinished: usize) -> String {
    let seen = format!("{}, {}", plural(partitions as u64, "partition"), plural(steps as u64, "step"));
    let rest = match unfinished {
        0 => String::new(),
        count => format!("; {} would stay damaged", plural(count as u64, "partition")),
    };
    match (steps, executed) {
        (0, _) if unfinished == 0 => {
            format!("nothing to repair: {}\n", plural(partitions as u64, "partition"))
        }
        (_, true) => format!("done: {seen}{}\n", rest.replace("would stay", "stay")),
        (_, false) => format!("a plan: {seen}{rest}; nothing was changed, --execute does it\n"),
    }
}

impl RepairArguments {
    /// The folders to restore the partition in `dir` from: the given ones, or folders of the same name in
    /// them.
    fn sources(&self, dir: &Path) -> Vec<PathBuf> {
        let name = dir
            .canonicalize()
            .unwrap_or_else(|_| dir.to_owned())
            .file_name()
            .map(PathBuf::from)
            .unwrap_or_default();
        let candidates = self.from.iter().map(|source| {
            let within = source.join(&name);
            if within.is_dir() { within } else { source.clone() }
        });
        candidates.filter(|source| source.join("partition.meta").exists()).collect()
    }
}

impl Repaired {
    fn is_unfinished(&self) -> bool {
        match &self.result {
            Ok(steps) => steps.iter().any(|step| matches!(step, RepairStep::Left { .. })),
            Err(_) => true,
        }
    }

    fn text(&self, executed: bool) -> String {
        let name = file_name(&self.dir);
        match &self.result {
            Ok(steps) if steps.is_empty() => format!("{name}: sound\n"),
            Ok(steps) => {
                let lines: String =
                    steps.iter().map(|step| format!("  {}\n", line(step, executed))).collect();
                format!("{name}:\n{lines}")
            }
            Err(error) => format!("{name}:\n  cannot be repaired: {error}\n"),
        }
    }

    fn json(&self) -> Value {
        json!({
            "dir": self.dir.display().to_string(),
            "whole": !self.is_unfinished(),
            "error": self.result.as_ref().err().map(ToString::to_string),
            "steps": self.result.iter().flatten().map(step_json).collect::<Vec<_>>(),
        })
    }
}

fn offsets(range: &DamagedRange) -> String {
    match (range.base_offset, range.end_offset.0 - 1) {
        (base, last) if base.0 == last => format!("offset {base}"),
        (base, last) => format!("offsets {base} to {last}"),
    }
}

fn line(step: &RepairStep, executed: bool) -> String {
    let (would, was) = if executed { ("", "was ") } else { ("would be ", "would be ") };
    match step {
        RepairStep::Recovered { what } => format!("as at each start: {what}"),
        RepairStep::Rewritten { file, reason } => format!("{} {was}rewritten: {reason}", file.display()),
        RepairStep::Restored { range, source } => {
            format!("{} {would}restored from {}: {}", offsets(range), source.display(), range.damage)
        }
        RepairStep::GivenUp { range, kept } => {
            let kept = kept.as_ref().map_or_else(
                || "there were no bytes to keep".to_owned(),
                |kept| format!("the damaged part {was}kept as {}", kept.display()),
            );
            format!("{} {would}given up: {}; {kept}", offsets(range), range.damage)
        }
        RepairStep::Left { range } => format!(
            "{} stay damaged: {}; name a copy with --from, or accept the loss with --give-up",
            offsets(range),
            range.damage
        ),
    }
}

fn step_json(step: &RepairStep) -> Value {
    let of_range = |kind: &str, range: &DamagedRange| {
        json!({
            "step": kind,
            "base_offset": range.base_offset.0,
            "last_offset": range.end_offset.0 - 1,
            "file": range.damage.file.display().to_string(),
            "position": range.damage.position,
            "reason": range.damage.reason,
        })
    };
    match step {
        RepairStep::Recovered { what } => json!({ "step": "recovered", "reason": what }),
        RepairStep::Rewritten { file, reason } => {
            json!({ "step": "rewritten", "file": file.display().to_string(), "reason": reason })
        }
        RepairStep::Restored { range, source } => {
            let mut object = of_range("restored", range);
            object["source"] = json!(source.display().to_string());
            object
        }
        RepairStep::GivenUp { range, kept } => {
            let mut object = of_range("given_up", range);
            object["kept"] = json!(kept.as_ref().map(|kept| kept.display().to_string()));
            object
        }
        RepairStep::Left { range } => of_range("left", range),
    }
}
