//! `tailrace log dump` and `tailrace log verify`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::support::{Server, copy_dir, failure, http_get, run, success, until};
use serde_json::Value;

/// A data folder with a topic of one partition and several segments.
fn produced(dir: &Path) -> PathBuf {
    let data = dir.join("data");
    let server = Server::start(&data, &[]);
    server.output(&["topic", "create", "t", "--config", "segment.bytes=1048576"]);
    let input: String =
        (0..60_000).map(|n| format!("key{n}:value number {n}, and some more text\n")).collect();
    server.produce("t", &["-K", ":", "-H", "h=1", "--batch-bytes", "64KiB"], input.as_bytes());
    server.produce("t", &["-z", "zstd"], b"compressed\n");
    assert_eq!(server.stop(), Some(0));
    data
}

fn verify(dir: &Path) -> std::process::Output {
    run(&["log", "verify", dir.to_str().unwrap()])
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut segments: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == "log")).collect();
    segments.sort();
    segments
}

#[test]
fn a_sound_folder_is_sound_and_a_flipped_bit_is_found() {
    // In a batch's offset, which the checksum does not cover, and in its records.
    flip_a_bit_at(0);
    flip_a_bit_at(200);
}

fn flip_a_bit_at(position: usize) {
    let dir = tempfile::tempdir().unwrap();
    let data = produced(dir.path());
    let text = String::from_utf8(success(verify(&data))).unwrap();
    assert!(text.contains("t-0: offsets 0 to 60001, 60001 records"), "{text}");
    assert!(text.ends_with("records\n") && text.contains("\nsound: "), "{text}");
    success(verify(&data.join("t-0")));
    assert!(segments(&data.join("t-0")).len() > 2);

    let copy = dir.path().join("copy");
    copy_dir(&data, &copy);
    let damaged = segments(&copy.join("t-0"))[1].clone();
    let mut bytes = std::fs::read(&damaged).unwrap();
    bytes[position] ^= 0x10;
    std::fs::write(&damaged, &bytes).unwrap();
    let output = verify(&copy);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    failure(&output, 1);
    assert!(text.contains(&format!("DAMAGED {} at byte ", damaged.display())), "{text}");
    assert!(text.contains("DAMAGED: 1 of "), "{text}");
    let output = run(&["log", "verify", copy.to_str().unwrap(), "-o", "json"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    failure(&output, 1);
    assert_eq!(json["sound"], false);
    assert_eq!(std::fs::read(&damaged).unwrap(), bytes);

    // The dump shows the rest.
    let output = run(&["log", "dump", copy.join("t-0").to_str().unwrap()]);
    assert!(failure(&output, 1).contains("is damaged at byte"), "{text}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("offset 60000 to 60000"));
}

#[test]
fn a_missing_and_a_shortened_segment_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let data = produced(dir.path());
    let copy = dir.path().join("missing");
    copy_dir(&data, &copy);
    std::fs::remove_file(&segments(&copy.join("t-0"))[1]).unwrap();
    failure(&verify(&copy), 1);

    let copy = dir.path().join("short");
    copy_dir(&data, &copy);
    let file = std::fs::File::options().write(true).open(&segments(&copy.join("t-0"))[0]).unwrap();
    file.set_len(file.metadata().unwrap().len() - 1).unwrap();
    failure(&verify(&copy), 1);
}

#[test]
fn a_dump_shows_batches_and_records() {
    let dir = tempfile::tempdir().unwrap();
    let data = produced(dir.path());
    let partition = data.join("t-0");
    let text = String::from_utf8(success(run(&["log", "dump", partition.to_str().unwrap()]))).unwrap();
    assert_eq!(text.lines().filter(|line| line.ends_with(".log")).count(), segments(&partition).len());
    assert!(text.contains("offset 0 to "), "{text}");
    assert!(text.contains("  zstd  producer "), "{text}");

    let arguments = ["log", "dump", "--records", "-o", "json", data.to_str().unwrap()];
    let output = String::from_utf8(success(run(&arguments))).unwrap();
    let lines: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let records: Vec<_> = lines.iter().filter(|line| line["topic"] == "t").collect();
    assert_eq!(records.len(), 60_001);
    assert_eq!(records[17]["key"], "key17");
    assert_eq!(records[17]["headers"][0]["value"], "1");
    assert_eq!(records[60_000]["value"], "compressed");
    assert_eq!(records[60_000]["partition"], 0);

    let first = segments(&partition)[0].clone();
    let text = String::from_utf8(success(run(&["log", "dump", "-r", first.to_str().unwrap()]))).unwrap();
    assert!(
        text.contains("key \"key1\"  value \"value number 1, and some more text\"  h=\"1\""),
        "{}",
        &text[..500]
    );
}

#[test]
fn a_running_server_is_mentioned_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start(&data, &[]);
    server.produce("t", &[], b"a\n");
    for path in [data.clone(), data.join("t-0")] {
        let output = verify(&path);
        assert!(String::from_utf8_lossy(&output.stderr).contains("a server is using"));
        success(output);
    }
    assert_eq!(server.stop(), Some(0));
    assert!(verify(&data).stderr.is_empty());
}

#[test]
fn folders_without_partitions_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let error = failure(&verify(dir.path()), 1);
    assert!(error.contains("holds no partition"), "{error}");
    let error = failure(&verify(&dir.path().join("nowhere")), 1);
    assert!(error.contains("cannot list") && error.contains("no such file"), "{error}");
    let file = dir.path().join("x.txt");
    std::fs::write(&file, "").unwrap();
    failure(&run(&["log", "dump", file.to_str().unwrap()]), 1);
}

fn damage(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::write(path, &bytes).unwrap();
}

fn consumed(server: &Server, arguments: &[&str]) -> String {
    let from_start = ["consume", "t", "--format", "%o %v\\n"];
    String::from_utf8(server.run(&[&from_start[..], arguments].concat()).stdout).unwrap()
}

/// A flipped byte in one segment, ten bytes cut from another, and a damaged identity and header. The server
/// starts, serves the rest, and reports the damage until an operator decides.
#[test]
fn a_damaged_folder_serves_what_is_whole_and_is_repaired_from_a_copy_or_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let data = produced(dir.path());
    let copy = dir.path().join("copy");
    copy_dir(&data, &copy);
    let partition = data.join("t-0");
    let segments = segments(&partition);
    damage(&segments[0], |bytes| bytes[200] ^= 0x10);
    damage(segments.last().unwrap(), |bytes| bytes.truncate(bytes.len() - 10));
    damage(&partition.join("partition.meta"), |bytes| bytes[20] ^= 1);
    damage(&segments[1].with_extension("header"), |bytes| bytes[20] ^= 1);
    let output = verify(&data);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    failure(&output, 1);
    for name in [&segments[0], segments.last().unwrap(), &segments[1].with_extension("header")] {
        assert!(text.contains(&format!("DAMAGED {}", name.display())), "{text}");
    }

    // It starts, reports the damage, serves the rest, and appends after it.
    let broken = dir.path().join("broken");
    copy_dir(&data, &broken);
    let server = Server::start(&broken, &[]);
    server.produce("t", &[], b"behind\n");
    let health = http_get(&server.http, "/healthz");
    assert!(health.contains("t-0 is damaged at offset 60000"), "{health}");
    let behind = consumed(&server, &["--from", "60001"]);
    assert!(behind.starts_with("60001 behind"), "no offset is given twice: {behind}");
    assert_eq!(server.stop(), Some(0));
    let server = Server::start(&broken, &[]);
    assert!(
        http_get(&server.http, "/healthz").contains("t-0 is damaged at offset 60000"),
        "a restart makes nothing green"
    );
    // Once the right bytes are put back, the server serves them without a restart.
    let last = std::fs::read(copy.join("t-0").join(segments.last().unwrap().file_name().unwrap())).unwrap();
    let at = broken.join("t-0").join(segments.last().unwrap().file_name().unwrap());
    std::fs::write(&at, last).unwrap();
    until("it is whole again", || !http_get(&server.http, "/healthz").contains("offset 60000"));
    assert_eq!(server.stop(), Some(0));

    // The first segment's batch is still damaged, and is given up while the server runs.
    let server = Server::start(&broken, &[]);
    let asks = |more: &[&str]| {
        server.run(&[&["cluster", "repair", "--topic", "t", "--http", &server.http], more].concat())
    };
    success(asks(&[]));
    let scrubbed = server.run(&["cluster", "scrub", "--topic", "t", "--rate", "0", "--http", &server.http]);
    assert!(String::from_utf8_lossy(&scrubbed.stdout).contains("2 damaged files"), "{scrubbed:?}");
    let shown = asks(&[]);
    failure(&shown, 1);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("t-0 is not repaired") && shown.contains("offsets 0 to "), "{shown}");
    let done = String::from_utf8(success(asks(&["--give-up", "--execute"]))).unwrap();
    assert!(done.contains("given up: 1 damaged place"), "{done}");
    assert!(http_get(&server.http, "/healthz").contains("\"ok\""));
    assert!(!consumed(&server, &[]).is_empty());
    assert_eq!(server.stop(), Some(0));
    success(verify(&broken));

    // A plan changes nothing, and without a copy no records can be restored.
    let before: Vec<_> = segments.iter().map(|path| std::fs::read(path).unwrap()).collect();
    let output = run(&["log", "repair", data.to_str().unwrap()]);
    failure(&output, 1);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("--from") && text.contains("nothing was changed"), "{text}");
    let after: Vec<_> = segments.iter().map(|path| std::fs::read(path).unwrap()).collect();
    assert_eq!(before, after);

    // Restored from a copy.
    let restored = dir.path().join("restored");
    copy_dir(&data, &restored);
    let arguments =
        ["log", "repair", restored.to_str().unwrap(), "--from", copy.to_str().unwrap(), "--execute"];
    let text = String::from_utf8(success(run(&arguments))).unwrap();
    assert!(text.contains("restored from") && text.contains("\ndone: "), "{text}");
    success(verify(&restored));
    let server = Server::start(&restored, &[]);
    assert!(http_get(&server.http, "/healthz").contains("\"ok\""));
    let records = consumed(&server, &["--from", "beginning"]);
    assert_eq!(records.lines().count(), 60_001);
    assert_eq!(server.stop(), Some(0));

    // Given up.
    let arguments = ["log", "repair", data.to_str().unwrap(), "--give-up", "--execute", "-o", "json"];
    let json: Value = serde_json::from_slice(&success(run(&arguments))).unwrap();
    assert_eq!(json["whole"], true);
    success(verify(&data));
    let server = Server::start(&data, &[]);
    assert!(http_get(&server.http, "/healthz").contains("\"ok\""));
    let left = consumed(&server, &["--from", "beginning"]);
    let (all, left): (HashSet<_>, HashSet<_>) = (records.lines().collect(), left.lines().collect());
    let lost = all.difference(&left).count();
    assert!(lost > 0 && lost < 10_000, "{lost} records were lost");
    assert!(left.is_subset(&all), "and nothing else came");
    assert_eq!(server.stop(), Some(0));
    let kept =
        std::fs::read_dir(&partition).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(kept.filter(|name| name.contains(".lost-")).count(), 2);
}

#[test]
fn a_folder_in_use_is_not_repaired() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start(&data, &[]);
    server.produce("t", &[], b"a\n");
    let error = failure(&run(&["log", "repair", data.to_str().unwrap(), "--execute"]), 1);
    assert!(error.contains("stop it first"), "{error}");
    assert_eq!(server.stop(), Some(0));
    let text =
        String::from_utf8(success(run(&["log", "repair", data.to_str().unwrap(), "--execute"]))).unwrap();
    assert!(text.contains("nothing to repair"), "{text}");
    success(verify(&data));
}
