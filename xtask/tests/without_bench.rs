//! Checks that a tailrace without the feature `bench` links nothing of the benchmark, and that tests of the
//! server compile nothing of it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::process::Command;

/// The packages that only the benchmark needs: itself, its charts and their font, its histograms, and clients
/// of other systems.
const OF_BENCH: &[&str] = &["tailrace-bench", "plotters", "dejavu", "ab_glyph", "hdrhistogram", "rdkafka"];

/// The packages that `cargo tree` names with these arguments.
fn packages(arguments: &[&str]) -> BTreeSet<String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    command.args(["tree", "--offline", "--prefix", "none", "--format", "{p}"]).args(arguments);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

fn of_bench(packages: &BTreeSet<String>) -> Vec<&str> {
    OF_BENCH.iter().copied().filter(|name| packages.contains(*name)).collect()
}

#[test]
fn a_build_without_bench_links_nothing_of_it() {
    let with = packages(&["-p", "tailrace", "--features", "bench-kafka", "-e", "normal"]);
    assert_eq!(
        of_bench(&with),
        OF_BENCH,
        "a name in the list is out of date, so the check would not find it"
    );
    let without = packages(&["-p", "tailrace", "--no-default-features", "-e", "normal"]);
    assert!(without.contains("tailrace-server"), "{without:?}");
    assert_eq!(of_bench(&without), [""; 0]);
}

#[test]
fn tests_of_the_server_compile_nothing_of_bench() {
    let all = packages(&["-p", "tailrace-server", "-e", "normal,build,dev"]);
    // The server's own tests use a Kafka client, too.
    assert!(all.contains("rdkafka"), "tests are not in {all:?}");
    let found: Vec<&str> = of_bench(&all).into_iter().filter(|name| *name != "rdkafka").collect();
    assert_eq!(found, [""; 0]);
}
