//! Checks the layers of the workspace: which crate may use which. ARCHITECTURE.md has the same list in prose.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates that each crate may use. All may use `types`.
const ALLOWED: &[(&str, &[&str])] = &[
    ("types", &[]),
    ("records", &[]),
    ("kafka-wire", &[]),
    ("subjects", &[]),
    ("nats-wire", &[]),
    // The instrument must not depend on what it measures. kafka-wire is fine: it is generated from Kafka's
    // definitions and contains no server.
    ("bench", &["cli", "kafka-wire"]),
    ("log", &["records"]),
    ("replication", &["log", "records"]),
    ("config", &["subjects"]),
    // Users and permissions, independent of protocols and of the world.
    ("identity", &[]),
    ("metadata", &["config", "identity", "subjects"]),
    ("coordination", &["metadata", "config", "records"]),
    // State machines of streams and consumers.
    ("jetstream", &["subjects"]),
    // What a node needs from the world.
    ("env", &[]),
    // The real world.
    ("runtime", &["env", "config", "log"]),
    // TLS over any stream of a world.
    ("tls", &["env", "config"]),
    ("peers", &["env", "replication", "tls"]),
    // One document from a web server.
    ("fetch", &["env", "tls"]),
    (
        "node",
        &[
            "env",
            "coordination",
            "metadata",
            "config",
            "identity",
            "subjects",
            "jetstream",
            "peers",
            "fetch",
            "replication",
            "log",
            "records",
        ],
    ),
    // Fronts know the node and their own protocol. No front knows another front.
    (
        "kafka",
        &[
            "env",
            "node",
            "tls",
            "kafka-wire",
            "coordination",
            "metadata",
            "config",
            "identity",
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
            "tls",
            "nats-wire",
            "subjects",
            "jetstream",
            "metadata",
            "config",
            "identity",
            "records",
        ],
    ),
    ("http", &["env", "node", "tls", "identity"]),
    // The only crate that knows all fronts.
    ("server", &["kafka", "nats", "http", "node", "tls", "env", "config"]),
    (
        "sim",
        &[
            "server",
            "node",
            "kafka-wire",
            "env",
            "coordination",
            "metadata",
            "identity",
            "replication",
            "log",
            "records",
        ],
    ),
    // For development only.
    ("subjects-bench", &["subjects"]),
    ("cli", &[]),
    (
        "tailrace",
        &[
            "cli",
            "server",
            "runtime",
            "bench",
            "config",
            "replication",
            "kafka-wire",
            "nats-wire",
            "records",
            "log",
        ],
    ),
];

/// Crates that may use tokio: `env`, which only takes its channels, locks and macros, the real world, and
/// programs.
const TOKIO: &[&str] = &["env", "runtime", "bench", "tailrace"];

/// Crates that may use tokio's glue to TLS.
const TOKIO_RUSTLS: &[&str] = &["tls", "tailrace"];

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
        if name.starts_with("xtask") {
            continue;
        }
        let allowed = allowed(name);
        seen.insert(name.to_owned());
        for dependency in package["dependencies"].as_array().unwrap() {
            // Tests may use any crate.
            if dependency["kind"] == "dev" {
                continue;
            }
            let used = dependency["name"].as_str().unwrap();
            let used =
                if dependency["path"].is_string() { Used::Ours(short(used)) } else { Used::Foreign(used) };
            let fault = fault(name, used, allowed);
            assert_eq!(fault, None);
        }
    }
    assert!(seen.contains("log") && seen.contains("server"), "the workspace was not read: {seen:?}");
}

/// The crates of the workspace that a crate may use, apart from `types`.
fn allowed(name: &str) -> &'static [&'static str] {
    ALLOWED.iter().find(|(own, _)| *own == name).unwrap_or_else(|| panic!("{name} is not listed")).1
}

/// A dependency: a crate of the workspace, or another one.
#[derive(Clone, Copy)]
enum Used<'a> {
    Ours(&'a str),
    Foreign(&'a str),
}

/// Says why the crate `name` must not use this dependency. `None` if it may.
fn fault(name: &str, used: Used<'_>, allowed: &[&str]) -> Option<String> {
    let (used, may) = match used {
        Used::Foreign(used @ "tokio") => (used, TOKIO.contains(&name)),
        Used::Foreign(used @ "tokio-rustls") => (used, TOKIO_RUSTLS.contains(&name)),
        Used::Foreign(used) => (used, true),
        Used::Ours(used) => (used, used == "types" || allowed.contains(&used)),
    };
    (!may).then(|| format!("{name} must not use {used}"))
}

#[test]
fn an_arrow_that_leads_up_is_a_fault() {
    let fault = |name, used| fault(name, used, allowed(name));
    assert_eq!(fault("node", Used::Ours("nats")), Some("node must not use nats".to_owned()));
    assert_eq!(fault("nats", Used::Ours("node")), None);
    assert_eq!(fault("nats", Used::Ours("kafka")), Some("nats must not use kafka".to_owned()));
    assert_eq!(fault("records", Used::Ours("types")), None);
    assert_eq!(fault("node", Used::Foreign("tokio")), Some("node must not use tokio".to_owned()));
    assert_eq!(
        fault("peers", Used::Foreign("tokio-rustls")),
        Some("peers must not use tokio-rustls".to_owned())
    );
    assert_eq!(fault("runtime", Used::Foreign("tokio")), None);
    assert_eq!(fault("node", Used::Foreign("bytes")), None);
}

/// Crates that must wait, spawn, read clocks and hold connections only through `env`.
const OVER_ENV: &[&str] = &["identity", "node", "tls", "fetch", "peers", "kafka", "nats", "http"];

/// The file that adapts the world's time to hyper, which needs `std::time::Instant`.
const TIME_OF_HYPER: &str = "http/src/timer.rs";

#[test]
fn node_and_fronts_use_the_world_through_env() {
    let mut seen = 0;
    for krate in OVER_ENV {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates").join(krate).join("src");
        for file in rust_files(&folder) {
            let name = format!("{krate}/src/{}", file.strip_prefix(&folder).unwrap().display());
            let mut text = std::fs::read_to_string(&file).unwrap();
            if name == TIME_OF_HYPER {
                text = text.replace("std::time::Instant", "hyper's moments");
            }
            let found = world_without_env(&text);
            assert!(found.is_empty(), "{name}: {found:?}: ask tailrace_env");
            seen += 1;
        }
    }
    assert!(seen > 200, "{seen} files were read");
}

/// Text that shows use of a world without `env`. hyper's glue to tokio has its own timers and tasks.
const WORLDS: &[&str] = &[
    "tokio::",
    "use tokio",
    "TokioTimer",
    "TokioExecutor",
    "std::time",
    "std::thread",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
];

/// Returns the lines, and the paths of grouped imports, that use a world without `env`. Tests may do so.
fn world_without_env(text: &str) -> Vec<String> {
    let mut parts = text.split("#[cfg(test)]\nmod ");
    let mut shipped = parts.next().unwrap_or_default().to_owned();
    // Code after the end of a test module is shipped.
    shipped.extend(parts.filter_map(|tests| Some(tests.split_once("\n}")?.1)));
    let code: Vec<&str> = shipped.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let is_bad = |line: &str| {
        // Asking whether this thread is unwinding does not use the world, and TLS works over any stream.
        let line = line.replace("std::thread::panicking", "").replace("tokio_rustls", "");
        WORLDS.iter().any(|part| line.contains(part))
    };
    let mut found: Vec<String> =
        code.iter().filter(|line| is_bad(line)).map(|line| (*line).to_owned()).collect();
    for group in grouped_imports(&code.join("\n")) {
        // Skip the group if one of its lines was already found.
        if !group.lines().any(is_bad) {
            found.extend(paths_of(group).into_iter().filter(|path| is_bad(path)));
        }
    }
    found
}

/// The text between `use` and the semicolon of each import with braces.
fn grouped_imports(code: &str) -> impl Iterator<Item = &str> {
    let begins = code.match_indices("use ").filter(|(at, _)| {
        let before = code[..*at].chars().next_back();
        before.is_none_or(char::is_whitespace)
    });
    let imports = begins.filter_map(|(at, _)| Some(code[at + "use ".len()..].split_once(';')?.0));
    imports.filter(|import| import.contains('{'))
}

/// Splits `std::{io, time::{Duration, Instant}}` into three paths.
fn paths_of(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((prefix, inner)) = tree.split_once('{') else { return vec![tree.to_owned()] };
    let inner = inner.rsplit_once('}').map_or(inner, |(inner, _)| inner);
    let (mut depth, mut branches) = (0, vec![String::new()]);
    for character in inner.chars() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                branches.push(String::new());
                continue;
            }
            _ => {}
        }
        branches.last_mut().expect("at least one branch").push(character);
    }
    let paths = branches.iter().flat_map(|branch| paths_of(branch));
    paths.map(|path| format!("{prefix}{path}")).collect()
}

#[test]
fn a_clock_a_task_a_thread_and_a_socket_are_seen() {
    for line in [
        "use tokio::time;",
        "tokio::spawn(work);",
        "use std::time::Instant;",
        "std::thread::sleep(x);",
        "use hyper_util::rt::{TokioIo, TokioTimer};",
        "use tokio::net::TcpStream;",
        "use std::net::{IpAddr, TcpListener};",
    ] {
        assert_eq!(world_without_env(line), [line]);
    }
    for (grouped, paths) in [
        ("use std::{time::Instant, io};", &["std::time::Instant"][..]),
        (
            "use std::{\n    io,\n    time::{Duration, Instant},\n};",
            &["std::time::Duration", "std::time::Instant"],
        ),
        ("pub(crate) use std::{sync::Arc, thread};", &["std::thread"]),
        ("use ::{std::{io, thread::{self, sleep}}};", &["::std::thread::self", "::std::thread::sleep"]),
    ] {
        assert_eq!(world_without_env(grouped), paths, "{grouped}");
    }
    let behind = "#[cfg(test)]\nmod tests {\n    use tokio::time;\n}\nuse tokio::fs;";
    assert_eq!(world_without_env(behind), ["use tokio::fs;"]);
    for line in [
        "use tailrace_env::time; // not tokio::time",
        "use std::net::SocketAddr;",
        "use tokio_rustls::TlsAcceptor;",
        "use std::{io, sync::{Arc, Mutex}};",
        "use tailrace_env::{task, time::{Duration, Instant}};",
    ] {
        assert!(world_without_env(line).is_empty(), "{line}");
    }
}

/// The Rust files below a folder, without tests.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the folder exists") {
        let path = entry.expect("a readable entry").path();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if ["tests", "testing", "fuzzing"].contains(&stem) {
            continue;
        }
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

fn short(name: &str) -> &str {
    name.strip_prefix("tailrace-").unwrap_or(name)
}
