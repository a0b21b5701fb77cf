//! `tailrace log dump` and `tailrace log verify`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::path::{Path, PathBuf};

use crate::support::{Server, copy_dir, failure, run, success};
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
    // Within a batch's offset, which its checksum does not cover, and among its records.
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
