//! `tailrace bench` as people and scripts use it.

mod agents;
mod plans;
mod reports;
mod runs;
#[path = "../support/mod.rs"]
mod support;
mod systems;
mod trouble;
mod verdicts;
