//! The layers of the workspace: which crate may use which. ARCHITECTURE.md has the same list in prose.

use std::collections::BTreeSet;
use std::process::Command;

/// Allowed arrows; everyone may use `types`.
const ALLOWED: &[(&str, &[&str])] = &[
    ("types", &[]),
    ("records", &[]),
    ("kafka-wire", &[]),
    ("subjects", &[]),
    ("nats-wire", &[]),
    // The instrument must not depend on what it measures; kafka-wire is generated from Kafka's definitions, and serves nothing.
    ("bench", &["cli", "kafka-wire"]),
    ("log", &["records"]),
    ("replication", &["log", "records"]),
    ("config", &["subjects"]),
    ("metadata", &["config", "subjects"]),
    ("coordination", &["metadata", "config", "records"]),
    // What a node asks of the world.
    ("env", &[]),
    // The real world.
    ("runtime", &["env", "config", "log"]),
    ("peers", &["env", "replication", "runtime"]),
    (
        "node",
        &["env", "coordination", "metadata", "config", "peers", "runtime", "replication", "log", "records"],
    ),
    // Fronts know a node and their own protocol. None of them knows another one.
    (
        "kafka",
        &[
            "env",
            "node",
            "runtime",
            "kafka-wire",
            "coordination",
            "metadata",
            "config",
            "replication",
            "log",
            "records",
        ],
    ),
    (
        "nats",
        &[
            "env",
            "node",
            "peers",
            "runtime",
            "nats-wire",
            "subjects",
            "metadata",
            "config",
            "replication",
            "records",
        ],
    ),
    ("http", &["env", "node", "runtime"]),
    // The only one that knows all of them.
    ("server", &["kafka", "nats", "http", "node", "runtime", "env", "config"]),
    ("sim", &["coordination", "metadata", "replication", "log", "records"]),
    // (dev only)
    ("subjects-bench", &["subjects"]),
    ("cli", &[]),
    (
        "tailrace",
        &["cli", "server", "bench", "config", "replication", "kafka-wire", "nats-wire", "records", "log"],
    ),
];

/// Crates that may use tokio.
const TOKIO: &[&str] =
    &["env", "runtime", "peers", "node", "kafka", "nats", "http", "server", "bench", "tailrace"];

#[test]
fn only_the_listed_arrows_exist() {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let arguments = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let output = Command::new(cargo).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut seen = BTreeSet::new();
    for package in metadata["packages"].as_array().unwrap() {
        let name = short(package["name"].as_str().unwrap());
        if name == "xtask" {
            continue;
        }
        let (_, allowed) =
            ALLOWED.iter().find(|(own, _)| *own == name).unwrap_or_else(|| panic!("{name} is not listed"));
        seen.insert(name.to_owned());
        for dependency in package["dependencies"].as_array().unwrap() {
            // Tests may use what they like.
            if dependency["kind"] == "dev" {
                continue;
            }
            let used = dependency["name"].as_str().unwrap();
            assert!(used != "tokio" || TOKIO.contains(&name), "{name} must not use tokio");
            if dependency["path"].is_string() {
                let used = short(used);
                assert!(used == "types" || allowed.contains(&used), "{name} must not use {used}");
            }
        }
    }
    assert!(seen.contains("log") && seen.contains("server"), "the workspace was not read: {seen:?}");
}

fn short(name: &str) -> &str {
    name.strip_prefix("tailrace-").unwrap_or(name)
}
