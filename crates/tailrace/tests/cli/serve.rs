//! Starting and stopping the server, and errors that prevent a start.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use crate::support::{Server, copy_dir, failure, http_get, run};

#[test]
fn the_ready_line_names_the_addresses_and_all_of_them_answer() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"), &[]);
    let words: Vec<&str> = server.ready.split_whitespace().collect();
    assert_eq!(words[0], "ready");
    assert!(words[1].starts_with("kafka=127.0.0.1:"), "{words:?}");
    assert!(words[2].starts_with("nats="), "{words:?}");
    assert!(words[3].starts_with("http=127.0.0.1:"), "{words:?}");
    assert!(http_get(&server.http, "/healthz").starts_with("HTTP/1.1 200"));
    assert!(http_get(&server.http, "/metrics").contains("# TYPE"));
    assert_eq!(server.output(&["topic", "list", "-o", "json"]), "[]\n");
}

#[test]
fn a_stop_is_clean_and_everything_is_there_after_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start(&data, &[]);
    server.create("kept", 1);
    server.produce("kept", &[], b"one\ntwo\n");
    assert_eq!(server.stop(), Some(0));
    let server = Server::start(&data, &[]);
    server.produce("kept", &[], b"three\n");
    assert_eq!(server.consume_text("kept", &["-f", r"%o %v\n"]), "0 one\n1 two\n2 three\n");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn after_kill_9_everything_acknowledged_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut expected = String::new();
    for round in 0..3 {
        let server = Server::start(&data, &[]);
        let input: String = (0..1000).map(|n| format!("{round} {n}\n")).collect();
        server.produce("kept", &["--batch-bytes", "2000"], input.as_bytes());
        server.kill();
        expected += &input;
    }
    let server = Server::start(&data, &[]);
    assert_eq!(server.consume_text("kept", &[]), expected);
}

#[test]
fn unknown_and_unparsable_settings_keep_it_from_starting() {
    let error = failure(&run(&["serve", "--set", "no.such.key=1"]), 1);
    assert!(error.starts_with("tailrace: --set: ") && error.contains("no.such.key"), "{error}");
    assert_eq!(error.lines().count(), 1);
    let error = failure(&run(&["serve", "--set", "num.partitions=many"]), 1);
    assert!(error.contains("num.partitions") && error.contains("many"), "{error}");
    // The server gets as far as its data folder, which must not be in the source tree.
    let dir = tempfile::tempdir().unwrap();
    let mut start = start_in(dir.path().to_str().unwrap());
    start[4] = "nowhere";
    let error = failure(&run(&start), 1);
    assert!(error.contains("nowhere"), "{error}");
    failure(&run(&["serve", "--no-such-flag"]), 2);
}

#[test]
fn a_data_folder_has_one_server() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start(&data, &[]);
    let error = last_line(&failure(&run(&start_in(data.to_str().unwrap())), 1));
    assert!(error.contains("locked by another process"), "{error}");
    assert_eq!(server.output(&["topic", "list", "-o", "json"]), "[]\n");
}

#[test]
fn a_read_only_data_folder_is_a_clear_error() {
    // Root may write anywhere else.
    let data = "/proc/tailrace-data";
    let error = last_line(&failure(&run(&start_in(data)), 1));
    assert!(error.starts_with("tailrace: ") && error.contains(data), "{error}");
}

#[test]
fn a_folder_of_a_newer_format_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start(&data, &[]);
    server.create("kept", 1);
    assert_eq!(server.stop(), Some(0));
    for (file, version) in [("tailrace.meta", 3), ("__cluster_metadata-0/partition.meta", 3)] {
        let newer = dir.path().join("newer");
        copy_dir(&data, &newer);
        let path = newer.join(file);
        // This build does not know what a newer build keeps beside the file.
        std::fs::remove_file(newer.join("tailrace.meta.copy")).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        // With a correct checksum: otherwise the file would count as damaged.
        match bytes.starts_with(b"{") {
            true => {
                let mut newer: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
                newer["format"] = version.into();
                newer.as_object_mut().unwrap().remove("crc").unwrap();
                newer["crc"] = crc32c::crc32c(newer.to_string().as_bytes()).into();
                bytes = newer.to_string().into();
            }
            // The version follows the magic, and a checksum ends the file.
            false => {
                bytes[8] = version;
                let crc_at = bytes.len() - 4;
                let crc = crc32c::crc32c(&bytes[..crc_at]);
                bytes[crc_at..].copy_from_slice(&crc.to_le_bytes());
            }
        }
        std::fs::write(&path, &bytes).unwrap();
        let error = last_line(&failure(&run(&start_in(newer.to_str().unwrap())), 1));
        let version = format!(" {version}; this tailrace");
        assert!(error.contains("has format") && error.contains(&version), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        std::fs::remove_dir_all(&newer).unwrap();
    }
}

/// Arguments to serve from this folder, on free ports.
fn start_in(data: &str) -> [&str; 9] {
    let free = "127.0.0.1:0";
    ["serve", "--data-dir", data, "--kafka", free, "--nats", free, "--http", free]
}

fn last_line(text: &str) -> String {
    text.lines().last().unwrap_or_default().to_owned()
}
