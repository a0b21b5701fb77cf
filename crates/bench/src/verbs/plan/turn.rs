//! The runs of a plan in turn, and which of them are due: those without a result, and those whose result is
//! invalid.

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

/// Why a run is due.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// It has no result, or was interrupted.
    Missing,
    /// Its result, with this headline, is invalid, or a repetition was requested.
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

    /// Its result, if it has one.
    pub(super) fn result(&self, out: &Path) -> Option<Value> {
        serde_json::from_slice(&fs::read(self.folder(out).join("result.json")).ok()?).ok()
    }

    /// Reports whether the values of `--force` include it.
    fn is_forced(&self, force: &[String]) -> bool {
        let name = self.name();
        force.iter().any(|word| word.is_empty() || name == *word || name.starts_with(&format!("{word}/")))
    }

    /// Reports whether it is due, for the first time or again within the same command, and why.
    pub(super) fn is_due(&self, out: &Path, first: bool, force: &[String]) -> Option<Why> {
        let Some(result) = self.result(out) else { return first.then_some(Why::Missing) };
        if result["interrupted"] == true {
            return first.then_some(Why::Missing);
        }
        let verdict = Verdict::of_result(&result);
        let again = verdict.kind() == VerdictKind::Invalid || (first && self.is_forced(force));
        again.then(|| Why::Again(verdict.headline()))
    }

    /// The headlines of all its attempts so far.
    pub(super) fn attempts(&self, out: &Path) -> Vec<String> {
        let Some(result) = self.result(out) else { return Vec::new() };
        let earlier = result["earlier_attempts"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let own = (result["interrupted"] != true).then(|| Verdict::of_result(&result).headline());
        earlier.map(str::to_owned).chain(own).collect()
    }
}

/// The runs in order. Systems alternate within a round, so that a machine that slows down slows all of them
/// down.
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

/// Rejects a value that matches no run.
pub(super) fn check_force(force: &[String], turns: &[Turn<'_>]) -> Result<(), Failure> {
    for word in force {
        if !turns.iter().any(|turn| turn.is_forced(std::slice::from_ref(word))) {
            let first = turns.first().map(Turn::name).unwrap_or_default();
            return Err(
                format!("--force={word}: the plan has no such run: expected, for example, {first}").into()
            );
        }
    }
    Ok(())
}
