//! Checks that a test that sleeps says why, or polls in a loop with a time limit.
//!
//! A sleep without a reason hides a race: the test passes on the machine on which it was written.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

/// The reason must be this many lines above the sleep, or fewer.
const REASON_LINES: usize = 2;

/// The time limit of a polling loop must be this many lines above the sleep, or fewer.
const LOOP_LINES: usize = 10;

/// The path endings of files outside `tests` that contain only tests.
const TEST_FILES: [&str; 4] = ["/tests.rs", "_tests.rs", "_test.rs", "/models.rs"];

/// Code that shows a time limit.
const ENDS: [&str; 4] = ["Instant::now()", "elapsed()", "deadline", "timeout("];

#[test]
fn tests_say_what_they_sleep_for() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let crates = root.join("crates").read_dir().unwrap().map(|entry| entry.unwrap().path());
    let (mut found, mut looked_at) = (Vec::new(), 0);
    for file in crates.chain([root.join("xtask")]).flat_map(|folder| sources(&folder)) {
        let path = file.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        // The tests here mention sleeps.
        if path.starts_with("xtask/tests/") {
            continue;
        }
        let source = fs::read_to_string(&file).unwrap();
        let is_test = path.contains("/tests/") || TEST_FILES.iter().any(|end| path.ends_with(end));
        let tests = if is_test { &source[..] } else { tests_in(&source) };
        let skipped = source[..source.len() - tests.len()].lines().count();
        looked_at += tests.matches("sleep(").count();
        found.extend(unexplained(tests).into_iter().map(|line| format!("{path}:{}", skipped + line)));
    }
    assert!(looked_at > 20, "{looked_at} sleeps: the check no longer finds them");
    assert!(
        found.is_empty(),
        "say in a comment above what the sleep waits for, or wait for the event itself: {found:#?}"
    );
}

#[test]
fn sleeps_without_a_reason_are_seen() {
    let source = "fn a() {\n    thread::sleep(x);\n}\n";
    assert_eq!(unexplained(source), [2]);
    let reason = "fn a() {\n    // As a slow disk does.\n    thread::sleep(x);\n}\n";
    assert_eq!(unexplained(reason), [0; 0]);
    let looks = "while !holds() {\n    assert!(Instant::now() < deadline);\n    sleep(x).await;\n}\n";
    assert_eq!(unexplained(looks), [0; 0]);
    let blind = "while !holds() {\n    sleep(x).await;\n}\n";
    assert_eq!(unexplained(blind), [2]);
    assert_eq!(tests_in("fn a() {}\n#[cfg(test)]\nmod tests {}\n"), "#[cfg(test)]\nmod tests {}\n");
    assert_eq!(tests_in("fn a() {}\n"), "");
}

/// The numbers of the lines of `tests`, from 1 on, that sleep without a reason.
fn unexplained(tests: &str) -> Vec<usize> {
    let lines: Vec<_> = tests.lines().collect();
    let is_explained = |at: usize| {
        let above = |count: usize| &lines[at.saturating_sub(count)..=at];
        let has_reason = above(REASON_LINES).iter().any(|line| line.contains("// "));
        has_reason || above(LOOP_LINES).iter().any(|line| ENDS.iter().any(|end| line.contains(end)))
    };
    let sleeps = (0..lines.len()).filter(|at| {
        let line = lines[*at].trim_start();
        line.contains("sleep(") && !line.starts_with("//") && !line.contains("fn ")
    });
    sleeps.filter(|at| !is_explained(*at)).map(|at| at + 1).collect()
}

/// The tests at the end of a file, if it has any.
fn tests_in(source: &str) -> &str {
    source.find("#[cfg(test)]\nmod tests {").map_or("", |at| &source[at..])
}

/// The `.rs` files below `folder`.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_none_or(|name| name != "target") {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}
