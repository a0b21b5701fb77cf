//! Runs the tests of the crate's private parts (`tailrace_sim::checks`).

use std::fs;
use std::path::Path;

use tailrace_sim::checks;

#[test]
fn a_seed_tells_everything_and_every_fault_happens() {
    checks::a_seed_tells_everything_and_every_fault_happens();
}

#[test]
fn a_cut_is_one_way_and_stops_what_is_on_its_way() {
    checks::a_cut_is_one_way_and_stops_what_is_on_its_way();
}

#[test]
fn a_member_that_waits_for_an_answer_owns_nothing_when_its_session_ends() {
    checks::a_member_that_waits_for_an_answer_owns_nothing_when_its_session_ends();
}

#[test]
fn what_a_killed_node_left_is_durable_once_the_next_one_runs() {
    checks::what_a_killed_node_left_is_durable_once_the_next_one_runs();
}

#[test]
fn a_node_that_finds_its_disk_full_while_it_starts_goes_on_when_there_is_room() {
    checks::a_node_that_finds_its_disk_full_while_it_starts_goes_on_when_there_is_room();
}

#[test]
fn what_nobody_knows_of_counts_if_it_is_there() {
    checks::what_nobody_knows_of_counts_if_it_is_there();
}

/// Cargo does not run tests in `src` (`test = false`), and a check that is not listed here would never run.
#[test]
fn every_check_is_run() {
    let mut checks = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut checks);
    let ours = include_str!("checks.rs");
    assert!(checks.len() >= 6, "{checks:?}");
    for check in checks {
        assert!(ours.contains(&format!("    checks::{check}();\n")), "no test runs {check}");
    }
}

/// Adds the public functions of all modules `checks`. They stand last in their files.
fn collect(folder: &Path, checks: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            collect(&path, checks);
            continue;
        }
        let text = fs::read_to_string(&path).expect("a readable file");
        assert!(!text.contains("#[test]"), "{}: Cargo does not run this test", path.display());
        let Some((_, ours)) = text.split_once("pub(crate) mod checks {") else { continue };
        let names = ours.lines().filter_map(|line| line.strip_prefix("    pub fn ")?.split('(').next());
        checks.extend(names.map(str::to_owned));
    }
}
