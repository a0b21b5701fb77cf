//! The runs of a plan in turn, and which of them are to be done: those without a result, and those whose result is worth nothing.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tailrace_cli::failure::Failure;

use super::format::{Plan, Workload};
use super::system::PlannedSystem;
use super::trouble::TroublePlan;
use crate::verdict::{Verdict, VerdictKind};

/// One run of a plan.
pub(super) struct Turn<'a> {
    pub(super) round: u32,
    pub(super) system: &'a PlannedSystem,
    pub(super) workload: &'a Workload,
    pub(super) trouble: Option<&'a TroublePlan>,
}

/// Why a run is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// It has no result, or was interrupted.
    Missing,
    /// Its result, whose headline this is, is invalid, or somebody wants it anew.
    Again(String),
}

impl Turn<'_> {
    /// `SYSTEM/WORKLOAD/round-N`.
    pub(super) fn name(&self) -> String {
        format!("{}/{}/round-{}", self.system.name, self.workload.name, self.round)
    }

    pub(super) fn folder(&self, out: &Path) -> PathBuf {
        out.join(self.name())
    }

    pub(super) fn title(&self) -> String {
        format!("{}, {}, round {}", self.system.name, self.workload.name, self.round)
    }

    /// What it left, if it came to its end.
    pub(super) fn result(&self, out: &Path) -> Option<Value> {
        serde_json::from_slice(&fs::read(self.folder(out).join("result.json")).ok()?).ok()
    }

    /// Whether `--force` with these words means it.
    fn is_forced(&self, force: &[String]) -> bool {
        let name = self.name();
        force.iter().any(|word| word.is_empty() || name == *word || name.starts_with(&format!("{word}/")))
    }

    /// Whether it is to be done, the first time or once more within the same command.
    pub(super) fn is_due(&self, out: &Path, first: bool, force: &[String]) -> Option<Why> {
        let Some(result) = self.result(out) else { return first.then_some(Why::Missing) };
        if result["interrupted"] == true {
            return first.then_some(Why::Missing);
        }
        let verdict = Verdict::of_result(&result);
        let again = verdict.kind() == VerdictKind::Invalid || (first && self.is_forced(force));
        again.then(|| Why::Again(verdict.headline()))
    }

    /// The headlines of the runs that stood in its place until now.
    pub(super) fn attempts(&self, out: &Path) -> Vec<String> {
        let Some(result) = self.result(out) else { return Vec::new() };
        let earlier = result["earlier_attempts"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let own = (result["interrupted"] != true).then(|| Verdict::of_result(&result).headline());
        earlier.map(str::to_owned).chain(own).collect()
    }
}

/// Systems alternate within a round, so that a machine that slows down slows all of them down.
pub(super) fn turns(plan: &Plan) -> Vec<Turn<'_>> {
    let mut turns = Vec::new();
    for round in 1..=plan.rounds {
        for workload in &plan.workloads {
            for place in 0..plan.systems.len() {
                let system = &plan.systems[(place + round as usize - 1) % plan.systems.len()];
                turns.push(Turn { round, system, workload, trouble: plan.trouble.as_ref() });
            }
        }
    }
    turns
}

/// A word that means no run is a mistake.
pub(super) fn check_force(force: &[String], turns: &[Turn<'_>]) -> Result<(), Failure> {
    for word in force {
        if !turns.iter().any(|turn| turn.is_forced(std::slice::from_ref(word))) {
            let first = turns.first().map(Turn::name).unwrap_or_default();
            return Err(
                format!("--force={word}: the plan has no such run: expected for instance {first}").into()
            );
        }
    }
    Ok(())
}
